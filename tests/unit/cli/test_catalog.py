"""`samestep catalog`: what is known of accelerators, and files that add to it."""

import json
from pathlib import Path

import yaml
from click.testing import CliRunner, Result

from webhook.catalog.accelerators import accelerators
from webhook.cli import main

NEW = """
apiVersion: samestep.dev/v1alpha1
kind: Accelerator
metadata: {name: new}
spec: {product: NVIDIA-New, vendor: nvidia, memory: 64Gi, source: our bench}
"""


def catalog(*words: str) -> Result:
    return CliRunner().invoke(main, ["catalog", *words])


def rows(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_the_table_has_a_line_for_every_product() -> None:
    result = catalog()
    assert result.exit_code == 0
    assert len(rows(result)) == len(accelerators().products) + 2


def test_disagreement_is_marked_and_what_is_not_known_is_empty() -> None:
    assert rows(catalog("a10g"))[1] == ["A10G", "NVIDIA", "~23028", "~?", "600", "PCIe", "4"]
    assert rows(catalog("h200-nvl"))[1] == ["H200-NVL", "NVIDIA"]
    assert rows(catalog("gb10"))[1] == ["GB10", "NVIDIA", "unified"]
    assert rows(catalog("tesla-t4"))[1][2:4] == ["15360", "65*"]


def test_products_are_found_by_a_part_of_any_name_and_by_vendor() -> None:
    assert [row[0] for row in rows(catalog("mega", "gaudi2"))[1:-1]] == ["H100-80GB-HBM3", "Gaudi2"]
    assert {row[1] for row in rows(catalog("--vendor", "amd"))[1:-1]} == {"AMD"}


def test_json_and_yaml_give_every_value_with_its_source() -> None:
    told = json.loads(catalog("-o", "json", "rtx-4090").stdout)
    assert yaml.safe_load(catalog("-o", "yaml", "rtx-4090").stdout) == told
    (item,) = told["items"]
    assert item["memoryMib"] == {"value": 24564, "source": ["labels"]}
    assert item["bf16Tflops"] == {"value": 165.2, "source": ["published"], "disagree": {"lightning": 82.6}}
    assert item["stack"] == "CUDA and NCCL"
    assert set(item["source"]) <= told["sources"].keys()


def test_files_add_and_are_checked(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(NEW)
    bad.write_text(NEW.replace("64Gi", "64 GB"))
    added = catalog("-f", str(good), "nvidia-new")
    assert (added.exit_code, rows(added)[1]) == (0, ["New", "NVIDIA", "65536"])
    refused = catalog("-f", str(good), "-f", str(bad), "nvidia-new")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("unreadable: bad.yaml#0: spec.memory: ")
    assert rows(refused)[1] == ["New", "NVIDIA", "65536"]


def test_a_product_that_nobody_knows_is_told() -> None:
    result = catalog("nothing-like-it")
    assert (result.exit_code, result.stderr) == (2, "no such product\n")
