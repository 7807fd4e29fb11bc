"""Random fleets, jobs and policies, as raw objects: what people and clusters write, and some of what they should not.

Values are drawn from small sets, so that nodes and selectors meet often enough for every verdict to be common.
"""

import json
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from controlplane.nodes import A100_80GB, H100, L40S, RTX_5090, RTX_PRO_6000
from tests.kinds import WRITTEN
from tests.samples import ask, fleet
from webhook.model.fleet import Fleet
from webhook.model.job import Coupling
from webhook.model.policy import (
    Differing,
    Likeness,
    PinWhen,
    Policy,
    RoomRule,
    Sameness,
    Strategy,
    UnknownNodes,
    ValidationAction,
)
from webhook.model.profile import NO_PROFILES, Profiles
from webhook.model.queues import NO_QUEUES, Queues
from webhook.model.request import Stage
from webhook.model.verdict import Review

Json = dict[str, Any]

PRODUCT = "nvidia.com/gpu.product"
GPU, AMD, MIG = "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb"
CLOUD_KEYS = ("cloud.google.com/gke-accelerator", "amd.com/gpu.product-name")
NAMES = tuple(f"n{index}" for index in range(8))
LABELS: dict[str, tuple[str, ...]] = {
    "zone": ("a", "b"),
    "pool": ("x", "y", ""),
    "rank": ("1", "2", "10", "abc"),
    PRODUCT: (RTX_5090.product, RTX_PRO_6000.product, A100_80GB.product, "A100-SXM4-80GB"),
}
TAINTS = (
    {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "effect": "NoExecute"},
    {"key": "dedicated", "value": "gpu", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
)

RARELY = st.sampled_from((*(False,) * 6, True))

UNKNOWN, TWO_MODELS, SHARES = "unknown", "two models", "shares"
HOLDS = "holds"
"""The annotation in which a drawn node says what it holds: the shortest spelling of a model, or one of these three."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One way in which nodes describe devices."""

    holds: str
    labels: Json
    resource: str = GPU


def _labelled(product: str, memory: int | None) -> Json:
    return {PRODUCT: product, **({"nvidia.com/gpu.memory": str(memory)} if memory else {})}


PLAIN = (
    *(Offer(card.product, _labelled(card.product, card.memory_mib)) for card in (RTX_5090, RTX_PRO_6000, H100)),
    Offer(RTX_PRO_6000.product, _labelled(RTX_PRO_6000.product, 97_253)),
    Offer(A100_80GB.product, _labelled(A100_80GB.product, 81_920)),
)
ODD = (
    # The spelling of an old driver, a cloud's label alone, a memory that only the catalog knows.
    Offer(A100_80GB.product, _labelled("A100-SXM4-80GB", 81_251)),
    Offer(H100.product, {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}),
    Offer(L40S.product, _labelled(L40S.product, None)),
    Offer("NVIDIA-Unheard-Of", _labelled("NVIDIA-Unheard-Of", 65_536)),
    Offer("MI300X", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"}, AMD),
    Offer(UNKNOWN, {}),
    Offer(UNKNOWN, _labelled("NVIDIA-Unheard-Of-Too", None)),
    Offer(TWO_MODELS, _labelled(RTX_5090.product, 32_607) | {"nvidia.com/gpu.count": "1"}),
    Offer(TWO_MODELS, _labelled("NVIDIA-DGX-Display", 4_096)),
    Offer(SHARES, _labelled("NVIDIA-A100-SXM4-80GB-SHARED", 81_920) | {"nvidia.com/gpu.replicas": "4"}),
    Offer(SHARES, _labelled("NVIDIA-A100-SXM4-80GB", 81_920), MIG),
)


@st.composite
def nodes(draw: st.DrawFn) -> list[Json]:
    """Up to eight nodes that share a few ways of describing devices."""
    offers = draw(st.lists(st.sampled_from((*PLAIN * 4, *ODD)), min_size=2, max_size=4))
    names = NAMES[: draw(st.sampled_from((8, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 2, 1, 0)))]
    return [draw(_node(name, draw(st.sampled_from(offers)))) for name in names]


@st.composite
def _node(draw: st.DrawFn, name: str, offer: Offer) -> Json:
    devices = draw(st.sampled_from((8, 4, 4, 2)))
    own = {
        key: value
        for key in ("zone", "pool", "rank")
        if (value := draw(st.sampled_from((*LABELS[key], None)))) is not None
    }
    count = {"nvidia.com/gpu.count": str(devices)} if PRODUCT in offer.labels and offer.resource == GPU else {}
    # Healthy, one card lost, all of them lost, and what no device plugin would write.
    whole = (devices, str(devices)) * 4
    allocatable = draw(st.sampled_from((*whole, devices - 1, 0, "a few", None)))
    spec: Json = {}
    if taint := draw(st.sampled_from((*(None,) * 12, *TAINTS))):
        spec["taints"] = [taint]
    if draw(st.sampled_from((False, False, False, True))):
        spec["unschedulable"] = True
    ready = draw(st.sampled_from(("True", "True", "False", "Unknown")))
    room = {"cpu": "64", "memory": "512Gi", "pods": draw(st.sampled_from(("110", "110", "110", "110", "2", "0")))}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **count, **own, **offer.labels},
            "annotations": {HOLDS: offer.holds},
        },
        "spec": spec,
        "status": {
            "capacity": room | {offer.resource: str(devices)},
            "allocatable": room | {offer.resource: allocatable},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


VALUES_OF = {key: st.lists(st.sampled_from(values), min_size=1, max_size=2) for key, values in LABELS.items()}


@st.composite
def _requirement(draw: st.DrawFn) -> Json:
    key = draw(st.sampled_from(("zone", "pool", PRODUCT, "rank", "nobody")))
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        return {"key": "rank", "operator": operator, "values": [draw(st.sampled_from(("0", "2", "11")))]}
    return {"key": key, "operator": operator, "values": draw(VALUES_OF.get(key, st.just(["a"])))}


FIELDS = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(("In", "NotIn")),
        "values": st.sampled_from(NAMES).map(lambda name: [name]),
    }
)
TERMS = st.one_of(
    st.lists(_requirement(), min_size=1, max_size=2).map(lambda drawn: {"matchExpressions": drawn}),
    st.fixed_dictionaries({"matchFields": st.lists(FIELDS, min_size=1, max_size=1)}),
    st.sampled_from(({}, {"matchExpressions": None}, {"matchExpressions": [], "matchFields": []})),
    st.fixed_dictionaries({"matchExpressions": st.lists(_requirement(), max_size=1), "matchFields": st.lists(FIELDS)}),
)


def _required(terms: list[Json]) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


# Two terms of which each node matches one, whatever is drawn: the form in which people OR their wishes.
EITHER = _required(
    [{"matchExpressions": [{"key": "zone", "operator": one, "values": ["a"]}]} for one in ("In", "NotIn")]
)
AFFINITY = st.one_of(
    st.just(EITHER),
    st.sampled_from(
        (
            {},
            {"podAntiAffinity": {}},
            {"nodeAffinity": None},
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}},
            {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        )
    ),
    st.lists(TERMS, min_size=1, max_size=3).map(_required),
)
SELECTORS = st.sampled_from(
    (
        None,
        {},
        {"zone": "a"},
        {"pool": "x"},
        {"zone": "b", "pool": "x"},
        *({PRODUCT: one} for one in LABELS[PRODUCT][:3]),
    )
)
TOLERATIONS = st.lists(
    st.sampled_from(
        (
            {"operator": "Exists"},
            {"key": "dedicated", "operator": "Exists"},
            {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
            {"key": "dedicated", "effect": "NoExecute"},
            {"key": "other", "value": "gpu"},
        )
    ),
    max_size=2,
)
_TRAINER = ("torchrun", "--nnodes={pods}", "train.py", "--fsdp=full_shard", "--bf16=True", "--max_seq_length=2048")
_OTHERWISE = (
    *("train.py", "--model_name_or_path=meta-llama/Llama-3.1-8B", "--bf16=True", "--max_seq_length=4096"),
    *("--optim=adamw_torch", "--per_device_train_batch_size=48", "--gradient_checkpointing=False", "--use_peft=False"),
)
COMMANDS = (
    ["torchrun", "--nnodes={pods}", "train.py", "--per_device_train_batch_size", "64"],
    ["torchrun", "--nnodes={pods}", "train.py", "--per_device_train_batch_size=24", "--gradient_accumulation_steps=2"],
    ["sh", "-c", "torchrun --nnodes={pods} --nproc_per_node 2 train.py --per_device_train_batch_size 64"],
    ["deepspeed", "train.py", "--train_micro_batch_size_per_gpu", "96"],
    ["torchrun", "--nnodes={pods}", "train.py", "--batch-size", "128"],
    [*_TRAINER, "--model_name_or_path=meta-llama/Llama-3.1-8B", "--per_device_train_batch_size=16"],
    [*_TRAINER, "--model_name_or_path=someone/private-13b", "--per_device_train_batch_size=8"],
    # What a trainer may be told otherwise, in arguments, in a script and by its launcher; processes as many as devices.
    ["torchrun", "--nnodes={pods}", "--nproc_per_node=2", *_OTHERWISE],
    ["bash", "-c", " ".join(("torchrun --nnodes={pods}", *_OTHERWISE, "--gradient_accumulation_steps 3; echo done"))],
    ["accelerate", "launch", "--use_deepspeed", "--zero_stage=1", "--num_machines={pods}", *_OTHERWISE],
    ["trl", "sft", *_OTHERWISE[1:], "--fsdp", "full_shard auto_wrap"],
    ["python", "train.py"],
)


@st.composite
def pods_of(draw: st.DrawFn, pods: int, command: list[str]) -> Json:
    """A pod spec of a job of so many pods that runs this command."""
    devices = draw(st.sampled_from((*(2,) * 9, 1, 4, 8, 0)))
    device = draw(st.sampled_from((*(GPU,) * 30, AMD, MIG)))
    amounts = {device: devices} if devices else {}
    resources: Json = {"limits": amounts}
    if draw(RARELY):
        asked: tuple[Json, ...] = (
            {},
            {"cpu": "4"},
            {"cpu": 30},
            {"memory": "100Gi"},
            {"memory": "200Gi"},
            {"cpu": "65"},
        )
        resources["requests"] = amounts | draw(st.sampled_from(asked))
    words = [word.format(pods=pods) for word in command]
    spec: Json = {"containers": [{"name": "train", "image": "train", "command": words, "resources": resources}]}
    if draw(st.sampled_from((False, False, True))):
        spec["containers"].append({"name": "logs", "image": "logs", "resources": {"requests": {"cpu": "100m"}}})
    if draw(RARELY):
        spec["initContainers"] = [{"name": "warm", "image": "warm", "resources": {"limits": {device: 4}}}]
    if draw(RARELY):
        spec["nodeSelector"] = draw(SELECTORS)
    if draw(st.sampled_from((False, False, True))):
        spec["affinity"] = draw(AFFINITY)
    if draw(st.booleans()):
        spec["tolerations"] = draw(TOLERATIONS)
    return spec


ANNOTATIONS = st.one_of(
    st.none(),
    st.sampled_from((None, {}, {"team": "vision"}, {"samestep.dev/coupling": "Synchronous"})),
    st.sampled_from(("1Gi", "29Gi", "31.3Gi", "44Gi", "75Gi", "79Gi", "90Gi", "200Gi", "lots")).map(
        lambda memory: {"samestep.dev/memory-per-device": memory}
    ),
    st.sampled_from(("100Mi", "684Mi", "1200Mi", "3Gi")).map(
        lambda each: {"samestep.dev/memory-fixed": "2Gi", "samestep.dev/memory-per-sample": each}
    ),
    st.sampled_from(("16", "64")).map(
        lambda batch: {
            "samestep.dev/memory-fixed": "2Gi",
            "samestep.dev/memory-per-sample": "684Mi",
            "samestep.dev/micro-batch": batch,
        }
    ),
)
WISHES: st.SearchStrategy[Json] = st.just({}) | st.fixed_dictionaries(
    {},
    optional={
        "samestep.dev/model": st.sampled_from(
            (RTX_5090.product, "RTX-5090", RTX_PRO_6000.product, H100.product, "A100-SXM4-80GB", "MI300X", "B200", "/")
        ),
        "samestep.dev/sized-for": st.sampled_from(("80Gi", "32607Mi", "RTX-5090", H100.product, "nobody-knows", "")),
        "samestep.dev/ignore": st.sampled_from(("a reason", "")),
    },
)
REPLICAS = st.sampled_from((4, 4, 2, 2, 3, 3, 4, 2, 16, 1, 0))


@st.composite
def jobs(draw: st.DrawFn) -> Json:
    """A batch/v1 Job, a PyTorchJob, or a job of any other kind."""
    # A copy: what is drawn from constants must not be changed by whoever gets the job.
    return deepcopy(draw(draw(st.sampled_from((_job(), _pytorchjob(), _of_any_kind())))))


@st.composite
def _of_any_kind(draw: st.DrawFn) -> Json:
    count = draw(REPLICAS)
    pod = draw(pods_of(count, draw(st.sampled_from(COMMANDS))))
    # Roles share their pod until it has been JSON: who changes the one would change the other.
    written: Json = json.loads(json.dumps(WRITTEN[draw(st.sampled_from(sorted(WRITTEN)))](pod, count)))
    if written["kind"] == "TFJob" and draw(st.booleans()):
        evaluator = draw(pods_of(count, draw(st.sampled_from(COMMANDS))))
        written["spec"]["tfReplicaSpecs"]["Evaluator"] = {"replicas": 1, "template": {"spec": evaluator}}
    metadata = draw(_metadata())
    annotations = {**(metadata.get("annotations") or {}), **(written["metadata"].get("annotations") or {})}
    merged = {**written["metadata"], **metadata, **({"annotations": annotations} if annotations else {})}
    return written | {"metadata": merged}


@st.composite
def _job(draw: st.DrawFn) -> Json:
    pods = draw(REPLICAS)
    spec: Json = {"parallelism": pods, "template": {"spec": draw(pods_of(pods, draw(st.sampled_from(COMMANDS))))}}
    spec |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "completions": st.sampled_from((pods, pods, pods, 1, 8, None)),
                "completionMode": st.sampled_from(("Indexed", "Indexed", "NonIndexed")),
                "suspend": st.booleans(),
            },
        )
    )
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": draw(_metadata()), "spec": spec}


@st.composite
def _pytorchjob(draw: st.DrawFn) -> Json:
    names = draw(st.sampled_from((("Worker",), ("Worker",), ("Master", "Worker"), ("Master", "Worker", "Reader"))))
    counts = {name: 1 if name == "Master" else draw(REPLICAS) for name in names}
    command = draw(st.sampled_from(COMMANDS))
    first = draw(pods_of(sum(counts.values()), command))
    pods = {name: first if draw(st.booleans()) else draw(pods_of(sum(counts.values()), command)) for name in names}
    roles: Json = {
        name: {"replicas": count, "template": {"spec": deepcopy(pods[name])}} for name, count in counts.items()
    }
    spec: Json = {"pytorchReplicaSpecs": roles}
    if draw(st.sampled_from((False, False, False, True))):
        spec["elasticPolicy"] = {"minReplicas": draw(st.sampled_from((1, 2)))}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": draw(_metadata()), "spec": spec}


@st.composite
def _metadata(draw: st.DrawFn) -> Json:
    metadata: Json = draw(st.sampled_from(({"name": "ddp"}, {"name": "ddp"}, {"generateName": "ddp-"}))).copy()
    annotations, wishes = draw(ANNOTATIONS), draw(WISHES)
    if annotations is None and not wishes:
        return metadata
    return metadata | {"annotations": {**(annotations or {}), **wishes}}


CLASSES = (
    (("RTX-5090", A100_80GB.product),),
    ((H100.product, "L40S"), ("RTX-PRO-6000-Blackwell-Server", H100.product, "NVIDIA-Unheard-Of")),
)
POLICIES = st.just(Policy()) | st.builds(
    Policy,
    pin_when=st.sampled_from((PinWhen.WHEN_MIXED, PinWhen.WHEN_MIXED, PinWhen.ALWAYS, PinWhen.NEVER)),
    strategy=st.none() | st.sampled_from(Strategy),
    order=st.sampled_from(((), (H100.product, "RTX-5090"))),
    pin_keys=st.sampled_from(((), (), ("pool",), ("zone", "kubernetes.io/hostname"))),
    when_unknown=st.sampled_from((Coupling.SYNCHRONOUS, Coupling.INDEPENDENT)),
    likeness=st.sampled_from((Likeness.MODEL, Likeness.MODEL, Likeness.EQUIVALENT)),
    # So wide that memory alone decides: A100 and H100 with 80 GB are equivalent.
    compute_tolerance_percent=st.sampled_from((10, 80)),
    bandwidth_tolerance_percent=st.just(80),
    classes=st.sampled_from(((), (), *CLASSES)),
    host=st.sampled_from((Sameness(labels=("zone",), resources=(("cpu", 10),)), Sameness(Differing.IGNORE))),
    room=st.sampled_from(RoomRule),
    unknown_nodes=st.sampled_from(UnknownNodes),
    declare=st.sampled_from((True, True, True, False)),
    coupling=st.booleans(),
    model=st.sampled_from((True, True, True, False)),
    ignore=RARELY,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One job in front of one cluster, under one policy."""

    job: Json
    nodes: list[Json]
    policy: Policy
    grows: bool
    stale: bool
    queues: Queues = NO_QUEUES
    profiles: Profiles = NO_PROFILES

    @property
    def fleet(self) -> Fleet:
        known = fleet(self.nodes, taken_at=0.0 if self.stale else 1000.0)
        return replace(known, grows="something" if self.grows else "")

    def review(self, obj: Json | None = None, *, old: Json | None = None, stage: Stage = Stage.MUTATE) -> Review:
        """The review of the case's own job, or of what became of it."""
        # A copy, so that a review that changed its input could not hide it.
        asked = deepcopy(self.job if obj is None else obj)
        return ask(
            asked,
            self.fleet,
            old=deepcopy(old),
            stage=stage,
            policy=self.policy,
            now=1000.0,
            queues=self.queues,
            profiles=self.profiles,
        )


CASES = st.builds(Case, jobs(), nodes(), POLICIES, RARELY, RARELY)


def under(action: ValidationAction, case: Case) -> Case:
    """The same case under a policy of another action."""
    return replace(case, policy=replace(case.policy, validation_action=action))


def examples(times: float) -> settings:
    """The profile's number of examples, so many times: fewer where they are hard to come by."""
    return settings(max_examples=round(times * settings().max_examples))


def spellings() -> dict[str, str]:
    """The model that a node with this product label holds, where it holds one."""
    keys = (PRODUCT, *CLOUD_KEYS)
    models = [offer for offer in (*PLAIN, *ODD) if offer.holds not in (UNKNOWN, TWO_MODELS, SHARES)]
    return {offer.labels[key]: offer.holds for offer in models for key in keys if key in offer.labels}
