"""What ResourceClaims hold of nodes."""

from typing import Any

import pytest

from controlplane.devices import allocation
from webhook.fleet.allocated import read_claim

Json = dict[str, Any]


def claim(held: object) -> Json:
    metadata = {"name": "c", "namespace": "team-a", "uid": "u", "creationTimestamp": "1970-01-01T00:01:40Z"}
    return {"metadata": metadata, "spec": {}, "status": {"allocation": held}}


def with_results(*changes: Json) -> Json:
    """A result for each of these, of device gpu-0 but for what it changes."""
    held = allocation("a", "gpu-0")
    (result,) = held["devices"]["results"]
    return claim(held | {"devices": {"results": [result | change for change in changes]}})


def test_a_claim_takes_the_devices_of_one_node_under_their_drivers_name() -> None:
    held = read_claim(claim(allocation("a", "gpu-0", "gpu-3")))
    assert held is not None
    assert (held.uid, held.namespace, held.node, held.created) == ("u", "team-a", "a", 100)
    assert held.requests == {"gpu.nvidia.com": 2}


def test_a_device_in_two_parts_of_a_claim_counts_once() -> None:
    held = read_claim(with_results({"request": "one"}, {"request": "two"}))
    assert held is not None
    assert held.requests == {"gpu.nvidia.com": 1}


@pytest.mark.parametrize(
    "nothing",
    [
        {},
        claim(None),
        claim({"devices": {"results": [{"driver": "gpu.nvidia.com", "device": "gpu-0"}]}}),
        claim(allocation("a")),
        with_results({"driver": "dra.net"}),
        with_results({"adminAccess": True}),
        with_results({"driver": ["gpu.nvidia.com"]}),
    ],
    ids=["none", "not allocated", "not of one node", "no devices", "no accelerator", "for administration", "no name"],
)
def test_what_holds_no_accelerators_of_one_node_is_left_out(nothing: Json) -> None:
    assert read_claim(nothing) is None
