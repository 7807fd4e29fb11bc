"""The validating stage sees the object as it will be stored."""

from controlplane.nodes import RTX_5090, RTX_PRO_6000
from tests.samples import ask, codes, demo_nodes, fleet, nodes, patched, pod, pytorchjob
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.model.policy import PinWhen, Policy
from webhook.model.request import Stage
from webhook.model.verdict import Verdict

PRODUCT = "nvidia.com/gpu.product"
CHECK = Stage.VALIDATE


def test_what_was_pinned_passes_in_silence() -> None:
    final = patched(ask(pytorchjob(memory_per_device="44Gi")))
    outcome = ask(final, stage=CHECK)
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, [])


def test_what_should_be_pinned_and_is_not_is_denied() -> None:
    outcome = ask(pytorchjob(memory_per_device="44Gi"), stage=CHECK)
    assert codes(outcome) == ["SST302"]
    assert ask(pytorchjob(), stage=CHECK, policy=Policy(pin_when=PinWhen.NEVER)).verdict is Verdict.ADMIT


def test_a_second_model_that_joined_a_moment_ago_denies_nothing() -> None:
    joined = [
        *(read_node(one, 0.0) for one in nodes((RTX_5090, 2, 4))),
        *(read_node(one, 941.0) for one in nodes((RTX_PRO_6000, 2, 4))),
    ]
    known = build_fleet(one for one in joined if one is not None)
    assert ask(pytorchjob(memory_per_device="20Gi"), known, stage=CHECK, now=1000.0).verdict is Verdict.ADMIT
    assert ask(pytorchjob(memory_per_device="20Gi"), known, stage=CHECK, now=1001.0).verdict is Verdict.DENY


def test_memory_that_no_reachable_model_has_is_denied_also_here() -> None:
    final = pytorchjob(pod(nodeSelector={PRODUCT: RTX_5090.product}), memory_per_device="44Gi")
    assert codes(ask(final, stage=CHECK)) == ["SST201"]


def test_room_is_not_checked_again() -> None:
    assert ask(pytorchjob(pod(gpus=4), workers=4), stage=CHECK).verdict is Verdict.ADMIT


def test_a_pin_that_names_nothing_in_view_is_a_warning() -> None:
    final = patched(ask(pytorchjob(memory_per_device="44Gi")))
    outcome = ask(final, nodes((RTX_5090, 2, 4)), stage=CHECK)
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST403"])


def test_a_requirement_that_another_webhook_added_against_the_pin_is_told() -> None:
    final = patched(ask(pytorchjob(memory_per_device="44Gi")))
    spec = final["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    term = {"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": [RTX_5090.product]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec["affinity"] = {"nodeAffinity": required}
    outcome = ask(final, stage=CHECK)
    assert codes(outcome) == ["SST403"]


def test_a_stale_fleet_denies_nothing_here_either() -> None:
    known = fleet(demo_nodes(), taken_at=0.0)
    assert ask(pytorchjob(memory_per_device="44Gi"), known, stage=CHECK, now=301.0).verdict is Verdict.ADMIT
