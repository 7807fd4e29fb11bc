"""`samestep lint`: what is wrong with policies, without a cluster."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from webhook.cli.documents import Document, Unreadable
from webhook.cli.lints.found import Found, Severity
from webhook.cli.lints.tests import check_tests
from webhook.cli.lints.whole import lint as found_in
from webhook.cli.output import dumped
from webhook.cli.surroundings import offline
from webhook.cli.worlds import fleet_option
from webhook.model.policy import Policy
from webhook.policy.common import common
from webhook.policy.load import Loaded, load


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@fleet_option(
    "Nodes and Namespaces that the policies are for: pins, models and pools are held against them. Repeatable."
)
@click.option("--strict", is_flag=True, help="Exit status 1 for warnings as well.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def lint(
    ctx: click.Context,
    paths: tuple[Path, ...],
    fleets: tuple[Path, ...],
    strict: bool,  # noqa: FBT001 - click passes it by name
    output: str,
) -> None:
    """Tell what is wrong with policies, pools, exceptions and PolicyTests in files and folders.

    Each PATH is a set of its own, as --policies takes it. Without one: policies, or this folder where there is none.

    Exit status: 0 no errors, 1 some, 2 something could not be read.
    """
    found: list[Found] = []
    problems: list[Unreadable] = []
    for path in paths or (Path("policies") if Path("policies").is_dir() else Path(),):
        if not path.exists():
            problems.append(Unreadable(str(path), "No such file or directory"))
            continue
        loaded = load(path)
        if not loaded.read and not loaded.faults:
            problems.append(Unreadable(str(path), "no policy is in there"))
        seen, faults = _seen(loaded, fleets)
        problems += faults
        found += found_in(loaded, seen, time.time())
        found += check_tests(path)
    _print(found, problems, output)
    errors = any(one.severity is Severity.ERROR for one in found)
    ctx.exit(2 if problems else 1 if errors or (strict and found) else 0)
