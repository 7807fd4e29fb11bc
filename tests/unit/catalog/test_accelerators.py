"""The catalog's look-ups, and what must hold for its data."""

from collections import Counter

import pytest
from pydantic import TypeAdapter, ValidationError

from webhook.catalog.accelerators import Figure, accelerators

CATALOG = accelerators()


def test_short_names_are_unique() -> None:
    names = Counter(CATALOG.short_name(one.product).casefold() for one in CATALOG.products)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_spelling_means_two_products() -> None:
    spellings = [
        spelling
        for one in CATALOG.products
        for spelling in {CATALOG.canonical(one.product), *map(str.casefold, one.aliases)}
    ]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize("one", CATALOG.products, ids=lambda one: one.product)
def test_a_product_is_found_by_every_spelling(one: object) -> None:
    for product in CATALOG.products:
        if product is one:
            for spelling in (product.product, product.product.lower(), *product.aliases):
                assert CATALOG.product(spelling) is product
                assert CATALOG.canonical(spelling) == CATALOG.canonical(product.product)


def test_a_resource_belongs_to_one_vendor() -> None:
    resources = [resource for vendor in CATALOG.vendors for resource in vendor.resources + vendor.share_resources]
    assert len(resources) == len(set(resources))


@pytest.mark.parametrize(
    ("resource", "vendor"),
    [
        ("nvidia.com/gpu", "NVIDIA"),
        ("nvidia.com/mig-3g.20gb", "NVIDIA"),
        ("nvidia.com/gpu.shared", "NVIDIA"),
        ("amd.com/gpu", "AMD"),
        ("gpu.intel.com/i915", "Intel"),
        ("habana.ai/gaudi", "Habana"),
    ],
)
def test_a_resource_is_known_by_its_vendor(resource: str, vendor: str) -> None:
    found = CATALOG.vendor_of(resource)
    assert found is not None
    assert found.name == vendor
    assert CATALOG.is_device(resource)


@pytest.mark.parametrize("resource", ["cpu", "memory", "rdma/hca", "nvidia.com/gpumem", "nvidia.com/mig", "", "*"])
def test_anything_else_is_no_device(resource: str) -> None:
    assert not CATALOG.is_device(resource)


@pytest.mark.parametrize(
    ("spelling", "product"),
    [
        ("A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("nvidia-tesla-a100", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA-L4-SHARED", "NVIDIA-L4"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB"),
        ("l4", "NVIDIA-L4"),
        ("nvidia-tesla-t4", "Tesla-T4"),
        ("GeForce-RTX-3090", "NVIDIA-GeForce-RTX-3090"),
        ("nvidia-h100-mega-80gb", "NVIDIA-H100-80GB-HBM3"),
        ("AMD Instinct MI300X OAM", "AMD_Instinct_MI300X_OAM"),
    ],
)
def test_spellings_of_a_product_are_one(spelling: str, product: str) -> None:
    found = CATALOG.product(spelling)
    assert found is not None
    assert found.product == product


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("NVIDIA-A1", id="the beginning of another name"),
        pytest.param("NVIDIA-A100", id="a family"),
        pytest.param("a100", id="a name that clouds give to 40 and 80 GB cards alike"),
        pytest.param("NVIDIA-L40S-2", id="a name with more behind it"),
        pytest.param("", id="empty"),
        pytest.param("NVIDIA-", id="nothing but the vendor"),
        pytest.param("-SHARED" * 40_000 + "x", id="far too long"),
        pytest.param("-MIG-" * 45 + "\n", id="made to slow a pattern down"),
    ],
)
def test_a_product_is_never_found_by_a_part_of_its_name(name: str) -> None:
    assert CATALOG.product(name) is None


@pytest.mark.parametrize(
    ("product", "short"),
    [
        ("NVIDIA-GeForce-RTX-5090", "RTX-5090"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000-Blackwell-Server"),
        ("NVIDIA-A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("nvidia-tesla-a100", "A100-SXM4-40GB"),
        ("NVIDIA-B300-SXM6-AC", "B300"),
        ("NVIDIA-GeForce-GTX-1080-Ti", "GTX-1080-Ti"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("Max_1550", "Max-1550"),
        ("NVIDIA-", "NVIDIA-"),
    ],
)
def test_people_read_the_short_name_or_the_product_without_vendor_words(product: str, short: str) -> None:
    assert CATALOG.short_name(product) == short


def test_what_no_source_is_sure_of_is_left_out() -> None:
    unified = CATALOG.product("NVIDIA-GB10")
    assert unified is not None
    assert unified.memory_mib is None
    assert unified.bf16_tflops is None


def test_every_figure_has_a_source_and_every_source_a_meaning() -> None:
    for one in CATALOG.products:
        for figure in one.figures.values():
            assert bool(figure.source) == (figure.value is not None)
            assert {*figure.source, *figure.disagree} <= CATALOG.sources.keys()


def test_a_figure_on_which_sources_disagree_has_no_value_unless_one_is_better() -> None:
    open_question = CATALOG.product("NVIDIA-A10G")
    settled = CATALOG.product("NVIDIA-GeForce-RTX-4090")
    assert open_question is not None
    assert open_question.bf16 is not None
    assert (open_question.bf16_tflops, open_question.bf16.disagree) == (None, {"lightning": 125, "llm-analysis": 70})
    assert settled is not None
    assert settled.bf16 is not None
    assert (settled.bf16_tflops, settled.bf16.disagree) == (165.2, {"lightning": 82.6})


@pytest.mark.parametrize(
    "bad",
    [
        {"value": 3},
        {"source": ["labels"]},
        {"disagree": {"labels": 3}},
        {"value": -3, "source": ["labels"]},
        {"value": 3, "source": ["labels"], "unit": "GB"},
    ],
)
def test_a_figure_without_a_source_or_of_nothing_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Figure).validate_python(bad)


def test_every_machine_type_leads_to_a_product() -> None:
    for vendor in CATALOG.vendors:
        for machine, product in vendor.instance_types.items():
            known = CATALOG.product(product)
            assert known is not None, machine
            assert known.vendor == vendor.name


@pytest.mark.parametrize(
    ("machine", "product"),
    [
        ("p4d.24xlarge", "NVIDIA-A100-SXM4-40GB"),
        ("p4de.24xlarge", "NVIDIA-A100-SXM4-80GB"),
        ("g6.xlarge", "NVIDIA-L4"),
        ("g6e.xlarge", "NVIDIA-L40S"),
        ("Standard_NC24", "Tesla-K80"),
        ("Standard_NC24ads_A100_v4", "NVIDIA-A100-80GB-PCIe"),
        ("Standard_NC24rs_v3", "Tesla-V100-PCIE-16GB"),
        ("Standard_NC4as_T4_v3", "Tesla-T4"),
        ("a2-ultragpu-8g", "NVIDIA-A100-SXM4-80GB"),
        ("n1-standard-8", ""),
        ("p40.xlarge", ""),
    ],
)
def test_a_machine_type_is_matched_whole(machine: str, product: str) -> None:
    nvidia = CATALOG.vendor_of("nvidia.com/gpu")
    assert nvidia is not None
    for key in ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"):
        assert nvidia.product_of_machine({key: machine}) == product
