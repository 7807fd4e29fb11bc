"""One small case, job and fleet, for every text that a person may read."""

from dataclasses import replace

from controlplane.nodes import A100_80GB, RTX_5090, RTX_PRO_6000, Card, gpu_node
from tests.profiles import NOW, known, large, profile, ran, recipe, seen, small
from tests.samples import Json, ask, demo_nodes, fleet, job, nodes, patched, pod, pytorchjob
from tests.unit.intake.runtimes import train_job
from webhook.answer.texts import texts
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.model.finding import Finding, Phrase
from webhook.model.fleet import Fleet
from webhook.model.policy import (
    FleetShown,
    Language,
    Likeness,
    PinWhen,
    Policy,
    RoomRule,
    TabledMemory,
    ValidationAction,
)
from webhook.model.request import Stage, User
from webhook.model.verdict import Review

PRODUCT = "nvidia.com/gpu.product"
TWO_TO_ONE = nodes((RTX_5090, 2, 8), (RTX_PRO_6000, 2, 4))
"""The fleet of the design's example: twice as many small cards as large ones."""


def ddp(*flags: str, workers: int = 8, name: str = "ddp") -> Json:
    """The job of the design's example: 2 GiB and 684 MiB a sample, on every GPU."""
    spec = pod(command=("torchrun", "train.py", *flags))
    return pytorchjob(spec, workers=workers, name=name, memory_fixed="2Gi", memory_per_sample="684Mi")


def with_master(spec: Json, *, workers: int, **annotations: str) -> Json:
    obj = pytorchjob(spec, workers=workers, **annotations)
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": spec}}
    return obj


def on_two_vendors() -> Review:
    amd = gpu_node("amd", RTX_5090, devices=8)
    amd["metadata"]["labels"] = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"}
    for amounts in (amd["status"]["capacity"], amd["status"]["allocatable"]):
        amounts["amd.com/gpu"] = amounts.pop("nvidia.com/gpu")
    obj = pytorchjob(workers=3)
    master = pod(gpus=2, device="amd.com/gpu")
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": master}}
    return ask(obj, [*demo_nodes(), amd])


def pinned_apart() -> Review:
    obj = pytorchjob(pod(nodeSelector={PRODUCT: RTX_5090.product}), workers=3)
    master = pod(nodeSelector={PRODUCT: RTX_PRO_6000.product})
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": master}}
    return ask(obj)


def widened_while_it_runs() -> Review:
    before = pytorchjob(pod(nodeSelector={PRODUCT: RTX_PRO_6000.product}))
    before["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    return ask(pytorchjob(pod(nodeSelector={"kubernetes.io/os": "linux"})), old=before)


def on_many_models() -> Review:
    cards = [(gpu_card(index), 1, 4) for index in range(8)]
    return ask(pytorchjob(pod(gpus=4), workers=4), nodes(*cards))


def gpu_card(index: int) -> Card:
    return Card(f"NVIDIA-Made-Up-{index}", 16_384 + 1024 * index, "made-up", (1, 0))


def micro_batch_for_all() -> Json:
    """Megatron-LM: the global batch stays by itself."""
    flags = ("--micro-batch-size=64", "--global-batch-size=1024")
    spec = pod(command=("torchrun", "pretrain_gpt.py", *flags))
    return pytorchjob(spec, workers=4, memory_fixed="2Gi", memory_per_sample="2Gi")


NEVER = Policy(pin_when=PinWhen.NEVER)
ALIKE = Policy(likeness=Likeness.EQUIVALENT)
A100_PCIE = Card("NVIDIA-A100-80GB-PCIe", 81_920, "ampere", (8, 0))
LIKE = nodes((A100_80GB, 2, 4), (A100_PCIE, 2, 4), (RTX_5090, 4, 4))


def all_in_use() -> Fleet:
    read = [node for one in demo_nodes() if (node := read_node(one)) is not None]
    return build_fleet(read, used={node.name: {"nvidia.com/gpu": 4, "pods": 1} for node in read})


def on_rocm() -> Json:
    spec = pod()
    spec["containers"][0]["image"] = "rocm/pytorch:latest"
    return pytorchjob(spec, memory_per_device="44Gi")


TABLE = Policy(tabled=(TabledMemory(2048, 684, image="*/train*", args=(("--arch", "vit"),)),))


def without_a_batch(sharding: str) -> Json:
    """A known model of which nothing but a bound can be said: 33 GiB, or what sharding leaves of it."""
    flags = ("--model_name_or_path=meta-llama/Llama-3.1-70B", f"--fsdp={sharding}", "--do_train", "--save_strategy=no")
    return pytorchjob(pod(command=("torchrun", "train.py", *flags)))


TO_THE_SMALL_CARD = pytorchjob(pod(nodeSelector={PRODUCT: RTX_5090.product}))

DENIALS = {
    "memory and room, the design's example": ask(ddp("--per_device_train_batch_size", "64"), TWO_TO_ONE),
    "memory, by micro-batch": ask(ddp("--per_device_train_batch_size=256", workers=4)),
    "memory, where accumulation follows by itself": ask(micro_batch_for_all()),
    "memory, per device": ask(pytorchjob(memory_per_device="120Gi")),
    "memory, pinned to the small card by its user": ask(
        pytorchjob(pod(nodeSelector={PRODUCT: RTX_5090.product}), memory_per_device="44Gi")
    ),
    "memory, micro-batch not certain": ask(
        pytorchjob(
            pod(command=("python", "train.py", "--batch-size", "64")), memory_fixed="100Gi", memory_per_sample="1Gi"
        )
    ),
    "memory, by the policy's table": ask(
        pytorchjob(pod(command=("torchrun", "train.py", "--arch=vit", "--micro-batch-size=256"))), policy=TABLE
    ),
    "memory, independent pods": ask(
        job(pod(gpus=1, command=["python", "trial.py"]), indexed=False, pods=8, memory_per_device="144Gi")
    ),
    "room": ask(pytorchjob(pod(gpus=4), workers=4)),
    "room, with all that has to change": ask(
        with_master(pod(gpus=4, command=("torchrun", "--nnodes=4", "train.py")), workers=3)
    ),
    "room, of an Indexed Job": ask(job(pod(gpus=4, command=("torchrun", "--nnodes=4", "train.py")), pods=4)),
    "room, by pods": ask(pytorchjob(pod(gpus=3), workers=3)),
    "room, more models than fit": on_many_models(),
    "roles pinned apart by their user": pinned_apart(),
    "annotation": ask(pytorchjob(memory_per_device="lots")),
    "not pinned": ask(pytorchjob(memory_per_device="44Gi"), stage=Stage.VALIDATE),
    "widened while it runs": widened_while_it_runs(),
    "two vendors": on_two_vendors(),
    "asks for a model that is not there": ask(pytorchjob(memory_per_device="20Gi", model="H200")),
    "memory, mixed on purpose": ask(ddp("--per_device_train_batch_size", "64"), policy=NEVER),
    "room, mixed on purpose": ask(pytorchjob(pod(gpus=4), workers=5, memory_per_device="20Gi"), policy=NEVER),
    "memory, as earlier runs showed": ask(
        TO_THE_SMALL_CARD, now=NOW, profiles=ran(TO_THE_SMALL_CARD, small(out=2, times=2))
    ),
    "memory, as earlier runs showed, though less is declared": ask(
        pytorchjob(memory_per_device="20Gi"),
        nodes((RTX_5090, 4, 4)),
        now=NOW,
        profiles=ran(pytorchjob(memory_per_device="20Gi"), small(out=2)),
    ),
    "memory, by figures and as earlier runs showed": ask(
        pytorchjob(memory_per_device="120Gi"),
        now=NOW,
        profiles=ran(pytorchjob(memory_per_device="120Gi"), small(out=2)),
    ),
    "memory, mixed on purpose, as earlier runs showed": ask(
        pytorchjob(), policy=NEVER, now=NOW, profiles=ran(pytorchjob(), small(out=2))
    ),
    "not pinned, where runs were mixed before": ask(
        pytorchjob(memory_per_device="44Gi"),
        stage=Stage.VALIDATE,
        now=NOW,
        profiles=ran(pytorchjob(memory_per_device="44Gi"), small(imbalance=0), large(imbalance=0.31)),
    ),
    "room, models that count as one": ask(
        pytorchjob(pod(gpus=4), workers=5, memory_per_device="44Gi"), LIKE, policy=ALIKE
    ),
}


def unlabelled() -> Json:
    node = gpu_node("odd", RTX_5090)
    for key in ("product", "memory"):
        del node["metadata"]["labels"][f"nvidia.com/gpu.{key}"]
    return node


def two_models_in_one() -> Json:
    node = gpu_node("odd", RTX_PRO_6000, devices=4)
    node["metadata"]["labels"]["nvidia.com/gpu.count"] = "2"
    return node


def shared() -> Json:
    node = gpu_node("shared", RTX_5090, devices=8)
    node["metadata"]["labels"] |= {"nvidia.com/gpu.replicas": "4", PRODUCT: f"{RTX_5090.product}-SHARED"}
    return node


def child_of_a_job() -> Review:
    obj = job(pods=2)
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "p", "uid": "u", "controller": True}
    obj["metadata"]["ownerReferences"] = [owner]
    return ask(obj, user=User("system:serviceaccount:kubeflow:training-operator"))


def dropped_by_an_update() -> Review:
    submitted = pytorchjob(memory_per_device="44Gi")
    changed = {**submitted, "spec": {**submitted["spec"], "runPolicy": {"backoffLimit": 1}}}
    return ask(changed, old=patched(ask(submitted)))


def growing() -> list[Json]:
    known = demo_nodes()
    for one in known:
        one["metadata"]["labels"]["karpenter.sh/nodepool"] = "gpus"
    return known


def not_separable() -> Review:
    """A node of the same product that says no memory: it is unknown, and no label tells it from the rest."""
    known = nodes((gpu_card(60), 3, 4))
    del known[2]["metadata"]["labels"]["nvidia.com/gpu.memory"]
    return ask(pytorchjob(memory_per_device="20Gi"), known)


def fragmented() -> Review:
    """Two pods of 3 and one of 2 keep every bound on two nodes of 4, but the first two leave 1 and 1."""
    obj = pytorchjob(pod(gpus=3), workers=2, memory_per_device="44Gi")
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": pod(gpus=2)}}
    return ask(obj)


STALE = fleet(demo_nodes(), taken_at=0.0)
WIDE = pytorchjob(pod(gpus=4), workers=4)
WARN = Policy(validation_action=ValidationAction.WARN)

TO_THE_SMALL_CARD_DECLARED = pytorchjob(pod(nodeSelector={PRODUCT: RTX_5090.product}), memory_per_device="44Gi")
TRIALS = job(pod(gpus=1, command=["python", "trial.py"]), indexed=False, pods=8)


def in_batches(batch: int) -> Json:
    return pytorchjob(pod(command=("torchrun", "train.py", f"--per_device_train_batch_size={batch}")))


WARNINGS = {
    "pinned": ask(pytorchjob(memory_per_device="44Gi")),
    "pinned to models that count as one": ask(pytorchjob(memory_per_device="44Gi"), LIKE, policy=ALIKE),
    "mixed on purpose": ask(pytorchjob(memory_per_device="20Gi"), policy=NEVER),
    "mixed on purpose, memory of the smallest": ask(
        ddp("--per_device_train_batch_size", "64", workers=2), [*demo_nodes(), unlabelled()], policy=NEVER
    ),
    "mixed on purpose, no figures": ask(pytorchjob(), nodes((RTX_5090, 2, 4), (gpu_card(60), 2, 4)), policy=NEVER),
    "an image for another vendor": ask(on_rocm()),
    "no room now": ask(pytorchjob(memory_per_device="44Gi"), all_in_use()),
    "pinned, memory unknown": ask(pytorchjob()),
    "pinned, the batch alone is missing": ask(pytorchjob(memory_fixed="2Gi", memory_per_sample="684Mi")),
    "pinned, only a bound is known": ask(without_a_batch("full_shard")),
    "pinned, a bound that exceeds the small card": ask(without_a_batch("no_shard")),
    "a bound that exceeds every card": ask(without_a_batch("no_shard"), nodes((RTX_5090, 4, 4))),
    "kept off": ask(
        job(pod(gpus=8), pods=1, memory_per_device="44Gi"),
        nodes((RTX_5090, 1, 8), (A100_80GB, 1, 8), (RTX_PRO_6000, 1, 8)),
    ),
    "put back": dropped_by_an_update(),
    "tight": ask(pytorchjob(memory_per_device="31Gi"), nodes((RTX_5090, 4, 4))),
    "too small for some of the independent pods": ask(
        job(pod(gpus=1, command=["python", "trial.py"]), indexed=False, pods=8, memory_per_device="44Gi")
    ),
    "memory, nodes of unknown model": ask(pytorchjob(memory_per_device="120Gi"), [*demo_nodes(), unlabelled()]),
    "memory, stale fleet": ask(pytorchjob(memory_per_device="120Gi"), STALE, now=400.0),
    "memory, warning policy": ask(pytorchjob(memory_per_device="120Gi"), policy=WARN),
    "room, nodes of unknown model": ask(WIDE, [*demo_nodes(), unlabelled()]),
    "room, stale fleet": ask(WIDE, STALE, now=400.0),
    "room, nodes may be added": ask(WIDE, growing()),
    "room, policy prefers": ask(WIDE, policy=Policy(room=RoomRule.PREFER)),
    "room, warning policy": ask(WIDE, policy=WARN),
    "room, update": ask(WIDE, old=pytorchjob(pod(gpus=4), workers=2)),
    "room, coupling assumed": ask(job(pod(gpus=4, command=["python", "train.py"]), pods=4)),
    "no node in view": ask(pytorchjob(pod(gpus=16))),
    "no node in view has what is selected": ask(pytorchjob(pod(nodeSelector={"zone": "typo"}))),
    "no node in view has what is selected, but nearly": ask(
        pytorchjob(pod(nodeSelector={PRODUCT: RTX_5090.product.casefold()}))
    ),
    "only shares": ask(pytorchjob(workers=2), [shared()]),
    "only nodes of two models": ask(pytorchjob(workers=2), [two_models_in_one()]),
    "only nodes of unknown model": ask(pytorchjob(workers=2), [unlabelled()]),
    "no label separates": not_separable(),
    "room, fragmented": fragmented(),
    "child": child_of_a_job(),
    "unknown kind": ask({"apiVersion": "example.com/v1", "kind": "Trainer", "spec": pod()}),
    "wrong type": ask(pytorchjob(workers="two")),  # type: ignore[arg-type]
    "unknown annotation": ask(pytorchjob(memory_per_devise="44Gi")),
    "kept off where earlier runs ran out": ask(pytorchjob(), now=NOW, profiles=ran(pytorchjob(), small(out=2))),
    "kept off where earlier runs ran out, though less is declared": ask(
        pytorchjob(memory_per_device="20Gi"),
        now=NOW,
        profiles=ran(pytorchjob(memory_per_device="20Gi"), small(out=2, times=2, good=9)),
    ),
    "earlier runs ended well, though more is declared": ask(
        TO_THE_SMALL_CARD_DECLARED, now=NOW, profiles=ran(TO_THE_SMALL_CARD_DECLARED, small(runs=3))
    ),
    "once out of memory since a run ended well": ask(
        pytorchjob(), nodes((RTX_5090, 4, 4)), now=NOW, profiles=ran(pytorchjob(), small(out=1, good=2))
    ),
    "out of memory with a smaller batch": ask(
        in_batches(64), nodes((RTX_5090, 4, 4)), now=NOW, profiles=ran(in_batches(32), small(out=1))
    ),
    "independent pods, as earlier runs showed": ask(TRIALS, now=NOW, profiles=ran(TRIALS, small(out=2))),
    "earlier runs ran out, nodes of unknown model": ask(
        pytorchjob(),
        [*nodes((RTX_5090, 4, 4)), unlabelled()],
        now=NOW,
        profiles=ran(pytorchjob(), small(out=2)),
    ),
    "earlier runs ran out, stale fleet": ask(
        pytorchjob(),
        fleet(demo_nodes(), taken_at=NOW - 412),
        now=NOW,
        profiles=ran(pytorchjob(), small(out=2), large(out=1)),
    ),
    "mixed on purpose, nodes of unknown model, as earlier runs showed": ask(
        pytorchjob(), [*demo_nodes(), unlabelled()], policy=NEVER, now=NOW, profiles=ran(pytorchjob(), small(out=2))
    ),
    "mixed on purpose, as seen before": ask(
        pytorchjob(memory_per_device="20Gi"),
        policy=NEVER,
        now=NOW,
        profiles=ran(pytorchjob(memory_per_device="20Gi"), small(imbalance=0), large(imbalance=0.31)),
    ),
    "tight, by a peak": ask(TO_THE_SMALL_CARD, now=NOW, profiles=ran(TO_THE_SMALL_CARD, large(runs=2, peak_gib=33))),
    "likely too small, by peaks on two sizes of card": ask(
        TO_THE_SMALL_CARD,
        now=NOW,
        profiles=ran(TO_THE_SMALL_CARD, large(runs=2, peak_gib=44), seen(A100_80GB, runs=1, peak_gib=42)),
    ),
    "likely too small, by the line through other batches": ask(
        in_batches(64),
        nodes((RTX_5090, 4, 4)),
        now=NOW,
        profiles=known(
            profile(recipe(in_batches(8)), large(runs=1, peak_gib=10), name="ddp-8"),
            profile(recipe(in_batches(16)), large(runs=1, peak_gib=14), name="ddp-16"),
        ),
    ),
    "processes without devices": ask(pytorchjob(pod(gpus=0, command=("torchrun", "--nproc-per-node=8", "train.py")))),
}


def odd_memory() -> list[Json]:
    """Two nodes of one product, of which one has ECC switched on."""
    known = nodes((RTX_5090, 4, 4))
    known[0]["metadata"]["labels"]["nvidia.com/gpu.memory"] = "30500"
    return known


def pinned_elsewhere() -> Review:
    """Changed, before it has started, so that it needs more than the model that it was pinned to has."""
    known = nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4))
    batch = "--per_device_train_batch_size"
    return ask(ddp(batch, "64", workers=4), known, old=patched(ask(ddp(batch, "16", workers=4), known)))


INFORMING = {
    "two batches": ask(pytorchjob(pod(command=("torchrun", "train.py", "--micro-batch-size=8")), micro_batch="16")),
    "smallest GPU": ask(pytorchjob(memory_per_device="44Gi")),
    "one product, two memory sizes": ask(pytorchjob(memory_per_device="20Gi"), odd_memory()),
    "a node of two models beside others": ask(
        pytorchjob(memory_per_device="20Gi"), [*demo_nodes(), two_models_in_one()]
    ),
    "a pin that does not hold any more": pinned_elsewhere(),
    "a runtime that is not there": ask(train_job()),
}

EVERY = {**DENIALS, **WARNINGS, **INFORMING}

REALISTIC: dict[str, str | int | Phrase] = {
    "age_s": 412,
    "all": 4,
    "asked": "RTX-PRO-6000-Blackwell-Server",
    "annotation": "samestep.dev/memory-per-device",
    "because": "line 3: expected a value",
    "condition": "not-a-notebook",
    "device": "nvidia.com/gpu",
    "devices": 16,
    "driver": 11,
    "exception": "team-a/trial",
    "expected": Phrase("quantity_with_unit"),
    "field": "runtimePatches",
    "file": "/config/ds_zero3.json",
    "first": 32,
    "free": 8,
    "got": '"44 GB"',
    "image": "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime",
    "key": "nvidia.com/gpu.product",
    "kind": "JobSet",
    "major": 12,
    "meant": "samestep.dev/memory-per-device",
    "memory_mib": 31_967,
    "missing": "samestep.dev/memory-per-device",
    "model": "RTX-PRO-6000-Blackwell-Server",
    "models": "RTX-5090, A100-SXM4-80GB",
    "name": "--batch-size",
    "nodes": 4,
    "one": "torchrun --nnodes=4",
    "other": "torchrun --nnodes=3",
    "others": "research, strict",
    "percent": 6,
    "pods": 8,
    "policies": "team-a, team-b",
    "policy": "one-model-per-job",
    "pool": "research-cuda",
    "pools": "vision, speech",
    "problem": "no such key: labels",
    "program": "deepspeed",
    "ran": Phrase("ran_out", {"run": "llama-sft-7", "when": "2027-01-14"}),
    "reference": "ClusterTrainingRuntime torch",
    "role": "Worker",
    "said": "torchrun --nproc-per-node=8",
    "second": 64,
    "stack": "ROCm and RCCL",
    "taken": 64,
    "there": 12,
    "though": "",
    "told": "64, 32",
    "usable_mib": 31_967,
    "value": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
    "values": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
    "vendor": "NVIDIA",
    "vendors": "AMD (Worker), NVIDIA (Master)",
    "what": "instance-type p5.48xlarge, p5e.48xlarge",
}
"""What the placeholders of findings hold, as long as they usually are."""

_WELL: dict[str, str | int | Phrase] = {"ran": Phrase("ran_well_times", {"runs": 12, "when": "2027-01-14"})}

ELSEWHERE: dict[str, dict[str, str | int | Phrase]] = {
    "SST102": {"kind": "Trainer.example.com"},
    "SST103/beside": {"taken": "samestep.dev/memory-per-device", "other": "samestep.dev/memory-fixed"},
    "SST103/declared": {"one": "samestep.dev/micro-batch", "other": "--per_device_train_batch_size"},
    "SST104/claim": {"reference": "train-gpus"},
    "SST104/queue": {"reference": "LocalQueue training"},
    "SST104/selector": {"reference": "rtx-pro-6000-gpus"},
    "SST403/resource": {"asked": "192 cpu", "there": "128 cpu"},
    "SST207": _WELL,
    "SST207/against": _WELL,
}
"""The same where a text means something else by the name."""


def every_finding() -> dict[str, Finding]:
    """One finding for each text, with as much in its placeholders as there usually is."""
    return {key: _finding(key) for key in texts()["findings"]}


def _finding(key: str) -> Finding:
    code, _, variant = key.partition("/")
    return Finding(code, "spec", {**REALISTIC, **ELSEWHERE.get(key, {})}, variant)


def told_in(outcome: Review, language: Language, shown: FleetShown = FleetShown.MODELS) -> Review:
    """The same review as its submitter reads it."""
    return replace(outcome, language=language, policy=replace(outcome.policy, fleet_shown=shown))
