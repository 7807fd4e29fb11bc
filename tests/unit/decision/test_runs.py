"""What earlier runs of a training change of a decision about it."""

from dataclasses import replace

import pytest

from controlplane.nodes import A100_80GB, RTX_5090, RTX_PRO_6000
from tests.profiles import NOW, known, large, profile, ran, recipe, seen, small
from tests.samples import Json, ask, codes, demo_nodes, fleet, job, nodes, patched, pod, products, pytorchjob
from tests.unit.answer.cases import A100_PCIE, LIKE, TABLE, unlabelled
from webhook.answer.evidence import evidence, used
from webhook.answer.message import message
from webhook.answer.response import admission_response
from webhook.answer.warnings import warnings
from webhook.model.demand import DemandSource
from webhook.model.finding import Action
from webhook.model.policy import Likeness, PinWhen, Policy, Strategy
from webhook.model.profile import NO_PROFILES, Allocator, Profiles
from webhook.model.request import Stage
from webhook.model.verdict import Out, Review, Verdict

MANY_SMALL = nodes((RTX_5090, 8, 4), (RTX_PRO_6000, 2, 4))
ON_SMALL = {"nvidia.com/gpu.product": RTX_5090.product}


def again(obj: Json, profiles: Profiles, known_nodes: list[Json] | None = None, **asked: object) -> Review:
    return ask(obj, known_nodes, now=NOW, profiles=profiles, **asked)  # type: ignore[arg-type]


def batched(batch: int, **annotations: str) -> Json:
    spec = pod(command=("torchrun", "train.py", f"--per_device_train_batch_size={batch}"))
    return pytorchjob(spec, workers=4, name="ddp", **annotations)


def test_the_first_time_nothing_is_known_and_the_second_time_it_is_kept_off_the_card_that_ran_out() -> None:
    obj = pytorchjob()
    first = again(obj, NO_PROFILES)
    assert (first.verdict, codes(first), first.lessons.recipe) == (Verdict.PIN, ["SST301", "SST203"], None)
    second = again(obj, ran(obj, small(out=1)), MANY_SMALL, policy=Policy(strategy=Strategy.MOST_FREE))
    assert products(second) == [RTX_PRO_6000.product]
    assert codes(second) == ["SST301", "SST205", "SST203"]
    reason = warnings(second)[1]
    assert reason == "SST205 kept off RTX-5090: out of memory before (ddp-7, 2027-01-14)"
    out = next(one for one in second.decision.pool.candidates if one.model.product == RTX_5090.product)
    assert out.out == (Out.RAN_OUT,)


def test_it_is_denied_where_no_other_model_is_left() -> None:
    obj = pytorchjob(pod(nodeSelector=ON_SMALL))
    outcome = again(obj, ran(obj, small(out=1, times=3)))
    assert (outcome.verdict, codes(outcome)) == (Verdict.DENY, ["SST205"])
    assert message(outcome).splitlines()[0] == (
        "SST205 ddp ran out of memory before on RTX-5090 (ddp-7, 2027-01-14, 3 times in a row), and it may use no "
        "other GPU model with the memory."
    )
    assert "ddp-1f0a" in message(outcome)
    assert [one.kind for one in outcome.suggestions] == ["model"]
    assert outcome.suggestions[0].model.product == RTX_PRO_6000.product


def test_it_is_denied_where_the_others_have_no_room() -> None:
    obj = pytorchjob(workers=8)
    outcome = again(obj, ran(obj, small(out=1)), MANY_SMALL)
    assert (outcome.verdict, codes(outcome)) == (Verdict.DENY, ["SST205"])


def test_a_policy_may_have_it_warn() -> None:
    obj = pytorchjob(pod(nodeSelector=ON_SMALL))
    outcome = again(obj, ran(obj, small(out=1)), policy=Policy(codes={"SST205": Action.WARN}))
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST205"])


@pytest.mark.parametrize("case", ["unknown", "stale"])
def test_it_denies_nothing_where_the_fleet_is_not_known_well(case: str) -> None:
    obj = pytorchjob()
    runs = ran(obj, small(out=1), large(out=1))
    if case == "unknown":
        outcome = again(obj, runs, [*demo_nodes(), unlabelled()])
    else:
        outcome = ask(obj, fleet(demo_nodes(), taken_at=NOW - 400), now=NOW, profiles=runs)
    assert (outcome.verdict, codes(outcome), outcome.decision.findings[0].variant) == (Verdict.ADMIT, ["SST205"], case)


def test_a_run_that_ended_well_goes_before_what_is_declared_and_both_are_named() -> None:
    obj = pytorchjob(pod(nodeSelector=ON_SMALL), memory_per_device="44Gi")
    assert again(obj, NO_PROFILES).verdict is Verdict.DENY
    outcome = again(obj, ran(obj, small(runs=3)))
    assert (outcome.verdict, codes(outcome), products(outcome)) == (Verdict.ADMIT, ["SST207"], [RTX_5090.product])
    (told,) = warnings(outcome)
    assert told == ("SST207 44.0 GiB on every GPU (declared) is too much: 3 good runs (last 2027-01-15) on RTX-5090")


def test_running_out_goes_before_what_is_declared_and_both_are_named() -> None:
    obj = pytorchjob(memory_per_device="20Gi")
    outcome = again(obj, ran(obj, small(out=1)), MANY_SMALL)
    assert products(outcome) == [RTX_PRO_6000.product]
    assert "ddp-7, 2027-01-14" in warnings(outcome)[1]
    assert "though 20.0 GiB is declared" in warnings(outcome)[1]


def test_a_policy_table_that_a_run_contradicts_gives_way_too() -> None:
    obj = pytorchjob(pod(command=("torchrun", "train.py", "--arch=vit", "--micro-batch-size=256")))
    assert again(obj, NO_PROFILES, policy=TABLE).verdict is Verdict.DENY
    outcome = again(obj, ran(obj, large(runs=1)), policy=TABLE)
    assert products(outcome) == [RTX_PRO_6000.product]
    assert "SST207" in codes(outcome)


def test_a_job_that_preallocates_does_not_lose_its_small_card() -> None:
    obj = pytorchjob()
    runs = ran(obj, small(runs=2, peak_gib=0.75 * RTX_5090.memory_mib / 1024), allocator=Allocator.PREALLOCATING)
    outcome = again(obj, runs)
    assert products(outcome) == [RTX_5090.product]
    assert (outcome.demand.source, codes(outcome)) == (DemandSource.UNKNOWN, ["SST301", "SST207"])
    assert "2 good runs" in evidence(outcome)
    assert len(warnings(outcome)) == 1


def test_a_job_that_fitted_the_small_card_stays_there_though_a_larger_has_more_free() -> None:
    obj = pytorchjob()
    more_large = nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 8, 4))
    for peak_gib in (None, 28, 31):
        outcome = again(obj, ran(obj, small(runs=2, peak_gib=peak_gib)), more_large)
        assert products(outcome) == [RTX_5090.product]
        assert [one.risk for one in outcome.decision.pool.candidates] == [False, False]
    chosen = again(obj, ran(obj, small(runs=2)), more_large, policy=Policy(strategy=Strategy.LARGEST))
    assert products(chosen) == [RTX_PRO_6000.product]


def test_a_job_that_ran_on_the_large_card_and_has_a_low_peak_may_take_a_smaller_one() -> None:
    obj = pytorchjob()
    outcome = again(obj, ran(obj, large(runs=2, peak_gib=20)), MANY_SMALL)
    assert products(outcome) == [RTX_5090.product]
    high = again(obj, ran(obj, large(runs=2, peak_gib=60)), MANY_SMALL)
    assert products(high) == [RTX_PRO_6000.product]
    assert high.verdict is Verdict.PIN


def test_a_peak_denies_nothing() -> None:
    obj = pytorchjob(pod(nodeSelector=ON_SMALL))
    outcome = again(obj, ran(obj, large(runs=2, peak_gib=60), seen(A100_80GB, runs=1, peak_gib=59)))
    assert (outcome.verdict, outcome.demand.source) == (Verdict.ADMIT, DemandSource.OBSERVED)
    assert (codes(outcome), outcome.decision.findings[0].variant) == (["SST202"], "unlikely")


def test_a_changed_batch_uses_the_slope() -> None:
    runs = known(
        *(
            profile(recipe(batched(batch)), large(runs=1, peak_gib=peak), name=f"batch-{batch}")
            for batch, peak in ((8, 10), (16, 14))
        )
    )
    fits, large_only = again(batched(24), runs, MANY_SMALL), again(batched(64), runs, MANY_SMALL)
    assert products(fits) == [RTX_5090.product]
    assert products(large_only) == [RTX_PRO_6000.product]
    assert (large_only.demand.source, used(large_only)) == (DemandSource.OBSERVED, ("slope",))
    assert large_only.lessons.batches == (8, 16)


def test_a_declared_figure_goes_before_a_peak() -> None:
    obj = pytorchjob(memory_per_device="44Gi")
    outcome = again(obj, ran(obj, large(runs=1, peak_gib=20)), MANY_SMALL)
    assert (outcome.demand.source, products(outcome)) == (DemandSource.DECLARED, [RTX_PRO_6000.product])


def test_a_neighbour_that_ran_out_with_fewer_samples_is_a_doubt_that_ranks_and_never_denies() -> None:
    runs = known(profile(recipe(batched(16)), small(out=1, times=3)))
    outcome = again(batched(32), runs, MANY_SMALL, policy=Policy(strategy=Strategy.MOST_FREE))
    assert products(outcome) == [RTX_PRO_6000.product]
    alone = again(batched(32), runs, nodes((RTX_5090, 8, 4)))
    assert (alone.verdict, codes(alone), alone.decision.findings[0].variant) == (Verdict.ADMIT, ["SST205"], "doubt")
    assert "micro-batch 16" in warnings(alone)[0]


def test_a_neighbour_that_ended_well_with_more_samples_does_not_go_before_what_is_declared() -> None:
    runs = known(profile(recipe(batched(64)), small(runs=1)))
    assert products(again(batched(32), runs)) == [RTX_5090.product]
    declared = batched(32, memory_per_device="44Gi")
    assert products(again(declared, runs)) == [RTX_PRO_6000.product]


def test_running_out_once_since_a_run_ended_well_is_told_and_keeps_off_nothing() -> None:
    obj = pytorchjob()
    outcome = again(obj, ran(obj, small(good=5, out=1)))
    assert products(outcome) == [RTX_5090.product]
    assert [one.variant for one in outcome.decision.findings if one.code == "SST205"] == ["doubt"]


def test_a_card_with_less_memory_than_the_one_where_it_ended_well_may_be_too_small() -> None:
    """Cards of one product are sold with two memories."""
    obj = pytorchjob(pod(nodeSelector=ON_SMALL), memory_per_device="44Gi")
    doubled = ran(obj, replace(small(runs=1), memory_mib=2 * RTX_5090.memory_mib))
    assert again(obj, doubled).verdict is Verdict.DENY
    halved = pytorchjob(pod(nodeSelector=ON_SMALL))
    ran_out = ran(halved, replace(small(out=1), memory_mib=RTX_5090.memory_mib / 2))
    assert again(halved, ran_out).verdict is Verdict.ADMIT


def test_of_models_that_count_as_one_the_one_that_ran_out_is_left_out() -> None:
    alike = Policy(likeness=Likeness.EQUIVALENT)
    obj = pytorchjob(pod(gpus=4), workers=2, memory_per_device="44Gi")
    assert len(products(again(obj, NO_PROFILES, LIKE, policy=alike))) == 2
    outcome = again(obj, ran(obj, seen(A100_PCIE, out=1)), LIKE, policy=alike)
    assert products(outcome) == [A100_80GB.product]
    assert "SST205" in codes(outcome)
    all_fit = ran(obj, seen(A100_PCIE, runs=1), seen(A100_80GB, runs=1))
    assert [one.fits is not None for one in again(obj, all_fit, LIKE, policy=alike).decision.pool.candidates] == [
        True,
        False,
    ]


def test_a_job_on_one_node_is_kept_off_the_model_that_ran_out() -> None:
    obj = job(pod(gpus=4), pods=1)
    known_nodes = nodes((RTX_5090, 1, 8), (A100_80GB, 1, 8), (RTX_PRO_6000, 1, 8))
    outcome = again(obj, ran(obj, small(out=1)), known_nodes)
    assert outcome.verdict is Verdict.PIN
    assert RTX_5090.product not in products(outcome)
    assert {"SST301", "SST205"} <= set(codes(outcome))


def test_independent_pods_are_told_and_left_alone() -> None:
    obj = job(pod(gpus=1, command=["python", "trial.py"]), indexed=False, pods=8)
    outcome = again(obj, ran(obj, small(out=1)))
    assert outcome.verdict is Verdict.ADMIT
    assert [one.variant for one in outcome.decision.findings if one.code == "SST205"] == ["independent"]


def test_a_job_mixed_on_purpose_is_denied_where_any_of_its_models_ran_out() -> None:
    obj = pytorchjob()
    never = Policy(pin_when=PinWhen.NEVER)
    outcome = again(obj, ran(obj, small(out=1)), policy=never)
    assert (outcome.verdict, codes(outcome)[0]) == (Verdict.DENY, "SST205")
    assert again(obj, ran(obj, small(runs=1)), policy=never).verdict is Verdict.ADMIT


def test_what_ranks_waited_in_mixed_runs_is_told_before_the_estimate() -> None:
    obj = pytorchjob()
    outcome = again(obj, ran(obj, small(imbalance=0), large(imbalance=0.31)), policy=Policy(pin_when=PinWhen.NEVER))
    slowed = outcome.decision.straggler
    assert slowed is not None
    assert slowed.seen is not None
    assert (slowed.seen.model.product, round(slowed.seen.percent)) == (RTX_PRO_6000.product, 31)
    told = next(one for one in warnings(outcome) if one.startswith("SST306"))
    assert told.startswith("SST306 mixed on purpose: RTX-PRO-6000-Blackwell-Server waited 31 % before (seen), ")
    assert "by estimate" in told


def test_the_validating_stage_denies_by_the_same_runs() -> None:
    obj = pytorchjob(pod(nodeSelector=ON_SMALL))
    assert codes(again(obj, ran(obj, small(out=1)), stage=Stage.VALIDATE)) == ["SST205"]


def test_what_a_replica_has_just_learned_does_not_undo_the_answer_of_another() -> None:
    obj = job(pod(gpus=4), pods=1)
    known_nodes = nodes((RTX_5090, 1, 8), (RTX_PRO_6000, 1, 8))
    assert again(obj, NO_PROFILES, known_nodes).verdict is Verdict.ADMIT
    assert again(obj, ran(obj, small(out=1)), known_nodes, stage=Stage.VALIDATE).verdict is Verdict.ADMIT


def test_reviewing_what_it_was_pinned_to_changes_nothing() -> None:
    obj = pytorchjob()
    runs = ran(obj, small(out=1))
    pinned = patched(again(obj, runs))
    outcome = again(pinned, runs)
    assert outcome.verdict is not Verdict.DENY
    assert patched(outcome) == pinned


def test_a_running_job_is_denied_only_what_an_update_makes_worse() -> None:
    before = pytorchjob(pod(nodeSelector=ON_SMALL))
    before["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    after = pytorchjob(pod(nodeSelector=ON_SMALL), workers=2)
    runs = known(profile(recipe(before), small(out=1)), profile(recipe(after), small(out=1), name="two"))
    assert again(after, runs, old=before).verdict is Verdict.ADMIT
    worse = known(profile(recipe(after), small(out=1), name="two"))
    assert codes(again(after, worse, old=before)) == ["SST205"]


def test_the_audit_log_names_the_profile() -> None:
    obj = pytorchjob()
    response = admission_response(again(obj, ran(obj, small(out=1), large(runs=2))))
    told = response["auditAnnotations"]["runs"]
    assert told.startswith("ddp-1f0a: ")
    assert "RTX-5090 ran out of memory: ddp-7, 2027-01-14" in told
    assert "RTX-PRO-6000-Blackwell-Server: 2 good runs" in told
    assert "runs" not in admission_response(again(obj, NO_PROFILES))["auditAnnotations"]


def test_a_smaller_batch_is_a_way_out_where_devices_ran_out() -> None:
    obj = batched(32)
    obj["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"] += [
        "--gradient_accumulation_steps=1"
    ]
    for runs in (ran(obj, small(out=1)), ran(obj, small(out=1), large(runs=1, peak_gib=33))):
        outcome = again(obj, runs, nodes((RTX_5090, 4, 4)))
        assert outcome.verdict is Verdict.DENY
        assert [one.kind for one in outcome.suggestions] == ["batch"]
