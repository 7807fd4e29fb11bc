"""What policies cost: one that matches alone beside 500 of which it is one, and what a condition adds; and what pools
do: ten, of which the first, or only the last, is for the job, or none for its namespace.

All are measured interleaved in one process, so that ratios hold on a noisy machine. `python -m tests.bench.policies`.
"""

import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from rich.console import Console
from rich.table import Table

from tests.bench.recorded import held
from tests.bench.review import fleet_of, measure, sized_job
from webhook.model.placement import Operator, Requirement, Toleration
from webhook.model.policy import Condition, LabelSelector, Match, Policy
from webhook.model.request import Kind, Request, User
from webhook.model.rules import AcceleratorPool, Rules
from webhook.model.verdict import Verdict
from webhook.model.world import World
from webhook.review import review

MANY = 500
NAMESPACES = {"team-0": {"team": "team-0", "env": "prod"}}
GPU_NODES: LabelSelector = (Requirement("nvidia.com/gpu.present", Operator.IN, ("true",)),)
OTHER_NODES: LabelSelector = (Requirement("nvidia.com/gpu.present", Operator.DOES_NOT_EXIST),)
FEW_NODES: LabelSelector = (Requirement("kubernetes.io/hostname", Operator.IN, ("node-00000",)),)
CONDITION = Condition("c", "object.metadata.?labels['app'].orValue('') != 'notebook' && job.devices > 0")


def main() -> int:
    teams = tuple(Policy(f"p{index}", match=Match(namespaces=label(f"team-{index}"))) for index in range(MANY))
    asking = tuple(replace(one, match=replace(one.match, conditions=(CONDITION,))) for one in teams)
    rules = {
        "one policy, alone": Rules(teams[:1]),
        f"{MANY} policies, by namespace": Rules(teams),
        f"{MANY} policies, by object label": Rules(
            (teams[0], *(Policy(f"p{index}", match=Match(objects=label(f"team-{index}"))) for index in range(1, MANY)))
        ),
        f"{MANY} policies, all of them match": Rules(tuple(replace(one, match=Match()) for one in teams)),
        "one policy with a condition": Rules(asking[:1]),
        f"{MANY} policies with conditions": Rules(asking),
        f"{MANY} policies with one condition, all match": Rules(
            tuple(replace(one, match=Match(conditions=(CONDITION,))) for one in teams)
        ),
    }
    first = AcceleratorPool("p0", GPU_NODES, namespaces=label("team-0"), tolerations=(Toleration("gpu", "Exists"),))
    pools = {
        "the first of 10 pools": (first, *named(range(1, 10), GPU_NODES)),
        "the last of 10 pools, the others of other nodes": (*named(range(9), OTHER_NODES), replace(first, order=1)),
        "the last of 10 pools, the others too small": (*named(range(9), FEW_NODES), replace(first, order=1)),
        "none of 10 pools, for other namespaces": named(range(1, 11), GPU_NODES, label("team-1")),
    }
    rules |= {name: Rules(teams[:1], pools=ten) for name, ten in pools.items()}
    fleet, ratios = fleet_of(100), dict[str, float]()
    table = Table("what", "µs", "against one alone", box=None)
    for size in (6 << 10, 100 << 10):
        job = sized_job(size)
        request = Request(Kind("kubeflow.org", "v1", "PyTorchJob"), "CREATE", job, namespace="team-0", user=User("u"))
        worlds = {name: World(fleet, Policy(), rules=one, namespaces=NAMESPACES) for name, one in rules.items()}
        assert all(review(request, one).verdict is Verdict.PIN for one in worlds.values())
        costs = measure({name: partial(review, request, one) for name, one in worlds.items()})
        base = costs["one policy, alone"]
        ratios |= {f"{size >> 10} KiB: {name}": cost / base for name, cost in costs.items() if cost != base}
        for name, cost in costs.items():
            table.add_row(f"{size >> 10} KiB: {name}", f"{cost * 1e6:.0f}", f"{cost / base:.2f}")
    Console(width=100).print(table)
    return int(not held("policies", ratios))


def named(numbers: Iterable[int], nodes: LabelSelector, namespaces: LabelSelector = ()) -> tuple[AcceleratorPool, ...]:
    return tuple(AcceleratorPool(f"p{number}", nodes, namespaces=namespaces) for number in numbers)


def label(team: str) -> LabelSelector:
    return (Requirement("team", Operator.IN, (team,)),)


if __name__ == "__main__":
    sys.exit(main())
