"""Which requests the API server sends to the webhook at all, by the match conditions of its configurations."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.api import ApiError
from controlplane.rig import ControlPlane
from demo.serving import ROOT, Webhook
from demo.submission import Submitter
from tests.cluster.team import Json, Sample
from tests.samples import ask, job, pytorchjob

pytestmark = pytest.mark.usefixtures("seed_fleet")

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.fixture(scope="module", autouse=True)
def no_condition_ever_fails(control_plane: ControlPlane, webhook: Webhook) -> Iterator[None]:
    """Whatever the tests of this module send."""
    yield
    samples = [line.rpartition(" ") for line in metrics(control_plane) if "samestep.dev" in line]
    told = "apiserver_admission_match_condition_evaluation"
    evaluated = [float(count) for name, _, count in samples if name.startswith(f"{told}_seconds_count")]
    failed = [float(count) for name, _, count in samples if name.startswith(f"{told}_errors_total")]
    assert sum(evaluated) > 100
    assert sum(failed) == 0


def metrics(control_plane: ControlPlane) -> list[str]:
    return control_plane.kubectl("get", "--raw", "/metrics").stdout.splitlines()


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


@pytest.mark.parametrize("sample", [job, pytorchjob])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=pod_specs)
def test_whoever_asks_for_a_device_comes_here_and_nobody_else(
    control_plane: ControlPlane, webhook: Webhook, sample: Sample, spec: Json
) -> None:
    obj: Json = sample({"restartPolicy": "Never", **spec})
    obj["metadata"]["namespace"] = "default"
    api, plural = obj["apiVersion"], f"{obj['kind'].lower()}s"
    before = webhook.calls("pin")
    with suppress(ApiError):  # an object that is invalid is refused after we were asked
        control_plane.api.request("POST", f"/apis/{api}/namespaces/default/{plural}?dryRun=All", obj)
    came = webhook.calls("pin") > before

    read = ask(obj).job
    if read is not None and read.device_roles:
        assert came
    if not asked_for(spec) & set(DEVICES):
        assert not came


def asked_for(spec: Json) -> set[str]:
    """The resources that any container names."""
    every = spec["containers"] + (spec.get("initContainers") or [])
    parts = [(one.get("resources") or {}).get(part) or {} for one in every for part in ("limits", "requests")]
    return {name for part in parts for name in part}
