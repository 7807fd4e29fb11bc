"""`samestep lint`: what is wrong with policies, without a cluster."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from webhook.cli.documents import Document, Unreadable
from webhook.cli.lints.found import UNREADABLE, Found, Severity
from webhook.cli.lints.tests import check_tests
from webhook.cli.lints.whole import check
from webhook.cli.options import policy_paths
from webhook.cli.output import dumped
from webhook.cli.policy_tests import ENDING, tests_in
from webhook.cli.settings import SETTINGS
from webhook.cli.surroundings import Offline, offline
from webhook.cli.worlds import fleet_option
from webhook.model.policy import Policy
from webhook.policy.common import common
from webhook.policy.load import Loaded, load


@click.command(context_settings=SETTINGS)
@policy_paths
@fleet_option(
    "The nodes, and Namespaces, that the policies are for: what they pin by and select is looked for there. Repeatable."
)
@click.option("--strict", is_flag=True, help="Exit status 1 for warnings too.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def lint(
    ctx: click.Context,
    paths: tuple[Path, ...],
    fleets: tuple[Path, ...],
    strict: bool,  # noqa: FBT001 - click passes it by name
    output: str,
) -> None:
    """Tell what is wrong with policies, pools, exceptions, accelerators and PolicyTests.

    Each PATH, a file or a folder with those below it, is a set of its own, as --policies takes it. Without a PATH:
    policies, or this folder where there is no folder of that name.

    Exit status: 0 no error, 1 some, 2 something that cannot be read at all, or nothing to read.
    """
    found: list[Found] = []
    problems: list[Unreadable] = []
    for path in paths:
        loaded, tests = load(path), _tests_in(path)
        if not (loaded.read or loaded.faults or tests):
            problems.append(Unreadable(str(path), "no policy is in there"))
            continue
        seen = _seen(loaded, fleets) if fleets else None
        problems += [one for one in (seen.problems if seen else ()) if str(one) not in map(str, problems)]
        found += sorted([*check(loaded, seen, time.time()), *check_tests(tests)], key=lambda one: one.order)
    _print(found, problems, output)
    if problems or any(one.rule == UNREADABLE for one in found):
        ctx.exit(2)
    ctx.exit(1 if any(strict or one.severity is Severity.ERROR for one in found) else 0)


def _tests_in(path: Path) -> list[Path]:
    return tests_in(path) if path.is_dir() or path.name.endswith(ENDING) else []


def _seen(loaded: Loaded, fleets: Sequence[Path]) -> Offline:
    added = [Document(f"Accelerator {one['metadata']['name']}", dict(one)) for one in loaded.accelerators]
    return offline(fleets, added, model_labels=common(loaded.rules, Policy()).model_labels)


def _print(found: Sequence[Found], problems: Sequence[Unreadable], output: str) -> None:
    if output == "json":
        click.echo(dumped(_document(found, problems), output))
        return
    for one in found:
        click.echo(str(one))
    for problem in problems:
        click.echo(f"unreadable: {problem}", err=True)
    counted = Counter(one.severity for one in found)
    click.echo(", ".join(_counted(counted[severity], severity) for severity in Severity))


def _counted(count: int, severity: Severity) -> str:
    return f"{count} {severity}{'' if count == 1 else 's'}"


def _document(found: Sequence[Found], problems: Sequence[Unreadable]) -> dict[str, object]:
    return {
        "apiVersion": "samestep.dev/v1alpha1",
        "kind": "LintReport",
        "findings": [
            {"severity": one.severity, "rule": one.rule, "object": one.object, **asdict(one.fault)} for one in found
        ],
        "errors": [{"source": one.source, "field": one.field, "message": one.message} for one in problems],
    }
