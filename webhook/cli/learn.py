"""`samestep learn`: what the runs that a cluster still knows of teach, once and from a terminal."""

import asyncio
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from webhook.answer.wording import gib
from webhook.catalog.accelerators import accelerators
from webhook.cli.live import ClusterError
from webhook.cli.options import files_from, policies_option
from webhook.cli.output import dumped
from webhook.cli.settings import SETTINGS
from webhook.model.profile import Observation, Profile
from webhook.policy.training_profile import read_profile

if TYPE_CHECKING:
    from webhook.cluster.learn_once import Learnt

_FILE = click.Path(path_type=Path)
_SHOWN = 5
_UNITS_S = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def _span(_: click.Context, __: click.Parameter, text: str) -> float:
    found = re.fullmatch(r"([1-9]\d{0,4})([mhdw])", text)
    if found is None:
        raise click.BadParameter(f"expected a time like 12h, 7d or 4w, got {text!r}")
    return float(found[1]) * _UNITS_S[found[2]]


@click.command(context_settings=SETTINGS)
@click.option("--prometheus", help="URL of the Prometheus that knows what devices held; without it, only ends count.")
@click.option("--prometheus-token-file", type=_FILE, help="File with the bearer token for it.")
@click.option("--prometheus-ca-file", type=_FILE, help="Authorities of its certificate, PEM.  [default: the system's]")
@click.option("--since", default="7d", show_default=True, callback=_span, help="How far back: 12h, 7d, 4w.")
@click.option("--kubeconfig", type=_FILE, help="Which kubeconfig to use.")
@click.option("--context", help="Which context of it.")
@policies_option("Policies that count beside those of the cluster.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Write the profiles to files there.")
@click.option("--apply", is_flag=True, help="Write the profiles to the cluster.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.pass_context
def learn(
    ctx: click.Context,
    prometheus: str | None,
    prometheus_token_file: Path | None,
    prometheus_ca_file: Path | None,
    since: float,
    kubeconfig: Path | None,
    context: str | None,
    policies: Path | None,
    out: Path | None,
    apply: bool,  # noqa: FBT001 - click passes it by name
    output: str,
) -> None:
    """Learn from the runs that a cluster still knows of, and what they held.

    What `samestep serve` does all the time, once: of each job that ended in that time or runs now, how it ended, on
    which GPU models its pods ran, and the most memory that one of their devices held. What is found is printed; with
    --out it is written to files that `samestep check --fleet` takes, with --apply to the cluster.
    """
    # The clients take half a second to import.
    import aiohttp

    from webhook.cli.monitoring import endpoint
    from webhook.cluster.access import Access, AccessError, StatusError, reason
    from webhook.cluster.learn_once import learn_once
    from webhook.cluster.prometheus import Prometheus

    place = endpoint(prometheus, prometheus_token_file, prometheus_ca_file)
    files = files_from(policies)

    async def look() -> "Learnt":
        asked = Prometheus(place) if place else None
        try:
            return await learn_once(Access(kubeconfig, context), files, asked, since_s=since, apply=apply)
        finally:
            if asked:
                await asked.close()

    try:
        found = asyncio.run(look())
    except AccessError as error:
        raise ClusterError(f"no cluster to ask: {error}") from None
    except (StatusError, aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ClusterError(f"the API server cannot be asked: {reason(error)}") from None
    if out is not None:
        _write(found, out)
    if output == "table":
        _show(found, applied=apply)
    else:
        click.echo(dumped(_document(found), output))
    for problem in found.problems:
        click.echo(f"problem: {problem}", err=True)
    ctx.exit(2 if found.problems else 0)


def _write(found: "Learnt", out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        for (namespace, name), document in found.documents.items():
            path = out / f"{namespace}.{name}.yaml"
            path.write_text(f"{dumped(document, 'yaml')}\n", encoding="utf-8")
            click.echo(f"wrote {path}", err=True)
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror or 'cannot be written'}") from None


def _show(found: "Learnt", *, applied: bool) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    if found.documents:
        console.print(_profiles(found))
        console.print()
    for line in _notes(found, applied=applied):
        console.print(line, soft_wrap=True, markup=False)


def _profiles(found: "Learnt") -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("NAMESPACE", "JOB", "MODEL", "ENDED WELL", "PEAK", "OF", "OUT OF MEMORY"):
        table.add_column(title, justify="right" if title in ("ENDED WELL", "PEAK", "OF") else "left", no_wrap=True)
    for key, document in sorted(found.documents.items()):
        profile = read_profile(document)
        for index, one in enumerate(profile.observations):
            names = (key[0], _jobs(found, profile)) if index == 0 else ("", "")
            table.add_row(*names, accelerators().short_name(one.product), *_figures(one))
    return table


def _figures(one: Observation) -> Iterable[str]:
    out = one.out_of_memory
    yield str(one.runs)
    yield gib(one.peak_mib) if one.peak_mib is not None else "-"
    yield gib(one.memory_mib)
    yield f"{_day(out.at)} {out.job}" + (f", {out.in_a_row} in a row" if out.in_a_row > 1 else "") if out else ""


def _jobs(found: "Learnt", profile: Profile) -> str:
    of_it = (one for one in found.runs if (one.namespace, one.recipe) == (profile.namespace, profile.recipe))
    names = list(dict.fromkeys(one.job for one in of_it))
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _notes(found: "Learnt", *, applied: bool) -> Iterable[str]:
    yield f"{len(found.runs)} runs looked at, {len(found.documents)} profiles."
    if applied:
        yield f"{found.written} written to the cluster; the others say nothing new."
    if found.without_pods:
        yield f"Jobs without a pod in view on a known model: {_some(found.without_pods)}."
    if unplaced := sum(one.unplaced for one in found.runs):
        yield f"{unplaced} pods ran on no one known model of whole devices."
    if found.of_no_job:
        yield f"Held memory of devices, and belong to no job in view: {_some(found.of_no_job)}."
    if found.dropped:
        values = ", ".join(f"{count} {why}" for why, count in sorted(found.dropped.items()))
        yield f"Values that were not believed: {values}."
    if found.kinds_not_seen:
        yield f"Not looked at, since they may not be listed: {', '.join(found.kinds_not_seen)}."


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _document(found: "Learnt") -> dict[str, Any]:
    return {
        "apiVersion": "samestep.dev/v1alpha1",
        "kind": "LearnedRuns",
        "runs": len(found.runs),
        "profiles": [document for _, document in sorted(found.documents.items())],
        "jobsWithoutPods": found.without_pods,
        "podsOfNoJob": found.of_no_job,
        "droppedValues": dict(found.dropped),
        "kindsNotSeen": found.kinds_not_seen,
        "problems": found.problems,
    }


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
