"""What a CREATE gets."""

from dataclasses import replace

import pytest

from controlplane.nodes import A100_80GB, H100, L40S, RTX_5090, RTX_PRO_6000, gpu_node
from tests.samples import Json, ask, codes, demo_nodes, fleet, job, nodes, patched, pod, products, pytorchjob, worker
from webhook.model.finding import Action
from webhook.model.policy import PinWhen, Policy, RoomRule, Strategy, TabledMemory, UnknownNodes, ValidationAction
from webhook.model.verdict import Out, Verdict

PRODUCT = "nvidia.com/gpu.product"
MOST_FREE = Policy(strategy=Strategy.MOST_FREE)


def test_a_batch_that_fits_only_the_large_card_goes_there() -> None:
    outcome = ask(pytorchjob(memory_per_device="44Gi"))
    assert outcome.verdict is Verdict.PIN
    assert worker(patched(outcome))["nodeSelector"] == {PRODUCT: RTX_PRO_6000.product}
    assert {"SST301", "SST204"} <= set(codes(outcome))


def test_a_batch_that_fits_both_goes_where_most_devices_are() -> None:
    outcome = ask(pytorchjob(memory_per_device="20Gi"), nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4)))
    assert products(outcome) == [RTX_5090.product]


def test_a_batch_that_fits_no_card_is_denied() -> None:
    outcome = ask(pytorchjob(memory_per_device="120Gi"))
    assert outcome.verdict is Verdict.DENY
    assert codes(outcome) == ["SST201"]


def test_unknown_memory_goes_to_the_larger_card_with_a_hint() -> None:
    outcome = ask(pytorchjob(), nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4)))
    assert products(outcome) == [RTX_PRO_6000.product]
    assert "SST203" in codes(outcome)


def bounded(sharding: str) -> Json:
    """A known model without a batch: 33 GiB at the least on each rank that holds it whole."""
    flags = ("--model_name_or_path=meta-llama/Llama-3.1-70B", f"--fsdp={sharding}", "--do_train", "--save_strategy=no")
    return pytorchjob(pod(command=("torchrun", "train.py", *flags)))


def test_a_bound_ranks_and_warns_and_never_denies() -> None:
    outcome = ask(bounded("no_shard"), nodes((RTX_5090, 9, 4), (RTX_PRO_6000, 2, 4)), policy=MOST_FREE)
    assert products(outcome) == [RTX_PRO_6000.product]
    small = ask(bounded("no_shard"), nodes((RTX_5090, 4, 4)))
    assert small.verdict is not Verdict.DENY
    assert "SST202" in codes(small)


def test_a_bound_that_every_card_meets_leaves_the_demand_unknown() -> None:
    outcome = ask(bounded("full_shard"), nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4)))
    assert products(outcome) == [RTX_PRO_6000.product]
    assert [one.variant for one in outcome.decision.findings if one.code == "SST203"] == ["bound"]
    assert "SST202" not in codes(outcome)


def test_the_policys_table_denies() -> None:
    policy = Policy(tabled=(TabledMemory(2048, 684, args=(("--arch", "vit"),)),))
    spec = pod(command=("torchrun", "train.py", "--arch=vit", "--micro-batch-size=256"))
    outcome = ask(pytorchjob(spec), policy=policy)
    assert (outcome.verdict, codes(outcome)) == (Verdict.DENY, ["SST201"])
    assert [one.kind for one in outcome.suggestions] == ["batch_alone"]
    fits = ask(pytorchjob(pod(command=("torchrun", "train.py", "--arch=vit", "--micro-batch-size=128"))), policy=policy)
    assert products(fits) == [RTX_PRO_6000.product]


def test_a_strategy_that_policy_sets_holds_also_for_unknown_memory() -> None:
    policy = Policy(strategy=Strategy.MOST_FREE)
    outcome = ask(pytorchjob(), nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4)), policy=policy)
    assert products(outcome) == [RTX_5090.product]


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        (Policy(strategy=Strategy.BEST_FIT), L40S.product),
        (Policy(strategy=Strategy.LARGEST), RTX_PRO_6000.product),
        (Policy(strategy=Strategy.ORDERED, order=(H100.product, L40S.product)), H100.product),
        (Policy(strategy=Strategy.ORDERED, order=("L40S",)), L40S.product),
    ],
)
def test_each_strategy_chooses_its_own(policy: Policy, chosen: str) -> None:
    known = nodes((L40S, 2, 8), (H100, 2, 8), (RTX_PRO_6000, 2, 8))
    assert products(ask(pytorchjob(memory_per_device="30Gi"), known, policy=policy)) == [chosen]


def test_ranks_that_no_single_model_has_room_for_are_denied() -> None:
    outcome = ask(pytorchjob(pod(gpus=4), workers=4))
    assert outcome.verdict is Verdict.DENY
    assert codes(outcome) == ["SST401"]
    assert all(one.out == (Out.ROOM,) for one in outcome.decision.pool.candidates)


def test_the_denial_leads_with_memory_where_one_model_lacks_it_and_the_other_room() -> None:
    outcome = ask(pytorchjob(pod(gpus=4), workers=4, memory_per_device="44Gi"))
    assert codes(outcome) == ["SST201"]


def test_no_packing_can_put_two_pods_of_three_gpus_on_one_node_of_four() -> None:
    outcome = ask(pytorchjob(pod(gpus=3), workers=3))
    assert codes(outcome) == ["SST401"]
    assert [one.pods for one in outcome.decision.pool.candidates] == [2, 2]


def test_host_memory_counts_for_room() -> None:
    spec = pod(gpus=2)
    spec["containers"][0]["resources"]["requests"] = {"memory": "300Gi"}
    assert codes(ask(pytorchjob(spec, workers=3))) == ["SST401"]
    assert ask(pytorchjob(spec, workers=2)).verdict is Verdict.PIN


def test_every_role_with_devices_is_pinned_to_the_same_model() -> None:
    obj = pytorchjob(workers=3)
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": pod()}}
    after = patched(ask(obj))["spec"]["pytorchReplicaSpecs"]
    assert after["Master"]["template"]["spec"]["nodeSelector"] == after["Worker"]["template"]["spec"]["nodeSelector"]


def test_a_role_without_devices_is_left_alone() -> None:
    obj = pytorchjob(workers=4)
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": pod(gpus=0)}}
    after = patched(ask(obj))["spec"]["pytorchReplicaSpecs"]
    assert after["Master"] == obj["spec"]["pytorchReplicaSpecs"]["Master"]
    assert "nodeSelector" in after["Worker"]["template"]["spec"]


def test_roles_that_their_user_pinned_to_different_models_are_denied() -> None:
    obj = pytorchjob(pod(nodeSelector={PRODUCT: RTX_5090.product}), workers=3)
    master = pod(nodeSelector={PRODUCT: RTX_PRO_6000.product})
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": master}}
    outcome = ask(obj)
    assert outcome.verdict is Verdict.DENY
    assert all(one.out == (Out.UNREACHABLE,) for one in outcome.decision.pool.candidates)


def test_a_job_that_its_user_pinned_to_the_small_card_is_denied_if_the_batch_is_too_big() -> None:
    obj = pytorchjob(pod(nodeSelector={PRODUCT: RTX_5090.product}), memory_per_device="44Gi")
    outcome = ask(obj)
    assert outcome.verdict is Verdict.DENY
    assert [one.kind for one in outcome.suggestions] == ["model"]


def test_a_pool_of_one_model_is_left_alone() -> None:
    outcome = ask(pytorchjob(), nodes((H100, 2, 8)))
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, [])


def test_a_policy_may_pin_always() -> None:
    outcome = ask(pytorchjob(), nodes((H100, 2, 8)), policy=Policy(pin_when=PinWhen.ALWAYS))
    assert worker(patched(outcome))["nodeSelector"] == {PRODUCT: H100.product}


def test_a_policy_may_never_pin_and_still_gate() -> None:
    policy = Policy(pin_when=PinWhen.NEVER)
    assert ask(pytorchjob(), policy=policy).verdict is Verdict.ADMIT
    assert ask(pytorchjob(memory_per_device="120Gi"), policy=policy).verdict is Verdict.DENY


def test_one_gpu_and_no_gpu_pass_unchanged() -> None:
    for spec in (pod(gpus=1), pod(gpus=0)):
        outcome = ask(job(spec, pods=1, memory_per_device="120Gi"))
        assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, [])


def test_one_node_is_kept_off_the_models_that_are_too_small_and_not_narrowed_further() -> None:
    known = nodes((RTX_5090, 1, 8), (A100_80GB, 1, 8), (RTX_PRO_6000, 1, 8))
    outcome = ask(job(pod(gpus=8), pods=1, memory_per_device="44Gi"), known)
    assert sorted(products(outcome)) == sorted([A100_80GB.product, RTX_PRO_6000.product])
    terms = worker(patched(outcome))["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (requirement,) = terms["nodeSelectorTerms"][0]["matchExpressions"]
    assert requirement["values"] == sorted([A100_80GB.product, RTX_PRO_6000.product])


def test_one_node_with_nothing_out_passes_unchanged() -> None:
    assert ask(job(pod(gpus=4), pods=1, memory_per_device="20Gi")).verdict is Verdict.ADMIT


def test_independent_pods_are_warned_of_the_models_that_are_too_small() -> None:
    outcome = ask(job(pod(gpus=1, command=["python", "trial.py"]), indexed=False, pods=8, memory_per_device="44Gi"))
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST202"])


def test_independent_pods_that_fit_nowhere_are_denied() -> None:
    outcome = ask(job(pod(gpus=1, command=["python", "trial.py"]), indexed=False, pods=8, memory_per_device="144Gi"))
    assert codes(outcome) == ["SST201"]


def test_an_indexed_job_without_a_launcher_is_pinned_but_never_denied_for_room() -> None:
    obj = job(pod(gpus=4, command=["python", "train.py"]), pods=4)
    outcome = ask(obj)
    assert outcome.verdict is Verdict.PIN
    assert ("SST401", Action.WARN) in [(one.code, one.action) for one in outcome.decision.findings]


def test_nodes_of_unknown_model_withhold_a_denial_and_are_never_chosen() -> None:
    unlabelled = gpu_node("odd", H100)
    for key in ("product", "memory"):
        del unlabelled["metadata"]["labels"][f"nvidia.com/gpu.{key}"]
    known = [*demo_nodes(), unlabelled]
    too_big = ask(pytorchjob(memory_per_device="120Gi"), known)
    assert (too_big.verdict, codes(too_big)) == (Verdict.ADMIT, ["SST201"])
    assert products(ask(pytorchjob(memory_per_device="44Gi"), known)) == [RTX_PRO_6000.product]
    strict = Policy(unknown_nodes=UnknownNodes.DENY)
    assert ask(pytorchjob(memory_per_device="120Gi"), known, policy=strict).verdict is Verdict.DENY


def test_a_node_with_two_models_is_no_candidate_and_makes_the_pool_mixed() -> None:
    odd = gpu_node("odd", RTX_PRO_6000, devices=4)
    odd["metadata"]["labels"]["nvidia.com/gpu.count"] = "2"
    outcome = ask(pytorchjob(workers=2), [*nodes((RTX_5090, 2, 4)), odd])
    assert products(outcome) == [RTX_5090.product]
    assert "SST305" in codes(outcome)
    alone = ask(pytorchjob(workers=2), [odd])
    assert (alone.verdict, codes(alone)) == (Verdict.ADMIT, ["SST307"])


def test_shares_are_no_place_for_coupled_ranks() -> None:
    shared = gpu_node("shared", RTX_5090, devices=8)
    shared["metadata"]["labels"] |= {"nvidia.com/gpu.replicas": "4", PRODUCT: f"{RTX_5090.product}-SHARED"}
    outcome = ask(pytorchjob(workers=2), [shared])
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST304"])
    assert products(ask(pytorchjob(workers=2), [shared, *nodes((RTX_PRO_6000, 1, 4))])) == [RTX_PRO_6000.product]


def test_no_node_in_view_is_a_warning_and_never_a_denial() -> None:
    outcome = ask(pytorchjob(pod(nodeSelector={"zone": "typo"}), memory_per_device="120Gi"))
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST403"])
    assert codes(ask(pytorchjob(), [])) == ["SST403"]
    (finding,) = ask(pytorchjob(pod(gpus=16))).decision.findings
    assert (finding.code, finding.variant, finding.facts["devices"]) == ("SST403", "", 16)


@pytest.mark.parametrize(
    ("selected", "variant", "told"),
    [
        ({"zone": "typo"}, "selector", {"key": "zone", "value": "typo"}),
        ({PRODUCT: "NVIDIA-Geforce-RTX-5090"}, "selector-like", {"key": PRODUCT, "values": RTX_5090.product}),
        ({PRODUCT: A100_80GB.product}, "selector", {"key": PRODUCT, "value": A100_80GB.product}),
    ],
)
def test_an_entry_of_the_selector_that_no_node_meets_is_named_and_a_near_value_told(
    selected: Json, variant: str, told: Json
) -> None:
    (finding,) = ask(pytorchjob(pod(nodeSelector=selected))).decision.findings
    assert (finding.code, finding.variant) == ("SST403", variant)
    assert told.items() <= finding.facts.items()
    assert ".template.spec.nodeSelector" in finding.where
    assert str(finding.facts["key"]) in finding.where


def test_a_passing_state_does_not_make_a_pool_pure() -> None:
    known = demo_nodes()
    for one in known[2:]:
        one["spec"] = {
            "unschedulable": True,
            "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
        }
        one["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert ask(pytorchjob(memory_per_device="44Gi"), known).verdict is Verdict.PIN


def test_a_taint_that_is_not_tolerated_takes_a_model_out_of_the_pool() -> None:
    known = demo_nodes()
    for one in known[2:]:
        one["spec"] = {"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}
    assert ask(pytorchjob(), known).verdict is Verdict.ADMIT
    tolerant = pytorchjob(pod(tolerations=[{"key": "team", "operator": "Exists"}]))
    assert ask(tolerant, known).verdict is Verdict.PIN


def test_where_nodes_may_be_added_a_lack_of_room_is_a_warning() -> None:
    known = demo_nodes()
    for one in known:
        one["metadata"]["labels"]["karpenter.sh/nodepool"] = "gpus"
    outcome = ask(pytorchjob(pod(gpus=4), workers=4), known)
    assert outcome.verdict is Verdict.PIN
    assert "SST401" in codes(outcome)


@pytest.mark.parametrize(("room", "code"), [(RoomRule.PREFER, {"SST401"}), (RoomRule.IGNORE, set())])
def test_a_policy_may_loosen_room(room: RoomRule, code: set[str]) -> None:
    outcome = ask(pytorchjob(pod(gpus=4), workers=4), policy=Policy(room=room))
    assert outcome.verdict is Verdict.PIN
    assert set(codes(outcome)) & {"SST401"} == code


def test_a_stale_fleet_denies_nothing() -> None:
    known = fleet(demo_nodes(), taken_at=0.0)
    for obj in (pytorchjob(memory_per_device="120Gi"), pytorchjob(pod(gpus=4), workers=4)):
        outcome = ask(obj, known, now=301.0)
        assert outcome.verdict is Verdict.ADMIT
        assert codes(outcome)[0] in ("SST201", "SST401")
        assert ask(obj, known, now=300.0).verdict is Verdict.DENY


def test_a_warning_policy_admits_unpinned_what_would_be_denied_and_still_pins() -> None:
    policy = Policy(validation_action=ValidationAction.WARN)
    denied = ask(pytorchjob(memory_per_device="120Gi"), policy=policy)
    assert (denied.verdict, denied.would_be) == (Verdict.ADMIT, Verdict.DENY)
    assert ask(pytorchjob(memory_per_device="44Gi"), policy=policy).verdict is Verdict.PIN


def test_an_auditing_policy_changes_nothing() -> None:
    policy = Policy(validation_action=ValidationAction.AUDIT)
    outcome = ask(pytorchjob(memory_per_device="44Gi"), policy=policy)
    assert (outcome.verdict, outcome.would_be) == (Verdict.ADMIT, Verdict.PIN)


def test_memory_that_differs_within_a_product_counts_at_its_least() -> None:
    known = nodes((RTX_PRO_6000, 2, 4), (replace(RTX_5090, memory_mib=30_000), 1, 4), (RTX_5090, 1, 4))
    for index, one in enumerate(known):
        one["metadata"]["name"] = f"node-{index}"
    outcome = ask(pytorchjob(memory_per_device="29Gi"), known)
    assert products(outcome) == [RTX_PRO_6000.product]
    small = min(outcome.decision.pool.candidates, key=lambda one: one.memory_mib)
    assert small.memory_mib == 30_000


def test_the_reserve_of_the_driver_is_not_usable() -> None:
    only = nodes((RTX_5090, 2, 4))
    assert ask(pytorchjob(memory_per_device=f"{32_607 - 640}Mi"), only).verdict is Verdict.ADMIT
    assert ask(pytorchjob(memory_per_device=f"{32_607 - 639}Mi"), only).verdict is Verdict.DENY


def test_memory_near_the_limit_is_a_risk_and_ranks_last() -> None:
    known = nodes((RTX_5090, 4, 4), (RTX_PRO_6000, 2, 4))
    outcome = ask(pytorchjob(memory_per_device="31Gi"), known)
    assert products(outcome) == [RTX_PRO_6000.product]
    only = ask(pytorchjob(memory_per_device="31Gi"), nodes((RTX_5090, 4, 4)))
    assert (only.verdict, codes(only)) == (Verdict.ADMIT, ["SST202"])


def test_a_label_that_separates_nothing_leaves_the_job_unpinned() -> None:
    known = demo_nodes()
    odd = gpu_node("odd", RTX_PRO_6000)
    del odd["metadata"]["labels"]["nvidia.com/gpu.count"]
    odd["metadata"]["labels"]["nvidia.com/gpu.product"] += "-MIG-INVALID"
    assert ask(pytorchjob(memory_per_device="44Gi"), [*known, odd]).verdict is Verdict.PIN
    # One label for both models, which only memory tells apart, is one product with a spread, not two models.
    for one in known:
        one["metadata"]["labels"][PRODUCT] = "NVIDIA-Same"
    same = ask(pytorchjob(memory_per_device="20Gi"), known)
    assert (same.verdict, codes(same)) == (Verdict.ADMIT, ["SST206"])


def test_a_key_of_the_policy_comes_before_the_vendors_label() -> None:
    known = demo_nodes()
    for one in known:
        labels = one["metadata"]["labels"]
        labels["gpu-type"] = "small" if "5090" in labels[PRODUCT] else "large"
    outcome = ask(pytorchjob(memory_per_device="44Gi"), known, policy=Policy(pin_keys=("gpu-type",)))
    assert worker(patched(outcome))["nodeSelector"] == {"gpu-type": "large"}


def test_a_key_that_the_other_model_shares_is_passed_over() -> None:
    known = demo_nodes()
    for one in known:
        one["metadata"]["labels"]["gpu-type"] = "any"
    outcome = ask(pytorchjob(memory_per_device="44Gi"), known, policy=Policy(pin_keys=("gpu-type",)))
    assert worker(patched(outcome))["nodeSelector"] == {PRODUCT: RTX_PRO_6000.product}


def test_two_spellings_of_one_product_are_pinned_together() -> None:
    known = nodes((A100_80GB, 2, 8), (RTX_5090, 2, 8))
    known[0]["metadata"]["labels"][PRODUCT] = "A100-SXM4-80GB"
    outcome = ask(pytorchjob(pod(gpus=8), workers=2, memory_per_device="44Gi"), known)
    terms = worker(patched(outcome))["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (requirement,) = terms["nodeSelectorTerms"][0]["matchExpressions"]
    assert requirement == {"key": PRODUCT, "operator": "In", "values": ["A100-SXM4-80GB", A100_80GB.product]}


def test_two_vendors_in_one_job_are_denied() -> None:
    amd = gpu_node("amd", RTX_5090, devices=8)
    amd["metadata"]["labels"] = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"}
    for amounts in (amd["status"]["capacity"], amd["status"]["allocatable"]):
        amounts["amd.com/gpu"] = amounts.pop("nvidia.com/gpu")
    obj = pytorchjob(workers=3)
    master = pod(gpus=2, device="amd.com/gpu")
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": master}}
    outcome = ask(obj, [*demo_nodes(), amd])
    assert (outcome.verdict, codes(outcome)[0]) == (Verdict.DENY, "SST501")


def test_two_vendors_are_told_as_such_where_one_of_them_has_no_node() -> None:
    obj = pytorchjob(workers=1)
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": pod(device="amd.com/gpu")}}
    (finding,) = ask(obj).decision.findings
    assert (finding.code, finding.facts["vendors"]) == ("SST501", "AMD (Master), NVIDIA (Worker)")


def test_a_likely_figure_that_exceeds_the_card_is_told_as_more_than_tight() -> None:
    flags = ("--model_name_or_path=meta-llama/Llama-3.1-8B", "--per_device_train_batch_size=4", "--block_size=4096")
    outcome = ask(
        pytorchjob(pod(command=("torchrun", "train.py", *flags, "--bf16", "--do_train", "--save_strategy=no")))
    )
    (tight,) = (one for one in outcome.decision.findings if one.code == "SST202")
    assert tight.variant == "unlikely"


def test_an_unreadable_annotation_denies_a_job_in_scope_and_no_other() -> None:
    outcome = ask(pytorchjob(memory_per_device="lots"))
    assert outcome.verdict is Verdict.DENY
    assert "SST106" in codes(outcome)
    assert ask(job(pod(gpus=1), pods=1, memory_per_device="lots")).verdict is Verdict.ADMIT


def test_the_submitter_may_couple_more_but_not_less() -> None:
    sweep = job(pod(gpus=2, command=["python", "trial.py"]), indexed=False, pods=4, coupling="Synchronous")
    assert ask(sweep).verdict is Verdict.PIN
    loose = pytorchjob(coupling="Independent")
    assert ask(loose).verdict is Verdict.PIN
    assert ask(loose, policy=Policy(coupling=True)).verdict is Verdict.ADMIT


def test_the_record_breaks_ties_so_that_a_second_call_finds_its_own_answer() -> None:
    known = nodes((A100_80GB, 2, 8), (replace(A100_80GB, product="NVIDIA-ZZZ"), 2, 8))
    first = ask(pytorchjob(memory_per_device="20Gi"), known)
    assert products(first) == [A100_80GB.product]
    record = '{"key":"nvidia.com/gpu.product","values":["NVIDIA-ZZZ"],"policy":"one-model-per-job"}'
    assert products(ask(pytorchjob(memory_per_device="20Gi", pinned=record), known)) == ["NVIDIA-ZZZ"]
    assert products(ask(pytorchjob(memory_per_device="20Gi", pinned="{"), known)) == [A100_80GB.product]


def test_reviewing_our_own_output_changes_nothing() -> None:
    for obj in (pytorchjob(memory_per_device="44Gi"), pytorchjob(), job(pod(gpus=4), pods=1, memory_per_device="44Gi")):
        once = ask(obj)
        assert once.verdict is Verdict.PIN
        assert ask(patched(once)).verdict is Verdict.ADMIT


def estimated(batch: int, model: str = "meta-llama/Llama-3.1-8B") -> Json:
    flags = (f"--model_name_or_path={model}", "--fsdp=full_shard", "--bf16=True", "--max_seq_length=4096")
    return pytorchjob(pod(command=("torchrun", "train.py", *flags, f"--per_device_train_batch_size={batch}")))


def test_an_estimate_pins_and_denies_with_what_it_assumes() -> None:
    pinned = ask(estimated(16))
    assert (pinned.verdict, products(pinned)) == (Verdict.PIN, [RTX_PRO_6000.product])
    denied = ask(estimated(1024))
    assert codes(denied) == ["SST201"]
    assert [one.kind for one in denied.suggestions] == ["batch", "measured"]


def test_an_estimate_that_may_not_deny_ranks_and_warns() -> None:
    outcome = ask(estimated(1024, "acme/secret-8b"))
    assert outcome.verdict is Verdict.PIN
    assert products(outcome) == [RTX_PRO_6000.product]
    assert "SST202" in codes(outcome)
    known = nodes((RTX_5090, 4, 4), (RTX_PRO_6000, 2, 4))
    assert products(ask(estimated(4, "acme/secret-8b"), known)) == [RTX_PRO_6000.product]
