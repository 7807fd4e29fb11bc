"""What Events say of jobs that have been created, and of denials."""

from dataclasses import replace

import pytest

from controlplane.nodes import A100_80GB, RTX_5090, RTX_PRO_6000
from tests.samples import Json, ask, codes, demo_nodes, job, nodes, patched, pod
from webhook.answer.events import Told, created, denied
from webhook.model.finding import Action
from webhook.model.placement import Operator, Requirement
from webhook.model.policy import (
    Condition,
    FleetShown,
    Language,
    Likeness,
    Match,
    PinWhen,
    Policy,
    ValidationAction,
)
from webhook.model.request import Stage, User
from webhook.model.rules import AcceleratorPool, Rules
from webhook.model.verdict import Review

AUDIT = Policy(name="look", validation_action=ValidationAction.AUDIT)
WARN = Policy(name="tell", validation_action=ValidationAction.WARN)
PINNED = patched(ask(job()))
RECORD = PINNED["metadata"]["annotations"]
PRODUCT = "nvidia.com/gpu.product"
IN_TEAM_A = (Requirement("kubernetes.io/metadata.name", Operator.IN, ("team-a",)),)


def audited(obj: Json, policy: Policy | None = None, **options: object) -> Review:
    return ask(obj, stage=Stage.AUDIT, policy=policy, **options)  # type: ignore[arg-type]


def only(told: tuple[Told, ...]) -> Told:
    [one] = told
    return one


@pytest.mark.parametrize("policy", [Policy(), AUDIT, WARN], ids=lambda policy: policy.name)
def test_a_pinned_job_is_told_its_model_its_key_its_policy_and_why(policy: Policy) -> None:
    assert only(created(audited(PINNED, policy))) == Told(
        "Pinned",
        warning=False,
        message=(
            "pinned to RTX-PRO-6000-Blackwell-Server by nvidia.com/gpu.product, so that none of its pods lands on "
            "another GPU model. Policy one-model-per-job"
        ),
    )


def test_a_job_that_is_only_kept_off_models_is_told_all_that_are_left() -> None:
    selector = [{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": [RTX_PRO_6000.product, "other"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selector}}}
    record = f'{{"key":"{PRODUCT}","values":["{RTX_PRO_6000.product}","other"],"policy":"p"}}'
    obj = job(pod(affinity=affinity), pinned=record)

    assert only(created(audited(obj))).message.startswith("pinned to RTX-PRO-6000-Blackwell-Server by ")


@pytest.mark.parametrize(
    "spec", [pod(), pod(nodeSelector={PRODUCT: RTX_5090.product})], ids=["no selector", "another model"]
)
def test_a_record_that_came_along_with_a_copied_manifest_is_not_believed(spec: Json) -> None:
    obj = job(spec)
    obj["metadata"]["annotations"] = RECORD

    assert created(audited(obj)) == ()


def test_a_job_that_nobody_pinned_or_that_follows_its_owner_has_nothing_to_tell() -> None:
    child = job()
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "a", "uid": "u", "controller": True}
    child["metadata"]["ownerReferences"] = [owner]

    assert created(audited(job(pod(gpus=0)), AUDIT)) == ()
    assert created(audited(job(pod(nodeSelector={PRODUCT: RTX_5090.product})), AUDIT)) == ()
    assert created(audited(child, AUDIT, user=User("system:serviceaccount:kubeflow:operator"))) == ()


def test_where_a_policy_only_audits_the_patch_is_told_that_would_have_been_applied() -> None:
    told = only(created(audited(job(), AUDIT)))

    assert (told.reason, told.warning) == ("WouldPin", False)
    assert told.message.startswith(
        "only audited (policy look); under Deny: SST301 pinned to RTX-PRO-6000-Blackwell-Server"
    )
    assert (
        '. Patch: [{"op":"add","path":"/spec/template/spec/nodeSelector",'
        f'"value":{{"{PRODUCT}":"{RTX_PRO_6000.product}"}}}}' in told.message
    )


def test_a_patch_that_is_too_long_for_an_event_is_cut_and_says_so() -> None:
    """Two models that count as one take an affinity, which is written into each term that is there."""
    terms = [{"matchExpressions": [{"key": f"zone-{index}", "operator": "DoesNotExist"}]} for index in range(20)]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    fleet = [*demo_nodes(), *nodes((A100_80GB, 2, 4))]
    classes = ((RTX_5090.product, RTX_PRO_6000.product),)
    alike = replace(AUDIT, likeness=Likeness.EQUIVALENT, classes=classes, language=Language.KO)
    told = only(created(audited(job(pod(affinity=affinity), memory_per_device="20Gi"), alike, known=fleet)))

    assert told.reason == "WouldPin"
    assert '"path":"/spec/template/spec/affinity' in told.message
    assert told.message.endswith("…")
    assert 1015 < len(told.message.encode()) <= 1024


VIP = AcceleratorPool("vip", (Requirement(PRODUCT, Operator.IN, (RTX_PRO_6000.product,)),), groups=("vision",))
OF_VISION = replace(
    AUDIT, match=Match(conditions=(Condition("v", "!('ops' in request.?userInfo.?groups.orValue([]))"),))
)


@pytest.mark.parametrize(
    ("rules", "as_nobody"),
    [
        (Rules(policies=(AUDIT,), pools=(VIP,)), True),
        (Rules(policies=(OF_VISION,)), True),
        (Rules(policies=(AUDIT,), pools=(replace(VIP, groups=()),)), False),
        (Rules(policies=(AUDIT,), pools=(replace(VIP, namespaces=IN_TEAM_A),)), False),
    ],
    ids=["a pool for a group", "a condition on groups", "a pool for all", "a pool for the namespace as well"],
)
@pytest.mark.parametrize("memory", ["20Gi", "200Gi"], ids=["would be pinned", "would be refused"])
def test_where_it_matters_who_created_the_job_it_is_told_as_of_nobody(
    rules: Rules, as_nobody: bool, memory: str
) -> None:
    told = only(created(audited(job(memory_per_device=memory), user=User(), rules=rules)))

    assert told.reason in ("WouldPin", "WouldDeny")
    note = "(policy look; as for a user in no group, since who created it is not known); under Deny"
    assert (note in told.message) is as_nobody


def test_what_was_given_the_pool_of_a_group_is_told_so_whoever_created_it() -> None:
    rules = Rules(policies=(Policy(),), pools=(VIP,))
    obj = patched(ask(job(), user=User("ann", ("vision",)), rules=rules))
    outcome = audited(obj, user=User(), rules=rules)

    assert only(created(outcome)).message == "kept to the nodes of pool vip. Policy one-model-per-job"
    assert not outcome.as_nobody
    # As it is created, its record is no evidence of who may use the pool.
    assert ask(obj, user=User("bob"), rules=rules).decision.pool_name == ""


def test_where_a_policy_only_audits_or_warns_a_denial_is_told_by_its_first_line() -> None:
    obj = job(memory_per_device="200Gi")
    need = "the job needs 200.0 GiB on every GPU (declared), and no GPU model that ddp may use has that."
    line = f"SST201 out of memory: {need}"

    assert only(created(audited(obj, AUDIT))) == Told(
        "WouldDeny", warning=True, message=f"only audited (policy look); under Deny it would have been refused: {line}"
    )
    assert only(created(audited(obj, WARN))) == Told(
        "AdmittedWithRisk",
        warning=True,
        message=f"only warned of (policy tell); under Deny it would have been refused: {line}",
    )
    assert created(audited(obj)) == ()


def test_what_is_told_of_is_what_would_deny_and_not_what_stands_before_it() -> None:
    raised = replace(AUDIT, codes={"SST101": Action.DENY}, pin_when=PinWhen.NEVER)
    outcome = audited(job(mico_batch="8"), raised)
    told = only(created(outcome))

    assert {"SST306", "SST101"} <= set(codes(outcome))
    assert told.reason == "WouldDeny"
    assert ": SST101 unknown annotation samestep.dev/mico-batch" in told.message


def test_a_pinned_job_hears_of_a_stricter_policy_that_is_tried_as_well() -> None:
    strict = replace(AUDIT, codes={"SST101": Action.DENY}, priority=-1)
    obj = patched(ask(job(mico_batch="8")))
    first, second = created(audited(obj, rules=Rules(policies=(Policy(), strict))))

    assert (first.reason, second.reason) == ("Pinned", "AdmittedWithRisk")
    assert ": SST101 unknown annotation samestep.dev/mico-batch" in second.message


def test_a_job_that_only_got_a_pool_is_told_so_where_it_is_true() -> None:
    pool = AcceleratorPool("big", (Requirement(PRODUCT, Operator.IN, (RTX_PRO_6000.product,)),))
    rules = Rules(policies=(Policy(),), pools=(pool,))
    obj = patched(ask(job(), rules=rules))

    assert only(created(audited(obj, rules=rules))).message == "kept to the nodes of pool big. Policy one-model-per-job"
    copied = job()
    copied["metadata"]["annotations"] = obj["metadata"]["annotations"]
    assert created(audited(copied, rules=rules)) == ()


def test_where_the_fleet_is_hidden_a_pinned_job_is_told_what_it_says_itself() -> None:
    hiding = Policy(fleet_shown=FleetShown.NONE)

    assert only(created(audited(PINNED, hiding))).message.startswith(f"pinned to {RTX_PRO_6000.product} by ")


def test_denials_are_told_in_sum_with_one_of_them_and_in_the_language_of_that() -> None:
    line = "SST401 no room: ddp wants 16 GPUs."

    assert denied("SST401", 12, "Job ddp", line, Language.EN) == Told(
        "SST401", warning=True, message=f"denied within a minute: 12; the first, Job ddp: {line}"
    )
    assert denied("SST401", 12, "Job ddp", line, Language.KO).message.startswith("1분 동안 거부 12건")
    assert len(denied("SST401", 1, "Job " + "가" * 400, line, Language.EN).message.encode()) <= 1024
