"""The world that a command decides in, made of files."""

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from webhook.cli.documents import Document, Unreadable
from webhook.cli.options import Command
from webhook.cli.surroundings import LOOKED_UP, Offline, offline, surroundings_from
from webhook.model.policy import Policy
from webhook.model.rules import Rules
from webhook.model.world import World
from webhook.policy.common import common
from webhook.policy.kinds import kinds_of


def fleet_option(told: str) -> Callable[[Command], Command]:
    """`--fleet FILE`, as often as one likes; `told` says what the files hold."""
    file = click.Path(path_type=Path)
    return click.option("--fleet", "fleets", type=file, multiple=True, help=told)


def tells_of_nodes(fleets: Sequence[Path], documents: Sequence[Document]) -> bool:
    """Whether there is a fleet: files of its own, or nodes among the documents."""
    return bool(fleets) or any(one.object["kind"] == "Node" for one in documents)


def world_from(
    documents: Sequence[Document], fleets: Sequence[Path], rules: Rules | None
) -> tuple[World, list[Unreadable]]:
    """The world of these documents and fleet files under these rules (None: the built-in policy), and what of all that
    could not be read."""
    looked_up = [one for one in documents if one.object["kind"] in LOOKED_UP]
    policy = _common(rules)
    known = offline(fleets, looked_up, model_labels=policy.model_labels)
    return _world(documents, known, policy, rules), known.problems


def whole_world(documents: Sequence[Document], rules: Rules | None) -> tuple[World, Offline]:
    """The world of these documents and nothing else, and what it is made of. Pods among them count as what is in use:
    these are what is there, and not what is asked about."""
    policy = _common(rules)
    known = offline((), documents, model_labels=policy.model_labels)
    return _world(documents, known, policy, rules), known


def _common(rules: Rules | None) -> Policy:
    return Policy() if rules is None else common(rules, Policy())


def _world(documents: Sequence[Document], known: Offline, policy: Policy, rules: Rules | None) -> World:
    return World(
        known.fleet,
        policy,
        surroundings_from(documents),
        kinds=kinds_of(policy),
        pinned=known.usage.pinned,
        queued=known.usage.queued,
        rules=rules,
        namespaces=known.namespaces,
        queues=known.queues,
        profiles=known.profiles,
    )
