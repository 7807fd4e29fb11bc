"""`samestep test`: what policies make of jobs, against what their authors expect."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from webhook.cli.documents import Unreadable
from webhook.cli.policy_tests import CaseResult, run_file
from webhook.cli.test_reports import junit, report, text_of

_ENDING = ".test.yaml"


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json", "junit"]), default="text", show_default=True)
@click.pass_context
def test(ctx: click.Context, paths: tuple[Path, ...], output: str) -> None:
    """Run the PolicyTests in files and folders, without a cluster.

    In a folder, and in those below it, they are the files whose names end in .test.yaml. Without a PATH: policies, or
    this folder where there is none.

    Exit status: 0 all as expected, 1 some otherwise, 2 something could not be read.
    """
    results: list[CaseResult | Unreadable] = []
    for one in _run(paths or (Path("policies") if Path("policies").is_dir() else Path(),)):
        results.append(one)
        if output == "text" and isinstance(one, CaseResult):
            click.echo(text_of(one))
    cases = [one for one in results if isinstance(one, CaseResult)]
    problems = [one for one in results if isinstance(one, Unreadable)]
    failed = sum(not one.passed for one in cases)
    if output == "text":
        for problem in problems:
            click.echo(f"unreadable: {problem}", err=True)
        click.echo(f"{len(cases) - failed} passed, {failed} failed")
    else:
        click.echo(report(cases, problems) if output == "json" else junit(cases, problems))
    ctx.exit(2 if problems else 1 if failed else 0)


def _run(paths: Iterable[Path]) -> Iterator[CaseResult | Unreadable]:
    for path in paths:
        files = _below(path) if path.is_dir() else [path]
        if not files:
            yield Unreadable(str(path), f"no file there ends in {_ENDING}")
        for file in files:
            yield from run_file(file)


def _below(folder: Path) -> list[Path]:
    """Hidden folders are none of ours: a virtual environment, a repository."""
    found = folder.rglob(f"*{_ENDING}")
    return sorted(one for one in found if not any(part.startswith(".") for part in one.relative_to(folder).parts))
