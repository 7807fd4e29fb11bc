"""`samestep explain CODE`: what a finding code means and how to get out."""

import click

from webhook.catalog.codes import Code, codes


@click.command()
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Say what a finding code (SST201) means and how to get out. Without CODE: list all of them."""
    known = codes()
    if code is None:
        for one in known.values():
            click.echo(f"{one.code}  {one.action:4}  {one.title}")
        return
    found = known.get(code.upper())
    if found is None:
        raise click.UsageError(f'there is no code "{code}"; `samestep explain` lists them all')
    click.echo(page(found))


def page(code: Code) -> str:
    """One code as Markdown; docs/reference/codes/ holds the same pages."""
    return "\n".join(
        [
            f"# {code.code}: {code.title}",
            "",
            f"Under a policy that denies: **{code.action}**.",
            "",
            code.meaning.strip(),
            "",
            "## What to do",
            "",
            code.way_out.strip(),
        ]
    )
