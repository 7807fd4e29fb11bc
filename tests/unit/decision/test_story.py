"""The story of a decision: what left out how many nodes, how one candidate came to be chosen, and by which key."""

from copy import deepcopy
from typing import Any

import pytest

from controlplane.nodes import A100_80GB, H100, RTX_5090, RTX_PRO_6000
from tests.samples import Json, ask, fleet, nodes, patched, pod, pytorchjob
from tests.unit.decision import test_claims
from webhook.decision.landing import Step
from webhook.decision.nearest import Near, Nearest
from webhook.decision.notes import Criterion, Rule, Tried, Unpinned
from webhook.decision.scope import Treatment
from webhook.decision.story import Listener, Story
from webhook.fleet.limits import ByName, ByProduct, ByResource, BySelector, ByTaint, ByTerms
from webhook.model.job import Coupling
from webhook.model.policy import PinWhen, Policy, RoomRule, Strategy, TabledMemory
from webhook.model.verdict import Out

PRODUCT = "nvidia.com/gpu.product"
GPU = "nvidia.com/gpu"
INFRA = {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}


def told(obj: Json, known: list[Json] | None = None, **asked: Any) -> Story:  # noqa: ANN401 - as `ask` takes them
    heard = Listener()
    story = heard.story(
        ask(obj, fleet(nodes((RTX_5090, 2, 4), (H100, 3, 8)) if known is None else known), tell=heard, **asked)
    )
    assert story is not None
    return story


def steps(obj: Json, known: list[Json] | None = None) -> tuple[Step, ...]:
    (landing,) = told(obj, known).landings
    return landing.steps


def missed(obj: Json, known: list[Json] | None = None) -> tuple[type, Near | None]:
    """The first step that leaves no node, and what would have been near."""
    found = next(one for one in steps(obj, known) if not one.left)
    return type(found.limit), found.near


def affinity(*terms: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def term(*expressions: tuple[str, str, list[str]]) -> Json:
    return {"matchExpressions": [{"key": key, "operator": does, "values": values} for key, does, values in expressions]}


def test_each_limit_says_how_many_nodes_it_left() -> None:
    known = nodes((RTX_5090, 4, 4), (H100, 4, 8))
    for one in known[:6]:
        one["metadata"]["labels"]["pool"] = "a"
    known[0]["spec"]["taints"] = [INFRA]
    spec = pod(gpus=8, nodeSelector={"pool": "a"}, tolerations=[{"key": "other", "operator": "Exists"}])
    spec["containers"][0]["resources"]["requests"] = {"cpu": "4"}
    (landing,) = told(pytorchjob(spec), known).landings
    assert landing.every == 8
    assert [(one.limit[:-1], one.before, one.left, one.at) for one in landing.steps] == [
        (("nvidia.com/gpu", 1), 8, 8, ()),
        (("pool", "a"), 8, 6, ("nodeSelector", "pool")),
        (("dedicated", "NoSchedule"), 6, 5, ("tolerations",)),
        (("pods", 1), 5, 5, ()),
        (("nvidia.com/gpu", 8), 5, 2, ()),
        (("cpu", 4000), 2, 2, ()),
    ]
    assert {model.product: count for model, count in landing.models.items()} == {H100.product: 2}
    assert (landing.nodes, landing.unknown, landing.two_models, landing.shares) == (2, 0, 0, 0)


def test_roles_that_ask_alike_are_told_once() -> None:
    obj = pytorchjob()
    specs = obj["spec"]["pytorchReplicaSpecs"]
    specs["Master"] = {"replicas": 1, "template": {"spec": pod()}}
    specs["Eval"] = {"replicas": 1, "template": {"spec": pod(gpus=4)}}
    assert [[role.name for role in one.roles] for one in told(obj).landings] == [["Worker", "Master"], ["Eval"]]


def test_each_term_of_an_affinity_is_told_from_where_the_affinity_begins() -> None:
    terms: tuple[Json, ...] = (
        term(("zone", "In", ["a"]), (PRODUCT, "NotIn", [H100.product])),
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        {},
    )
    known = nodes((RTX_5090, 2, 4), (H100, 3, 8))
    for one in known[1:4]:
        one["metadata"]["labels"]["zone"] = "a"
    (step,) = (
        one for one in steps(pytorchjob(pod(affinity=affinity(*terms))), known) if isinstance(one.limit, ByTerms)
    )
    assert (step.before, step.left) == (5, 1)
    assert [[(one.before, one.left) for one in each] for each in step.terms] == [[(5, 3), (3, 1)], [(5, 0)], []]
    assert step.terms[1][0].at[-2:] == ("matchFields", 0)


@pytest.mark.parametrize(
    ("spec", "limit", "nearest", "values"),
    [
        ({"nodeSelector": {"nvidia.com/gpu.prodcut": "x"}}, BySelector, Nearest.LABELS, [PRODUCT, f"{GPU}.count"]),
        ({"nodeSelector": {"quite-another": "x"}}, BySelector, Nearest.LABELS, []),
        ({"nodeSelector": {PRODUCT: "NVIDIA-H100-80GB-HBM"}}, BySelector, Nearest.VALUES, [H100.product]),
        ({"nodeSelector": {"team": "z", PRODUCT: H100.product}}, BySelector, Nearest.LABELS, []),
        ({"nodeSelector": {PRODUCT: RTX_5090.product, f"{GPU}.count": "8"}}, BySelector, Nearest.ELSEWHERE, ["3"]),
        ({"nodeName": "nvidia-h100-80gb-hbm3-8-7"}, ByName, Nearest.VALUES, ["nvidia-h100-80gb-hbm3-8-0"]),
        ({"gpus": 16}, ByResource, Nearest.AMOUNT, ["8"]),
        ({"device": "amd.com/gpu"}, ByResource, Nearest.AMOUNT, ["0"]),
    ],
)
def test_where_a_step_leaves_no_node_what_would_have_been_near_is_told(
    spec: Json, limit: type, nearest: Nearest, values: list[str]
) -> None:
    missing, near = missed(pytorchjob(pod(**spec)))
    assert near is not None
    assert (missing, near.nearest, list(near.values[: len(values) or 1])) == (limit, nearest, values)


def test_a_term_that_leaves_no_node_says_what_would_have_been_near() -> None:
    spec = pod(affinity=affinity(term((PRODUCT, "In", ["H100"])), term(("pool", "Exists", []))))
    (step,) = (one for one in steps(pytorchjob(spec)) if isinstance(one.limit, ByTerms))
    assert step.near is None
    assert [each[0].near for each in step.terms] == [
        Near(Nearest.VALUES, (H100.product, RTX_5090.product)),
        Near(Nearest.LABELS, ()),
    ]


def test_a_taint_that_leaves_no_node_is_told_as_the_nodes_carry_it() -> None:
    known = nodes((H100, 2, 8))
    known[0]["spec"]["taints"] = [INFRA]
    known[1]["spec"]["taints"] = [{"key": "dedicated", "effect": "NoSchedule"}]
    taints = ("dedicated:NoSchedule", "dedicated=infra:NoSchedule")
    assert missed(pytorchjob(), known) == (ByTaint, Near(Nearest.TAINTS, taints))


def test_the_choice_is_told_criterion_by_criterion_until_one_is_left() -> None:
    known = nodes((RTX_5090, 4, 4), (H100, 2, 4), (A100_80GB, 2, 4))
    chosen = told(pytorchjob(memory_per_device="70Gi"), known).chosen
    assert chosen is not None
    assert [one.model.product for one in chosen.among] == [A100_80GB.product, H100.product]
    assert [(one.criterion, len(one.left)) for one in chosen.narrowed] == [
        (Criterion.ROOM, 2),
        (Criterion.LIKELY, 2),
        (Criterion.LARGEST_UNLIKELY, 2),
        (Criterion.HIGH, 2),
        (Criterion.NOW, 2),
        (Criterion.MOST_FREE, 2),
        (Criterion.RECORDED, 2),
        (Criterion.NAME, 1),
    ]


@pytest.mark.parametrize(
    ("policy", "declared", "criterion"),
    [
        (Policy(), {}, Criterion.SAFEST),
        (Policy(), {"memory_per_device": "9Gi"}, Criterion.MOST_FREE),
        (Policy(strategy=Strategy.MOST_FREE), {}, Criterion.MOST_FREE),
        (Policy(strategy=Strategy.BEST_FIT), {}, Criterion.BEST_FIT),
        (Policy(strategy=Strategy.LARGEST), {}, Criterion.LARGEST),
        (Policy(strategy=Strategy.ORDERED, order=("RTX-5090",)), {}, Criterion.ORDERED),
        (Policy(room=RoomRule.IGNORE, strategy=Strategy.LARGEST), {}, Criterion.LARGEST),
        (Policy(), {"memory_per_device": "30.5Gi"}, Criterion.HIGH),
    ],
)
def test_the_last_criterion_told_is_the_one_that_settled_it(
    policy: Policy, declared: dict[str, str], criterion: Criterion
) -> None:
    chosen = told(pytorchjob(None, workers=2, **declared), policy=policy).chosen
    assert chosen is not None
    assert chosen.narrowed[-1].criterion is criterion
    assert len(chosen.narrowed[-1].left) == 1


def test_where_one_is_left_there_is_nothing_to_choose_by() -> None:
    chosen = told(pytorchjob(memory_per_device="44Gi")).chosen
    assert chosen is not None
    assert ([one.model.product for one in chosen.among], chosen.narrowed) == ([H100.product], ())


def test_gates_leave_candidates_out_in_their_order() -> None:
    known = nodes((RTX_5090, 8, 4), (H100, 1, 8), (RTX_PRO_6000, 4, 4))
    gates = told(pytorchjob(pod(gpus=4), workers=4, memory_per_device="44Gi"), known).gates
    assert [(one.reason, [out.model.product for out in one.out], len(one.left)) for one in gates] == [
        (Out.MEMORY, [RTX_5090.product], 2),
        (Out.UNREACHABLE, [], 2),
        (Out.ROOM, [H100.product], 1),
    ]
    ignored = told(pytorchjob(), policy=Policy(room=RoomRule.IGNORE)).gates
    assert [one.reason for one in ignored] == [Out.MEMORY, Out.UNREACHABLE]
    alone = told(pytorchjob(pod(gpus=8), workers=1))
    assert (alone.treatment, [one.reason for one in alone.gates]) == (Treatment.NOT_OUT, [Out.MEMORY])


def test_where_no_pin_is_looked_for_why_is_told() -> None:
    alone = told(pytorchjob(pod(nodeSelector={PRODUCT: H100.product})))
    assert (alone.unpinned, alone.keys) == (Unpinned.ALONE, None)
    never = told(pytorchjob(), policy=Policy(pin_when=PinWhen.NEVER))
    assert (never.unpinned, never.keys) == (Unpinned.NEVER, None)
    assert told(pytorchjob()).unpinned is None


def test_every_label_key_says_what_came_of_it() -> None:
    known = nodes((H100, 3, 8), (RTX_5090, 2, 8))
    odd = nodes((H100, 1, 8))[0]
    odd["metadata"]["name"] = "odd"
    odd["metadata"]["labels"]["nvidia.com/gpu.count"] = "4"
    for one in known[:2]:
        one["metadata"]["labels"]["most"] = "h100"
    known[0]["metadata"]["labels"]["one"] = "h100"
    for one in known[:3]:
        one["metadata"]["labels"] |= {"all": "h100", "zone": "a"}
    known[4]["metadata"]["labels"]["zone"] = "a"
    policy = Policy(pin_keys=("nobody", "zone", "one", "most", PRODUCT, "all", "nvidia.com/gpu.memory"))
    keys = told(pytorchjob(pod(gpus=8), workers=2, memory_per_device="44Gi"), [*known, odd], policy=policy).keys
    assert keys is not None
    assert [(one.key, one.tried, one.nodes) for one in keys.keys[:7]] == [
        ("nobody", Tried.ABSENT, 0),
        ("zone", Tried.SHARED, 0),
        ("one", Tried.NO_ROOM, 1),
        ("most", Tried.PARTLY, 2),
        (PRODUCT, Tried.SHARED, 0),
        ("all", Tried.SEPARATES, 3),
        ("nvidia.com/gpu.memory", Tried.NOT_ASKED, 0),
    ]
    assert (keys.nodes, keys.pin and keys.pin.key) == (3, "all")


def test_the_parts_of_a_demand_are_those_of_its_source() -> None:
    declared = pytorchjob(memory_fixed="2Gi", memory_per_sample="1Gi", micro_batch="8")
    assert [(one.name, one.low_mib) for one in told(declared).parts] == [("fixed", 2048), ("samples", 8192)]
    tabled = Policy(tabled=(TabledMemory(1000, 100),))
    parts = told(pytorchjob(micro_batch="3"), policy=tabled).parts
    assert [(one.name, one.high_mib) for one in parts] == [("fixed", 1000), ("samples", 300)]
    command = ("torchrun", "train.py", "--fsdp=full_shard", "--bf16=True", "--max_seq_length=2048")
    model = ("--model_name_or_path=meta-llama/Llama-3.1-8B", "--per_device_train_batch_size=4")
    assert "activations" in [one.name for one in told(pytorchjob(pod(command=(*command, *model)))).parts]
    for whole in (pytorchjob(memory_per_device="9Gi"), pytorchjob()):
        assert told(whole).parts == ()


def test_an_update_says_what_it_went_by() -> None:
    known = nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 2, 4))
    submitted = pytorchjob(memory_per_device="44Gi")
    pinned = patched(ask(submitted, known))
    running = deepcopy(pinned)
    running["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    larger = deepcopy(pinned)
    larger["metadata"]["annotations"]["samestep.dev/micro-batch"] = "2"
    larger["spec"]["runPolicy"] = {"cleanPodPolicy": "None"}
    anew = told(larger, known, old=pinned)
    assert anew.rules == (Rule.NOT_STARTED, Rule.WITHOUT_OUR_PIN)
    assert anew.kept is not None
    assert (anew.kept.candidate.model.product, anew.chosen) == (RTX_PRO_6000.product, None)
    # Without the pin both models may be landed on.
    assert [len(one.models) for one in anew.landings] == [2]
    assert told(larger, known, old=running).rules == (Rule.STARTED,)
    dropped = deepcopy(submitted)
    dropped["spec"]["runPolicy"] = {"backoffLimit": 1}
    back = told(dropped, known, old=running)
    assert (back.rules, back.landings) == ((Rule.PUT_BACK,), ())
    other = deepcopy(running)
    other["spec"]["runPolicy"] = {"backoffLimit": 1}
    assert told(other, known, old=running).rules == (Rule.UNCHANGED,)


def test_nothing_is_told_of_what_is_not_decided() -> None:
    serving = told(pytorchjob(coupling="Independent"), policy=Policy(coupling=True, when_unknown=Coupling.INDEPENDENT))
    assert serving.treatment is Treatment.MEMORY_ONLY
    assert (serving.chosen, serving.keys) == (None, None)
    none = told(pytorchjob(pod(gpus=1), workers=1))
    assert (none.treatment, none.landings, none.gates) == (Treatment.NONE, (), ())
    heard = Listener()
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    assert heard.story(ask(service, tell=heard)) is None


def test_products_that_claims_name_are_a_limit() -> None:
    known = test_claims.fleet()
    heard = Listener()
    story = heard.story(test_claims.ask(H100.product, tell=heard))
    assert story is not None
    (landing,) = story.landings
    assert landing.every == len(known.nodes)
    last = landing.steps[-1]
    assert isinstance(last.limit, ByProduct)
    assert (last.before, last.left, last.at) == (5, 2, ("resourceClaims",))
