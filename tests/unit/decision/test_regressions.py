"""What the property tests found once, as plain cases."""

from collections.abc import Callable

import pytest

from controlplane.nodes import RTX_5090, RTX_PRO_6000
from tests.samples import Json, ask, codes, demo_nodes, job, patched, pod, products, pytorchjob, worker
from webhook.answer.response import admission_response, patch
from webhook.model.policy import PinWhen, Policy, RoomRule
from webhook.model.request import Stage
from webhook.model.verdict import Verdict

PRODUCT = "nvidia.com/gpu.product"


def with_role(obj: Json, name: str, replicas: int, spec: Json) -> Json:
    obj["spec"]["pytorchReplicaSpecs"][name] = {"replicas": replicas, "template": {"spec": spec}}
    return obj


def test_a_job_without_devices_is_out_of_scope_whatever_coupling_it_wishes() -> None:
    outcome = ask(pytorchjob(pod(gpus=0), coupling="Synchronous"))
    assert outcome.verdict is Verdict.ADMIT
    assert codes(outcome) == []


def test_a_role_that_waits_with_no_pods_keeps_its_own_selector() -> None:
    waiting = pod(nodeSelector={PRODUCT: RTX_5090.product})
    obj = with_role(pytorchjob(workers=2, memory_per_device="44Gi"), "Reader", 0, waiting)
    after = patched(ask(obj))
    reader = after["spec"]["pytorchReplicaSpecs"]["Reader"]["template"]["spec"]
    assert worker(after)["nodeSelector"] == {PRODUCT: RTX_PRO_6000.product}
    assert reader["nodeSelector"] == {PRODUCT: RTX_5090.product}
    assert "affinity" in reader
    for stage in Stage:
        again = ask(after, stage=stage, policy=Policy(pin_when=PinWhen.ALWAYS))
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])


@pytest.mark.parametrize("room", [RoomRule.IGNORE, RoomRule.PREFER])
def test_roles_that_their_own_selectors_keep_apart_are_not_pinned_where_room_is_no_gate(room: RoomRule) -> None:
    obj = pytorchjob(pod(nodeSelector={PRODUCT: RTX_5090.product}), workers=2)
    with_role(obj, "Master", 1, pod(nodeSelector={PRODUCT: RTX_PRO_6000.product}))
    outcome = ask(obj, policy=Policy(room=room))
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST401"])


def test_a_model_that_every_role_can_reach_is_chosen_where_room_is_no_gate() -> None:
    large = pod(nodeSelector={PRODUCT: RTX_PRO_6000.product})
    obj = with_role(pytorchjob(workers=2, memory_per_device="20Gi"), "Master", 1, large)
    outcome = ask(obj, policy=Policy(room=RoomRule.IGNORE))
    assert (outcome.verdict, products(outcome)) == (Verdict.PIN, [RTX_PRO_6000.product])


def test_a_key_that_separates_only_once_the_pin_is_there_does_not_pin_again() -> None:
    known = demo_nodes()
    for one in known:
        one["metadata"]["labels"]["pool"] = "all"
    policy = Policy(pin_when=PinWhen.ALWAYS, pin_keys=("pool",))
    outcome = ask(pytorchjob(), known, policy=policy)
    assert outcome.verdict is Verdict.PIN
    for stage in Stage:
        again = ask(patched(outcome), known, stage=stage, policy=policy)
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])


@pytest.mark.parametrize("make", [pytorchjob, job])
def test_a_pin_is_put_back_on_a_running_job_whose_own_affinity_names_several_models(
    make: Callable[[Json], Json],
) -> None:
    both = {"key": PRODUCT, "operator": "In", "values": [RTX_5090.product, RTX_PRO_6000.product]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [both]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    obj = make(pod(command=("torchrun", "--nnodes=4", "train.py"), affinity=affinity))
    obj["status"] = {"startTime": "2026-07-31T00:00:00Z", "conditions": [{"type": "Running", "status": "True"}]}
    stored = patched(ask(obj))
    outcome = ask(obj, old=stored)
    assert patched(outcome) == stored
    other = patched(outcome)
    worker(other)["nodeSelector"] = {PRODUCT: RTX_5090.product}
    assert ask(other, old=stored).verdict is Verdict.ADMIT


def test_a_denied_job_that_is_nested_deeper_than_a_copy_can_follow_is_denied_without_a_way_out() -> None:
    nested: Json = {}
    for _ in range(900):
        nested = {"a": nested}
    obj = pytorchjob(
        pod(command=("torchrun", "train.py", "--per_device_train_batch_size", "640"), unknown=nested),
        memory_fixed="2Gi",
        memory_per_sample="684Mi",
    )
    outcome = ask(obj)
    assert (outcome.verdict, outcome.suggestions) == (Verdict.DENY, ())


def test_the_field_of_a_cause_is_one_line_whatever_a_role_is_called() -> None:
    obj = with_role(pytorchjob(pod(gpus=0)), "a\nb\x1b[31m", 400, pod())
    [cause] = admission_response(ask(obj))["status"]["details"]["causes"]
    assert cause["field"] == r"spec.pytorchReplicaSpecs[a\nb\u001b[31m].template.spec"


def test_a_denied_job_whose_selector_names_a_label_that_no_node_carries_gets_its_answer() -> None:
    elsewhere = pod(nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"})
    obj = with_role(pytorchjob(memory_per_device="200Gi"), "Master", 1, elsewhere)
    assert (ask(obj).verdict, codes(ask(obj))) == (Verdict.DENY, ["SST201"])
