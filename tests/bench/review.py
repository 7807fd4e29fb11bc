"""What `review()` takes of CPU time, by size of the fleet, beside `json.loads` of a 100 KiB review as the yardstick.

The fleet is hard: host name, provider id and allocatable memory differ on every node. All are measured interleaved in
one process, so that ratios hold on a noisy machine. `python -m tests.bench.review` (or `make bench`).
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from controlplane.nodes import A100_80GB, H100, L40S, RTX_5090, RTX_PRO_6000, hard_fleet
from tests.bench.recorded import held
from tests.queues import flavor, groups, kueue, local, queued, read
from tests.samples import Json, pod, pytorchjob
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.intake.read import read_job
from webhook.model.demand import DemandSource
from webhook.model.fleet import Fleet
from webhook.model.job import TrainingJob
from webhook.model.policy import Policy
from webhook.model.request import Kind, Request, User
from webhook.model.verdict import Verdict
from webhook.model.world import World
from webhook.review import review
from webhook.sizing.demand import size as size_rank

CARDS = (RTX_5090, RTX_PRO_6000, A100_80GB, H100, L40S)
HOST = {
    "coveredResources": ["cpu", "memory"],
    "flavors": [{"name": "any", "resources": [{"name": name, "nominalQuota": "1P"} for name in ("cpu", "memory")]}],
}
SIZES = (10, 100, 1_000, 10_000)
ROUNDS = 30
ESTIMATED = ("--model_name_or_path=meta-llama/Llama-3.1-70B", "--fsdp=full_shard", "--bf16", "--block_size=4096")
CALLS = 20


def main() -> int:
    job = sized_job(6 << 10)
    worlds = {size: World(fleet_of(size), Policy()) for size in SIZES}
    request = Request(Kind("kubeflow.org", "v1", "PyTorchJob"), "CREATE", job, namespace="team-a", user=User("u"))
    busy = {size: World(fleet_of(size, busy=True), Policy()) for size in (SIZES[0], SIZES[-1])}
    for size, world in (*worlds.items(), *busy.items()):
        assert review(request, world).verdict is Verdict.PIN, size
    queues = read(
        *(flavor(card.product.lower(), {"nvidia.com/gpu.product": card.product}) for card in CARDS),
        kueue("ClusterQueue", "cq", resourceGroups=[*groups({card.product.lower(): 1 << 20 for card in CARDS}), HOST]),
        flavor("any"),
        local(),
    )
    waiting = replace(request, object=queued(job))
    in_queue = {size: replace(worlds[size], queues=queues) for size in (SIZES[0], SIZES[-1])}
    for size, world in in_queue.items():
        outcome = review(waiting, world)
        assert outcome.decision.pin is not None, size
        assert outcome.decision.pool.candidates, size
    body = json.dumps({"request": {"object": sized_job(100 << 10)}})
    timed: dict[str, Callable[[], object]] = {
        f"review(), {size:,} nodes": lambda world=world: review(request, world)  # type: ignore[misc]
        for size, world in worlds.items()
    }
    timed |= {
        f"review(), {size:,} busy nodes": lambda world=world: review(request, world)  # type: ignore[misc]
        for size, world in busy.items()
    }
    timed |= {
        f"review() in a queue, {size:,} nodes": lambda world=world: review(waiting, world)  # type: ignore[misc]
        for size, world in in_queue.items()
    }
    estimated = read_job(sized_job(6 << 10, *ESTIMATED), kind=request.kind, namespace="team-a", user=request.user)
    assert isinstance(estimated, TrainingJob)
    assert size_rank(estimated, Policy()).demand.source is DemandSource.ESTIMATED
    for name, denied in denials().items():
        asked = replace(request, object=denied)
        assert review(asked, worlds[SIZES[-1]]).verdict is Verdict.DENY, name
        timed[f"review(), {SIZES[-1]:,} nodes, {name}"] = lambda asked=asked: review(asked, worlds[SIZES[-1]])  # type: ignore[misc]
    timed["size() of an estimate"] = lambda: size_rank(estimated, Policy())
    timed["json.loads, 100 KiB"] = lambda: json.loads(body)
    costs = measure(timed)
    table = Table("what", "µs", f"against {SIZES[0]} nodes", "against json.loads", box=None)
    base, yardstick = costs[f"review(), {SIZES[0]} nodes"], costs["json.loads, 100 KiB"]
    for name, cost in costs.items():
        table.add_row(name, f"{cost * 1e6:.0f}", f"{cost / base:.2f}", f"{cost / yardstick:.2f}")
    Console(width=100).print(table)
    large = costs[f"review(), {SIZES[-1]:,} nodes"]
    ratios = {
        f"{SIZES[-1]:,} nodes against json.loads of 100 KiB": large / yardstick,
        f"{SIZES[-1]:,} nodes against {SIZES[0]}": large / base,
        f"{SIZES[-1]:,} busy nodes against idle ones": costs[f"review(), {SIZES[-1]:,} busy nodes"] / large,
        "in a queue against in none": costs[f"review() in a queue, {SIZES[-1]:,} nodes"] / large,
        "denied, declared, against pinned": costs[f"review(), {SIZES[-1]:,} nodes, denied, declared"] / large,
        "denied, estimated, against pinned": costs[f"review(), {SIZES[-1]:,} nodes, denied, estimated"] / large,
    }
    return int(not held("review", ratios))


def denials() -> dict[str, Json]:
    """Jobs that no model has the memory for, with their ways out: by what they declare, and by an estimate, which heeds
    what the trainer is told."""
    declared = sized_job(6 << 10)
    declared["metadata"]["annotations"]["samestep.dev/memory-per-sample"] = "7Gi"
    flags = (*ESTIMATED, "--gradient_checkpointing=False", "--use_peft=False", "--optim=adamw_torch")
    return {"denied, declared": declared, "denied, estimated": sized_job(6 << 10, *flags)}


def measure(timed: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of CPU time a call, as the first quintile of interleaved rounds: those that others disturb least."""
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    gc.disable()
    for _ in range(ROUNDS):
        for name, call in timed.items():
            start = time.process_time()
            for _ in range(CALLS):
                call()
            seconds[name].append((time.process_time() - start) / CALLS)
    gc.enable()
    return {name: statistics.quantiles(taken, n=5)[0] for name, taken in seconds.items()}


def fleet_of(size: int, *, busy: bool = False) -> Fleet:
    """Where it is `busy`, what is free is known, and no two nodes have the same of it."""
    nodes = [node for one in hard_fleet(size) if (node := read_node(one)) is not None]
    used = {
        node.name: {"nvidia.com/gpu": index % 9, "cpu": index % 60_000, "memory": index << 20, "pods": index % 100}
        for index, node in enumerate(nodes)
    }
    return build_fleet(nodes, used=used if busy else None)


def sized_job(size: int, *flags: str) -> Json:
    """A PyTorchJob of about `size` bytes: two roles, selectors, environment variables to fill it up. It declares its
    memory, unless it has these flags instead."""
    spec = pod(command=("torchrun", "--nproc-per-node=2", "train.py", "--per_device_train_batch_size=32", *flags))
    spec["containers"][0]["resources"]["requests"] = {"cpu": "16", "memory": "128Gi"}
    declared = {} if flags else {"memory_fixed": "4Gi", "memory_per_sample": "1100Mi"}
    obj = pytorchjob(spec, workers=3, **declared)
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": json.loads(json.dumps(spec))}}
    roles = obj["spec"]["pytorchReplicaSpecs"]
    environment: list[Json] = []
    while len(json.dumps(obj)) < size:
        environment.append({"name": f"SETTING_{len(environment)}", "value": "x" * 40})
        for role in roles.values():
            role["template"]["spec"]["containers"][0]["env"] = environment
    # As it comes from JSON: no part of it is another part too.
    decoded: Json = json.loads(json.dumps(obj))
    return decoded


if __name__ == "__main__":
    sys.exit(main())
