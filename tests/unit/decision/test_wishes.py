"""What the submitter asks for by annotation, and what of it counts."""

from copy import deepcopy
from dataclasses import replace

import pytest

from controlplane.nodes import A100_80GB, H100, RTX_5090, RTX_PRO_6000
from tests.samples import Json, ask, codes, fleet, job, nodes, patched, pod, products, pytorchjob, worker
from webhook.answer.message import message
from webhook.answer.response import admission_response, patch
from webhook.answer.warnings import warnings
from webhook.model.demand import DemandSource
from webhook.model.finding import Action, Phrase
from webhook.model.fleet import Fleet
from webhook.model.job import TrainingJob
from webhook.model.policy import PinWhen, Policy, RoomRule
from webhook.model.request import Stage
from webhook.model.verdict import Out, Review, Verdict

PRODUCT = "nvidia.com/gpu.product"
UNLABELLED: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "unlabelled", "labels": {}},
    "status": {
        "capacity": {"nvidia.com/gpu": "8", "pods": "110", "cpu": "64", "memory": "512Gi"},
        "allocatable": {"nvidia.com/gpu": "8", "pods": "110", "cpu": "64", "memory": "512Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def wishing(model: str, *, memory: str = "20Gi") -> Json:
    return pytorchjob(memory_per_device=memory, model=model)


def growing(known: Fleet) -> Fleet:
    return replace(known, grows="something")


def read(outcome: Review) -> TrainingJob:
    assert outcome.job is not None
    return outcome.job


@pytest.mark.parametrize("wish", [RTX_5090.product, "RTX-5090", "rtx-5090", "NVIDIA GeForce RTX 5090"])
def test_a_model_that_is_asked_for_is_chosen_whatever_the_others_have(wish: str) -> None:
    known = nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 9, 4))
    assert products(ask(wishing("RTX-PRO-6000-Blackwell-Server"), known)) == [RTX_PRO_6000.product]
    outcome = ask(wishing(wish), known)
    assert outcome.verdict is Verdict.PIN
    assert worker(patched(outcome))["nodeSelector"] == {PRODUCT: RTX_5090.product}
    assert [one.out for one in outcome.decision.pool.candidates] == [(), (Out.UNWISHED,)]
    assert "SST404" not in codes(outcome)


def test_a_wish_goes_before_the_pin_of_an_earlier_answer() -> None:
    stored = patched(ask(pytorchjob(memory_per_device="44Gi")))
    stored["spec"]["runPolicy"] = {"suspend": True}
    changed = deepcopy(stored)
    changed["spec"]["runPolicy"]["backoffLimit"] = 1
    changed["metadata"]["annotations"] |= {"samestep.dev/model": "RTX-5090", "samestep.dev/memory-per-device": "20Gi"}
    outcome = ask(changed, old=stored)
    assert products(outcome) == [RTX_5090.product]
    assert worker(patched(outcome))["nodeSelector"] == {PRODUCT: RTX_5090.product}


def test_a_job_that_runs_keeps_its_pin_whatever_it_asks_for_now() -> None:
    stored = patched(ask(pytorchjob(memory_per_device="44Gi"))) | {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    changed = deepcopy(stored)
    changed["spec"]["runPolicy"] = {"backoffLimit": 1}
    changed["metadata"]["annotations"]["samestep.dev/model"] = "RTX-5090"
    outcome = ask(changed, old=stored)
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, [RTX_PRO_6000.product])


def test_a_model_that_no_node_has_is_denied_with_those_that_are_there() -> None:
    outcome = ask(wishing("H100-80GB-HBM3"))
    assert (outcome.verdict, codes(outcome)) == (Verdict.DENY, ["SST404"])
    assert message(outcome).splitlines()[0] == (
        "SST404 no node that ddp may use is H100-80GB-HBM3, which it asks for; there is: RTX-5090, "
        "RTX-PRO-6000-Blackwell-Server."
    )
    (cause,) = admission_response(outcome)["status"]["details"]["causes"]
    assert cause["field"] == "metadata.annotations[samestep.dev/model]"


def test_a_wish_that_only_nodes_outside_the_selectors_meet_is_not_met() -> None:
    obj = wishing("RTX-5090")
    worker(obj)["nodeSelector"] = {PRODUCT: RTX_PRO_6000.product}
    assert codes(ask(obj)) == ["SST404"]


def test_it_leads_before_two_vendors_in_one_job() -> None:
    obj = wishing("H100-80GB-HBM3")
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": pod(device="amd.com/gpu")}}
    assert codes(ask(obj))[0] == "SST404"


@pytest.mark.parametrize(
    ("known", "variant"),
    [
        (growing(fleet(nodes((RTX_5090, 2, 4)))), "grows"),
        (fleet([*nodes((RTX_5090, 2, 4)), UNLABELLED]), "unknown"),
        (fleet([UNLABELLED]), "unknown"),
        (fleet(nodes((RTX_5090, 2, 4)), taken_at=1.0), "stale"),
    ],
)
def test_where_it_may_be_met_yet_it_is_a_warning_and_no_other_model_is_chosen(known: Fleet, variant: str) -> None:
    outcome = ask(wishing("H100-80GB-HBM3"), known)
    assert (outcome.verdict, outcome.decision.models) == (Verdict.ADMIT, ())
    assert [one.variant for one in outcome.decision.findings if one.code == "SST404"] == [variant]
    assert any(line.startswith("SST404 ") and "…" not in line for line in warnings(outcome))


@pytest.mark.parametrize("stage", Stage)
def test_where_nodes_may_come_no_stage_denies_it_for_the_memory_of_other_models(stage: Stage) -> None:
    known = growing(fleet(nodes((RTX_5090, 2, 4))))
    outcome = ask(wishing("H100-80GB-HBM3", memory="44Gi"), known, stage=stage)
    assert outcome.verdict is Verdict.ADMIT


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_denies_a_model_that_is_there_and_lacks_the_memory(stage: Stage) -> None:
    outcome = ask(wishing("RTX-5090", memory="44Gi"), stage=stage)
    assert (outcome.verdict, codes(outcome)) == (Verdict.DENY, ["SST201"])


def test_an_update_is_not_denied_for_it() -> None:
    stored = pytorchjob(memory_per_device="20Gi")
    stored["spec"]["runPolicy"] = {"suspend": True}
    changed = deepcopy(stored)
    changed["spec"]["runPolicy"]["backoffLimit"] = 1
    changed["metadata"]["annotations"]["samestep.dev/model"] = "H100-80GB-HBM3"
    assert ask(changed, old=stored).verdict is Verdict.ADMIT


def test_it_counts_only_where_policy_listens() -> None:
    deaf = Policy(model=False)
    assert ask(wishing("H100-80GB-HBM3"), policy=deaf).verdict is Verdict.PIN
    known = nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 9, 4))
    assert products(ask(wishing("RTX-5090"), known, policy=deaf)) == [RTX_PRO_6000.product]


def test_a_pool_of_the_model_alone_is_left_as_it_is() -> None:
    outcome = ask(wishing("RTX-5090"), nodes((RTX_5090, 4, 4)))
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, [RTX_5090.product])


def test_what_was_asked_for_and_lacks_memory_or_room_is_denied_with_what_the_others_are() -> None:
    outcome = ask(wishing("RTX-5090", memory="44Gi"))
    assert (outcome.verdict, codes(outcome)) == (Verdict.DENY, ["SST201"])
    assert "not the model that was asked for" in message(outcome)
    assert "and room for" not in message(outcome)
    crowded = pytorchjob(pod(gpus=4), workers=4, memory_per_device="20Gi", model="RTX-5090")
    short = ask(crowded, nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 9, 4)))
    assert (short.verdict, codes(short)) == (Verdict.DENY, ["SST401"])
    assert ask(crowded, nodes((RTX_5090, 2, 4)), policy=Policy(room=RoomRule.PREFER)).verdict is not Verdict.DENY


@pytest.mark.parametrize(
    "obj",
    [
        job(pod(gpus=4), pods=1, model="RTX-5090"),
        job(pod(command=("python", "x.py")), pods=4, indexed=False, model="RTX-5090"),
    ],
    ids=["one node", "independent pods"],
)
def test_jobs_that_are_not_kept_on_one_model_are_kept_on_the_one_they_ask_for(obj: Json) -> None:
    outcome = ask(obj)
    assert (outcome.verdict, products(outcome)) == (Verdict.PIN, [RTX_5090.product])
    again = ask(patched(outcome))
    assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])
    assert ask(obj, stage=Stage.VALIDATE).verdict is Verdict.DENY
    assert ask(obj, policy=Policy(pin_when=PinWhen.NEVER)).verdict is Verdict.ADMIT
    unknown_beside = ask(obj, [*nodes((RTX_5090, 2, 4)), UNLABELLED])
    assert unknown_beside.verdict is Verdict.PIN


# sized-for


def test_what_a_batch_was_sized_for_is_the_most_that_it_needs() -> None:
    outcome = ask(pytorchjob(sized_for="RTX-PRO-6000-Blackwell-Server"), nodes((RTX_5090, 9, 4), (RTX_PRO_6000, 2, 4)))
    assert products(outcome) == [RTX_PRO_6000.product]
    assert not {"SST202", "SST203"} & set(codes(outcome))
    assert (outcome.demand.low_mib, outcome.demand.source) == (None, DemandSource.SIZED_FOR)
    assert outcome.demand.high_mib == (RTX_PRO_6000.memory_mib - 640) * 100 // 105


def test_a_smaller_model_is_a_risk_and_never_out() -> None:
    known = nodes((RTX_5090, 4, 4))
    for obj in (
        pytorchjob(sized_for="80Gi"),
        pytorchjob(sized_for="80Gi", memory_per_device="44Gi"),
        pytorchjob(sized_for="80Gi", memory_per_device="120Gi"),
    ):
        outcome = ask(obj, known)
        assert outcome.verdict is Verdict.ADMIT
        assert "SST202" in codes(outcome)
    assert any(
        "75.6 GiB at the most (what it was sized for)" in one
        for one in warnings(ask(pytorchjob(sized_for="80Gi"), known))
    )


def test_a_smaller_demand_stays_as_it_is() -> None:
    outcome = ask(pytorchjob(memory_per_device="20Gi", sized_for="80Gi"))
    assert (outcome.demand.low_mib, outcome.demand.high_mib) == (20480, 20480)
    assert outcome.demand.assumptions == (Phrase("sized_for", {"of": "80.0 GiB"}),)
    assert "SST202" not in codes(outcome)


def test_a_demand_above_it_is_capped() -> None:
    capped = ask(
        pytorchjob(memory_per_device="120Gi", sized_for=A100_80GB.product), nodes((A100_80GB, 4, 4), (H100, 4, 4))
    )
    most = (A100_80GB.memory_mib - 640) * 100 // 105
    assert (capped.demand.low_mib, capped.demand.likely_mib, capped.demand.high_mib) == (most, most, most)
    assert capped.verdict is Verdict.PIN


def test_a_model_that_nobody_knows_is_told_and_does_not_count() -> None:
    outcome = ask(pytorchjob(memory_per_device="44Gi", sized_for="4090"))
    assert products(outcome) == [RTX_PRO_6000.product]
    assert "SST204" in codes(outcome)
    assert [one.variant for one in outcome.decision.findings if one.code == "SST101"] == ["sized-for"]


def test_sized_for_counts_only_where_policy_listens() -> None:
    obj = pytorchjob(memory_per_device="44Gi", sized_for="32Gi")
    assert ask(obj, nodes((RTX_5090, 4, 4))).verdict is Verdict.ADMIT
    assert ask(obj, nodes((RTX_5090, 4, 4)), policy=Policy(model=False)).verdict is Verdict.DENY


# ignore, and what cannot be read


def test_a_job_is_left_alone_on_its_submitters_word_where_policy_lets_it() -> None:
    obj = pytorchjob(memory_per_device="120Gi", ignore="a test of the cluster\nby hand")
    assert ask(obj).verdict is Verdict.DENY
    outcome = ask(obj, policy=Policy(ignore=True))
    assert (outcome.verdict, codes(outcome), outcome.demand.source) == (Verdict.ADMIT, [], DemandSource.UNKNOWN)
    assert admission_response(outcome)["auditAnnotations"]["outside"] == (
        "out of scope: samestep.dev/ignore: a test of the cluster by hand"
    )


@pytest.mark.parametrize(
    ("annotations", "listening"),
    [
        ({"ignore": ""}, Policy(ignore=True)),
        ({"allow_mixed": " "}, Policy(allow_mixed=True)),
        ({"model": "two / three"}, Policy()),
        ({"pool": "-"}, Policy()),
        ({"sized_for": "-1Gi"}, Policy()),
        ({"memory_per_device": "lots"}, Policy()),
        ({"micro_batch": "two"}, Policy()),
    ],
)
def test_what_cannot_be_read_denies_only_where_it_would_have_counted(
    annotations: dict[str, str], listening: Policy
) -> None:
    obj = pytorchjob(None, workers=4, name="ddp", **annotations)
    outcome = ask(obj, policy=listening)
    assert (outcome.verdict, "SST106" in codes(outcome)) == (Verdict.DENY, True)
    deaf = ask(obj, policy=Policy(declare=False, model=False))
    assert deaf.verdict is Verdict.PIN
    assert [one.action for one in deaf.decision.findings if one.code == "SST106"] == [Action.INFORM]


# Roles that stand apart


def test_a_role_that_stands_apart_is_left_where_its_user_put_it() -> None:
    """Neither its vendor, nor its room, nor its own model is a matter of the ranks'."""
    obj: Json = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "tf", "annotations": {"samestep.dev/memory-per-device": "44Gi"}},
        "spec": {
            "tfReplicaSpecs": {
                "Worker": {"replicas": 4, "template": {"spec": pod(gpus=2)}},
                "Evaluator": {
                    "replicas": 1,
                    "template": {"spec": pod(gpus=4, nodeSelector={PRODUCT: RTX_5090.product})},
                },
            }
        },
    }
    outcome = ask(obj)
    assert (outcome.verdict, products(outcome)) == (Verdict.PIN, [RTX_PRO_6000.product])
    after = patched(outcome)
    assert after["spec"]["tfReplicaSpecs"]["Evaluator"] == obj["spec"]["tfReplicaSpecs"]["Evaluator"]
    again = ask(after)
    assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])
    dropped = ask(obj, old=after)
    assert patched(dropped)["spec"] == after["spec"]
    evaluator = after["spec"]["tfReplicaSpecs"]["Evaluator"]["template"]["spec"]
    evaluator["containers"][0]["resources"]["limits"] = {"amd.com/gpu": 4}
    assert ask(after).verdict is Verdict.ADMIT
    assert read(outcome).device_roles == (read(outcome).roles[0],)
