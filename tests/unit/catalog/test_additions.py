"""Accelerator objects: what they add, what they override, and what is refused with its place."""

from typing import Any

import pytest

from webhook.catalog.accelerators import Accelerators, accelerators
from webhook.catalog.additions import AdditionError, added, extended, is_accelerator

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
        ({"bandwidthGBps": 10**400}, "spec.bandwidthGBps: "),
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


def named(name: str, created: str, **spec: object) -> dict[str, Any]:
    return accelerator(**spec) | {"metadata": {"name": name, "creationTimestamp": f"2026-01-{created}T00:00:00Z"}}


def memory_mib(catalog: Accelerators, name: str = "NVIDIA-New") -> int | None:
    found = catalog.product(name)
    return found.memory_mib if found else None


def test_of_a_cluster_the_younger_object_counts_over_the_older() -> None:
    younger, older = named("a", "02", memory="64Gi"), named("b", "01", memory="32Gi")
    for objects in ([younger, older], [older, younger]):
        assert memory_mib(added(CATALOG, objects, {}).catalog) == 65536


def test_a_broken_object_is_left_out_and_told_and_the_others_count() -> None:
    now = added(CATALOG, [named("bad", "01", vendor="acme"), named("good", "02", memory="64Gi")], {})
    assert memory_mib(now.catalog) == 65536
    assert list(now.good) == ["good"]
    (fault,) = now.faults
    assert fault.startswith("bad: spec.vendor: expected one of NVIDIA")
    assert fault.endswith("got 'acme' (left out)")


def test_an_object_that_comes_to_be_broken_counts_as_it_last_could_until_it_is_mended_or_gone() -> None:
    good = added(CATALOG, [named("a", "01", memory="64Gi")], {})
    broken = added(CATALOG, [named("a", "01", memory="65Gi", vendor="acme")], good.good)
    assert memory_mib(broken.catalog) == 65536
    assert broken.faults[0].endswith("(counts as it was before)")
    again = added(CATALOG, [named("a", "01", memory="66Gi", vendor="acme")], broken.good)
    assert memory_mib(again.catalog) == 65536
    assert memory_mib(added(CATALOG, [named("a", "01", memory="66Gi")], again.good).catalog) == 66 * 1024
    assert added(CATALOG, [], again.good).catalog == CATALOG


def test_what_counted_before_is_left_out_where_another_object_has_taken_its_name() -> None:
    before = added(CATALOG, [named("a", "02", aliases=["ours"])], {})
    now = added(
        CATALOG,
        [named("a", "02", vendor="acme"), named("b", "01", product="NVIDIA-Other", aliases=["ours"])],
        before.good,
    )
    assert now.catalog.short_name("ours") == "Other"
    assert now.faults[0].endswith("(left out)")
