"""What of a node is remembered from one look to the next (k8s-device-plugin#731, gpu-feature-discovery#27)."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import follow
from webhook.model.fleet import DeviceColumn, Node

GPU = "nvidia.com/gpu"
A100 = {"product": "NVIDIA-A100-SXM4-80GB", "memory": "81920", "count": "4"}
DISPLAY = {"product": "NVIDIA-DGX-Display", "memory": "4096", "count": "1"}


def node(gpu: dict[str, str], *, devices: int = 4, uid: str = "u-1", boot_id: str = "b-1", **fields: Any) -> Node:  # noqa: ANN401 - fields of Node
    labels = {f"nvidia.com/gpu.{key}": value for key, value in gpu.items()}
    amounts = {GPU: devices}
    return Node("a", uid, labels, (), False, True, False, amounts, {GPU: 4}, boot_id=boot_id, **fields)


def followed(*looks: Node) -> list[Node]:
    seen = list(looks[:1])
    for _, now in pairwise(looks):
        seen.append(follow(seen[-1], now))
    return seen


def column(one: Node) -> DeviceColumn:
    return build_fleet([one]).devices[GPU]


def test_a_label_that_flips_to_the_display_card_changes_nothing_of_what_is_decided() -> None:
    looks = followed(node(A100), node(DISPLAY), node(DISPLAY), node(A100), node(DISPLAY))
    assert {(tuple(column(one).models), column(one).memory.value(0)) for one in looks} == {
        (tuple(column(node(A100)).models), 81920)
    }


def test_a_display_card_seen_first_is_unknown_until_the_label_names_the_rest() -> None:
    first, second, third = followed(node(DISPLAY), node(A100), node(DISPLAY))
    assert column(first).unknown == 1
    assert column(second).models.keys() == column(third).models.keys()


def test_what_a_label_said_is_kept_only_if_it_counted_what_was_allocatable() -> None:
    one_failed = node(A100, devices=3)
    assert follow(one_failed, node(DISPLAY, devices=3)).last_product == ""
    assert [one.last_product for one in followed(node(A100), one_failed, node(DISPLAY, devices=3))] == [
        "",
        "NVIDIA-A100-SXM4-80GB",
        "NVIDIA-A100-SXM4-80GB",
    ]


def test_nothing_is_kept_while_the_label_names_what_is_there() -> None:
    now = node(A100, boot_id="b-1")
    assert follow(node(DISPLAY), now) is now


def test_another_product_without_another_boot_is_a_second_model() -> None:
    a30 = node({"product": "NVIDIA-A30", "memory": "24576"})
    _, second, third = followed(node(A100), a30, a30)
    assert (second.second_product, third.second_product) == ("NVIDIA-A100-SXM4-80GB",) * 2
    assert column(third).two_models == 1


def test_another_product_after_a_boot_is_another_card() -> None:
    a30 = {"product": "NVIDIA-A30"}
    assert follow(node(A100), node(a30, boot_id="b-2")).second_product == ""
    flipped = follow(node(A100), node(a30))
    assert follow(flipped, node(a30, boot_id="b-2")).second_product == ""


def test_without_a_boot_id_nothing_can_be_said() -> None:
    assert follow(node(A100, boot_id=""), node({"product": "NVIDIA-A30"}, boot_id="")).second_product == ""


def test_another_spelling_a_slice_or_a_half_set_label_is_no_other_product() -> None:
    for product in ("A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "NVIDIA-A100-SXM4-80GB-MIG-INVALID", ""):
        assert follow(node(A100), node({"product": product})).second_product == "", product


def test_a_node_of_another_uid_is_another_node() -> None:
    now = node(DISPLAY, uid="u-2")
    assert follow(node(A100), now) is now


def test_the_same_look_twice_gives_an_equal_node() -> None:
    for one in (node(A100), node(DISPLAY), node({}), node({"product": "NVIDIA-A30"})):
        once = follow(node(A100), one)
        assert follow(once, one) == once


def test_a_label_that_goes_and_comes_back_loses_nothing() -> None:
    looks = followed(node(A100), node({}), node({}), node(DISPLAY))
    assert [one.last_product for one in looks] == ["", *["NVIDIA-A100-SXM4-80GB"] * 3]


def test_what_changes_besides_is_taken_over() -> None:
    now = replace(node(DISPLAY), ready=False, unschedulable=True)
    after = follow(node(A100), now)
    assert (after.ready, after.unschedulable, after.labels) == (False, True, now.labels)
