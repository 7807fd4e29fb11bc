"""One job, written as every kind: the same devices, the same batch, the same coupling."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kinds import WRITTEN, appwrapper, cronjob, job
from tests.properties.strategies import COMMANDS, pods_of
from webhook.catalog.workloads import workloads
from webhook.intake.read import Outside, Wrapper, read_job
from webhook.model.job import Coupling, TrainingJob
from webhook.model.request import Kind, User

Json = dict[str, Any]

SPANNING = [command for command in COMMANDS if "--nnodes={pods}" in " ".join(command)]
SEVERAL = st.integers(2, 9)


def read(obj: Json) -> TrainingJob | Wrapper | Outside:
    group, _, version = obj["apiVersion"].rpartition("/")
    return read_job(obj, kind=Kind(group, version, obj["kind"]), namespace="team-a", user=User("person"))


def every_way(pod: Json, pods: int) -> dict[str, TrainingJob]:
    found = {}
    for name, write in WRITTEN.items():
        before = write(deepcopy(pod), pods)
        one = read(deepcopy(before))
        assert isinstance(one, TrainingJob), (name, one)
        found[name] = one
    return found


def devices(one: TrainingJob) -> tuple[object, ...]:
    """What is asked for in all and by each pod, at once, at the least, and over the whole life."""
    roles = one.device_roles
    each = {(role.device, role.devices, tuple(sorted(role.requests.items())), role.placement) for role in roles}
    return each, sum(role.pods for role in roles), sum(role.gang for role in roles), sum(role.runs for role in roles)


def batch(one: TrainingJob) -> tuple[object, ...]:
    micro, accumulation, total = one.batch.micro, one.batch.accumulation, one.batch.total
    return tuple((seen.value, seen.name, seen.certain) if seen else None for seen in (micro, accumulation, total))


def test_every_kind_that_holds_pods_is_written() -> None:
    written = {(obj["apiVersion"], obj["kind"]) for obj in (write({"containers": []}, 2) for write in WRITTEN.values())}
    known = {
        (Kind(one.group, one.versions[0], one.kind).api_version, one.kind) for one in workloads().reviewed if one.roles
    }
    assert written == known


@given(st.data(), SEVERAL)
def test_a_job_with_a_launcher_reads_the_same_in_every_kind(data: st.DataObject, pods: int) -> None:
    pod = data.draw(pods_of(pods, data.draw(st.sampled_from(SPANNING))))
    ways = every_way(pod, pods)
    first = ways["Job"]
    for name, one in ways.items():
        assert (devices(one), batch(one), one.told and one.told.trainer) == (
            devices(first),
            batch(first),
            first.told and first.told.trainer,
        ), name
        assert one.coupling is first.coupling, name


@given(st.data(), SEVERAL)
def test_without_a_launcher_only_the_coupling_is_the_kinds_own(data: st.DataObject, pods: int) -> None:
    pod = data.draw(pods_of(pods, data.draw(st.sampled_from(COMMANDS))))
    ways = every_way(pod, pods)
    first = ways["Job"]
    for name, one in ways.items():
        assert (devices(one), batch(one)) == (devices(first), batch(first)), name


@given(st.data())
def test_one_pod_is_one_node_in_every_kind(data: st.DataObject) -> None:
    pod = data.draw(pods_of(1, data.draw(st.sampled_from(COMMANDS))))
    ways = every_way(pod, 1)
    first = ways["Job"]
    assert first.coupling in (Coupling.SINGLE, Coupling.ONE_NODE)
    for name, one in ways.items():
        assert (devices(one), batch(one), one.coupling) == (devices(first), batch(first), first.coupling), name


@pytest.mark.parametrize("name", WRITTEN)
@given(st.data(), SEVERAL)
def test_a_wrapper_holds_the_job_as_it_is(name: str, data: st.DataObject, pods: int) -> None:
    inner = WRITTEN[name](data.draw(pods_of(pods, data.draw(st.sampled_from(COMMANDS)))), pods)
    wrapper = read(appwrapper(inner))
    assert isinstance(wrapper, Wrapper)
    (held,) = wrapper.held
    assert held.kind.api_version == inner["apiVersion"]
    assert held.object == inner
    step = {"name": "train", "resource": {"action": "create", "manifest": json.dumps(inner)}}
    flow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {"templates": [step]}}
    wrapper = read(flow)
    assert isinstance(wrapper, Wrapper)
    assert [one.object for one in wrapper.held] == [inner]


@given(st.data(), SEVERAL)
def test_a_cron_job_holds_the_job_that_it_will_make(data: st.DataObject, pods: int) -> None:
    inner = job(data.draw(pods_of(pods, data.draw(st.sampled_from(COMMANDS)))), pods)
    wrapper = read(cronjob(inner))
    assert isinstance(wrapper, Wrapper)
    (held,) = wrapper.held
    assert (held.kind.kind, held.object["spec"]) == ("Job", inner["spec"])
