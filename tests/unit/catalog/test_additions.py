"""Accelerator objects: what they add, what they override, and what is refused with its place."""

from typing import Any

import pytest

from webhook.catalog.accelerators import accelerators
from webhook.catalog.additions import AdditionError, extended, is_accelerator

CATALOG = accelerators()


def accelerator(**spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "samestep.dev/v1alpha1",
        "kind": "Accelerator",
        "metadata": {"name": "one"},
        "spec": {"product": "NVIDIA-New", "vendor": "nvidia", "source": "our bench"} | spec,
    }


def test_a_product_is_added_with_its_aliases_and_figures() -> None:
    added = extended(
        CATALOG, [accelerator(aliases=["new-one"], memory="64Gi", bf16Tflops=500, bandwidthGBps=3000)]
    ).product("new-one")
    assert added is not None
    assert (added.product, added.vendor, added.memory_mib, added.bf16_tflops, added.bandwidth_gbps) == (
        "NVIDIA-New",
        "NVIDIA",
        65536,
        500,
        3000,
    )
    assert CATALOG.product("new-one") is None


def test_a_known_product_is_overridden_field_by_field_under_any_of_its_spellings() -> None:
    before = CATALOG.product("NVIDIA-A10G")
    after = extended(CATALOG, [accelerator(product="A10G", bf16Tflops=70, aliases=["our-a10g"])]).product("our-a10g")
    assert before is not None
    assert after is not None
    assert (after.product, after.memory_mib, after.bf16_tflops) == ("NVIDIA-A10G", before.memory_mib, 70)


def test_of_two_for_one_product_the_later_counts() -> None:
    both = [accelerator(memory="64Gi"), accelerator(memory="65Gi")]
    added = extended(CATALOG, both).product("NVIDIA-New")
    assert added is not None
    assert added.memory_mib == 65 * 1024


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"vendor": "acme"}, "spec.vendor: expected one of NVIDIA, AMD"),
        ({"vendor": "amd", "product": "NVIDIA-L4"}, "spec.vendor: NVIDIA-L4 is a product of NVIDIA"),
        ({"aliases": ["NVIDIA-L4"]}, "spec.aliases: 'NVIDIA-L4' is NVIDIA-L4"),
        ({"memory": "64 GB"}, "spec.memory: "),
        ({"memory": "64"}, "spec.memory: "),
        ({"memory": "-64Gi"}, "spec.memory: "),
        ({"bf16Tflops": 1.5}, "spec.bf16Tflops: "),
        ({"bf16Tflops": "500"}, "spec.bf16Tflops: "),
        ({"bandwidthGBps": 0}, "spec.bandwidthGBps: "),
        ({"source": ""}, "spec.source: "),
        ({"product": None}, "spec.product: "),
        ({"price": 3}, "spec.price: "),
    ],
)
def test_what_the_catalog_cannot_take_is_refused_with_the_field(spec: dict[str, object], fault: str) -> None:
    with pytest.raises(AdditionError) as refused:
        extended(CATALOG, [accelerator(**spec)])
    assert str(refused.value).startswith(fault)


def test_only_our_own_objects_are_accelerators() -> None:
    assert is_accelerator(accelerator())
    assert not is_accelerator(accelerator() | {"apiVersion": "example.com/v1"})
    assert not is_accelerator(accelerator() | {"kind": "Node"})
