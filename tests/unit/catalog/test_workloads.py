import pytest
from pydantic import ValidationError

from webhook.catalog.workloads import read_workloads, workloads
from webhook.model.request import Kind
from webhook.model.workload import Children

ENTRY = """
- kind: Demo
  group: example.com
  versions: [v1, v2]
  plural: demos
  children: Decided
  roles:
  - {at: spec, each: One, name: Demo, template: pod.template, pods: [replicas]}
  coupling: {several: Synchronous}
  started: status.phase
  source: a test
"""


def test_the_kinds_of_the_package_are_found_by_group_version_and_kind() -> None:
    known = workloads()
    for entry in known.entries:
        assert [known.of(Kind(entry.group, version, entry.kind)) for version in entry.versions] == [entry]
    assert known.of(Kind("batch", "v1beta1", "Job")) is None
    assert known.of(Kind("batch.volcano.sh", "v1", "Job")) is None


def test_two_versions_of_a_kind_are_two_entries_where_they_are_read_differently() -> None:
    first, second = (workloads().of(Kind("kubeflow.org", version, "MPIJob")) for version in ("v1", "v2beta1"))
    assert first is not None
    assert second is not None
    assert first.environment != second.environment


def test_owners_are_found_whatever_their_version() -> None:
    known = workloads()
    assert known.of_any_version("kubeflow.org", "PyTorchJob") is known.of(Kind("kubeflow.org", "v1", "PyTorchJob"))
    assert known.of_any_version("", "PyTorchJob") is None


def test_every_entry_names_its_source() -> None:
    assert all(one.source for one in workloads().entries)


def test_paths_are_split_once_and_every_version_is_known() -> None:
    known = read_workloads(ENTRY)
    entry = known.of(Kind("example.com", "v2", "Demo"))
    assert entry is not None
    assert entry.children is Children.DECIDED
    assert entry.roles[0].template == ("pod", "template")
    assert entry.started == ("status", "phase")


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("started: status.phase", "started: status..phase", "started"),
        ("children: Decided", "children: Maybe", "children"),
        ("plural: demos", "plurals: demos", "plurals"),
        ("each: One, name: Demo", "each: One", "name: goes with each: One"),
        ("each: One, name: Demo", "each: Entry, name: Demo", "name: goes with each: One"),
        ("pods: [replicas]", "pods: replicas", "pods"),
        ("pods: [replicas]", "most: replicas", "most: goes with scales:"),
        ("several: Synchronous", "several: Sometimes", "several"),
        ("several: Synchronous", "several: Synchronous, by: [{at: spec.a}]", "values: or there:"),
        ("children: Decided", "children: Serving", "children: Serving"),
        ("  coupling: {several: Synchronous}\n", "", "coupling: goes with roles:"),
        ("started: status.phase", "runtime: spec.runtimeRef", "one of roles:, holds: and runtime:"),
        ("started: status.phase", "holds: [{at: spec, each: One, held: Template}]", "kind: goes with held: Template"),
    ],
)
def test_a_bad_entry_is_named(before: str, after: str, named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        read_workloads(ENTRY.replace(before, after))


def test_a_kind_has_one_entry() -> None:
    with pytest.raises(ValueError, match="two entries"):
        read_workloads(ENTRY + ENTRY)
