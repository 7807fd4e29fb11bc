"""Commands and what they print, on a terminal or in a log."""

import sys
import textwrap
from collections.abc import Iterable

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

_WIDTH = 100
_STYLES = {"Warning:": "yellow", "Error": "bold red", "SST": "red", "  -": "green"}


class Screen:
    """Wraps at words, at 100 columns or what the terminal has; colours only on a terminal."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDTH)
        self._width = min(self._console.width, _WIDTH)

    def story(self, lines: Iterable[str]) -> None:
        """What comes next, in words."""
        self._console.print()
        for line in lines:
            self._print(f"# {line}", "dim")

    def command(self, line: str) -> None:
        self._print(f"$ {line}", "bold")

    def output(self, text: str) -> None:
        """What a command printed."""
        for line in text.splitlines():
            style = next((style for start, style in _STYLES.items() if line.startswith(start)), "")
            self._print(line.rstrip(), style)

    def added(self, lines: Iterable[str]) -> None:
        """What is in the object that was not in the file."""
        for line in lines:
            self._print(f"  + {line}", "green")

    def table(self, header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
        """What kubectl has no column for."""
        table = Table(*header, box=None, pad_edge=False, header_style="")
        for row in rows:
            table.add_row(*row)
        self._console.print(table, width=self._width)

    def _print(self, line: str, style: str) -> None:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        wrapped = textwrap.wrap(
            line, self._width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        self._console.print(Text("\n".join(wrapped), style=Style.parse(style)))
