import json

import pytest

from tests.unit.intake.jobs import annotated, container, job, read
from webhook.answer.wording import own_sentence
from webhook.model.job import Coupling, DeclaredMemory, PinRecord, TrainingJob, Wishes


def declaring(**annotations: object) -> TrainingJob:
    return read(annotated(job(container("x")), **annotations))


def test_memory_is_read_in_mebibytes() -> None:
    assert declaring(memory_per_device="29Gi").declared == DeclaredMemory(per_device_mib=29 * 1024.0)
    declared = declaring(memory_fixed="2Gi", memory_per_sample="0.5Mi").declared
    assert declared == DeclaredMemory(fixed_mib=2048.0, per_sample_mib=0.5)
    assert declaring(memory_per_device="30G").declared.per_device_mib == pytest.approx(28610.2, abs=0.1)


def test_the_micro_batch_and_the_coupling_are_read() -> None:
    found = declaring(micro_batch="64", coupling="Independent")
    assert found.batch.declared is not None
    assert (found.batch.declared.value, found.batch.declared.certain) == (64, True)
    assert found.batch.declared.field == "metadata.annotations[samestep.dev/micro-batch]"
    assert found.coupling_wish is Coupling.INDEPENDENT
    assert found.annotations_are_a_map
    assert found.findings == ()


def test_what_is_asked_for_is_read() -> None:
    found = declaring(model=" NVIDIA H100 80GB HBM3", pool="a", ignore=" a reason ", allow_mixed="x" * 1000)
    assert found.wishes == Wishes(model="NVIDIA H100 80GB HBM3", pool="a", ignore="a reason", allow_mixed="x" * 256)
    assert found.findings == ()


@pytest.mark.parametrize(
    ("written", "read"), [("80Gi", 81920.0), ("1Mi", 1.0), ("RTX-4090", "RTX-4090"), ("4090", "4090"), (" L4 ", "L4")]
)
def test_a_job_is_sized_for_a_memory_or_a_model(written: str, read: str | float) -> None:
    assert declaring(sized_for=written).wishes.sized_for == read


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory-per-device", "two"),
        ("memory-per-device", "0"),
        ("memory-per-device", "-1Gi"),
        ("memory-per-device", "1e999999"),
        ("memory-fixed", ""),
        ("memory-per-sample", 684),
        ("micro-batch", "0"),
        ("micro-batch", "-4"),
        ("micro-batch", "4.0"),
        ("micro-batch", "99999999999"),
        ("micro-batch", 64),
        ("coupling", "synchronous"),
        ("coupling", "Serving"),
        ("model", ""),
        ("model", "-"),
        ("model", "a/b"),
        ("model", "x" * 64),
        ("model", 7),
        ("pool", " "),
        ("sized-for", ""),
        ("sized-for", "0"),
        ("sized-for", "-1Gi"),
        ("ignore", ""),
        ("ignore", " \n"),
        ("ignore", True),
        ("allow-mixed", ""),
    ],
)
def test_one_that_cannot_be_read_is_a_finding_on_a_job_that_is_read_all_the_same(name: str, value: object) -> None:
    found = declaring(**{name.replace("-", "_"): value})
    (finding,) = found.findings
    assert (finding.code, finding.where) == ("SST106", f"metadata.annotations[samestep.dev/{name}]")
    assert own_sentence(finding).startswith(f"unreadable annotation samestep.dev/{name}: expected ")
    assert (found.declared, found.wishes) == (DeclaredMemory(), Wishes())
    assert found.batch.declared is None


def test_memory_declared_in_two_ways_is_told() -> None:
    (finding,) = declaring(memory_per_device="29Gi", memory_per_sample="1Mi").findings
    assert (finding.code, finding.facts["other"]) == ("SST103", "samestep.dev/memory-per-sample")


def test_an_unknown_key_is_told_with_the_one_that_may_be_meant() -> None:
    (finding,) = declaring(microbatch="64").findings
    assert (finding.code, finding.variant, finding.facts["meant"]) == (
        "SST101",
        "annotation-like",
        "samestep.dev/micro-batch",
    )
    (finding,) = declaring(zzzzzzzzzz="").findings
    assert (finding.variant, finding.facts["meant"]) == ("annotation", "")


def test_many_unknown_keys_are_told_in_part() -> None:
    assert len(declaring(**{f"key{n}": "" for n in range(1000)}).findings) == 3


def test_other_peoples_annotations_are_none_of_ours() -> None:
    source = job(container("x"))
    source["metadata"]["annotations"] = {"example.com/x": 7, "samestep.devious/x": "y"}
    assert read(source).findings == ()


def test_a_pin_record_is_a_memory() -> None:
    record = {"key": "nvidia.com/gpu.product", "values": ["A", "B"], "policy": "p"}
    assert declaring(pinned=json.dumps(record)).record == PinRecord("nvidia.com/gpu.product", ("A", "B"), "p")


@pytest.mark.parametrize(
    "record",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"key":"k","values":[],"policy":"p"}',
        '{"key":"k","values":[1],"policy":"p"}',
        '{"key":"k","values":["v"]}',
        7,
        None,
    ],
)
def test_a_pin_record_that_cannot_be_read_is_none(record: object) -> None:
    found = declaring(pinned=record)
    assert (found.record, found.findings) == (None, ())
