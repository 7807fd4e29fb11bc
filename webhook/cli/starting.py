"""A policy set to start from, made of what a fleet has: files, each with what was seen there as comments."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from webhook.answer.wording import gib, one_line
from webhook.cli.outcomes import Outcome, outcome
from webhook.cli.requests import creation_of
from webhook.cli.vendors import OfVendor, by_vendor
from webhook.fleet.read import FleetRead, read_fleet
from webhook.fleet.snapshot import to_objects
from webhook.fleet.summary import ModelSummary, summarize
from webhook.model.fleet import Node, Taint
from webhook.model.policy import Policy
from webhook.model.rules import Rules
from webhook.model.verdict import Verdict
from webhook.model.world import World
from webhook.policy.objects import read_object, rules_of
from webhook.policy.parts import epoch
from webhook.policy.policy_test import Spec

_API_VERSION = "samestep.dev/v1alpha1"
_MOST_ALIKE = 4
"""Nodes of one sort in the fleet of the tests: as many as a job of theirs has use for, and people read."""
_NOW = epoch(Spec.model_fields["now"].default)


@dataclass(frozen=True, slots=True)
class _Sample:
    """A job of the tests: `name` says what is tested, `file` is without ending."""

    name: str
    file: str
    object: dict[str, Any]


def starting_set(read: FleetRead) -> dict[str, str]:
    """The text of each file by its name, for a fleet of at least one node."""
    rows = summarize(read.fleet, catalog=read.catalog)
    vendors = by_vendor(read.fleet, read.catalog)
    several = len(vendors) > 1
    telling = [one for one in vendors if several and one.selector is not None]
    pools = [_pool(one, 10 * number) for number, one in enumerate(telling, 1)]
    policy = _policy(rows)
    objects = to_objects(read.fleet, read.accelerators)
    fleet = [one for one in objects if one["kind"] != "Node" or one["metadata"]["name"] in _few_of_each(read)]
    samples = [
        sample for one in vendors for sample in _samples(one, rows, pooled=bool(pools), several=len(vendors) > 1)
    ]
    world = _world(fleet, [yaml.safe_load(policy), *pools])
    cases = [_case(sample, outcome(creation_of(sample.object), world)) for sample in samples]
    files = {"policy.yaml": policy}
    if pools:
        files["pools.yaml"] = _pools(pools, vendors)
    return {
        **files,
        "policy.test.yaml": _test(cases),
        **{f"jobs/{one.file}.yaml": _dumped(one.object) for one in samples},
        "fleet.yaml": _snapshot(fleet, read),
    }


def _policy(rows: Sequence[ModelSummary]) -> str:
    models = [row for row in rows if row.memory_mib is not None]
    odd = [row for row in rows if row.memory_mib is None]
    lines = ["# What training jobs are held to here. Written by samestep init from what the fleet had:", "#"]
    lines += [f"#   {line}" for line in _aligned([_seen(row) for row in rows])]
    lines += ["#", *(f"# {line}" for line in _judged(models, odd))]
    return "\n".join([*lines, _POLICY])


_POLICY = """\
apiVersion: samestep.dev/v1alpha1
kind: TrainingPolicy
metadata:
  name: one-model-per-job
spec:
  # Deny: pin jobs, and refuse those that cannot run. Warn: pin, and tell. Audit: change nothing, only record. Where
  # people train already, begin with Audit.
  validationActions: [Deny]
  pin:
    # Always pins also where one model is there today, for a cluster that will get others.
    when: WhenMixed
  memory:
    # What the driver keeps of the memory that a GPU reports, and what is added to a demand before it counts as tight.
    reserve: 640Mi
    headroom: 5%
    # Most jobs do not say what they need. Deny makes them.
    onUnknown: Warn
  # A job that no model has room for: Require denies, Prefer pins and warns.
  room: Require
"""


def _seen(row: ModelSummary) -> list[str]:
    memory = row.memory_mib or row.share_mib
    nodes = f"{row.nodes} node{'' if row.nodes == 1 else 's'}"
    figures = [one_line(row.model), gib(memory) if memory else "memory unknown", nodes]
    return [*figures, f"{row.devices_there} {row.resource}", *map(one_line, row.notes)]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths: dict[int, int] = defaultdict(int)
    for row in rows:
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], len(cell))
    return ["  ".join(cell.ljust(widths[column]) for column, cell in enumerate(row)).rstrip() for row in rows]


def _judged(models: Sequence[ModelSummary], odd: Sequence[ModelSummary]) -> Iterator[str]:
    by_resource: dict[str, dict[str, ModelSummary]] = defaultdict(dict)
    for row in models:
        by_resource[row.resource][row.product] = row
    for resource, found in by_resource.items():
        if len(found) == 1:
            yield f"{resource}: one model, so there is nothing to choose."
        else:
            memories = sorted(row.memory_mib or 0 for row in found.values())
            span = f"{gib(memories[0])} to {gib(memories[-1])}" if memories[0] != memories[-1] else gib(memories[0])
            yield f"{resource}: {len(found)} models, {span} a device. A job that may land on several is pinned to one."
    if odd:
        yield "Nodes of no one known model are there too: they are never chosen, and while a job may land on nodes of"
        yield "unknown model it is not denied for memory or room (unknownNodes: Deny changes that)."


def _pool(one: OfVendor, order: int) -> dict[str, Any]:
    assert one.selector is not None
    expression = {"key": one.selector.key, "operator": str(one.selector.operator)}
    if one.selector.values:
        expression["values"] = list(one.selector.values)  # type: ignore[assignment]
    spec: dict[str, Any] = {"nodeSelector": {"matchExpressions": [expression]}, "order": order}
    if one.taints:
        spec["inject"] = {"tolerations": [_toleration(taint) for taint in one.taints]}
    return {
        "apiVersion": _API_VERSION,
        "kind": "AcceleratorPool",
        "metadata": {"name": _slug(one.vendor)},
        "spec": spec,
    }


def _pools(pools: Sequence[dict[str, Any]], vendors: Sequence[OfVendor]) -> str:
    of = {_slug(one.vendor): one for one in vendors}
    texts = []
    for pool in pools:
        one = of[pool["metadata"]["name"]]
        lines = [f"# The nodes with {one.vendor} devices: {len(one.nodes)} when this was written."]
        if one.taints:
            lines.append("# Each of them was tainted: a job in this pool gets the tolerations that it lacks.")
        lines += [
            f"# Some of them were tainted {_told(taint)}: nothing tolerates that here." for taint in one.other_taints
        ]
        texts.append("\n".join([*lines, _dumped(pool)]))
    left_out = [
        f"# No label tells the nodes with {one.vendor} devices: they are in no pool.\n"
        for one in vendors
        if one.selector is None
    ]
    return "".join(left_out) + "---\n".join(texts)


def _slug(vendor: str) -> str:
    """A vendor's name as names of objects may be."""
    return re.sub("[^a-z0-9]+", "-", vendor.lower()).strip("-")


def _toleration(taint: Taint) -> dict[str, str]:
    told = {"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}
    return {"key": taint.key, **told, "effect": taint.effect}


def _told(taint: Taint) -> str:
    return one_line(f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}")


def _samples(one: OfVendor, rows: Sequence[ModelSummary], *, pooled: bool, several: bool) -> Iterator[_Sample]:
    resource = one.column.resource
    of, prefix = (f" of {resource}", f"{_slug(one.vendor)}-") if several else ("", "")
    # What the pool of a job gives it, it need not say.
    tolerations = [] if pooled and one.selector is not None else [_toleration(taint) for taint in one.taints]
    yield _Sample(f"a job of one device{of}", f"{prefix}one-device", _job("one-device", 1, resource, tolerations))
    two = _job("two-pods", 2, resource, tolerations)
    yield _Sample(f"two pods{of} that train together", f"{prefix}two-pods", two)
    memories = [row.memory_mib for row in rows if row.resource == resource and row.memory_mib is not None]
    if memories:
        large = _job("too-large", 2, resource, tolerations)
        large["metadata"]["annotations"] = {"samestep.dev/memory-per-device": f"{2 * max(memories)}Mi"}
        yield _Sample(f"two pods{of} that need twice the memory of the largest device", f"{prefix}too-large", large)


def _job(name: str, pods: int, resource: str, tolerations: list[dict[str, str]]) -> dict[str, Any]:
    limits = {resource: 1}
    command = ["torchrun", f"--nnodes={pods}", "--nproc-per-node=1", "train.py"]
    container = {
        "name": "train",
        "image": "registry.example/train:1",
        "command": command,
        "resources": {"limits": limits},
    }
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if tolerations:
        spec["tolerations"] = tolerations
    together = {"parallelism": pods, "completions": pods, "completionMode": "Indexed"} if pods > 1 else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {**together, "template": {"spec": spec}},
    }


def _case(sample: _Sample, found: Outcome) -> dict[str, Any]:
    expect: dict[str, Any] = {"verdict": str(found.verdict)}
    if found.verdict is Verdict.PIN:
        expect["models"] = [one.name for one in found.models]
    if found.decided.decision.pool_name:
        expect["pool"] = found.decided.decision.pool_name
    if found.codes:
        expect["codes"] = list(found.codes[:1])
    return {"name": sample.name, "jobs": [f"jobs/{sample.file}.yaml"], "expect": expect}


def _test(cases: Sequence[dict[str, Any]]) -> str:
    test = {
        "apiVersion": _API_VERSION,
        "kind": "PolicyTest",
        "metadata": {"name": "one-model-per-job"},
        "spec": {"fleet": ["fleet.yaml"], "cases": list(cases)},
    }
    told = (
        "# What becomes of a few jobs, as it was when samestep init wrote this. Run it: samestep test\n"
        "# Add a case for each job that must never break.\n"
    )
    return told + _dumped(test)


def _few_of_each(read: FleetRead) -> set[str]:
    """The names of a few nodes of each sort: alike in devices, labels of models, taints and state."""
    keys = {key for vendor in read.catalog.vendors for key in vendor.label_keys}
    kept: dict[str, list[str]] = defaultdict(list)
    for node in sorted(read.fleet.nodes, key=lambda one: one.name):
        kept[_sort(node, keys)].append(node.name)
    return {name for names in kept.values() for name in names[:_MOST_ALIKE]}


def _sort(node: Node, keys: set[str]) -> str:
    labels = {key: value for key, value in node.labels.items() if key in keys}
    devices = sorted({name for name in (*node.allocatable, *node.capacity) if "/" in name})
    taints = sorted(map(_told, node.taints))
    return json.dumps([labels, devices, taints, node.ready, node.unschedulable, node.deleting], sort_keys=True)


def _snapshot(objects: Sequence[dict[str, Any]], read: FleetRead) -> str:
    nodes = sum(one["kind"] == "Node" for one in objects)
    told = f"# The fleet of the tests: {nodes} of {len(read.fleet.nodes)} nodes, at most {_MOST_ALIKE} of each sort.\n"
    return told + _dumped({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def _world(fleet: Sequence[dict[str, Any]], rules: Sequence[dict[str, Any]]) -> World:
    read = read_fleet(("", one) for one in fleet)
    return World(read.fleet, Policy(), rules=_rules(rules))


def _rules(objects: Sequence[dict[str, Any]]) -> Rules:
    return rules_of(read_object(one) for one in objects)


def _dumped(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
