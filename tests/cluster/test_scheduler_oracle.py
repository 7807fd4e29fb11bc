"""Our reading of selectors, affinity, taints, tolerations and resources against the real kube-scheduler.

Each pair is one random pod that may go to one random node only, and a node that nobody else uses: whether the scheduler
binds it is then its answer for this pair alone. Of devices that are claimed there are two such pods for each node, and
the second one meets what the first has left.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from controlplane.api import Api, ApiError
from controlplane.devices import (
    PATH,
    claim_template,
    claimed_node,
    claiming,
    device_class,
    of_product,
    resource_slice,
    spoken,
)
from controlplane.nodes import A100_80GB, H100, L40S, RTX_5090, RTX_PRO_6000, gpu_node
from controlplane.rig import ControlPlane
from tests.samples import USER, job
from webhook.decision.pool import target_pool
from webhook.fleet.allocated import read_claim
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.fleet.pods import Usage
from webhook.fleet.read import read_fleet
from webhook.fleet.room import fits
from webhook.fleet.select import reachable
from webhook.intake.placement import read_placement
from webhook.intake.read import read_job
from webhook.intake.resources import read_resources
from webhook.model.fleet import Fleet
from webhook.model.index import positions_of
from webhook.model.job import TrainingJob
from webhook.model.request import Kind
from webhook.model.surroundings import Reference, Surroundings

Json = dict[str, Any]

SEED = 20_260_731
NODES = 420
EACH_WAY = 4
"""Nodes that one pod is tried on of those that we say take it, and of those that we say do not."""

CARDS = (RTX_5090, RTX_PRO_6000, A100_80GB, H100, L40S)
PRODUCT = "nvidia.com/gpu.product"
LABELS: dict[str, tuple[str, ...]] = {
    "zone": ("a", "b", "c", ""),
    "pool": ("x", "y"),
    "rank": ("1", "2", "10", "007", "1.5", "1_0", "abc", "", "9223372036854775807", "9223372036854775808"),
    PRODUCT: tuple(card.product for card in CARDS),
}
BOUNDS = ("1", "3", "07", "+9", "-3", "-4", "9223372036854775807", "9223372036854775808", "1_0", "abc", "")
TAINT_KEYS = ("dedicated", "example.com/team", "node.kubernetes.io/maintenance")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
CLAIMED_NODES = 40
CLAIMED_CARDS = (RTX_5090, H100)
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Pair:
    spec: Json
    node: str
    ours: bool


def test_our_now_pool_is_where_the_scheduler_places_the_pod(control_plane: ControlPlane, namespace: str) -> None:
    random = Random(SEED)
    api = control_plane.api
    path = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.add_nodes(node(random, f"n{index:03}") for index in range(NODES))
    try:
        read = [read_node(one) for one in api.get("/api/v1/nodes")["items"]]
        fleet = build_fleet(one for one in read if one is not None)
        assert fleet.every.bit_count() == NODES
        refused: list[Json] = []
        specs = pod_specs(random, [one.name for one in fleet.nodes], api, f"{path}?dryRun=All", refused)
        pairs = {f"pair-{index:03}": pair for index, pair in enumerate(pairs_of(random, fleet, specs))}
        api.create(path, (pod(name, pair.spec) for name, pair in pairs.items()))
        yes = agreed(control_plane, path, pairs)
        print(f"{len(pairs)} pairs, {yes} placed; {len(refused)} other pods were refused by the API server")
        assert len(pairs) >= 300
        assert len(pairs) / 4 <= yes <= len(pairs) * 3 / 4
    finally:
        control_plane.remove_nodes()


def test_our_now_pool_is_where_the_scheduler_allocates_what_a_pod_claims(
    control_plane: ControlPlane, namespace: str
) -> None:
    random = Random(SEED)
    api = control_plane.api
    path = f"/api/v1/namespaces/{namespace}/pods"
    nodes = {
        f"d{index:02}": (random.choice(CLAIMED_CARDS), random.choice((0, 1, 2, 4))) for index in range(CLAIMED_NODES)
    }
    templates = {one["metadata"]["name"]: one for one in claim_templates()}
    in_view: Surroundings = {
        Reference(Kind("resource.k8s.io", "", "ResourceClaimTemplate"), namespace, name): one
        for name, one in templates.items()
    }
    try:
        api.create(f"{PATH}/deviceclasses", [device_class()])
        api.create(f"{PATH}/namespaces/{namespace}/resourceclaimtemplates", templates.values())
        slices = [resource_slice(name, card, devices) for name, (card, devices) in nodes.items() if devices]
        api.create(f"{PATH}/resourceslices", slices)
        control_plane.add_nodes(claimed_node(name, card) for name, (card, _) in nodes.items())
        yes: list[int] = []
        for turn in ("first", "second"):
            fleet = fleet_of_claims(api)
            pairs: dict[str, Pair] = {}
            for name in nodes:
                spec = only_on(claiming(container_alone(), random.choice(list(templates))), name)
                pairs[f"{turn}-{name}"] = Pair(spec, name, takes(spec, fleet, namespace, in_view))
            api.create(path, (pod(name, pair.spec) for name, pair in pairs.items()))
            yes.append(agreed(control_plane, path, pairs))
        print(f"2 × {CLAIMED_NODES} pairs with claims, {yes[0]} and {yes[1]} placed")
        assert CLAIMED_NODES / 4 <= yes[0] <= CLAIMED_NODES * 3 / 4
        assert 0 < yes[1] < yes[0]
    finally:
        control_plane.remove_nodes()
        api.delete(f"{PATH}/resourceslices")
        api.delete(f"{PATH}/deviceclasses")


def agreed(control_plane: ControlPlane, path: str, pairs: dict[str, Pair]) -> int:
    """How many of these pods the scheduler has placed, once it has answered for all as we do."""
    answers: dict[str, bool] = {}

    def all_are_answered() -> bool:
        answers.update(placed(control_plane.api.get(path)["items"]))
        return answers.keys() >= pairs.keys()

    control_plane.processes.wait("kube-scheduler", all_are_answered, timeout_s=120)
    wrong = {name: pair for name, pair in pairs.items() if pair.ours != answers[name]}
    assert not wrong, explained(wrong, control_plane.api.get)
    return sum(answers[name] for name in pairs)


def claim_templates() -> Iterator[Json]:
    names = [spoken(card) for card in CLAIMED_CARDS]
    selectors = (
        (),
        (of_product(names[0]),),
        (of_product(names[1]),),
        (of_product(*names),),
        (of_product(names[0]), of_product(*names)),
    )
    for kind, expressions in enumerate(selectors):
        for count in (1, 2, 3):
            yield claim_template(f"t{kind}-{count}", count, *expressions)


def container_alone() -> Json:
    return {"restartPolicy": "Never", "containers": [{"name": "train", "image": "train"}]}


def fleet_of_claims(api: Api) -> Fleet:
    found = [("", one | {"kind": "Node"}) for one in api.get("/api/v1/nodes")["items"]]
    found += [("", one | {"kind": "ResourceSlice"}) for one in api.get(f"{PATH}/resourceslices")["items"]]
    held = map(read_claim, api.get(f"{PATH}/resourceclaims")["items"])
    return read_fleet(found, used=Usage(one for one in held if one is not None).used).fleet


def takes(spec: Json, fleet: Fleet, namespace: str, surroundings: Surroundings) -> bool:
    """Whether the pod can be placed now, as we say."""
    kind = Kind("batch", "v1", "Job")
    read = read_job(job(spec, pods=1), kind=kind, namespace=namespace, user=USER, surroundings=surroundings)
    assert isinstance(read, TrainingJob)
    (pool,) = target_pool(read, fleet).roles
    return bool(pool.takes)


def pairs_of(random: Random, fleet: Fleet, specs: Iterator[Json]) -> Iterator[Pair]:
    """Each pod on some nodes that our pool holds and on some that it does not, until all nodes are used."""
    names = [one.name for one in fleet.nodes]
    unused = fleet.every
    for spec in specs:
        landing = reachable(fleet, read_placement(spec, ()), now=True)
        ours = landing & fits(fleet, read_resources(spec, ()).requests, now=True)
        for answer, bits in ((True, ours & unused), (False, unused & ~ours)):
            positions = list(positions_of(bits))
            for index in random.sample(positions, min(EACH_WAY, len(positions))):
                unused &= ~(1 << index)
                yield Pair(only_on(spec, names[index]), names[index], answer)
        if not unused:
            return


def pod_specs(random: Random, names: list[str], api: Api, path: str, refused: list[Json]) -> Iterator[Json]:
    """Random pods without end, but for those that the API server refuses: there is nothing to compare."""
    while True:
        spec = pod_spec(random, names)
        try:
            api.request("POST", path, pod("try", spec))
        except ApiError as error:
            if error.status != 422:
                raise
            refused.append(spec)
        else:
            yield spec


def pod(name: str, spec: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def placed(pods: list[Json]) -> dict[str, bool]:
    """The scheduler's answers so far."""
    answers: dict[str, bool] = {}
    for one in pods:
        conditions = {each["type"]: each for each in one["status"].get("conditions", ())}
        scheduled = conditions.get("PodScheduled", {})
        if one["spec"].get("nodeName"):
            answers[one["metadata"]["name"]] = True
        elif scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
            answers[one["metadata"]["name"]] = False
    return answers


def explained(wrong: dict[str, Pair], get: Callable[[str], Json]) -> str:
    lines = []
    for name, pair in wrong.items():
        there = get(f"/api/v1/nodes/{pair.node}")
        lines.append(
            f"{name}: we say {pair.ours}, the scheduler says {not pair.ours}\n  pod {pair.spec}\n"
            f"  node {there['metadata']['labels']} {there['spec']} {there['status']['allocatable']}"
        )
    return "\n".join(lines)


def only_on(spec: Json, name: str) -> Json:
    """The same pod, kept on one node by its own affinity: ANDed into each term, for terms are ORed. A term without
    requirements matches nothing and stays so."""
    here = {"key": "metadata.name", "operator": "In", "values": [name]}
    kept = deepcopy(spec)
    affinity = kept.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    if REQUIRED not in affinity:
        affinity[REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [here]}]}
        return kept
    for each in affinity[REQUIRED]["nodeSelectorTerms"]:
        if each.get("matchExpressions") or each.get("matchFields"):
            each.setdefault("matchFields", []).append(here)
    return kept


def required(terms: list[Json]) -> Json:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def node(random: Random, name: str) -> Json:
    made = gpu_node(name, random.choice(CARDS), devices=random.choice((1, 2, 4, 8)), cpus=random.choice((1, 4, 64)))
    labels = made["metadata"]["labels"]
    for key in ("zone", "pool", "rank"):
        if random.random() < 0.8:
            labels[key] = random.choice(LABELS[key])
    allocatable = made["status"]["allocatable"]
    allocatable["memory"] = random.choice(("512Gi", "536870912Ki", "8G", "7800Mi"))
    if random.random() < 0.1:
        allocatable["pods"] = "0"
    if random.random() < 0.1:
        allocatable["nvidia.com/gpu"] = random.choice(("0", "1"))
    if random.random() < 0.1:
        made["spec"]["unschedulable"] = True
    identities = [(key, effect) for key in TAINT_KEYS for effect in EFFECTS]
    taints = random.sample(identities, random.choice((0, 0, 0, 1, 1, 2)))
    if taints:
        made["spec"]["taints"] = [
            {"key": key, "effect": effect, "value": random.choice(("", "gpu", "other"))} for key, effect in taints
        ]
    return made


def pod_spec(random: Random, names: list[str]) -> Json:
    limits = {"nvidia.com/gpu": random.choice(("0", "1", "1", "2", "4"))}
    requests: dict[str, str] = {}
    if random.random() < 0.3:
        requests["cpu"] = random.choice(("100m", "1", "1001m", "4", "65"))
    if random.random() < 0.3:
        requests["memory"] = random.choice(("1Gi", "7800Mi", "7801Mi", "8e9", "8000000001", "0.5Ti"))
    spec: Json = {
        "restartPolicy": "Never",
        "containers": [{"name": "train", "image": "train", "resources": {"limits": limits, "requests": requests}}],
    }
    if random.random() < 0.2:
        init = {"limits": {"nvidia.com/gpu": random.choice(("1", "8"))}}
        spec["initContainers"] = [{"name": "prepare", "image": "prepare", "resources": init}]
    if random.random() < 0.3:
        key = random.choice(tuple(LABELS))
        spec["nodeSelector"] = {key: random.choice(LABELS[key])}
    if random.random() < 0.7:
        spec["affinity"] = required([term(random, names) for _ in range(random.choice((1, 1, 2, 3)))])
    if random.random() < 0.3:
        # What is only preferred keeps no pod from any node.
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": 100, "preference": term(random, names)}
        ]
    if random.random() < 0.6:
        spec["tolerations"] = [toleration(random) for _ in range(random.choice((1, 1, 2, 3)))]
    return spec


def term(random: Random, names: list[str]) -> Json:
    made: Json = {}
    if expressions := [requirement(random) for _ in range(random.choice((0, 1, 1, 1, 2)))]:
        made["matchExpressions"] = expressions
    if random.random() < 0.2:
        names_two = random.choice((1, 1, 1, 1, 2))
        made["matchFields"] = [
            {
                "key": "metadata.name",
                "operator": random.choice(("In", "NotIn", "NotIn")),
                "values": random.sample(names, names_two),
            }
        ]
    return made


def requirement(random: Random) -> Json:
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        values = [random.choice(BOUNDS)] * random.choice((1, 1, 1, 1, 1, 2))
        return {"key": random.choice(("rank", "rank", "rank", "zone")), "operator": operator, "values": values}
    key = random.choice((*LABELS, "nobody.example.com/label"))
    if operator in ("Exists", "DoesNotExist"):
        surplus = ["a"] if random.random() < 0.1 else []
        return {"key": key, "operator": operator, "values": surplus}
    known = LABELS.get(key, ("a",))
    values = random.sample(known, random.randint(1, min(3, len(known)))) if random.random() < 0.95 else []
    return {"key": key, "operator": operator, "values": values}


def toleration(random: Random) -> Json:
    made: Json = {}
    if random.random() < 0.8:
        made["key"] = random.choice((*TAINT_KEYS, *TAINT_KEYS, UNSCHEDULABLE))
    if random.random() < 0.8:
        made["operator"] = random.choice(("Exists", "Exists", "Equal", "Equal", "Equal", "Lt", "Gt"))
    if made.get("operator") != "Exists" or random.random() < 0.05:
        made["value"] = random.choice(("", "gpu", "other", "7"))
    if random.random() < 0.6:
        made["effect"] = random.choice(EFFECTS)
    return made
