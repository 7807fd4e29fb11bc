"""Lines and tables of `samestep explain`, as wide as the terminal and without spaces at the ends of lines."""

import shutil
import sys
import textwrap
from collections.abc import Iterable

import click
from rich.console import Console
from rich.table import Table

from webhook.answer.wording import one_line

WIDTH = 120
"""Columns, where there is no terminal that says how many."""
_NARROWEST = 60
_NUMBERS = frozenset(
    {"PODS", "AT LEAST", "IN ALL", "NODES", "LEFT OUT", "THERE", "NOW", "LOW", "LIKELY", "HIGH", "JOBS"}
)
_LONGEST = 200


def put(printed: str | Table, indent: int) -> None:
    """One line of text, or a table."""
    if isinstance(printed, str):
        click.echo(f"{' ' * indent}{one_line(printed)}")
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    console = Console(width=max(width - indent, _NARROWEST), highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(printed)
    for line in captured.get().splitlines():
        click.echo(f"{' ' * indent}{line}".rstrip())


def table(titles: Iterable[str]) -> Table:
    """An empty table; columns of numbers stand to the right."""
    made = Table(box=None, pad_edge=False, header_style="")
    for title in titles:
        number = title in _NUMBERS
        made.add_column(title, justify="right" if number else "left", overflow="fold", no_wrap=number)
    return made


def wrapped(text: str, indent: int) -> list[str]:
    """The text in lines; one of what cannot be parted may be longer."""
    start = " " * indent
    lines = textwrap.wrap(
        one_line(text),
        WIDTH,
        initial_indent=start,
        subsequent_indent=f"{start}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [""]


def cut(text: str) -> str:
    """The text on one line, cut to a readable length."""
    text = one_line(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
