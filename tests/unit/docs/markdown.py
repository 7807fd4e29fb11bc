"""What is in the Markdown of this repository: fenced blocks, links, headings.

A `console` block is a transcript: commands after "$ ", each with all that it prints; a line "..." stands for lines that
were left out. A `sh` block holds commands only, for where the output is not the same for everyone. A `yaml` block whose
first line is a comment with the name of a file is that file.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.yaml)\n")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `language` is what stands behind the fence."""

    page: Path
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a transcript and the lines shown below it; or, for the command `save`, a file with this text."""

    command: str
    shown: tuple[str, ...]
    text: str = ""


def blocks(page: Path, language: str) -> list[Block]:
    text = page.read_text("utf-8")
    return [Block(page, found[1], found[2]) for found in _FENCE.findall(text) if found[1] == language]


def steps(page: Path) -> list[Step]:
    """The transcripts of a page and the files between them, in their order."""
    found: list[Step] = []
    for _, language, text in _FENCE.findall(page.read_text("utf-8")):
        if language == "console":
            found += _steps(text.splitlines())
        elif language == "yaml" and (file := _FILE.match(text)):
            found.append(Step(f"save {file[1]}", (), text[file.end() :]))
    return found


def _steps(lines: list[str]) -> Iterator[Step]:
    # The demo prints commands of its own.
    starts = [index for index, line in enumerate(lines) if line.startswith("$ ")]
    starts = starts[:1] if lines[0] == "$ make demo" else starts
    for start, end in pairwise([*starts, len(lines)]):
        yield Step(lines[start].removeprefix("$ "), tuple(lines[start + 1 : end]))


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every simple command of a page; redirections are left out."""
    lines = [step.command for step in steps(page)]
    lines += [line for block in blocks(page, "sh") for line in block.text.replace("\\\n", " ").splitlines()]
    for line in lines:
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        simple: list[str] = []
        for word in [*words, ";"]:
            if set(word) <= set("();<>|&"):
                if simple:
                    yield simple
                simple = ["redirected to"] if set(word) <= set("<>") else []
            else:
                simple.append(word)


def links(page: Path) -> list[str]:
    return _LINK.findall(_without_code(page))


def anchors(page: Path) -> set[str]:
    """The headings of a page as links spell them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in _HEADING.findall(_without_code(page))
    }


def _without_code(page: Path) -> str:
    return _FENCE.sub("", page.read_text("utf-8"))
