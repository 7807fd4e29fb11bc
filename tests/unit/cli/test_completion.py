"""Shell completion, and the program as a plugin of kubectl."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli import main
from webhook.cli.completion import for_kubectl

ROOT = Path(__file__).parents[3]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]


def program(folder: Path, name: str) -> Path:
    """The console script of this name, as an installer writes it."""
    module, _, function = SCRIPTS[name].partition(":")
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n", "utf-8"
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_program_that_is_installed_is_there(name: str) -> None:
    module, _, function = SCRIPTS[name].partition(":")
    assert callable(getattr(import_module(module), function))


def test_the_plugin_calls_itself_what_people_type(tmp_path: Path) -> None:
    for words in (["--help"], ["lint", "--help"]):
        told = subprocess.run(
            [program(tmp_path, "kubectl-samestep"), *words], capture_output=True, text=True, check=True
        )
        typed = " ".join(["kubectl samestep", *words[:-1]])
        assert told.stdout.startswith(f"Usage: {typed} [OPTIONS]")


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_a_script_for_each_shell_asks_the_program(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_SAMESTEP_COMPLETE={shell}_complete" in result.stdout
    assert "samestep" in result.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    program(tmp_path, "samestep")
    script = """
    source <(samestep completion bash)
    COMP_WORDS=(samestep completion f) COMP_CWORD=2
    _samestep_completion samestep
    echo "${COMPREPLY[@]}"
    """
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "fish\n"


def test_kubectl_is_told_what_may_stand_next() -> None:
    assert list(for_kubectl(main, ["completion", "z"])) == ["zsh", ":4"]
    assert list(for_kubectl(main, ["lint", ""])) == [":0"]
    commands = list(for_kubectl(main, [""]))
    assert [line.partition("\t")[0] for line in commands[:-1]] == sorted(main.commands)
    assert list(for_kubectl(main, [])) == commands
    assert "\t" in commands[0]


def test_kubectl_asks_a_program_of_its_own(tmp_path: Path) -> None:
    asked = program(tmp_path, "kubectl_complete-samestep")
    assert (
        subprocess.run([asked, "test", "-o", "j"], capture_output=True, text=True, check=True).stdout
        == "json\njunit\n:4\n"
    )
