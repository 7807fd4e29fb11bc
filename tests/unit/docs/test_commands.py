"""Commands in the documentation exist, and what stands below them is what they print."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.unit.docs.markdown import PAGES, ROOT, Step, commands, steps
from webhook.cli import main

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
GIVEN = ("demo", "examples", "policies")


class Terminal:
    """Runs the commands of one page in a folder that looks like a clone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._status = 0
        for name in GIVEN:
            shutil.copytree(ROOT / name, folder / name)

    def run(self, step: Step) -> list[str]:
        """The lines that its command prints, without the spaces at their ends."""
        command = step.command
        if command.startswith("save "):
            printed = ""
            file = self._folder / command.removeprefix("save ")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step.text, "utf-8")
        elif command.startswith("samestep "):
            printed = self._samestep(command)
        elif command == "make demo":
            printed = self._demo()
        else:
            printed = self._shell(command)
        return [line.rstrip() for line in printed.splitlines()]

    def _samestep(self, command: str) -> str:
        result = CliRunner().invoke(main, command.split()[1:], catch_exceptions=False)
        self._status = result.exit_code
        return result.output

    def _shell(self, command: str) -> str:
        if command == "echo $?":
            return str(self._status)
        assert command.split()[0] in ("cat", "cp", "sed"), f"not a command that a transcript may use: {command}"
        return subprocess.run(command, shell=True, cwd=self._folder, check=True, capture_output=True, text=True).stdout

    def _demo(self) -> str:
        done = subprocess.run([sys.executable, "-m", "demo"], cwd=ROOT, check=True, capture_output=True, text=True)
        return done.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if steps(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_transcript_shows_what_its_commands_print(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    for step in steps(page):
        printed = terminal.run(step)
        if "..." in step.shown:
            assert with_gaps(step.shown, printed), (step.command, printed)
        else:
            assert list(step.shown) == printed, step.command


def test_only_what_a_transcript_says_it_leaves_out_may_be_missing() -> None:
    assert with_gaps(["a", "...", "d"], ["a", "b", "c", "d"])
    assert not with_gaps(["a", "...", "d"], ["a", "b", "c"])
    assert not with_gaps(["a", "...", "d"], ["0", "a", "d"])
    assert not with_gaps(["...", "b"], ["b", "c"])


def with_gaps(shown: Iterable[str], printed: Iterable[str]) -> bool:
    """Whether these lines were printed, any number of others where "..." stands."""
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(f"{line}\n") for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_ours_exists(page: Path) -> None:
    for words in commands(page):
        if words[0] == "make":
            targets = [word for word in words[1:] if "=" not in word]
            assert targets, words
            assert set(targets) <= TARGETS, words
        elif words[0] == "samestep" and not words[1].startswith("-"):
            program = main.make_context("samestep", [], resilient_parsing=True)
            main.commands[words[1]].make_context(words[1], words[2:], parent=program)
