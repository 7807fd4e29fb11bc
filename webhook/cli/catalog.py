"""`samestep catalog`: what is known of accelerators, and what files or a cluster add to it."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from webhook.catalog.accelerators import Accelerators, Fact, Figure, Product, accelerators
from webhook.catalog.additions import AdditionError, by_age, extended, is_accelerator
from webhook.cli.documents import Document, Unreadable, parse_documents
from webhook.cli.live import ACCELERATORS, list_live
from webhook.cli.options import files_option
from webhook.cli.output import dumped
from webhook.cli.settings import SETTINGS

_LEGEND = "~ sources disagree, * FP16 (no BF16); -o yaml has the sources"


@click.command(context_settings=SETTINGS)
@click.argument("products", nargs=-1, metavar="[PRODUCT]...")
@files_option(
    "Accelerator objects that add to the catalog or override it. Repeatable.",
)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Add what Accelerator objects of this cluster say.")
@click.option("--context", help="The same, for a context of the kubeconfig.")
@click.option("--vendor", help="Products of this vendor alone.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.pass_context
def catalog(
    ctx: click.Context,
    products: tuple[str, ...],
    files: tuple[Path, ...],
    kubeconfig: Path | None,
    context: str | None,
    vendor: str | None,
    output: str,
) -> None:
    """Show the accelerators that are known: all, or those whose names hold a PRODUCT.

    Without a cluster, unless one is named. Files are checked: exit status 2 where one holds an Accelerator that the
    catalog cannot take, or where the cluster does.
    """
    live = _live(kubeconfig, context) if kubeconfig is not None or context is not None else []
    known, problems = _extended([*live, *(found for path in files for found in parse_documents(path))])
    shown = [one for one in known.products if _is_asked_for(one, known, products, vendor)]
    if output == "table":
        Console(width=None if sys.stdout.isatty() else 120).print(_table(shown, known))
        click.echo(_LEGEND)
    else:
        click.echo(dumped(_document(shown, known), output))
    for problem in problems:
        click.echo(f"unreadable: {problem}", err=True)
    if not shown:
        click.echo("no such product", err=True)
    ctx.exit(2 if problems or not shown else 0)


def _live(kubeconfig: Path | None, context: str | None) -> list[Document]:
    found = list_live(kubeconfig, context, [ACCELERATORS])[ACCELERATORS]
    return [Document(f"Accelerator {one['metadata']['name']}", one) for one in by_age(found or ())]


def _extended(found: Iterable[Document | Unreadable]) -> tuple[Accelerators, list[Unreadable]]:
    known, problems = accelerators(), list[Unreadable]()
    for one in found:
        if isinstance(one, Unreadable):
            problems.append(one)
        elif is_accelerator(one.object):
            try:
                known = extended(known, [one.object])
            except AdditionError as error:
                field, _, fault = str(error).partition(": ")
                problems.append(Unreadable(one.source, fault, field))
    return known, problems


def _is_asked_for(one: Product, known: Accelerators, asked: tuple[str, ...], vendor: str | None) -> bool:
    if vendor is not None and one.vendor.casefold() != vendor.casefold():
        return False
    names = [name.casefold() for name in (one.product, known.short_name(one.product), *one.aliases)]
    return not asked or any(word.casefold() in name for word in asked for name in names)


def _table(shown: Iterable[Product], known: Accelerators) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("MODEL", "VENDOR", "MEMORY MIB", "BF16 TFLOPS", "GB/S", "INTERCONNECT"):
        figures = title in ("MEMORY MIB", "BF16 TFLOPS", "GB/S")
        table.add_column(title, justify="right" if figures else "left", no_wrap=True)
    for one in shown:
        compute = _shown(one.bf16) or (f"{fp16}*" if (fp16 := _shown(one.fp16)) else "")
        table.add_row(
            known.short_name(one.product),
            one.vendor,
            "unified" if one.unified else _shown(one.memory),
            "display card" if one.display else compute,
            _shown(one.bandwidth),
            one.interconnect.value if one.interconnect else "",
        )
    return table


def _shown(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"{'~' if figure.disagree else ''}{f'{figure.value:.10g}' if figure.value else '?'}"


def _document(shown: Iterable[Product], known: Accelerators) -> dict[str, Any]:
    stacks = {vendor.name: vendor.stack for vendor in known.vendors}
    return {
        "apiVersion": "samestep.dev/v1alpha1",
        "kind": "AcceleratorCatalog",
        "items": [_item(one, known.short_name(one.product), stacks[one.vendor]) for one in shown],
        "sources": dict(known.sources),
    }


def _item(one: Product, short: str, stack: str) -> dict[str, Any]:
    item: dict[str, Any] = {
        "product": one.product,
        "shortName": short,
        "vendor": one.vendor,
        "stack": stack,
        "aliases": dict(one.aliases),
        "display": one.display,
        "unified": one.unified,
        **{name: _told(figure) for name, figure in one.figures.items()},
    }
    if one.interconnect is not None:
        item["interconnect"] = _told(one.interconnect)
    return item | {"source": list(one.source)}


def _told(one: Figure | Fact) -> dict[str, Any]:
    told: dict[str, Any] = {"value": _plain(one.value), "source": list(one.source)}
    if isinstance(one, Figure) and one.disagree:
        told["disagree"] = {source: _plain(value) for source, value in one.disagree.items()}
    return told


def _plain(value: float | str | None) -> float | str | None:
    return int(value) if isinstance(value, float) and value.is_integer() else value
