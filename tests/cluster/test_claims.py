"""Jobs that claim their devices (dynamic resource allocation), on the real allocator of the scheduler."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.devices import (
    DRIVER,
    PATH,
    claim_template,
    claimed_node,
    claiming,
    device_class,
    of_product,
    resource_slice,
    spoken,
)
from controlplane.nodes import RTX_5090, RTX_PRO_6000, cpu_node
from controlplane.rig import ControlPlane
from demo.serving import Webhook
from tests.cluster.conftest import await_fleet
from tests.cluster.followed import free, until
from tests.cluster.team import LARGE, PRODUCT, SMALL, Json, Team, spread_pod
from tests.samples import job, pod, pytorchjob, worker
from webhook.cluster.access import Access
from webhook.cluster.following import Following
from webhook.cluster.world import Worlds
from webhook.model.policy import Policy

pytestmark = pytest.mark.usefixtures("claimed_fleet")

CARDS = {"small-1": RTX_5090, "small-2": RTX_5090, "large-1": RTX_PRO_6000, "large-2": RTX_PRO_6000}
SEEN = {"RTX-5090": 2, "RTX-PRO-6000-Blackwell-Server": 2}


@pytest.fixture(scope="module")
def claimed_fleet(control_plane: ControlPlane, webhook: Webhook) -> Iterator[None]:
    """Two nodes each of two models, four GPUs each, which have no resource name."""
    api = control_plane.api
    api.create(f"{PATH}/deviceclasses", [device_class()])
    control_plane.add_nodes(claimed_node(name, card) for name, card in CARDS.items())
    api.create(f"{PATH}/resourceslices", (resource_slice(name, card) for name, card in CARDS.items()))
    await_fleet(control_plane, webhook, SEEN)
    yield
    control_plane.remove_nodes()
    api.delete(f"{PATH}/resourceslices")
    api.delete(f"{PATH}/deviceclasses")


def claims(template: str, memory: str) -> Json:
    """A Job of four pods that spread where nothing pins them."""
    return job(claiming(spread_pod(gpus=0), template), memory_per_device=memory)


def test_a_job_that_claims_devices_gets_them_on_one_model(team: Team) -> None:
    team.apply(claim_template("two-gpus", 2))

    done = team.apply(claims("two-gpus", "44Gi"))

    assert done.stderr == f"Warning: SST301 pinned to RTX-PRO-6000-Blackwell-Server ({PRODUCT})\n"
    assert worker(team.get("job", "ddp"))["nodeSelector"] == {PRODUCT: LARGE}
    assert team.models_of("ddp", 4) == [LARGE] * 4


def test_a_selector_that_names_a_product_leaves_its_model(team: Team) -> None:
    team.apply(claim_template("two-small", 2, of_product(spoken(RTX_5090))))

    done = team.apply(claims("two-small", "20Gi"))

    assert done.stderr == ""
    assert team.models_of("ddp", 4) == [SMALL] * 4


def test_what_the_selected_model_lacks_is_refused(team: Team) -> None:
    team.apply(claim_template("two-small", 2, of_product(spoken(RTX_5090))))

    refusal = team.refused(pytorchjob(claiming(spread_pod(gpus=0), "two-small"), memory_per_device="44Gi"))

    assert "SST201 out of memory" in refusal


def test_a_template_that_is_not_there_is_told(team: Team) -> None:
    done = team.apply(pytorchjob(claiming(spread_pod(gpus=0), "nowhere")))

    told = "Warning: SST104 the claim nowhere is not in view: the devices that it asks for were not counted"
    assert done.stderr.startswith(told)
    assert "nodeSelector" not in worker(team.get("pytorchjob", "ddp"))


def test_a_node_that_slices_alone_tell_of_comes_with_them(control_plane: ControlPlane, webhook: Webhook) -> None:
    api = control_plane.api
    control_plane.add_nodes([cpu_node("bare")])
    api.create(f"{PATH}/resourceslices", [resource_slice("bare", RTX_5090)])
    await_fleet(control_plane, webhook, SEEN | {"RTX-5090": 3})
    api.delete(f"{PATH}/resourceslices/bare-{DRIVER}")
    await_fleet(control_plane, webhook, SEEN)
    api.delete("/api/v1/nodes/bare")


def test_devices_that_are_allocated_to_claims_are_in_use(account: Path, team: Team) -> None:
    worlds = Worlds(Policy())
    following = Following(Access(account).client, worlds)

    async def follow() -> None:
        following.start()
        await until(worlds, lambda world: free(world, DRIVER) == 16)
        assert worlds.problems == {}
        await asyncio.to_thread(team.apply, claim_template("three", 3))
        bound = {"metadata": {"name": "bound"}, "spec": claiming(pod(gpus=0), "three")}
        await asyncio.to_thread(team.models_of_pods, [bound])
        await until(worlds, lambda world: free(world, DRIVER) == 13)
        await asyncio.to_thread(team.kubectl, "delete", "pod", "bound", "--grace-period=0", "--force")
        await until(worlds, lambda world: free(world, DRIVER) == 16)
        await following.stop()

    asyncio.run(follow())
