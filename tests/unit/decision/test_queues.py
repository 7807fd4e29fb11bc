"""Jobs in queues: what is left to Kueue, what it is kept off, and by which label a pin does not mislead it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controlplane.nodes import A100_80GB, H100, RTX_5090, RTX_PRO_6000, Card, gpu_node
from tests.queues import GPU, flavor, groups, kueue, local, queue, queued, read, volcano
from tests.samples import Json, ask, codes, fleet, job, patched, pod, products, pytorchjob, worker
from webhook.answer.message import message
from webhook.answer.response import patch
from webhook.answer.warnings import warnings
from webhook.decision.notes import Criterion, Tried, Unpinned
from webhook.decision.story import Listener, Story
from webhook.fleet.build import build_fleet
from webhook.fleet.limits import ByFlavors
from webhook.fleet.nodes import read_node
from webhook.model.fleet import Fleet
from webhook.model.policy import PinWhen, Policy, RoomRule
from webhook.model.queues import Queues
from webhook.model.request import Stage, User
from webhook.model.verdict import Out, Review, Verdict

PRODUCT = "nvidia.com/gpu.product"
OWN = "team.example/gpu"
SMALL, LARGE = RTX_5090.product, RTX_PRO_6000.product
KUEUE = User("system:serviceaccount:kueue-system:kueue-controller-manager")


def labelled(card: Card, count: int, devices: int = 4, taints: list[Json] | None = None, **labels: str) -> list[Json]:
    """Nodes with labels by hand, `_` for "-"; `gpu` is OWN."""
    found = []
    for index in range(count):
        name = "-".join([card.product.lower(), *labels.values(), str(index)])
        node = gpu_node(name, card, devices=devices)
        node["metadata"]["labels"] |= {OWN if key == "gpu" else key.replace("_", "-"): v for key, v in labels.items()}
        node["spec"]["taints"] = taints or []
        found.append(node)
    return found


NODES = [*labelled(RTX_5090, 2, gpu="small"), *labelled(RTX_PRO_6000, 2, gpu="large")]
BY_OWN = (flavor("small", {OWN: "small"}), flavor("large", {OWN: "large"}))
BY_PRODUCT = (flavor("small", {PRODUCT: SMALL}), flavor("large", {PRODUCT: LARGE}))
EIGHT_EACH = (queue({"small": 8, "large": 8}), local())
ONE = queued(job(memory_per_device="20Gi"))
"""Four pods of two GPUs, which fit either model."""
LARGE_ONLY = queued(job(memory_per_device="44Gi"))


def two_podsets(memory: str = "20Gi") -> Json:
    found = queued(pytorchjob(memory_per_device=memory))
    master = {"replicas": 1, "template": {"spec": pod()}}
    workers = {"replicas": 3, "template": {"spec": pod()}}
    found["spec"]["pytorchReplicaSpecs"] = {"Master": master, "Worker": workers}
    return found


def selectors(outcome: Review) -> list[Mapping[str, str]]:
    spec = patched(outcome)["spec"]
    roles = spec["pytorchReplicaSpecs"].values() if "pytorchReplicaSpecs" in spec else [spec]
    return [role["template"]["spec"].get("nodeSelector", {}) for role in roles]


def variants(outcome: Review) -> list[str]:
    return [f"{one.code}/{one.variant}" if one.variant else one.code for one in outcome.decision.findings]


def assert_settled(outcome: Review, known: Fleet | list[Json], queues: Queues, policy: Policy | None = None) -> None:
    """What is stored is left alone, as it comes back and as it is checked."""
    for stage in (Stage.MUTATE, Stage.VALIDATE):
        again = ask(patched(outcome), known, queues=queues, stage=stage, policy=policy)
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])


@pytest.mark.parametrize("flavors", [BY_OWN, BY_PRODUCT])
def test_one_podset_and_flavors_of_one_model_each_are_left_to_kueue(flavors: tuple[Json, ...]) -> None:
    queues = read(*flavors, *EIGHT_EACH)
    outcome = ask(ONE, NODES, queues=queues)
    assert (outcome.verdict, patch(outcome)) == (Verdict.ADMIT, [])
    assert products(outcome) == [SMALL, LARGE]
    assert_settled(outcome, NODES, queues)


@pytest.mark.parametrize(("flavors", "pin"), [(BY_OWN, {OWN: "large"}), (BY_PRODUCT, {PRODUCT: LARGE})])
def test_kueue_is_kept_off_a_flavor_whose_model_lacks_the_memory(flavors: tuple[Json, ...], pin: Json) -> None:
    queues = read(*flavors, *EIGHT_EACH)
    outcome = ask(LARGE_ONLY, NODES, queues=queues)
    assert (outcome.verdict, products(outcome), selectors(outcome)) == (Verdict.PIN, [LARGE], [pin])
    assert variants(outcome)[0] == "SST301/flavors"
    assert "the queue chooses" in warnings(outcome)[0]
    assert_settled(outcome, NODES, queues)


def test_several_flavors_that_are_left_are_named_by_affinity_in_every_term() -> None:
    known = [*NODES, *labelled(A100_80GB, 2, gpu="a100")]
    queues = read(*BY_OWN, flavor("a100", {OWN: "a100"}), queue({"small": 8, "large": 8, "a100": 8}), local())
    terms = [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": [zone]}]} for zone in "xy"]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    spec = pod(command=("torchrun", "--nnodes=4", "train.py"), affinity=affinity)
    outcome = ask(queued(job(spec, memory_per_device="44Gi")), known, queues=queues)
    assert products(outcome) == [A100_80GB.product, LARGE]
    required = worker(patched(outcome))["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ours = {"key": OWN, "operator": "In", "values": ["a100", "large"]}
    assert [term["matchExpressions"][-1] for term in required["nodeSelectorTerms"]] == [ours, ours]
    assert_settled(outcome, known, queues)


def test_kueue_is_kept_off_a_flavor_without_room_for_the_gang() -> None:
    known = [*labelled(RTX_5090, 1, gpu="small"), *labelled(RTX_PRO_6000, 2, gpu="large")]
    outcome = ask(ONE, known, queues=read(*BY_OWN, *EIGHT_EACH))
    assert (products(outcome), selectors(outcome)) == ([LARGE], [{OWN: "large"}])


def test_a_flavor_of_a_model_that_another_flavor_has_is_out_for_its_own_room() -> None:
    known = [*labelled(RTX_5090, 1, gpu="spot"), *labelled(RTX_5090, 2, gpu="owned")]
    queues = read(
        flavor("spot", {OWN: "spot"}), flavor("owned", {OWN: "owned"}), queue({"spot": 8, "owned": 8}), local()
    )
    outcome = ask(ONE, known, queues=queues)
    assert (products(outcome), selectors(outcome)) == ([SMALL], [{OWN: "owned"}])
    assert_settled(outcome, known, queues)


def test_a_model_spread_over_flavors_that_are_each_too_small_has_no_room() -> None:
    known = [*labelled(RTX_5090, 1, gpu="spot"), *labelled(RTX_5090, 1, gpu="owned")]
    queues = read(
        flavor("spot", {OWN: "spot"}), flavor("owned", {OWN: "owned"}), queue({"spot": 8, "owned": 8}), local()
    )
    assert ask(queued(pytorchjob(memory_per_device="20Gi")), known, queues=queues).verdict is Verdict.DENY
    assert ask(pytorchjob(memory_per_device="20Gi"), known, queues=queues).verdict is Verdict.ADMIT


def test_where_nodes_may_be_added_an_empty_flavor_stays() -> None:
    known = fleet(labelled(RTX_PRO_6000, 2, gpu="large"))
    queues = read(*BY_OWN, *EIGHT_EACH)
    assert selectors(ask(ONE, known, queues=queues)) == [{OWN: "large"}]
    outcome = ask(ONE, replace(known, grows="NodePool gpu"), queues=queues)
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, [LARGE])


def test_what_kueue_keeps_off_by_itself_for_its_quota_needs_no_patch() -> None:
    outcome = ask(ONE, NODES, queues=read(*BY_OWN, queue({"small": 7, "large": 8}), local()))
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, [LARGE])


def test_quota_that_can_be_borrowed_counts() -> None:
    rich = queue({"small": 8, "large": 8}, "rich", cohortName="c")
    poor = queue({"small": 0, "large": 2}, cohortName="c")
    outcome = ask(LARGE_ONLY, NODES, queues=read(*BY_OWN, rich, poor, local()))
    assert products(outcome) == [LARGE]


def test_a_gang_beyond_every_quota_is_denied_with_the_quota() -> None:
    queues = read(*BY_OWN, queue({"small": 8, "large": 4}), local())
    outcome = ask(queued(pytorchjob(memory_per_device="44Gi")), NODES, queues=queues)
    assert outcome.verdict is Verdict.DENY
    assert "8 GPUs wanted and the quota of its queue holds 4" in message(outcome)
    assert [one.out for one in outcome.decision.pool.candidates] == [(Out.MEMORY,), (Out.QUOTA,)]
    assert {"replicas_half"} <= {one.kind for one in outcome.suggestions}


def test_quota_is_no_gate_where_policy_ignores_room() -> None:
    queues = read(*BY_OWN, queue({"small": 8, "large": 4}), local())
    outcome = ask(LARGE_ONLY, NODES, queues=queues, policy=Policy(room=RoomRule.IGNORE))
    assert (outcome.verdict, selectors(outcome)) == (Verdict.PIN, [{OWN: "large"}])


def test_several_podsets_are_pinned_by_a_label_of_the_flavors() -> None:
    queues = read(*BY_OWN, queue({"small": 2, "large": 8}), local())
    outcome = ask(two_podsets(), NODES, queues=queues)
    assert (outcome.verdict, products(outcome)) == (Verdict.PIN, [LARGE])
    assert selectors(outcome) == [{OWN: "large"}, {OWN: "large"}]
    assert_settled(outcome, NODES, queues)


@pytest.mark.parametrize("quota", [0, 4, 7])
def test_a_pin_leaves_the_queue_a_flavor_that_has_the_quota(quota: int) -> None:
    nodes = [*labelled(RTX_5090, 2, zone="a"), *labelled(RTX_PRO_6000, 2, zone="b")]
    flavors = flavor("a", {"zone": "a"}), flavor("b", {"zone": "b"}), flavor("small", {PRODUCT: SMALL})
    queues = read(*flavors, queue({"a": 8, "b": 8, "small": quota}), local())
    outcome = ask(two_podsets(), nodes, queues=queues)

    assert outcome.verdict is Verdict.PIN
    assert selectors(outcome) == [{"zone": "a"}, {"zone": "a"}]
    assert_settled(outcome, nodes, queues)


def test_podsets_share_the_quota_of_their_flavors() -> None:
    queues = read(*BY_OWN, queue({"small": 7, "large": 7}), local())
    assert ask(two_podsets(), NODES, queues=queues).verdict is Verdict.DENY


def test_several_podsets_on_one_model_are_kept_off_a_flavor_without_nodes() -> None:
    known = labelled(RTX_PRO_6000, 2, gpu="large")
    outcome = ask(two_podsets(), known, queues=read(*BY_OWN, *EIGHT_EACH))
    assert selectors(outcome) == [{OWN: "large"}, {OWN: "large"}]
    alone = ask(two_podsets(), known, queues=read(BY_OWN[1], queue({"large": 8}), local()))
    assert alone.verdict is Verdict.ADMIT


def test_a_flavor_of_all_models_is_pinned_by_product_without_a_warning_of_its_quota() -> None:
    queues = read(flavor("all"), queue({"all": 16}), local())
    outcome = ask(LARGE_ONLY, NODES, queues=queues)
    assert selectors(outcome) == [{PRODUCT: LARGE}]
    assert "SST301/other-quota" not in variants(outcome)
    assert_settled(outcome, NODES, queues)


ZONES = [*labelled(RTX_5090, 2, zone="a"), *labelled(RTX_5090, 2, zone="b"), *labelled(RTX_PRO_6000, 3, zone="b")]
BY_ZONE = read(flavor("a", {"zone": "a"}), flavor("b", {"zone": "b"}), queue({"a": 99, "b": 99}), local())
"""Both flavors have the small model, one of them the large one as well."""


def test_a_model_that_every_flavor_has_is_pinned_by_product_alone() -> None:
    outcome = ask(ONE, ZONES, queues=BY_ZONE)
    assert (products(outcome), selectors(outcome)) == ([SMALL], [{PRODUCT: SMALL}])
    assert_settled(outcome, ZONES, BY_ZONE)


def test_a_model_that_only_some_flavors_have_is_pinned_by_product_beside_the_flavors_label() -> None:
    outcome = ask(LARGE_ONLY, ZONES, queues=BY_ZONE)
    assert (products(outcome), selectors(outcome)) == ([LARGE], [{PRODUCT: LARGE, "zone": "b"}])
    assert "SST301/other-quota" not in variants(outcome)
    assert_settled(outcome, ZONES, BY_ZONE)


def test_several_flavors_with_the_model_are_named_by_affinity_beside_it() -> None:
    known = [*ZONES, *labelled(RTX_PRO_6000, 2, zone="c"), *labelled(RTX_5090, 2, zone="c")]
    more = [flavor(zone, {"zone": zone}) for zone in "abc"]
    queues = read(*more, queue({"a": 99, "b": 99, "c": 99}), local())
    outcome = ask(LARGE_ONLY, known, queues=queues)
    assert selectors(outcome) == [{PRODUCT: LARGE}]
    required = worker(patched(outcome))["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required == {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "c"]}]}]
    }
    assert_settled(outcome, known, queues)


def test_a_product_that_the_submitter_chose_is_given_the_flavors_that_have_it() -> None:
    spec = pod(command=("torchrun", "--nnodes=4", "train.py"), nodeSelector={PRODUCT: LARGE})
    outcome = ask(queued(job(spec)), ZONES, queues=BY_ZONE)
    assert (products(outcome), selectors(outcome)) == ([LARGE], [{PRODUCT: LARGE, "zone": "b"}])
    assert_settled(outcome, ZONES, BY_ZONE)


def test_it_is_said_where_no_label_of_the_flavors_keeps_the_queue_to_the_model() -> None:
    # Nothing tells the flavors apart but their taints.
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    known = [*labelled(RTX_PRO_6000, 2, taints=[taint]), *labelled(RTX_5090, 2)]
    tolerated = flavor("spot", nodeTaints=[taint], tolerations=[{"key": "spot", "operator": "Exists"}])
    outcome = ask(LARGE_ONLY, known, queues=read(flavor("owned"), tolerated, queue({"owned": 8, "spot": 8}), local()))
    assert selectors(outcome) == [{PRODUCT: LARGE}]
    assert variants(outcome)[0] == "SST301/other-quota"
    assert "may take a flavor without it" in warnings(outcome)[0]


def test_a_model_whose_nodes_no_flavor_labels_is_not_pinned_by_the_flavors_key() -> None:
    # A pin by the key that one flavor has makes Kueue pass over the flavor that has none.
    queues = read(flavor("large", {PRODUCT: LARGE}), flavor("rest"), queue({"large": 8, "rest": 16}), local())
    outcome = ask(ONE, NODES, queues=queues)
    assert (products(outcome), selectors(outcome)) == ([LARGE], [{PRODUCT: LARGE}])


def test_a_key_of_the_policy_that_no_flavor_has_is_no_key_for_a_queue() -> None:
    policy = Policy(pin_keys=("rack",))
    known = [*labelled(RTX_5090, 2, gpu="small", rack="1"), *labelled(RTX_PRO_6000, 2, gpu="large", rack="2")]
    outcome = ask(two_podsets("44Gi"), known, queues=read(*BY_OWN, *EIGHT_EACH), policy=policy)
    assert selectors(outcome) == [{OWN: "large"}, {OWN: "large"}]
    assert selectors(ask(pytorchjob(memory_per_device="44Gi"), known, policy=policy)) == [{"rack": "2"}]


def test_a_selector_of_the_submitter_leaves_the_flavors_that_meet_it() -> None:
    spec = pod(command=("torchrun", "--nnodes=4", "train.py"), nodeSelector={OWN: "small"})
    outcome = ask(queued(job(spec)), NODES, queues=read(*BY_OWN, *EIGHT_EACH))
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, [SMALL])


def test_tolerations_of_a_flavor_are_added_and_its_taints_keep_jobs_off() -> None:
    taint = {"key": "gpu", "value": "large", "effect": "NoSchedule"}
    known = [*labelled(RTX_5090, 2, gpu="small"), *labelled(RTX_PRO_6000, 2, gpu="large", taints=[taint])]
    tolerant = flavor("large", {OWN: "large"}, tolerations=[{"key": "gpu", "operator": "Exists"}])
    outcome = ask(ONE, known, queues=read(BY_OWN[0], tolerant, *EIGHT_EACH))
    assert products(outcome) == [SMALL, LARGE]
    assert products(ask(job(memory_per_device="20Gi"), known)) == [SMALL]
    closed = flavor("large", {OWN: "large"}, nodeTaints=[taint])
    assert products(ask(ONE, NODES, queues=read(BY_OWN[0], closed, *EIGHT_EACH))) == [SMALL]


def test_flavors_of_another_resource_narrow_the_nodes_as_well() -> None:
    known = [*labelled(RTX_5090, 2, gpu="small", zone="a"), *labelled(RTX_PRO_6000, 2, gpu="large", zone="b")]
    cpus = {"coveredResources": ["cpu"], "flavors": [{"name": "b", "resources": [{"name": "cpu", "nominalQuota": 99}]}]}
    of = kueue("ClusterQueue", "cq", resourceGroups=[*groups({"small": 8, "large": 8}), cpus])
    spec = pod(command=("torchrun", "--nnodes=4", "train.py"))
    spec["containers"][0]["resources"]["requests"] = {"cpu": 1}
    outcome = ask(queued(job(spec)), known, queues=read(*BY_OWN, flavor("b", {"zone": "b"}), of, local()))
    assert products(outcome) == [LARGE]


@pytest.mark.parametrize("labels", [{"cpu": "true"}, {}])
def test_a_flavor_that_is_there_for_its_cpus_is_none_of_the_jobs(labels: dict[str, str]) -> None:
    queues = read(*BY_OWN, flavor("cpu", labels), queue({"cpu": 0, "small": 8, "large": 8}), local())
    outcome = ask(ONE, NODES, queues=queues)
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, [SMALL, LARGE])


def test_several_podsets_are_kept_off_a_flavor_of_their_model_that_is_too_small_for_one_of_them() -> None:
    # Three workers of two GPUs each do not fit the four of the spot node; the quota would let them.
    known = [
        *labelled(RTX_5090, 2, gpu="small"),
        *labelled(RTX_PRO_6000, 1, gpu="spot"),
        *labelled(RTX_PRO_6000, 2, gpu="owned"),
    ]
    flavors = [flavor(name, {OWN: name}) for name in ("small", "spot", "owned")]
    queues = read(*flavors, queue({"small": 8, "spot": 8, "owned": 8}), local())
    outcome = ask(two_podsets("44Gi"), known, queues=queues)
    assert (products(outcome), selectors(outcome)) == ([LARGE], [{OWN: "owned"}, {OWN: "owned"}])
    assert_settled(outcome, known, queues)


def test_a_queue_that_is_not_in_view_may_have_every_flavor_that_is() -> None:
    queues = read(*BY_OWN)
    outcome = ask(ONE, NODES, queues=queues)
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, [SMALL, LARGE])
    assert variants(outcome) == ["SST104/queue"]
    assert "LocalQueue lq" in warnings(outcome)[0]
    assert "SST104" not in codes(ask(ONE, NODES, queues=read(*BY_OWN, *EIGHT_EACH)))


def test_without_any_flavor_in_view_a_queue_changes_nothing() -> None:
    inside, outside = ask(ONE, NODES), ask(job(memory_per_device="20Gi"), NODES)
    assert (inside.verdict, inside.decision.pin, codes(inside)) == (Verdict.PIN, outside.decision.pin, codes(outside))


def test_a_job_that_nobody_holds_back_is_pinned_by_the_flavors_label() -> None:
    # Kueue does not manage it: nothing would give its pods one flavor.
    outcome = ask(queued(job(memory_per_device="20Gi"), suspend=False), NODES, queues=read(*BY_OWN, *EIGHT_EACH))
    assert (outcome.verdict, len(selectors(outcome)[0])) == (Verdict.PIN, 1)
    assert OWN in selectors(outcome)[0]


def test_a_flavor_with_nodes_of_unknown_model_is_not_left_to_kueue() -> None:
    odd = labelled(RTX_PRO_6000, 1, gpu="large", name="odd")
    for key in [key for key in odd[0]["metadata"]["labels"] if key.startswith("nvidia.com/")]:
        del odd[0]["metadata"]["labels"][key]
    outcome = ask(ONE, [*NODES, *odd], queues=read(*BY_OWN, *EIGHT_EACH))
    assert (products(outcome), selectors(outcome)) == ([SMALL], [{OWN: "small"}])


def test_always_pins_the_flavors_that_are_left_and_never_pins_none() -> None:
    queues = read(*BY_OWN, *EIGHT_EACH)
    always = ask(ONE, NODES, queues=queues, policy=Policy(pin_when=PinWhen.ALWAYS))
    assert always.decision.pin is not None
    assert (always.decision.pin.key, always.decision.pin.values) == (OWN, ("large", "small"))
    never = Policy(pin_when=PinWhen.NEVER)
    outcome = ask(ONE, NODES, queues=queues, policy=never)
    assert (outcome.verdict, products(outcome), variants(outcome)) == (Verdict.ADMIT, [SMALL, LARGE], [])
    # Nothing keeps Kueue off the small flavor.
    assert (denied := ask(LARGE_ONLY, NODES, queues=queues, policy=never)).verdict is Verdict.DENY
    assert variants(denied) == ["SST201/mixed"]


def test_one_node_is_kept_off_a_small_flavor_by_the_flavors_label() -> None:
    single = queued(job(pod(gpus=4), pods=1, memory_per_device="44Gi"))
    queues = read(*BY_OWN, *EIGHT_EACH)
    outcome = ask(single, NODES, queues=queues)
    assert (outcome.verdict, selectors(outcome)) == (Verdict.PIN, [{OWN: "large"}])
    assert_settled(outcome, NODES, queues)


ALIKE = Policy(classes=((SMALL, A100_80GB.product),))


def test_a_flavor_of_models_that_count_as_one_is_left_to_kueue() -> None:
    known = [*NODES, *labelled(A100_80GB, 2, gpu="small")]
    queues = read(*BY_OWN, *EIGHT_EACH)
    assert len(products(ask(ONE, known, queues=queues))) == 1
    outcome = ask(ONE, known, queues=queues, policy=ALIKE)
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, [A100_80GB.product, SMALL, LARGE])
    # One of the two lacks the memory: the flavor is no longer one candidate's.
    apart = ask(LARGE_ONLY, known, queues=queues, policy=ALIKE)
    a100 = A100_80GB.product
    assert (products(apart), selectors(apart)) == ([a100], [{PRODUCT: a100, OWN: "small"}])
    for one in (outcome, apart):
        assert_settled(one, known, queues, ALIKE)


def test_kueue_is_kept_off_the_flavors_that_were_not_asked_for() -> None:
    queues = read(*BY_OWN, *EIGHT_EACH)
    wish = queued(job(memory_per_device="20Gi", model="RTX-5090"))
    outcome = ask(wish, NODES, queues=queues)
    assert (outcome.verdict, products(outcome), selectors(outcome)) == (Verdict.PIN, [SMALL], [{OWN: "small"}])
    assert_settled(outcome, NODES, queues)


def test_what_may_be_mixed_is_not_where_a_queue_gives_one_flavor() -> None:
    allowing = Policy(allow_mixed=True)
    single = queued(job(memory_per_device="20Gi", allow_mixed="a trial"))
    queues = read(*BY_OWN, *EIGHT_EACH)
    outcome = ask(single, NODES, queues=queues, policy=allowing)
    assert (outcome.verdict, variants(outcome)) == (Verdict.ADMIT, [])
    podsets = two_podsets()
    podsets["metadata"]["annotations"]["samestep.dev/allow-mixed"] = "a trial"
    assert variants(ask(podsets, NODES, queues=queues, policy=allowing)) == ["SST306"]


@pytest.mark.parametrize("suspend", [True, False])
def test_what_is_taken_now_is_no_news_in_a_queue(suspend: bool) -> None:
    nodes_read = [node for one in NODES if (node := read_node(one)) is not None]
    known = build_fleet(nodes_read, used={node.name: {GPU: 4, "pods": 1} for node in nodes_read})
    inside = queued(job(memory_per_device="44Gi"), suspend=suspend)
    assert "SST402" not in codes(ask(inside, known, queues=read(*BY_OWN, *EIGHT_EACH)))
    assert "SST402" in codes(ask(job(memory_per_device="44Gi"), known))


def test_a_suggestion_names_one_model_where_the_queue_chooses() -> None:
    queues = read(*BY_OWN, queue({"small": 4, "large": 4}), local())
    outcome = ask(queued(job(memory_per_device="20Gi")), NODES, queues=queues)
    (suggested,) = (one for one in outcome.suggestions if one.kind.startswith("replicas"))
    assert (suggested.model.product, suggested.also) == (SMALL, ())


def story_of(obj: Json, known: list[Json], queues: Queues) -> Story:
    heard = Listener()
    story = heard.story(ask(obj, known, queues=queues, tell=heard))
    assert story is not None
    return story


def test_the_story_says_what_the_queue_leaves() -> None:
    queues = read(*BY_OWN, *EIGHT_EACH)
    (landing,) = story_of(ONE, [*NODES, *labelled(A100_80GB, 2)], queues).landings
    last = landing.steps[-1]
    assert (last.limit, last.before, last.left) == (ByFlavors(("small", "large"), last.limit.nodes), 6, 4)
    assert story_of(ONE, NODES, queues).unpinned is Unpinned.QUEUE
    assert Out.QUOTA in [one.reason for one in story_of(ONE, NODES, queues).gates]


def test_the_story_says_by_which_labels_the_queue_can_be_kept_to_the_chosen() -> None:
    kept = story_of(LARGE_ONLY, NODES, read(*BY_OWN, *EIGHT_EACH)).keys
    assert kept is not None
    assert [(one.key, one.tried, one.values) for one in kept.keys] == [(OWN, Tried.SEPARATES, ("large",))]
    beside = story_of(LARGE_ONLY, ZONES, BY_ZONE).keys
    assert beside is not None
    assert [(one.key, one.tried) for one in beside.keys][:2] == [("zone", Tried.BESIDE), (PRODUCT, Tried.SEPARATES)]
    assert beside.pin is not None
    assert beside.pin.key == PRODUCT


def test_a_candidate_that_the_queue_may_miss_comes_last() -> None:
    # Nothing tells the flavor of the large model from the others but its taint.
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    known = [*labelled(RTX_PRO_6000, 4, taints=[taint]), *labelled(RTX_5090, 2, gpu="small")]
    tolerated = flavor("spot", nodeTaints=[taint], tolerations=[{"key": "spot", "operator": "Exists"}])
    queues = read(tolerated, BY_OWN[0], queue({"spot": 99, "small": 99}), local())
    story = story_of(two_podsets(), known, queues)
    assert story.chosen is not None
    assert story.chosen.narrowed[0].criterion is Criterion.QUEUE
    assert [one.model.product for one in story.chosen.narrowed[0].left] == [SMALL]


@pytest.mark.parametrize("declared", ["20Gi", "44Gi"])
def test_kueues_admission_and_eviction_are_left_alone(declared: str) -> None:
    queues = read(*BY_OWN, *EIGHT_EACH)
    stored = patched(ask(queued(job(memory_per_device=declared)), NODES, queues=queues))
    admitted = with_template(stored, {OWN: "large"}, suspend=False)
    for old, new in ((stored, admitted), (admitted, stored)):
        for stage in (Stage.MUTATE, Stage.VALIDATE):
            outcome = ask(new, NODES, old=old, queues=queues, user=KUEUE, stage=stage)
            assert (outcome.verdict, patch(outcome)) == (Verdict.ADMIT, [])


def test_a_change_of_the_batch_before_admission_moves_what_kueue_is_kept_off() -> None:
    known = [*NODES, *labelled(A100_80GB, 2, gpu="a100")]
    queues = read(*BY_OWN, flavor("a100", {OWN: "a100"}), queue({"small": 8, "large": 8, "a100": 8}), local())
    stored = patched(ask(queued(job(memory_per_device="44Gi")), known, queues=queues))
    metadata = {**stored["metadata"], "annotations": {**stored["metadata"]["annotations"]}}
    metadata["annotations"]["samestep.dev/memory-per-device"] = "85Gi"
    larger = {**stored, "metadata": metadata, "spec": {**stored["spec"], "parallelism": 3, "completions": 3}}
    outcome = ask(larger, known, old=stored, queues=queues)
    assert (outcome.verdict, products(outcome), selectors(outcome)) == (Verdict.PIN, [LARGE], [{OWN: "large"}])
    assert_settled(outcome, known, queues)


def test_a_chosen_flavor_is_kept_on_an_update_while_it_passes() -> None:
    queues = read(*BY_OWN, queue({"small": 16, "large": 16}), local())
    old = patched(ask(two_podsets(), NODES, queues=queues))
    new = {**old, "spec": {**old["spec"], "pytorchReplicaSpecs": {**old["spec"]["pytorchReplicaSpecs"]}}}
    new["spec"]["pytorchReplicaSpecs"]["Worker"] = {**new["spec"]["pytorchReplicaSpecs"]["Worker"], "replicas": 2}
    outcome = ask(new, NODES, old=old, queues=queues)
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, [])


def test_a_model_that_was_just_met_does_not_make_its_flavor_look_empty_to_the_check() -> None:
    known = fleet(NODES, known_since=990.0)
    outcome = ask(ONE, known, queues=read(*BY_OWN, *EIGHT_EACH), stage=Stage.VALIDATE, now=1000.0)
    assert outcome.verdict is Verdict.ADMIT


def test_the_check_does_not_hold_a_final_object_to_a_lack_of_room() -> None:
    # The replica that decided saw one node more.
    known = [*labelled(RTX_5090, 1, gpu="small"), *labelled(RTX_PRO_6000, 2, gpu="large")]
    outcome = ask(ONE, known, queues=read(*BY_OWN, *EIGHT_EACH), stage=Stage.VALIDATE)
    assert outcome.verdict is Verdict.ADMIT


def test_the_check_denies_a_job_that_lost_what_kept_it_off_a_small_flavor() -> None:
    outcome = ask(LARGE_ONLY, NODES, queues=read(*BY_OWN, *EIGHT_EACH), stage=Stage.VALIDATE)
    assert (outcome.verdict, codes(outcome)) == (Verdict.DENY, ["SST302"])


def test_the_check_does_not_ask_for_a_pin_that_a_lack_of_room_kept_from_being_written() -> None:
    # The queue could take the flavor that has no nodes, and no label of the flavors prevents that.
    gke = gpu_node("gke", H100, devices=8)
    gke["metadata"]["labels"] = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}
    known = [*labelled(RTX_PRO_6000, 4, devices=8), gke]
    queues = read(flavor("any"), flavor("none", {PRODUCT: SMALL}), queue({"any": 99, "none": 99}), local())
    outcome = ask(two_podsets(), known, queues=queues)
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST307"])
    assert_settled(outcome, known, queues)


def test_a_volcano_queue_leaves_the_node_groups_that_it_names() -> None:
    group = "volcano.sh/nodegroup-name"
    known = labelled(RTX_5090, 2) + labelled(RTX_PRO_6000, 2)
    for index, node in enumerate(known):
        node["metadata"]["labels"][group] = "abcd"[index]
    source = job()
    source["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "q"}
    queues = read(volcano("q", to=["a", "b"]))
    outcome = ask(source, known, queues=queues)
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, [SMALL])
    assert products(ask(source, known, queues=read(volcano("q", against=["a", "b"])))) == [LARGE]
    assert selectors(ask(source, known, queues=read(volcano("q")))) == [{PRODUCT: LARGE}]
    assert selectors(ask(source, known)) == [{PRODUCT: LARGE}]


def test_a_node_pool_of_kai_leaves_its_nodes() -> None:
    known = labelled(RTX_5090, 2) + labelled(RTX_PRO_6000, 2)
    for node in known[2:]:
        node["metadata"]["labels"]["kai.scheduler/node-pool"] = "big"
    source = job()
    source["metadata"]["labels"] = {"kai.scheduler/queue": "team", "kai.scheduler/node-pool": "big"}
    assert products(ask(source, known)) == [LARGE]
    assert GPU  # the queue itself names no nodes
    source["metadata"]["labels"] = {"kai.scheduler/queue": "team"}
    assert ask(source, known).verdict is Verdict.PIN


def with_template(obj: Json, selector: Json, *, suspend: bool) -> Json:
    template = obj["spec"]["template"]
    spec = {**template["spec"], "nodeSelector": {**template["spec"].get("nodeSelector", {}), **selector}}
    return {**obj, "spec": {**obj["spec"], "suspend": suspend, "template": {**template, "spec": spec}}}


def test_a_flavor_with_nodes_that_offer_only_shares_is_not_left_to_kueue() -> None:
    (shared,) = labelled(RTX_PRO_6000, 1, devices=8, gpu="large", name="shared")
    shared["metadata"]["labels"] |= {"nvidia.com/gpu.replicas": "4", PRODUCT: f"{LARGE}-SHARED"}
    outcome = ask(ONE, [*NODES, shared], queues=read(*BY_OWN, *EIGHT_EACH))
    assert (outcome.verdict, selectors(outcome)) == (Verdict.PIN, [{OWN: "small"}])
