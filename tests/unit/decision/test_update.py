"""CREATE decides, UPDATE keeps."""

from copy import deepcopy
from typing import Any

from controlplane.nodes import A100_80GB, H100, RTX_5090, RTX_PRO_6000
from tests.samples import Json, ask, codes, job, nodes, patched, pod, products, pytorchjob, worker
from webhook.model.request import Stage, User
from webhook.model.verdict import Verdict

PRODUCT = "nvidia.com/gpu.product"
KUEUE = User("system:serviceaccount:kueue-system:kueue-controller-manager")


def running(obj: Json) -> Json:
    obj = deepcopy(obj)
    obj["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    return obj


def test_a_recorded_pin_that_an_update_dropped_is_put_back() -> None:
    submitted = pytorchjob(memory_per_device="44Gi")
    stored = running(patched(ask(submitted)))
    again = deepcopy(submitted)
    again["spec"]["runPolicy"] = {"backoffLimit": 1}
    outcome = ask(again, old=stored)
    assert outcome.verdict is Verdict.PIN
    assert worker(patched(outcome)) == worker(stored)
    assert patched(outcome)["metadata"]["annotations"] == stored["metadata"]["annotations"]


def test_an_unrecorded_selector_is_put_back_only_where_the_template_is_immutable() -> None:
    without = job(pods=2)
    pinned = job(
        pod(nodeSelector={PRODUCT: RTX_PRO_6000.product}, command=("torchrun", "--nnodes=2", "train.py")), pods=2
    )
    outcome = ask(without, old=running(pinned))
    assert outcome.verdict is Verdict.PIN
    assert worker(patched(outcome)) == worker(pinned)
    assert "annotations" not in patched(outcome)["metadata"]
    loose = pytorchjob(pod(nodeSelector={PRODUCT: RTX_PRO_6000.product}))
    assert ask(pytorchjob(), old=loose).decision.pin != outcome.decision.pin


def test_suspend_flips_are_admitted_unread() -> None:
    before, after = job(), job()
    before["spec"]["suspend"], after["spec"]["suspend"] = True, False
    outcome = ask(after, old=before)
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, [])


def test_selectors_that_a_queue_adds_are_admitted_and_warned_of_where_they_exclude_the_pin() -> None:
    before = job(pod(nodeSelector={PRODUCT: RTX_PRO_6000.product}))
    before["spec"]["suspend"] = True
    after = deepcopy(before)
    after["spec"]["suspend"] = False
    worker(after)["nodeSelector"]["flavor"] = "none-has-this"
    outcome = ask(after, old=before, user=KUEUE)
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST403"])


def test_a_job_that_has_not_started_is_decided_anew_and_keeps_its_pin_while_it_passes() -> None:
    stored = patched(ask(pytorchjob(memory_per_device="20Gi")))
    kept = stored["metadata"]["annotations"]["samestep.dev/pinned"]
    small = RTX_5090.product if RTX_PRO_6000.product in kept else RTX_PRO_6000.product
    assert products(ask(stored)) != [small]
    changed = deepcopy(stored)
    changed["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 3
    assert ask(changed, old=stored).verdict is Verdict.ADMIT


def test_an_update_is_never_denied_for_room() -> None:
    before = pytorchjob(pod(gpus=4), workers=2)
    after = pytorchjob(pod(gpus=4), workers=4)
    outcome = ask(after, old=before)
    assert outcome.verdict is Verdict.PIN
    assert "SST401" in codes(outcome)


def test_a_running_job_is_denied_only_for_what_the_update_makes_worse() -> None:
    before = running(pytorchjob(memory_per_device="44Gi"))
    worker(before)["nodeSelector"] = {PRODUCT: RTX_PRO_6000.product}
    worse = deepcopy(before)
    worse["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 3
    worse["metadata"]["annotations"]["samestep.dev/memory-per-device"] = "120Gi"
    assert codes(ask(worse, old=before)) == ["SST201"]
    already = deepcopy(worse)
    already["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 2
    assert ask(already, old=worse).verdict is Verdict.ADMIT


def test_a_running_job_may_not_be_widened_to_a_second_model() -> None:
    before = running(pytorchjob(pod(nodeSelector={PRODUCT: RTX_PRO_6000.product})))
    after = running(pytorchjob(pod(nodeSelector={"kubernetes.io/os": "linux"})))
    assert codes(ask(after, old=before)) == ["SST302"]


def test_an_update_that_leaves_spec_alone_is_not_ours() -> None:
    before, after = pytorchjob(memory_per_device="120Gi"), pytorchjob(memory_per_device="120Gi")
    after["metadata"]["labels"] = {"a": "b"}
    assert ask(after, old=before).because == "spec unchanged"


def test_a_dying_object_is_never_held_back() -> None:
    after = pytorchjob(memory_per_device="120Gi")
    after["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert ask(after, old=pytorchjob(workers=1)).verdict is Verdict.ADMIT


def batched(batch: int, **spec: Json) -> Json:
    command = ["torchrun", "train.py", "--per_device_train_batch_size", str(batch)]
    return pytorchjob({**pod(command=command), **spec}, memory_fixed="2Gi", memory_per_sample="684Mi")


def kept(obj: Json, batch: int) -> Json:
    """The stored object, pin and all, with another batch: what an apply sends on."""
    obj = deepcopy(obj)
    worker(obj)["containers"][0]["command"][-1] = str(batch)
    return obj


def test_a_pin_moves_to_the_model_that_the_new_batch_needs() -> None:
    known = nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4))
    stored = patched(ask(batched(16), known))
    assert worker(stored)["nodeSelector"] == {PRODUCT: RTX_5090.product}
    for sent in (kept(stored, 64), batched(64)):
        outcome = ask(sent, known, old=stored)
        assert (outcome.verdict, "SST105" in codes(outcome)) == (Verdict.PIN, True)
        after = patched(outcome)
        assert worker(after)["nodeSelector"] == {PRODUCT: RTX_PRO_6000.product}
        assert RTX_PRO_6000.product in after["metadata"]["annotations"]["samestep.dev/pinned"]
        final = ask(after, known, old=stored, stage=Stage.VALIDATE)
        assert final.verdict is Verdict.ADMIT


def test_a_pin_by_affinity_moves_within_each_term() -> None:
    known = nodes((A100_80GB, 3, 8), (RTX_5090, 2, 8), (H100, 3, 8))
    known[0]["metadata"]["labels"][PRODUCT] = "A100-SXM4-80GB"
    known[5]["metadata"]["labels"][PRODUCT] = "H100-80GB-HBM3"
    terms = [
        {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    stored = patched(ask(batched(64, affinity={"nodeAffinity": required}), known))
    gone = known[3:]  # the A100 nodes are taken away: the pin no longer holds
    outcome = ask(kept(stored, 32), gone, old=stored)
    after = worker(patched(outcome))["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    for term in after["nodeSelectorTerms"]:
        assert term["matchExpressions"][-1]["values"] == ["H100-80GB-HBM3", H100.product]
        assert len(term["matchExpressions"]) == 2


def test_a_new_batch_that_fits_nowhere_is_denied_with_a_way_out_before_it_has_started() -> None:
    stored = patched(ask(batched(16)))
    outcome = ask(kept(stored, 256), old=stored)
    assert (codes(outcome), bool(outcome.suggestions)) == (["SST201"], True)


def test_a_running_job_whose_pin_and_memory_both_went_wrong_is_denied() -> None:
    stored = running(patched(ask(batched(16), nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4)))))
    assert codes(ask(running(batched(64)), old=stored)) == ["SST201"]


def test_a_pin_that_went_missing_unseen_is_told_by_the_validating_stage() -> None:
    stored = patched(ask(batched(16)))
    assert codes(ask(batched(32), old=stored, stage=Stage.VALIDATE)) == ["SST302"]


def test_a_pin_moves_to_the_one_model_that_the_submitter_leaves() -> None:
    known = nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 2, 4))
    for one in known:
        one["metadata"]["labels"]["zone"] = "a" if RTX_5090.product in str(one) else "b"
    stored = patched(ask(pytorchjob(), known))
    assert worker(stored)["nodeSelector"] == {PRODUCT: RTX_PRO_6000.product}
    changed = deepcopy(stored)
    worker(changed)["nodeSelector"]["zone"] = "a"
    moved = patched(ask(changed, known, old=stored))
    assert worker(moved)["nodeSelector"] == {PRODUCT: RTX_5090.product, "zone": "a"}


def suspended_jobset(spec: Json | None = None) -> Json:
    template = {"spec": {"parallelism": 4, "completions": 4, "template": {"spec": spec or pod()}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "team-a"},
        "spec": {"suspend": True, "replicatedJobs": [{"name": "ranks", "template": template}]},
    }


def test_an_update_of_a_jobset_is_pinned_by_a_selector_and_never_by_affinity_which_its_webhook_refuses() -> None:
    known = nodes((A100_80GB, 3, 8), (RTX_5090, 2, 8))
    before, after = suspended_jobset(pod(nodeSelector={"a": "b"})), suspended_jobset()
    assert ask(after, known, old=before).verdict is Verdict.PIN
    known[0]["metadata"]["labels"][PRODUCT] = "A100-SXM4-80GB"

    outcome = ask(after, known, old=before)

    assert ask(after, known).verdict is Verdict.PIN
    assert (outcome.verdict, patched(outcome) == after) == (Verdict.ADMIT, True)
    assert "SST307" in codes(outcome)
    assert "SST301" not in codes(outcome)
    assert ask(after, known, old=before, stage=Stage.VALIDATE).verdict is Verdict.ADMIT


def gated_pod(**spec: Any) -> Json:  # noqa: ANN401 - fields of a pod spec
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "rank-0", "namespace": "team-a", "labels": {"kueue.x-k8s.io/pod-group-name": "ddp"}},
        "spec": pod(schedulingGates=[{"name": "example.com/quota"}], **spec),
    }


def test_the_pin_of_a_gated_pod_is_never_changed_to_another_value() -> None:
    known = nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4))
    stored = patched(ask(gated_pod(), known))
    pin = stored["spec"]["nodeSelector"][PRODUCT]
    left = [node for node in known if node["metadata"]["labels"][PRODUCT] != pin]
    narrower = deepcopy(stored)
    narrower["spec"]["nodeSelector"]["zone"] = "a"
    for node in left:
        node["metadata"]["labels"]["zone"] = "a"

    outcome = ask(narrower, left, old=stored)

    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST403"])
