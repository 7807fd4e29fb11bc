"""Changes of a denied job that may let it in, and in which order they are tried: by how little they change.

| | move | lines | what it changes |
|---|---|---|---|
| 1 | smaller batch, more accumulation | 1–2 | nothing of the training: same global batch |
| 2 | recompute | 1, or 3 with a smaller batch | steps take longer; same results |
| 3 | shard, or shard further | 1 | ranks talk more; same results |
| 4 | other pods | 2 | the same number of devices, differently packed |
| 5 | another model | 1 for each role | what the submitter asked for by name |
| 6 | smaller batch alone | 1 | the global batch |
| 7 | fewer pods | 1 | devices, and the global batch |
| 8 | more devices to share among | 1 | devices, and the global batch |
| 9 | a declared measurement | 1 | nothing, where it holds |
| 10 | adapters | 1 | what is trained |
| 11 | several models on purpose | 1 | what the rule is for; only where policy lets the annotation count |
| 12 | no decision at all | 1 | the same, unchecked; only where policy lets this annotation count, and not that one |

Each move is filtered by size and by what candidates offer before it is decided again, which costs a whole review.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from webhook.decision.candidates import together
from webhook.decision.pool import target_pool
from webhook.model.demand import Demand, DemandSource
from webhook.model.fleet import DeviceColumn, Fleet, Model
from webhook.model.frozen import frozen
from webhook.model.job import Edit, Remedy, Role, Said, Switch, TrainingJob, writes
from webhook.model.patch import AFFINITY_TERMS, Operation, add
from webhook.model.patch import replace as put
from webhook.model.paths import within
from webhook.model.placement import Operator, Pointer
from webhook.model.verdict import Candidate, Out, Review
from webhook.sizing.demand import size
from webhook.sizing.largest import largest

_MOST_DIVISORS = 1000
_MORE_TIMES = (2, 4, 8)
_ANNOTATIONS: Pointer = ("metadata", "annotations")
_PER_DEVICE = "samestep.dev/memory-per-device"
_WISH = "samestep.dev/model"
_ALLOW_MIXED = "samestep.dev/allow-mixed"
_IGNORE = "samestep.dev/ignore"
_REASON = "<your reason>"
"""What the submitter is to say in its place."""

Says: TypeAlias = tuple[tuple[str, str], ...]


class Proposal(NamedTuple):
    """A change: the kind of its text, what fills it, and the operations that make it. `lands_on` is where the job may
    land if nothing is decided of it any more."""

    kind: str
    facts: dict[str, str | int]
    operations: tuple[Operation, ...]
    lands_on: tuple[Model, ...] = ()


@frozen
class Denial:
    """A denied job, and what was found of it."""

    review: Review
    job: TrainingJob
    fleet: Fleet
    _sizes: dict[tuple[int | None, Says], Demand] = field(default_factory=dict)
    _switches: dict[Remedy, list[Switch]] = field(default_factory=dict)

    def out_for(self, *reasons: Out) -> list[Candidate]:
        """The candidates that are out for these reasons and no other, the largest memory first."""
        found = [one for one in self.review.decision.pool.candidates if one.out == reasons]
        return sorted(found, key=lambda one: (-one.usable_mib, one.model.name))

    def lacking(self) -> list[Candidate]:
        """The candidates that are out for memory and nothing else, by figures or as runs showed."""
        return [*self.out_for(Out.MEMORY), *self.out_for(Out.RAN_OUT)]

    def need(self, batch: int | None = None, says: Says = ()) -> Demand:
        """What each rank would need with another micro-batch, and with a trainer that is told this."""
        key = (batch, says)
        if key not in self._sizes:
            job = self.job
            if says and (told := job.told) is not None:
                settings = {**told.settings, **{name: Said(value, "", "") for name, value in says}}
                job = replace(job, reads_told=partial(replace, told, settings=settings))
            self._sizes[key] = size(job, self.review.policy, batch).demand
        return self._sizes[key]

    def switches(self, remedy: Remedy) -> list[Switch]:
        """How the trainer can be told otherwise."""
        if not self._switches:
            self._switches.update({one: [] for one in Remedy})
            for switch in self.job.switches():
                self._switches[switch.remedy].append(switch)
        return self._switches[remedy]

    def fits(self, demand: Demand, one: Candidate) -> bool:
        """Whether memory would not deny it on this model."""
        return _at_most(demand.low_mib, one.usable_mib)

    @property
    def estimated(self) -> bool:
        """Only an estimate heeds what the trainer is told; what is declared or tabled stands whatever that is."""
        return self.review.demand.source is DemandSource.ESTIMATED

    @property
    def headroom(self) -> float:
        return 1 + self.review.policy.headroom_percent / 100


class _Smaller(NamedTuple):
    """A smaller micro-batch: so many times smaller, with every number to write."""

    kind: str
    times: int
    facts: dict[str, str | int]
    changes: tuple[tuple[Edit, int], ...]


def _batch(denial: Denial) -> Iterator[Proposal]:
    for one in denial.lacking():
        if (smaller := _smaller(denial, one)) and smaller.kind != "batch_alone":
            yield Proposal(smaller.kind, smaller.facts, _operations(smaller.changes))


def _batch_alone(denial: Denial) -> Iterator[Proposal]:
    for one in denial.lacking():
        if (smaller := _smaller(denial, one)) and smaller.kind == "batch_alone":
            yield Proposal(smaller.kind, smaller.facts, _operations(smaller.changes))


def _smaller(denial: Denial, one: Candidate, says: Says = ()) -> _Smaller | None:
    """The largest micro-batch that fits and divides the present one, so that accumulation keeps the global batch."""
    batch, given = denial.review.micro_batch, denial.job.batch
    edit = batch.edit() if batch is not None and batch.certain else None
    if batch is None or edit is None or edit.path is None:
        return None
    times = _times(denial, batch.value, one, says)
    if times is None:
        return None
    value = batch.value // times
    facts: dict[str, str | int] = {"change": _spelled(edit, value)}
    accumulation = given.accumulation_edit()
    if given.total is not None:
        return _Smaller("batch_total", times, facts, ((edit, value),))
    if accumulation is None or accumulation.path is None:
        return _Smaller("batch_alone", times, facts, ((edit, value),))
    total = times * (given.accumulation.value if given.accumulation else 1)
    facts["accumulation"] = _spelled(accumulation, total)
    return _Smaller("batch", times, facts, ((edit, value), (accumulation, total)))


def _times(denial: Denial, batch: int, one: Candidate, says: Says) -> int | None:
    """The least divisor of the batch by which it fits this model: at the high end with headroom, else at the low. Where
    runs ran out and no figure says how much less is needed, the least there is."""
    most = one.usable_mib / denial.headroom
    comfortable = largest(lambda smaller: _at_most(denial.need(smaller, says).high_mib, most), batch - 1)
    # What fits at the high end fits at the low.
    fitting = comfortable or largest(lambda smaller: denial.fits(denial.need(smaller, says), one), batch - 1)
    if one.ran_out is not None and not denial.need(batch, says).known:
        fitting = batch - 1
    divisors = [k for k in range(2, min(batch, _MOST_DIVISORS) + 1) if batch % k == 0]
    return next((k for k in divisors if batch // k <= fitting), None)


def _at_most(mib: float | None, limit: float) -> bool:
    return mib is not None and mib <= limit


def _told(remedy: Remedy, denial: Denial) -> Iterator[Proposal]:
    """The trainer told to need less; and where that is not enough, with a smaller batch."""
    # What does not fit the largest fits no other.
    largest_out = next(iter(denial.lacking()), None)
    if largest_out is None or not denial.estimated:
        return
    switches = denial.switches(remedy)
    for switch in switches:
        if denial.fits(denial.need(says=switch.says), largest_out):
            yield Proposal(remedy.value, {"change": switch.change}, _operations(switch.edits))
    for switch in switches:
        yield from _with_smaller_batch(denial, switch, largest_out)


def _with_smaller_batch(denial: Denial, switch: Switch, one: Candidate) -> Iterator[Proposal]:
    """Only where the batch has to become less small than without the switch."""
    with_it, without = _smaller(denial, one, switch.says), _smaller(denial, one)
    if with_it and with_it.kind != "batch_alone" and (without is None or with_it.times < without.times):
        change = " ".join([switch.change, *map(str, with_it.facts.values())])
        yield Proposal(f"{switch.remedy}_batch", {"change": change}, _operations((*with_it.changes, *switch.edits)))


def _other_pods(denial: Denial) -> Iterator[Proposal]:
    """As many devices in other pods: fewer in each of more pods, or more in each of fewer."""
    job = denial.job
    most = _most_pods(job)
    if most is None or not _all_alike(job):
        return
    role, number = most
    each, pods = role.devices, sum(one.pods for one in job.device_roles)
    total = each * pods
    divisors = [k for k in range(1, min(total, _MOST_DIVISORS) + 1) if total % k == 0 and k != each]
    divisors.sort(key=lambda k: (max(k, each) / min(k, each), k))
    replicas = [(k, _following(number, each, k)) for k in divisors]
    if any(one.devices >= total for one in denial.out_for(Out.ROOM)):
        for devices, edit in replicas:
            value = total // devices - (pods - role.pods)
            if value < 1 or edit is None:
                continue
            each_pod = [(own, devices) for one in job.device_roles if (own := one.per_pod())]
            change = ", ".join([_of_role(job, role, edit, value), _spelled(*each_pod[0])])
            yield Proposal("devices", {"change": change, "devices": total}, _operations([(edit, value), *each_pod]))


def _following(replicas: Edit, each: int, devices: int) -> Edit | None:
    """The number of pods, where each gets another number of devices: counts of all processes follow the devices too.
    None where it cannot be told whether a number counts pods or processes."""
    also = []
    for one in replicas.also:
        if one.times not in (1, each) or (each == 1 and one.in_string):
            return None
        also.append(one._replace(times=devices) if one.times > 1 else one)
    return replicas._replace(also=tuple(also))


def _all_alike(job: TrainingJob) -> bool:
    roles = job.device_roles
    alike = len({(role.device, role.devices) for role in roles}) == 1
    return alike and all(role.per_pod() is not None and not role.fraction for role in roles)


def _scalable(job: TrainingJob) -> list[tuple[Role, Edit]]:
    """The roles whose number of pods can be changed, those with most pods first, and that number."""
    edits = ((role, role.replicas()) for role in job.device_roles if role.gang)
    found = [(role, edit) for role, edit in edits if edit is not None and edit.path is not None]
    return sorted(found, key=lambda one: -one[0].gang)


def _most_pods(job: TrainingJob) -> tuple[Role, Edit] | None:
    """The role that has most pods, of those whose number can be changed."""
    return next(iter(_scalable(job)), None)


def _fewer_pods(denial: Denial) -> Iterator[Proposal]:
    """As many pods of the role that has most as there is room for."""
    job = denial.job
    roles = _scalable(job)
    for one in (*denial.out_for(Out.ROOM), *denial.out_for(Out.QUOTA)):
        for role, edit in roles:
            alike = sum(other.gang for other in job.device_roles if other.requests == role.requests)
            value = role.pods - (alike - one.pods)
            if not 0 <= value < role.pods:
                continue
            devices = _devices(job)
            left = devices - (role.pods - value) * role.devices
            if not left:
                continue
            change = _of_role(job, role, edit, value)
            facts: dict[str, str | int] = {"change": change, "devices": left, "percent": round(100 * left / devices)}
            kind = "replicas_half" if 2 * left == devices else "replicas"
            yield Proposal(kind, facts, _operations(((edit, value),)))
            break


def _more_devices(denial: Denial) -> Iterator[Proposal]:
    """Where ranks share what they hold: twice as many of them or more, in more pods, or in one pod that is alone."""
    job, out = denial.job, denial.lacking()
    if not out or not denial.estimated:
        return
    most = _most_pods(job)
    in_more_pods = most is not None
    if most is None and len(job.device_roles) == 1 and _all_alike(job):
        alone = job.device_roles[0]
        edit = alone.per_pod() if alone.pods == 1 else None
        most = None if edit is None else (alone, edit)
    if most is None:
        return
    role, edit = most
    for times in _MORE_TIMES:
        if in_more_pods:
            value = role.pods * times
            larger = replace(role, pods=value, gang=value)
        else:
            value = role.devices * times
            larger = replace(role, devices=value)
        grown = replace(job, roles=tuple(larger if one is role else one for one in job.roles))
        devices, need = _devices(grown), size(grown, denial.review.policy).demand
        if any(denial.fits(need, one) and one.devices >= devices for one in out):
            facts: dict[str, str | int] = {"change": _of_role(job, role, edit, value), "devices": devices}
            if job.batch.total is None:
                facts["percent"] = round(100 * devices / _devices(job))
            kind = "more" if job.batch.total is None else "more_total"
            yield Proposal(kind, facts, _operations(((edit, value),)))


def _devices(job: TrainingJob) -> int:
    return sum(role.pods * role.devices for role in job.device_roles)


def _another_model(denial: Denial) -> Iterator[Proposal]:
    """Where the job names a model: the others of the fleet that have the memory, the largest first."""
    yield from _another_wish(denial)
    named = [one for role in denial.job.device_roles for one in _named(role, denial.fleet)]
    if not named:
        return
    first = named[0]
    same = [one for one in named if (one.key, one.in_affinity) == (first.key, first.in_affinity)]
    column = denial.fleet.devices[first.role.device]
    for model in _models(denial, column):
        known = denial.fleet.labels[first.key]
        values = sorted(value for value, bits in known.items() if bits & column.models[model])
        if values and values[0] not in first.values:
            operations = tuple(put(one.at, [values[0]] if one.in_affinity else values[0]) for one in same)
            kind = "model_affinity" if first.in_affinity else "model"
            yield Proposal(kind, {"key": first.key, "value": values[0]}, operations)


def _another_wish(denial: Denial) -> Iterator[Proposal]:
    wish = denial.job.wishes.model
    if not wish or not denial.job.annotations_are_a_map:
        return
    devices = denial.fleet.devices
    column = next((devices[role.device] for role in denial.job.device_roles if role.device in devices), None)
    models = _models(denial, column) if column else []
    # "5090" and "rtx pro" are what people call them: what is called so is meant before what is large.
    models.sort(key=lambda model: not _calls(wish, model))
    for model in models:
        if wish not in (model.name, model.product):
            operations = (put((*_ANNOTATIONS, _WISH), model.name),)
            yield Proposal("model_wish", {"key": _WISH, "value": model.name}, operations)


def _calls(wish: str, model: Model) -> bool:
    asked, names = ("".join(filter(str.isalnum, one.casefold())) for one in (wish, f"{model.name} {model.product}"))
    return bool(asked) and asked in names


def _models(denial: Denial, column: DeviceColumn) -> list[Model]:
    """The models of the fleet that have the memory, the largest first."""
    least = {model: column.memory.least(bits) or 0 for model, bits in column.models.items()}
    demand, reserve = denial.review.demand, denial.review.policy.reserve_mib
    low = demand.low_mib if demand.low_mib is not None and demand.may_deny else 0
    fitting = (model for model in least if least[model] - reserve >= low)
    return sorted(fitting, key=lambda model: (-least[model], model.name))


class _Named(NamedTuple):
    """A place in the object where a role asks for models by a product label."""

    role: Role
    key: str
    values: tuple[str, ...]
    at: Pointer
    in_affinity: bool = False


def _named(role: Role, fleet: Fleet) -> Iterator[_Named]:
    column, over = fleet.devices.get(role.device), role.overlay
    keys = fleet.labels.keys() & column.product_keys if column else frozenset()
    for key, value in role.placement.node_selector:
        selected = (*role.spec, "nodeSelector", key) if over is None else over.selected_at.get(key)
        if key in keys and selected is not None and within(selected):
            yield _Named(role, key, (value,), selected)
    spec = role.spec if over is None else over.terms_at
    if spec is None or not within(spec):
        return
    for index, term in enumerate(role.placement.terms or ()):
        for place, one in enumerate(term.expressions):
            if one.key in keys and one.operator is Operator.IN:
                at = (*spec, *AFFINITY_TERMS, index, "matchExpressions", place, "values")
                yield _Named(role, one.key, one.values, at, in_affinity=True)


def _measured(denial: Denial) -> Iterator[Proposal]:
    """An estimate gives way to a measurement."""
    for one in denial.out_for(Out.MEMORY) if denial.estimated else ():
        gibibytes = int(one.usable_mib / denial.headroom / 1024)
        if gibibytes >= 1:
            value = f"{gibibytes}Gi"
            yield Proposal("measured", {"key": _PER_DEVICE, "value": value}, (_annotated(denial, _PER_DEVICE, value),))


def _on_purpose(denial: Denial) -> Iterator[Proposal]:
    """No model alone has the room, and policy leaves it to the submitter whether ranks may be on several."""
    if denial.review.policy.allow_mixed and not denial.job.wishes.allow_mixed and denial.out_for(Out.ROOM):
        write = _annotated(denial, _ALLOW_MIXED, _REASON)
        yield Proposal("mixed", {"key": _ALLOW_MIXED, "value": _REASON}, (write,))


def _left_alone(denial: Denial) -> Iterator[Proposal]:
    """The same where policy has no such annotation but lets the job be left alone: of use only where all models that
    its pods may then land on have the memory, and the room together, for nothing is checked any more."""
    policy = denial.review.policy
    if not policy.ignore or policy.allow_mixed or denial.review.decision.findings[0].code != "SST401":
        return
    pool = target_pool(denial.job, denial.fleet)
    whole = together(pool, denial.review.demand, policy, lessons=denial.review.lessons)
    if len(pool.models) > 1 and not whole.out:
        write = _annotated(denial, _IGNORE, _REASON)
        yield Proposal("left_alone", {"key": _IGNORE, "value": _REASON}, (write,), whole.models)


def _annotated(denial: Denial, key: str, value: str) -> Operation:
    there = denial.job.annotations_are_a_map
    return add((*_ANNOTATIONS, key), value) if there else add(_ANNOTATIONS, {key: value})


def _of_role(job: TrainingJob, role: Role, edit: Edit, value: int) -> str:
    change = _spelled(edit, value)
    return f"{role.name} {change}" if len(job.device_roles) > 1 else change


def _spelled(edit: Edit, value: int) -> str:
    """The change as a person makes it, with every number that has to follow."""
    numbers = [(edit, value), *((other, (value + other.plus) * other.times) for other in edit.also)]
    return ", ".join(dict.fromkeys(f"{one.flag}{one.sign}{number}" for one, number in numbers))


def _operations(changes: Iterable[tuple[Edit, int | str]]) -> tuple[Operation, ...]:
    return tuple(
        add(write.path, write.value) if write.adds else put(write.path, write.value) for write in writes(changes)
    )


MOVES: tuple[Callable[[Denial], Iterator[Proposal]], ...] = (
    _batch,
    partial(_told, Remedy.RECOMPUTE),
    partial(_told, Remedy.SHARD),
    _other_pods,
    _another_model,
    _batch_alone,
    _fewer_pods,
    _more_devices,
    _measured,
    partial(_told, Remedy.ADAPTERS),
    _on_purpose,
    _left_alone,
)
"""In the order of the table above; a suggestion of each at the most."""
