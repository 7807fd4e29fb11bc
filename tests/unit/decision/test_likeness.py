"""Models that count as one: which they are, and what comes of it in every gate, strategy and coupling."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations

import pytest

from controlplane.nodes import A100_80GB, H100, RTX_5090, RTX_PRO_6000, Card
from tests.samples import Json, ask, codes, job, nodes, patched, pod, products, pytorchjob, worker
from webhook.answer.document import document
from webhook.answer.warnings import warnings
from webhook.decision.likeness import Member, joined
from webhook.model.fleet import Model
from webhook.model.policy import Likeness, PinWhen, Policy, RoomRule, Strategy
from webhook.model.request import Stage
from webhook.model.verdict import Verdict

PRODUCT = "nvidia.com/gpu.product"
A100_PCIE = Card("NVIDIA-A100-80GB-PCIe", 81_920, "ampere", (8, 0))
A100_40GB = Card("NVIDIA-A100-SXM4-40GB", 40_960, "ampere", (8, 0))
BOTH = [A100_PCIE.product, A100_80GB.product]
EQUIVALENT = Policy(likeness=Likeness.EQUIVALENT)
NAMED = Policy(classes=(("A100-SXM4-80GB", "nvidia-a100-80gb-pcie"),))
TWO_A100 = nodes((A100_80GB, 2, 4), (A100_PCIE, 2, 4))


def model(name: str, *, bf16: float | None = 100, bandwidth: float | None = 1000, vendor: str = "NVIDIA") -> Model:
    return Model(name, name, vendor, None, bf16, bandwidth)


def groups(members: Iterable[tuple[Model, int]], policy: Policy = EQUIVALENT) -> list[list[str]]:
    found = joined(tuple(Member(*one) for one in members), policy)
    return [[one.product for one in group] for group in found]


A = model("a")


@pytest.mark.parametrize(
    ("other", "memory_mib", "alike"),
    [
        (model("b"), 10_000, True),
        (model("b"), 10_200, True),
        (model("b"), 10_201, False),
        (model("b", bf16=90), 10_000, True),
        (model("b", bf16=89), 10_000, False),
        (model("b", bf16=112), 10_000, False),
        (model("b", bandwidth=900), 10_000, True),
        (model("b", bandwidth=899), 10_000, False),
        (model("b", bf16=None), 10_000, False),
        (model("b", bandwidth=None), 10_000, False),
        (model("b", vendor="AMD"), 10_000, False),
    ],
)
def test_two_models_are_equivalent_within_every_tolerance_and_only_where_all_is_known(
    other: Model, memory_mib: int, alike: bool
) -> None:
    assert groups([(A, 10_000), (other, memory_mib)]) == ([["a", "b"]] if alike else [["a"], ["b"]])
    assert groups([(A, 10_000), (other, memory_mib)], Policy()) == [["a"], ["b"]]


def test_a_policy_sets_how_far_apart_they_may_be() -> None:
    pair = [(A, 10_000), (model("b", bf16=70, bandwidth=600), 10_000)]
    loose = replace(EQUIVALENT, compute_tolerance_percent=30, bandwidth_tolerance_percent=40)
    assert groups(pair, loose) == [["a", "b"]]
    assert groups(pair, replace(loose, compute_tolerance_percent=29)) == [["a"], ["b"]]
    assert groups(pair, replace(loose, bandwidth_tolerance_percent=39)) == [["a"], ["b"]]


def test_every_pair_of_a_group_is_equivalent_not_only_neighbours() -> None:
    chain = [(model("a", bf16=100), 10_000), (model("b", bf16=93), 10_000), (model("c", bf16=86), 10_000)]
    assert groups(chain) == [["a", "b"], ["c"]]


def test_a_class_that_the_policy_names_holds_whatever_is_known_of_its_models() -> None:
    strangers = [(A, 10_000), (model("b", bf16=None), 90_000), (model("c", vendor="AMD"), 20_000)]
    assert groups(strangers, Policy(classes=(("c", "A", "not-there"),))) == [["a", "c"], ["b"]]


def test_of_two_classes_that_name_a_model_the_first_has_it() -> None:
    members = [(model(name), 10_000 * place) for place, name in enumerate("abc", 1)]
    assert groups(members, Policy(classes=(("b", "a"), ("b", "c")))) == [["a", "b"], ["c"]]


def test_an_equivalent_model_joins_a_named_class_only_where_it_is_equivalent_to_all_of_it() -> None:
    members = [(model("a"), 10_000), (model("b"), 10_000), (model("c"), 40_000)]
    assert groups(members, replace(EQUIVALENT, classes=(("a", "c"),))) == [["a", "c"], ["b"]]
    assert groups(members[:2], replace(EQUIVALENT, classes=(("a", "c"),))) == [["a", "b"]]


@pytest.mark.parametrize("name", [A100_80GB.product, "A100-SXM4-80GB", "nvidia-a100-sxm4-80gb", "A100 SXM4 80GB"])
def test_a_class_names_models_by_product_or_by_what_messages_call_them_in_any_spelling(name: str) -> None:
    outcome = ask(pytorchjob(), TWO_A100, policy=Policy(classes=((name, A100_PCIE.product),)))
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, BOTH)


@pytest.mark.parametrize("policy", [EQUIVALENT, NAMED])
def test_a_job_is_pinned_to_all_models_of_its_candidate(policy: Policy) -> None:
    known = [*TWO_A100, *nodes((RTX_5090, 2, 4))]
    outcome = ask(pytorchjob(memory_per_device="44Gi"), known, policy=policy)
    assert (outcome.verdict, products(outcome)) == (Verdict.PIN, BOTH)
    required = worker(patched(outcome))["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (requirement,) = required["nodeSelectorTerms"][0]["matchExpressions"]
    assert requirement == {"key": PRODUCT, "operator": "In", "values": BOTH}
    assert warnings(outcome)[0].startswith("SST301 pinned to A100-80GB-PCIe + A100-SXM4-80GB (nvidia.com/gpu.product)")


def test_a_key_with_one_value_for_the_whole_class_pins_by_that() -> None:
    known = [*nodes((A100_80GB, 2, 4), (A100_PCIE, 2, 4), (RTX_5090, 2, 4))]
    for one in known:
        labels = one["metadata"]["labels"]
        labels["gpu-class"] = "a100" if "A100" in labels[PRODUCT] else "other"
    outcome = ask(pytorchjob(memory_per_device="44Gi"), known, policy=replace(NAMED, pin_keys=("gpu-class",)))
    assert worker(patched(outcome))["nodeSelector"] == {"gpu-class": "a100"}
    assert products(outcome) == BOTH


def test_a_pool_of_one_class_is_left_alone_and_pinned_where_policy_pins_always() -> None:
    outcome = ask(pytorchjob(), TWO_A100, policy=NAMED)
    assert (outcome.verdict, codes(outcome), products(outcome)) == (Verdict.ADMIT, [], BOTH)
    always = ask(pytorchjob(), TWO_A100, policy=replace(NAMED, pin_when=PinWhen.ALWAYS))
    assert (always.verdict, products(always)) == (Verdict.PIN, BOTH)


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("policy", [EQUIVALENT, NAMED, replace(NAMED, pin_when=PinWhen.ALWAYS)])
def test_what_was_pinned_to_a_class_passes_every_stage_again(policy: Policy, stage: Stage) -> None:
    known = [*TWO_A100, *nodes((RTX_5090, 2, 4))]
    stored = patched(ask(pytorchjob(memory_per_device="44Gi"), known, policy=policy))
    again = ask(stored, known, policy=policy, stage=stage)
    assert (again.verdict, patched(again)) == (Verdict.ADMIT, stored)
    assert ask(stored, known, old=stored, policy=policy, stage=stage).verdict is Verdict.ADMIT


def test_the_room_of_a_class_is_that_of_all_its_nodes() -> None:
    wide = pytorchjob(pod(gpus=4), workers=4)
    assert ask(wide, TWO_A100, policy=NAMED).verdict is Verdict.ADMIT
    assert codes(ask(wide, TWO_A100)) == ["SST401"]
    wider = ask(pytorchjob(pod(gpus=4), workers=5), TWO_A100, policy=NAMED)
    (candidate,) = wider.decision.pool.candidates
    assert (wider.verdict, candidate.devices, candidate.nodes, candidate.pods) == (Verdict.DENY, 16, 4, 4)


def test_the_memory_of_a_class_is_the_least_of_its_models() -> None:
    small = [*nodes((replace(A100_PCIE, memory_mib=81_000), 2, 4), (A100_80GB, 2, 4))]
    outcome = ask(pytorchjob(memory_per_device="20Gi"), small, policy=NAMED)
    (candidate,) = outcome.decision.pool.candidates
    assert (candidate.memory_mib, codes(outcome)) == (81_000, [])


def test_of_a_class_the_models_without_the_memory_stand_apart() -> None:
    known = nodes((A100_40GB, 4, 4), (A100_80GB, 2, 4))
    policy = Policy(classes=(("A100-SXM4-40GB", "A100-SXM4-80GB"),))
    assert products(ask(pytorchjob(memory_per_device="20Gi"), known, policy=policy)) == [
        A100_40GB.product,
        A100_80GB.product,
    ]
    outcome = ask(pytorchjob(memory_per_device="44Gi"), known, policy=policy)
    assert (outcome.verdict, products(outcome)) == (Verdict.PIN, [A100_80GB.product])
    assert ask(pytorchjob(memory_per_device="120Gi"), known, policy=policy).verdict is Verdict.DENY
    # Never pinned, it may land on those without the memory.
    never = replace(policy, pin_when=PinWhen.NEVER)
    assert ask(pytorchjob(memory_per_device="44Gi"), known, policy=never).verdict is Verdict.DENY
    assert ask(pytorchjob(memory_per_device="20Gi"), known, policy=never).verdict is Verdict.ADMIT


def test_a_spread_is_told_of_one_product_and_not_of_the_class() -> None:
    known = nodes((A100_40GB, 2, 4), (A100_80GB, 1, 4), (replace(A100_80GB, memory_mib=78_000), 1, 4))
    known[3]["metadata"]["name"] = "ecc"
    policy = Policy(classes=(("A100-SXM4-40GB", "A100-SXM4-80GB"),))
    outcome = ask(pytorchjob(memory_per_device="20Gi"), known, policy=policy)
    told = [one.facts for one in outcome.decision.findings if one.code == "SST206"]
    assert told == [{"model": "A100-SXM4-80GB", "percent": 5, "memory_mib": 78_000}]


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        (Policy(strategy=Strategy.MOST_FREE), BOTH),
        (Policy(strategy=Strategy.BEST_FIT), [RTX_5090.product]),
        (Policy(strategy=Strategy.LARGEST), [RTX_PRO_6000.product]),
        (Policy(strategy=Strategy.ORDERED, order=("H100", A100_80GB.product, "RTX-5090")), BOTH),
        (Policy(strategy=Strategy.ORDERED, order=("RTX-5090", A100_80GB.product)), [RTX_5090.product]),
        (Policy(room=RoomRule.IGNORE), BOTH),
    ],
)
def test_every_strategy_takes_a_class_as_one_candidate(policy: Policy, chosen: list[str]) -> None:
    known = [*TWO_A100, *nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 3, 4))]
    named = replace(policy, classes=NAMED.classes)
    assert products(ask(pytorchjob(memory_per_device="20Gi"), known, policy=named)) == chosen


@pytest.mark.parametrize(
    "alone",
    [
        job(pod(gpus=8), pods=1, memory_per_device="44Gi"),
        job(pod(gpus=1, command=["python", "trial.py"]), indexed=False, pods=8, memory_per_device="44Gi"),
    ],
    ids=["one node", "independent"],
)
def test_ranks_that_are_not_coupled_take_each_model_for_itself(alone: Json) -> None:
    known = nodes((A100_40GB, 1, 8), (A100_80GB, 1, 8), (A100_PCIE, 1, 8))
    policy = Policy(classes=(("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-80GB-PCIe"),))
    with_class, without = ask(alone, known, policy=policy), ask(alone, known)
    assert with_class.decision == without.decision
    assert len(with_class.decision.pool.candidates) == 3


def test_two_roles_that_reach_different_models_of_a_class_have_their_room_together() -> None:
    obj = pytorchjob(pod(gpus=4, nodeSelector={PRODUCT: A100_80GB.product}), workers=2)
    master = pod(gpus=4, nodeSelector={PRODUCT: A100_PCIE.product})
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": master}}
    assert ask(obj, TWO_A100).verdict is Verdict.DENY
    outcome = ask(obj, TWO_A100, policy=NAMED)
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, BOTH)


def test_a_pin_to_one_model_of_what_has_become_a_class_stays() -> None:
    known = [*TWO_A100, *nodes((RTX_5090, 2, 4))]
    stored = patched(ask(pytorchjob(memory_per_device="44Gi"), known))
    changed = patched(ask(pytorchjob(memory_per_device="44Gi", workers=3), known))
    outcome = ask(changed, known, old=stored, policy=NAMED)
    assert (outcome.verdict, worker(patched(outcome))) == (Verdict.ADMIT, worker(stored))


def test_a_running_job_may_widen_inside_its_class_and_not_beyond() -> None:
    known = [*TWO_A100, *nodes((RTX_5090, 2, 4))]

    def on(*values: str) -> Json:
        term = {"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": list(values)}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        obj = pytorchjob(pod(affinity={"nodeAffinity": required}))
        return {**obj, "status": {"startTime": "2026-01-01T00:00:00Z"}}

    before, inside, beyond = on(A100_80GB.product), on(*BOTH), on(*BOTH, RTX_5090.product)
    assert ask(inside, known, old=before, policy=NAMED).verdict is Verdict.ADMIT
    assert codes(ask(inside, known, old=before)) == ["SST302"]
    outcome = ask(beyond, known, old=inside, policy=NAMED)
    assert (outcome.verdict, codes(outcome)) == (Verdict.DENY, ["SST302"])
    assert outcome.decision.straggler is not None


def test_a_way_out_names_all_models_that_it_leaves() -> None:
    command = ("torchrun", "train.py", "--per_device_train_batch_size=256")
    obj = pytorchjob(pod(command=command), memory_fixed="2Gi", memory_per_sample="684Mi")
    outcome = ask(obj, TWO_A100, policy=NAMED)
    (first, *_) = document(outcome, "")["suggestions"]
    assert (first["model"], first["models"]) == (BOTH[0], BOTH)
    assert first["change"].endswith("on A100-80GB-PCIe + A100-SXM4-80GB")


def test_the_order_of_nodes_makes_no_difference_to_what_counts_as_one() -> None:
    known = nodes((A100_80GB, 1, 4), (A100_PCIE, 1, 4), (H100, 1, 4), (RTX_5090, 1, 4))
    loose = replace(EQUIVALENT, compute_tolerance_percent=70, bandwidth_tolerance_percent=45)
    found = {
        tuple(one.models for one in ask(pytorchjob(workers=2), list(order), policy=loose).decision.pool.candidates)
        for order in permutations(known)
    }
    assert [[len(group) for group in one] for one in found] == [[3, 1]]
