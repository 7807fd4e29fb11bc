"""The configuration of the kind cluster, as the real kind reads it. Without Docker it makes no cluster of it."""

import os
import subprocess
from pathlib import Path

import pytest

from controlplane.build import GoUnavailableError, artifact
from demo.serving import ROOT

CONFIG = ROOT / "manifests" / "overlays" / "kind" / "cluster.yaml"


def create(config: Path, nothing: Path) -> str:
    """What kind says on a machine that has neither Docker nor the like. It reads the file before it looks for them."""
    try:
        program = artifact("kind")
    except GoUnavailableError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    done = subprocess.run(
        [program, "create", "cluster", "--config", config],
        env={"PATH": str(nothing), "HOME": str(nothing)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    return done.stderr


def test_kind_reads_the_configuration_and_then_misses_docker(tmp_path: Path) -> None:
    told = create(CONFIG, tmp_path)

    assert "unable to decode config" not in told
    assert '"docker": executable file not found' in told


def test_kind_would_tell_of_a_field_that_it_does_not_know(tmp_path: Path) -> None:
    wrong = tmp_path / "cluster.yaml"
    wrong.write_text(CONFIG.read_text().replace("role: worker", "rolle: worker"))

    assert "unable to decode config: yaml: unmarshal errors" in create(wrong, tmp_path)
