"""What is free now has a part in the choice, and in nothing else."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controlplane.nodes import RTX_5090, RTX_PRO_6000
from tests.samples import Json, codes, nodes, pod, products, pytorchjob
from webhook.answer.document import document
from webhook.answer.warnings import warnings
from webhook.decision.choice import choose
from webhook.fleet.build import Used, build_fleet
from webhook.fleet.nodes import read_node
from webhook.model.demand import Demand, DemandSource
from webhook.model.fleet import Model
from webhook.model.pods import Promise, Queued
from webhook.model.policy import PinWhen, Policy, RoomRule, Strategy
from webhook.model.request import Kind, Request
from webhook.model.verdict import Candidate, Review, Verdict
from webhook.model.world import World
from webhook.review import review

GPU = "nvidia.com/gpu"
SMALL, LARGE = RTX_5090.product, RTX_PRO_6000.product
# Three nodes of the small card and two of the large one, four GPUs each.
FLEET = nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4))
NAMES = {
    product: [one["metadata"]["name"] for one in FLEET if one["metadata"]["labels"][f"{GPU}.product"] == product]
    for product in (SMALL, LARGE)
}


def busy(product: str, *devices: int) -> dict[str, Mapping[str, int]]:
    """So many devices are in use on each node of this model."""
    return {name: {GPU: used, "pods": 1} for name, used in zip(NAMES[product], devices, strict=False) if used}


def ask(
    obj: Json,
    used: Used | None,
    *,
    objects: list[Json] | None = None,
    policy: Policy | None = None,
    promises: tuple[Promise, ...] = (),
    queued: Queued | None = None,
) -> Review:
    read = (read_node(one) for one in objects or FLEET)
    fleet = build_fleet((one for one in read if one is not None), used=used)
    request = Request(Kind("kubeflow.org", "v1", "PyTorchJob"), "CREATE", obj, namespace="team-a", now=1000.0)
    return review(request, World(fleet, policy or Policy(), promises=promises, queued=queued or {}))


JOB = pytorchjob(memory_per_device="20Gi")
"""Eight GPUs in four pods, that fit both models."""


def test_most_free_is_most_devices_free_now() -> None:
    assert products(ask(JOB, {})) == [SMALL]
    assert products(ask(JOB, busy(SMALL, 0, 4, 0))) == [SMALL]
    assert products(ask(JOB, busy(SMALL, 2, 4, 0))) == [LARGE]


def test_a_model_on_which_the_whole_gang_fits_now_comes_before_one_with_more_free_devices() -> None:
    # Nine devices are free, but in pieces: no more than three pods of two fit.
    pieces = nodes((RTX_5090, 3, 4), (RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4))
    for index, one in enumerate(pieces[:6]):
        one["metadata"]["name"] = f"small-{index}"
    used = {f"small-{index}": {GPU: 3 if index < 3 else 2, "pods": 1} for index in range(6)}
    assert products(ask(JOB, used, objects=pieces)) == [LARGE]


def test_where_the_gang_fits_nowhere_now_the_most_free_devices_count() -> None:
    assert products(ask(JOB, busy(SMALL, 4, 4, 1) | busy(LARGE, 4, 2))) == [SMALL]


def test_nothing_is_denied_for_what_is_in_use() -> None:
    outcome = ask(JOB, busy(SMALL, 4, 4, 4) | busy(LARGE, 4, 4))
    assert outcome.verdict is Verdict.PIN
    assert "SST401" not in codes(outcome)


def test_host_memory_and_places_for_pods_are_in_use_too() -> None:
    full = {name: {"pods": 110} for name in NAMES[SMALL]}
    assert products(ask(JOB, full)) == [LARGE]
    spec = pod(gpus=2)
    spec["containers"][0]["resources"]["requests"] = {"memory": "100Gi"}
    hungry = pytorchjob(spec, memory_per_device="20Gi")
    taken = {name: {"memory": 400 << 30} for name in NAMES[SMALL]}
    assert products(ask(hungry, taken)) == [LARGE]
    assert products(ask(hungry, {})) == [SMALL]


def test_cordoned_nodes_have_nothing_free() -> None:
    cordoned = nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4))
    for one in cordoned[:2]:
        one["spec"]["unschedulable"] = True
    outcome = ask(JOB, {}, objects=cordoned)
    assert products(outcome) == [LARGE]
    small = next(one for one in outcome.decision.pool.candidates if one.model.product == SMALL)
    assert (small.devices, small.devices_now, small.waits) == (12, 4, True)


def test_unknown_memory_goes_to_the_larger_card_where_it_has_room_now() -> None:
    unknown = pytorchjob()
    assert products(ask(unknown, {})) == [LARGE]
    assert products(ask(unknown, busy(LARGE, 4, 0))) == [SMALL]
    # None has room now: most that is left.
    assert products(ask(unknown, busy(LARGE, 1, 0) | busy(SMALL, 4, 4, 4))) == [LARGE]


@pytest.mark.parametrize("obj", [JOB, pytorchjob()], ids=["declared", "unknown"])
def test_where_the_gang_fits_nowhere_now_the_shorter_queue_is_taken(obj: Json) -> None:
    full = busy(SMALL, 4, 4, 4) | busy(LARGE, 4, 4)
    label = f"{GPU}.product"
    for queued, model in (((0, 0), SMALL), ((8, 0), LARGE), ((8, 16), SMALL), ((16, 8), LARGE)):
        waiting = {(GPU, label, SMALL): queued[0], (GPU, label, LARGE): queued[1]}
        assert products(ask(obj, full, queued=waiting)) == [model]


def test_what_is_free_is_less_by_the_queue_for_it() -> None:
    # Four devices of the small card are free, and eight are waited for: the large one has only two, and no queue.
    used = busy(SMALL, 4, 4, 0) | busy(LARGE, 4, 2)
    waiting: Queued = {(GPU, f"{GPU}.product", SMALL): 8}
    assert products(ask(JOB, used)) == [SMALL]
    assert products(ask(JOB, used, queued=waiting)) == [LARGE]
    # Five that are waited for leave less than none.
    one_less: Queued = {(GPU, f"{GPU}.product", SMALL): 5}
    assert products(ask(JOB, used, queued=one_less)) == [LARGE]


def test_pods_that_wait_for_what_nobody_has_are_in_nobodys_way() -> None:
    full = busy(SMALL, 4, 4, 4) | busy(LARGE, 4, 4)
    label = f"{GPU}.product"
    strange: Queued = {(GPU, "no-such-label", SMALL): 80, ("no/device", label, SMALL): 80, (GPU, label, "x"): 80}
    assert products(ask(JOB, full, queued=strange)) == [SMALL]


def test_a_queue_for_pods_that_do_not_fit_keeps_nobody_from_what_is_free() -> None:
    # The scheduler has passed over these pods; a job that fits goes before them.
    waiting: Queued = {(GPU, f"{GPU}.product", SMALL): 80}
    assert products(ask(JOB, busy(LARGE, 4, 4), queued=waiting)) == [SMALL]


def test_a_strategy_of_the_policy_chooses_among_those_that_fit_now() -> None:
    largest = Policy(strategy=Strategy.LARGEST)
    assert products(ask(JOB, {}, policy=largest)) == [LARGE]
    assert products(ask(JOB, busy(LARGE, 4, 0), policy=largest)) == [SMALL]


def test_a_policy_that_ignores_room_does_not_rank_by_it() -> None:
    ignoring = Policy(strategy=Strategy.LARGEST, room=RoomRule.IGNORE)
    assert products(ask(JOB, busy(LARGE, 4, 4), policy=ignoring)) == [LARGE]


def promised(product: str, pods: int = 1, *, given_at: float = 990.0, job: str = "other") -> tuple[Promise, ...]:
    return (Promise(given_at, "team-a", job, (product,), GPU, 4, pods),)


def test_what_is_promised_is_not_free() -> None:
    assert products(ask(JOB, {}, promises=promised(SMALL))) == [SMALL]
    assert products(ask(JOB, {}, promises=promised(SMALL, 2))) == [LARGE]
    outcome = ask(JOB, {}, promises=promised(SMALL, 2))
    assert {one.devices_now for one in outcome.decision.pool.candidates} == {4, 8}


def test_what_is_promised_of_models_that_count_as_one_is_free_of_none_of_them() -> None:
    """Which of them it will be is not known: two jobs would wait for the same devices otherwise."""
    either = (replace(promised(SMALL, 2)[0], products=(LARGE, SMALL)),)
    outcome = ask(JOB, {}, promises=either)
    assert {one.devices_now for one in outcome.decision.pool.candidates} == {4, 0}
    together = ask(JOB, {}, promises=either, policy=Policy(classes=((SMALL, LARGE),)))
    assert [one.devices_now for one in together.decision.pool.candidates] == [12]
    # Of two promises to a class each counts once.
    twice = (*promised(SMALL), *promised(LARGE), *either)
    together = ask(JOB, {}, promises=twice, policy=Policy(classes=((SMALL, LARGE),)))
    assert [one.devices_now for one in together.decision.pool.candidates] == [4]


def test_no_room_now_is_told_of_the_model_that_was_chosen() -> None:
    full = busy(SMALL, 4, 4, 1) | busy(LARGE, 4, 4)
    outcome = ask(JOB, full)
    assert products(outcome) == [SMALL]
    assert (
        warnings(outcome)[1]
        == "SST402 no room now for 8 GPUs (4 pods with 2 each): RTX-5090 has 3 of 12 free; it waits"
    )
    assert "SST402" not in codes(ask(JOB, busy(SMALL, 4, 4, 4)))
    assert "SST402" not in codes(ask(JOB, None))


def test_devices_that_are_free_in_pieces_are_no_room() -> None:
    pieces = busy(SMALL, 1, 1, 1) | busy(LARGE, 4, 4)
    outcome = ask(pytorchjob(pod(gpus=4), workers=2, memory_per_device="20Gi"), pieces)
    told = "SST402 no room now for 8 GPUs (2 pods with 4 each): RTX-5090 has 9 free, but apart; it waits"
    assert warnings(outcome)[1] == told


def test_no_room_now_is_told_also_where_one_model_is_there() -> None:
    outcome = ask(JOB, busy(LARGE, 4, 0), objects=FLEET[3:])
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST402"])


@pytest.mark.parametrize(
    ("changes", "policy"),
    [({"suspend": True}, Policy()), ({}, Policy(room=RoomRule.IGNORE))],
    ids=["held back by a queue", "room is ignored"],
)
def test_no_room_now_is_no_news_where_nothing_waits_for_it(changes: Json, policy: Policy) -> None:
    obj = pytorchjob(memory_per_device="20Gi")
    obj["spec"]["runPolicy"] = changes
    assert "SST402" not in codes(ask(obj, busy(SMALL, 4, 4, 4) | busy(LARGE, 4, 4), policy=policy))


def test_a_mix_on_purpose_has_the_room_of_all_its_models_now() -> None:
    mixing = Policy(pin_when=PinWhen.NEVER)
    assert "SST402" not in codes(ask(JOB, busy(SMALL, 4, 4) | busy(LARGE, 4), policy=mixing))
    assert "SST402" in codes(ask(JOB, busy(SMALL, 4, 4, 1) | busy(LARGE, 4), policy=mixing))


def test_a_promise_is_over_after_a_minute() -> None:
    assert products(ask(JOB, {}, promises=promised(SMALL, 2, given_at=940.0))) == [LARGE]
    assert products(ask(JOB, {}, promises=promised(SMALL, 2, given_at=939.0))) == [SMALL]


def test_what_was_promised_to_the_same_job_is_its_own() -> None:
    """It was refused after us, and is created again."""
    assert products(ask(JOB, {}, promises=promised(SMALL, 2, job="ddp"))) == [SMALL]


def test_the_figure_is_told_where_it_is_known() -> None:
    unseen, seen = ask(JOB, None), ask(JOB, busy(SMALL, 1))
    assert warnings(unseen)[0].endswith("; what is free now was not looked at")
    assert warnings(seen)[0].endswith("; free now: 11 of its 12 GPUs")
    figures = {one["model"]: one["devicesNow"] for one in document(seen, "")["pool"]["candidates"]}
    assert figures == {SMALL: 11, LARGE: 8}
    assert {one["devicesNow"] for one in document(unseen, "")["pool"]["candidates"]} == {None}


@pytest.mark.parametrize("grouped", [True, False])
def test_the_choice_for_one_of_several_pods_rests_on_nothing_that_a_moment_changes(grouped: bool) -> None:
    known = Demand(20_000, 20_000, 20_000, DemandSource.DECLARED)
    small = Candidate(Model(SMALL, "small", "NVIDIA"), 3, 32_000, 31_000, devices=12, devices_now=0, waits=True)
    large = Candidate(Model(LARGE, "large", "NVIDIA"), 2, 97_000, 96_000, devices=8, devices_now=8)
    policy = Policy(strategy=Strategy.LARGEST)
    chosen = choose((large, small), known, policy, lambda _: False, grouped=grouped)
    assert chosen is (small if grouped else large)
    tight = choose((large, replace(small, risk=True)), known, policy, lambda _: False, grouped=grouped)
    assert tight is large
