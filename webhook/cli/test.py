"""`samestep test`: what policies make of jobs, against what their authors expect."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from webhook.cli.options import policy_paths
from webhook.cli.policy_tests import ENDING, CaseResult, read_tests, run, tests_in
from webhook.cli.settings import SETTINGS
from webhook.cli.test_reports import junit, report, text_of
from webhook.policy.documents import Fault


@click.command(context_settings=SETTINGS)
@policy_paths
@click.option("-o", "--output", type=click.Choice(["text", "json", "junit"]), default="text", show_default=True)
@click.pass_context
def test(ctx: click.Context, paths: tuple[Path, ...], output: str) -> None:
    """Run the PolicyTests in files and folders, without a cluster.

    In a folder, and in those below it, they are the files whose names end in .test.yaml. Without a PATH: policies, or
    this folder where there is no folder of that name.

    Exit status: 0 all as expected, 1 some otherwise, 2 something could not be read.
    """
    cases: list[CaseResult] = []
    faults: list[Fault] = []
    for one in _run(paths):
        if isinstance(one, Fault):
            faults.append(one)
        else:
            cases.append(one)
        if output == "text":
            click.echo(f"unreadable: {one}" if isinstance(one, Fault) else text_of(one), err=isinstance(one, Fault))
    failed = sum(not one.passed for one in cases)
    if output == "text":
        click.echo(f"{len(cases) - failed} passed, {failed} failed")
    else:
        click.echo(report(cases, faults) if output == "json" else junit(cases, faults))
    ctx.exit(2 if faults else 1 if failed else 0)


def _run(paths: Iterable[Path]) -> Iterator[CaseResult | Fault]:
    for path in paths:
        files = tests_in(path)
        if not files:
            yield Fault(str(path), 0, 0, "", f"no file there ends in {ENDING}")
        for file in files:
            for one in read_tests(file):
                if isinstance(one, Fault):
                    yield one
                else:
                    yield from run(one)
