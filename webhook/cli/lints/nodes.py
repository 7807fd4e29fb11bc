"""Names of models, label keys and pools, against the catalog and a fleet."""

from collections.abc import Iterator, Sequence

from webhook.catalog.accelerators import Accelerators
from webhook.cli.lints.found import Found, error, warning
from webhook.cli.surroundings import Offline
from webhook.model.fleet import Fleet, Model
from webhook.model.policy import Policy
from webhook.model.rules import AcceleratorPool
from webhook.policy.load import Read
from webhook.policy.matching import labels_of, selects
from webhook.policy.overlap import selects_nothing


def check_names(one: Read, policy: Policy, catalog: Accelerators, offline: Offline | None) -> Iterator[Found]:
    """Models that the policy names, and labels that it pins or tells models by."""
    models = _models(offline.fleet) if offline else None
    for index, name in enumerate(policy.order):
        if told := _wrong(name, catalog, models, spelling_counts=True):
            yield warning(one, "unknown-model", told, "spec", "pin", "order", index)
    for number, names in enumerate(policy.classes):
        for index, name in enumerate(names):
            if told := _wrong(name, catalog, models, spelling_counts=False):
                yield warning(one, "unknown-model", told, "spec", "likeness", "classes", number, index)
    if offline is not None:
        yield from _labels(one, policy.pin_keys, offline.fleet, "pin", "keys")
        yield from _labels(one, policy.model_labels, offline.fleet, "modelLabels")


def check_pool(one: Read, pool: AcceleratorPool, offline: Offline | None) -> Iterator[Found]:
    """A pool without nodes, or for nobody."""
    if selects_nothing(pool.nodes):
        told = "contradicts itself and selects no node"
        yield error(one, "empty-pool", told, "spec", "nodeSelector")
    elif offline is not None:
        nodes = [node for node in offline.fleet.nodes if selects(pool.nodes, node.labels)]
        if not nodes and not pool.most:
            told = "selects no node of the fleet, and no capacity.max says that there may be some"
            yield warning(one, "empty-pool", told, "spec", "nodeSelector")
        if nodes and pool.model_label and not any(pool.model_label in node.labels for node in nodes):
            yield warning(one, "no-such-label", "no node of the pool carries it", "spec", "modelLabel")
    if pool.groups or not pool.namespaces:
        return
    steps = ("spec", "allowed", "namespaceSelector")
    if selects_nothing(pool.namespaces):
        yield error(one, "pool-for-nobody", "contradicts itself: nobody may use the pool", *steps)
    elif offline is not None and offline.namespaces and not _selected(pool, offline):
        yield warning(one, "pool-for-nobody", "selects no namespace of the fleet's files", *steps)


def _selected(pool: AcceleratorPool, offline: Offline) -> bool:
    return any(selects(pool.namespaces, labels_of(name, offline.namespaces)) for name in offline.namespaces)


def _wrong(name: str, catalog: Accelerators, models: Sequence[Model] | None, *, spelling_counts: bool) -> str:
    """Why a name means no model; empty where it does. Without a fleet, all that the catalog has are there."""
    if models is None:
        return "" if catalog.product(name) else f"{name} is no model that the catalog has"
    for model in models:
        if name in (model.product, model.name):
            return ""
    alike = next((one for one in models if catalog.canonical(one.product) == catalog.canonical(name)), None)
    if alike is None:
        return f"no node of the fleet has {name}"
    return f"{name} is written {alike.name} or {alike.product} here" if spelling_counts else ""


def _labels(one: Read, keys: Sequence[str], fleet: Fleet, *steps: str) -> Iterator[Found]:
    for index, key in enumerate(keys):
        if key not in fleet.labels:
            yield warning(one, "no-such-label", f"no node of the fleet carries {key}", "spec", *steps, index)


def _models(fleet: Fleet) -> list[Model]:
    return [model for column in fleet.devices.values() for model in column.models]
