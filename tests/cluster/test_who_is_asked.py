"""Which requests the API server sends to the webhook at all, by the match conditions of its configurations."""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.api import ApiError
from controlplane.rig import ControlPlane
from demo.serving import ROOT, Webhook
from demo.submission import Submitter
from tests.cluster.kinds import JOBS, WRAPPERS, Manifest, asks, installed
from tests.cluster.kinds import pod_specs as pods_of
from tests.cluster.team import Json
from tests.samples import ask

pytestmark = pytest.mark.usefixtures("seed_fleet")

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.fixture(scope="module", autouse=True)
def no_condition_ever_fails(control_plane: ControlPlane, webhook: Webhook) -> Iterator[None]:
    """Whatever the tests of this module send."""
    before = failures(control_plane)
    yield
    assert evaluations(control_plane, "seconds_count") > 100
    assert failures(control_plane) == before


def failures(control_plane: ControlPlane) -> float:
    """How often a condition of ours has ended in an error."""
    return evaluations(control_plane, "errors_total")


def evaluations(control_plane: ControlPlane, counter: str) -> float:
    name = f"apiserver_admission_match_condition_evaluation_{counter}"
    lines = control_plane.kubectl("get", "--raw", "/metrics").stdout.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name) and "samestep.dev" in line)


@pytest.fixture(scope="module")
def team_a(control_plane: ControlPlane) -> Iterator[None]:
    """The namespace of the examples."""
    control_plane.create_namespace("team-a")
    yield
    control_plane.delete_namespace("team-a")


@pytest.mark.usefixtures("team_a")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_kubectl_prints_what_the_demo_prints_for_each_example(
    control_plane: ControlPlane, webhook: Webhook, path: Path
) -> None:
    submitter = Submitter(webhook)
    submissions = [submitter.create(obj) for obj in yaml.safe_load_all(path.read_text())]

    done = control_plane.kubectl("apply", "-f", path, check=False)

    assert done.stderr + done.stdout == "".join(f"{line}\n" for one in submissions for line in one.output(str(path)))
    again = control_plane.kubectl("apply", "-f", path, check=False)
    assert done.returncode or all(line.endswith(" unchanged") for line in again.stdout.splitlines())


DEVICES = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared")
OTHERS = ("cpu", "memory", "example.com/fpga", "nvidia.com/gpu.memory")
amounts = st.none() | st.dictionaries(st.sampled_from(DEVICES + OTHERS), st.sampled_from(["1", "2"]), max_size=2)
resources = st.none() | st.fixed_dictionaries({}, optional={"limits": amounts, "requests": amounts})
containers = st.lists(
    st.fixed_dictionaries({"name": st.just("a"), "image": st.just("a")}, optional={"resources": resources}), max_size=2
)
pod_specs = st.fixed_dictionaries({"containers": containers}, optional={"initContainers": st.none() | containers})


@pytest.fixture(scope="module", params=JOBS, ids=lambda one: one.stem)
def kind(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Manifest:
    """A kind of job, which is served."""
    return installed(control_plane, request.param)


def comes(control_plane: ControlPlane, webhook: Webhook, kind: Manifest, obj: Json) -> bool:
    """Whether we are asked when it is created. An object that is invalid is refused after we were asked."""
    before = webhook.calls("pin")
    with suppress(ApiError):
        control_plane.api.request("POST", f"{kind.collection}?dryRun=All", obj)
    return webhook.calls("pin") > before


def has_devices(obj: Json) -> bool:
    """Whether intake finds any."""
    read = ask(obj).job
    return read is not None and bool(read.device_roles)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=pod_specs)
def test_whoever_asks_for_a_device_comes_here_and_nobody_else(
    control_plane: ControlPlane, webhook: Webhook, kind: Manifest, spec: Json
) -> None:
    obj = kind.named("asking")
    for asking in [one for one in pods_of(obj) if asks(one)]:
        asking.clear()
        asking |= {"restartPolicy": "Never", **spec}
    came = comes(control_plane, webhook, kind, obj)

    if has_devices(obj):
        assert came
    if not asked_for(spec) & set(DEVICES):
        assert not came


def test_no_condition_fails_on_a_null_wherever_it_stands(
    control_plane: ControlPlane, webhook: Webhook, kind: Manifest
) -> None:
    before = failures(control_plane)
    for path in places(kind.source["spec"]):
        obj = kind.named("with-a-null")
        *parents, last = path
        reduce(getitem, parents, obj["spec"])[last] = None
        assert comes(control_plane, webhook, kind, obj) or not has_devices(obj), path
    assert failures(control_plane) == before


def places(value: object) -> Iterator[tuple[Any, ...]]:
    """Where any map or list stands in it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        if isinstance(one, dict | list):
            yield (key,)
        yield from ((key, *path) for path in places(one))


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda one: one.stem)
def test_a_wrapper_comes_whatever_it_holds(control_plane: ControlPlane, webhook: Webhook, wrapper: Manifest) -> None:
    assert comes(control_plane, webhook, installed(control_plane, wrapper), wrapper.named("wrapper"))


def test_conditions_are_within_their_budget_for_an_object_of_many_containers(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    """Devices stand in the last of 1,200 containers, and an update compares two such objects. Seen to hold for 4,800
    containers, which is as much as etcd takes."""
    [kind] = (one for one in JOBS if one.stem == "jobset")
    large = installed(control_plane, kind).named("large")
    *_, ranks = large["spec"]["replicatedJobs"]
    large["spec"]["replicatedJobs"] = [deepcopy(ranks) | {"name": f"ranks-{index}"} for index in range(60)]
    limits = {"cpu": "1", "memory": "1Gi", "example.com/rdma": "1"}
    for spec in pods_of(large):
        [rank] = spec["containers"]
        others = [{"name": f"other-{index}", "image": "any", "resources": {"limits": limits}} for index in range(20)]
        spec["containers"] = others
    spec["containers"].append(rank)
    before, failed = webhook.calls("pin"), failures(control_plane)

    stored = control_plane.api.request("POST", kind.collection, large)
    stored["spec"]["suspend"] = True
    control_plane.api.request("PUT", f"{kind.collection}/large", stored)

    control_plane.api.delete(f"{kind.collection}/large")
    assert (webhook.calls("pin") - before, failures(control_plane) - failed) == (2, 0)


def asked_for(spec: Json) -> set[str]:
    """The resources that any container names."""
    every = spec["containers"] + (spec.get("initContainers") or [])
    parts = [(one.get("resources") or {}).get(part) or {} for one in every for part in ("limits", "requests")]
    return {name for part in parts for name in part}
