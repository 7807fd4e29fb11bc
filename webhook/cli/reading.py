"""What was read of one object, from where, and what was left out, and, in front of a fleet, what is decided: the facts
behind `samestep explain -f`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from webhook.catalog.launchers import launchers
from webhook.catalog.workloads import workloads
from webhook.decision.scope import Scope, scope
from webhook.decision.story import Listener, Story
from webhook.decision.wishes import uncounted
from webhook.intake.annotations import PREFIX
from webhook.intake.read import Outside, Wrapper, name_of, read_job
from webhook.intake.wrapped import DEEPEST
from webhook.model.finding import Finding
from webhook.model.job import Reading, Said, Told, TrainingJob
from webhook.model.paths import dotted, printable
from webhook.model.policy import Policy
from webhook.model.request import Kind, Request
from webhook.model.verdict import Review
from webhook.model.workload import Workload
from webhook.model.world import World
from webhook.policy.ruling import candidates, rule
from webhook.review import creation_of, review

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAMES = {"seqLen": "sequence length", "maxSeqLen": "sequence length, at most", "packed": "packing"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was read: its value, the flag, variable or annotation that says it, and where that stands."""

    what: str
    value: str | int
    by: str = ""
    field: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """One thing that was not read, and why."""

    what: str
    because: str
    field: str


@dataclass(frozen=True, slots=True)
class Explained:
    """One object. `because` says why nothing was read; `at` where it stands in the object that holds it."""

    kind: Kind
    namespace: str
    name: str
    entry: Workload | None
    taught: bool = False
    because: str = ""
    job: TrainingJob | None = None
    scope: Scope | None = None
    facts: tuple[Fact, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    held: tuple["Explained", ...] = ()
    findings: tuple[Finding, ...] = ()
    at: str = ""
    review: Review | None = None
    """What is decided, where there is a fleet to decide on."""
    story: Story | None = None
    """Of a wrapper None: what it holds has one of its own."""


@dataclass(frozen=True, slots=True)
class Reader:
    """With what objects are read, and whether they are `decided`."""

    world: World
    decided: bool

    def explained(self, request: Request, at: str = "", depth: int = 0) -> Explained:
        """All that is read of this request's object and of those that it holds; `depth` others hold it, at `at`."""
        known, matching = self.world.kinds or workloads(), candidates(request, self.world)
        found = read_job(
            request.object,
            kind=request.kind,
            namespace=request.namespace,
            user=request.user,
            known=known,
            surroundings=self.world.surroundings,
            config_maps=any(policy.config_maps for policy in matching[:1]),
        )
        entry = known.of(request.kind)
        job = found if isinstance(found, TrainingJob) else None
        ruling = rule(matching, request, job, self.world)
        policy = ruling.steering if ruling.policies else self.world.policy
        heard = Listener()
        outcome = review(request, self.world, heard) if self.decided else None
        return Explained(
            kind=request.kind,
            namespace=request.namespace,
            name=job.name if job else name_of(request.object),
            entry=entry,
            taught=entry in self.world.policy.kinds,
            because=found.because if isinstance(found, Outside) else "",
            job=job,
            scope=scope(job, policy) if job else None,
            facts=tuple(_facts(job, entry, policy)) if job and entry else (),
            ignored=tuple(_ignored(job)) if job else (),
            held=tuple(self._held(request, found, depth)) if isinstance(found, Wrapper) else (),
            findings=() if isinstance(found, Wrapper) else found.findings,
            at=at,
            review=outcome,
            story=heard.story(outcome) if outcome and job else None,
        )

    def _held(self, request: Request, wrapper: Wrapper, depth: int) -> Iterator[Explained]:
        for one in wrapper.held if depth < DEEPEST else ():
            seeing = replace(self.world, surroundings=one.sees(self.world.surroundings, request.object))
            inside = creation_of(request, one)
            yield replace(self, world=seeing).explained(inside, dotted(one.at), depth + 1)


def _facts(job: TrainingJob, entry: Workload, policy: Policy) -> Iterator[Fact]:
    yield from (Fact("container", one.name, field=dotted(one.at)) for one in job.containers if one.read)
    yield from _coupling(job, policy)
    yield from _trainer(job.told)
    yield from _batch(job, policy)
    if job.told is not None:
        yield from (_setting(name, said) for name, said in job.told.settings.items())
    yield from _declared(job, policy)
    yield from _state(job, entry)


def _coupling(job: TrainingJob, policy: Policy) -> Iterator[Fact]:
    yield Fact("coupling", job.coupling, job.coupling_because, dotted(job.coupling_at))
    found = scope(job, policy)
    if job.coupling_wish is not None:
        counts = found.certain and found.coupling is job.coupling_wish
        yield _annotation("coupling", job.coupling_wish, "coupling", "" if counts else "does not count: policy")
    if not found.certain:
        yield Fact("coupling", found.coupling, "coupling.whenUnknown", note=f"policy {policy.name}")


def _trainer(told: Told | None) -> Iterator[Fact]:
    if told is None:
        yield Fact("trainer", "none that is known")
        return
    yield Fact("trainer", told.trainer, told.known_by, note="" if told.trains else "nothing shows that it trains")


def _batch(job: TrainingJob, policy: Policy) -> Iterator[Fact]:
    batch = job.batch
    if batch.declared is not None:
        yield _reading("micro-batch", batch.declared, "" if policy.declare else "does not count: policy")
    if batch.micro is not None:
        second = "" if batch.declared is None or not policy.declare else "what is declared goes before"
        yield _reading("micro-batch", batch.micro, second)
    if batch.micro is None and batch.declared is None:
        yield Fact("micro-batch", "none found")
    if batch.accumulation is not None:
        yield _reading("accumulation", batch.accumulation)
    if batch.total is not None:
        yield _reading("global batch", batch.total)


def _reading(what: str, one: Reading, note: str = "") -> Fact:
    unsure = "" if one.certain else "of one rank or of all: the flag does not tell"
    return Fact(what, one.value, one.name, one.field, "; ".join(filter(None, (note, unsure))))


def _setting(name: str, said: Said) -> Fact:
    value = "said elsewhere" if said.value == "elsewhere" else said.value
    return Fact(_NAMES.get(name) or _WORDS.sub(" ", name).lower(), value, said.name, said.field)


def _declared(job: TrainingJob, policy: Policy) -> Iterator[Fact]:
    note = "" if policy.declare else "does not count: policy"
    one = job.declared
    for what, name, mib in (
        ("memory of a device", "memory-per-device", one.per_device_mib),
        ("memory, fixed", "memory-fixed", one.fixed_mib),
        ("memory of a sample", "memory-per-sample", one.per_sample_mib),
    ):
        if mib is not None:
            yield _annotation(what, f"{mib / 1024:g} GiB" if mib % 1024 == 0 else f"{mib:g} MiB", name, note)
    yield from _wishes(job, policy)
    if job.record is not None:
        yield _annotation("pinned before", f"{job.record.key}: {', '.join(job.record.values)}", "pinned")


def _wishes(job: TrainingJob, policy: Policy) -> Iterator[Fact]:
    unheard, one = uncounted(job, policy), job.wishes
    sized_for = f"{one.sized_for / 1024:g} GiB" if isinstance(one.sized_for, float) else one.sized_for
    for what, name, value in (
        ("model", "model", one.model),
        ("pool", "pool", one.pool),
        ("sized for", "sized-for", sized_for),
        ("left alone", "ignore", one.ignore),
        ("mixed", "allow-mixed", one.allow_mixed),
    ):
        if value:
            yield _annotation(what, printable(value), name, "does not count: policy" if name in unheard else "")


def _annotation(what: str, value: str, name: str, note: str = "") -> Fact:
    key = f"{PREFIX}{name}"
    return Fact(what, value, key, dotted(("metadata", "annotations", key)), note)


def _state(job: TrainingJob, entry: Workload) -> Iterator[Fact]:
    if job.suspended and entry.suspend is not None:
        yield Fact("state", "held back", field=dotted(entry.suspend))
    elif job.started and entry.started is not None:
        yield Fact("state", "started", field=dotted(entry.started))
    if job.template_fixed:
        yield Fact("pod template", "does not change once it exists")
    elif job.selector_only:
        yield Fact("pod template", "only nodeSelector and tolerations may change")
    if job.group:
        yield Fact("group", job.group, "pod group or controller")
    if job.child_of is not None:
        yield Fact("made by", f"{job.child_of}", note="follows it; judged for itself alone")


def _ignored(job: TrainingJob) -> Iterator[Ignored]:
    for said in job.told.unread if job.told else ():
        yield Ignored(f"{said.name} {said.value}".strip(), _why(said, job.told), said.field)
    anywhere = any(one.read for one in job.containers)
    for one in job.containers:
        init = one.at[-2] == "initContainers"
        if not one.read:
            what = f"{'init container' if init else 'container'} {one.name}".strip()
            because = "prepares, does not train" if init else "asks for no device"
            yield Ignored(what, because if anywhere or init else "no container asks for a device", dotted(one.at))
        for name in one.unset:
            yield Ignored(name, "its value is not in the object", dotted((*one.at, "env")))


def _why(said: Said, told: Told | None) -> str:
    known = launchers()
    parsers = [*known.launcher_settings.values(), *(known.trainers.parsers[one] for one in _family(told))]
    if any(said.name in parser.config_files for parser in parsers) or said.name == "the argument":
        return "a file, which is not read"
    return "a value that is not known" if said.value else "cannot be known from the object"


def _family(told: Told | None) -> list[str]:
    return [told.trainer] if told is not None and told.trainer in launchers().trainers.parsers else []
