"""The stack: what containers were built for, against the devices that they ask for and the drivers that they meet."""

from collections.abc import Iterator

from webhook.catalog.accelerators import accelerators
from webhook.catalog.stacks import Built, Stack, built_for, stack_of_program
from webhook.decision.pool import TargetPool
from webhook.model.finding import Finding
from webhook.model.fleet import Model, Nodes
from webhook.model.index import LabelIndex
from webhook.model.job import TrainingJob
from webhook.model.paths import dotted, printable

_SHOWN = 48


def stack_findings(pool: TargetPool, job: TrainingJob, models: tuple[Model, ...]) -> Iterator[Finding]:
    """SST502, once at the most: a container built for another vendor's devices, or for a newer major version of its
    stack than the driver runs on nodes of `models` (none: of the whole pool)."""
    vendors = {one.name for role in job.device_roles if (one := accelerators().vendor_of(role.device))}
    if len(vendors) != 1:
        return  # two vendors are told as such
    (vendor,) = vendors
    where = dotted(job.device_roles[0].spec)
    for program in job.programs:
        built = built_for(program.image) if program.image else None
        named = stack_of_program(program.words)
        if built is not None and vendor not in built.stack.vendors:
            facts = {"image": _shown(program.image), "stack": built.stack.stack, "vendor": vendor}
            yield Finding("SST502", where, facts)
            return
        if named is not None and vendor not in named[1].vendors:
            yield Finding("SST502", where, {"program": named[0], "stack": named[1].stack, "vendor": vendor}, "program")
            return
        if built is not None and (older := _older(pool, built, models)) is not None:
            yield Finding("SST502", where, {"image": _shown(program.image), **older}, "driver")
            return


def _older(pool: TargetPool, built: Built, models: tuple[Model, ...]) -> dict[str, int] | None:
    """On how many nodes the driver does not go up to this version. Nodes that say nothing count as new enough."""
    if not built.major:
        return None
    nodes = pool.of(models) if models else pool.nodes
    older, driver, said = 0, 0, 0
    for index in _labels(pool, built.stack):
        # Newer discovery writes both labels; the first that a node has counts.
        here = index.below(built.major) & nodes & ~said
        said |= index.present
        if here:
            older |= here
            driver = max(driver, _newest(index, here, built.major))
    if not older:
        return None
    return {"major": built.major, "driver": driver, "nodes": older.bit_count(), "all": nodes.bit_count()}


def _labels(pool: TargetPool, stack: Stack) -> Iterator[LabelIndex]:
    return (pool.fleet.labels[key] for key in stack.driver_labels if key in pool.fleet.labels)


def _newest(index: LabelIndex, nodes: Nodes, below: int) -> int:
    """The largest value of these nodes' labels, which are all below a bound."""
    return next((value for value in range(below - 1, 0, -1) if index.above(value - 1) & nodes), 0)


def _shown(image: str) -> str:
    """An image as people know it: without its registry and digest, and cut where that is still long."""
    name = "/".join(image.partition("@")[0].rsplit("/", 2)[-2:])
    return printable(name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}…")
