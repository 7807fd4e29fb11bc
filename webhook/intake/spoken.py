"""What the containers of a job say: by their commands, their environment and the files that these name."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from webhook.catalog.allocators import memory_variables
from webhook.catalog.launchers import launchers
from webhook.catalog.volatile import volatile
from webhook.intake.batch import Sighting, sightings
from webhook.intake.commands import Invocation, invocations, scripted
from webhook.intake.config_files import Files
from webhook.intake.environment import Environment
from webhook.intake.evidence import Evidence, evidence
from webhook.intake.fields import A_STRING, Unreadable, found, objects, text
from webhook.intake.places import IN_PLACE, Places
from webhook.intake.roles import RawRole, Told
from webhook.intake.settings import Trainers, read_told
from webhook.intake.switches import Trained, read_switches
from webhook.intake.words import Budget
from webhook.model.finding import Finding
from webhook.model.job import Container, Program, Switch
from webhook.model.job import Told as TrainerTold
from webhook.model.placement import Pointer
from webhook.model.request import Object
from webhook.model.surroundings import Surroundings
from webhook.model.workload import Workload

_LONGEST = 200


class Spoken(NamedTuple):
    """`told` is what launchers and rendezvous environments say, with the role that each belongs to; `read` are the
    containers that speak for the job; `memory_settings` are variables with their values; `containers` are all of the
    job's, read or not; `faults` are files that are in view and cannot be read."""

    told: Told
    batch: list[Sighting]
    read: "Sequence[_Read]"
    programs: tuple[Program, ...]
    memory_settings: Mapping[str, str]
    containers: tuple[Container, ...]
    faults: tuple[Finding, ...]

    def trainer(self) -> TrainerTold | None:
        """What the job's trainer is told."""
        return read_told([said for one in self.read for _, said in one.trainers.told])

    def switches(self) -> tuple[Switch, ...]:
        """How it can be told otherwise."""
        return read_switches([trained for one in self.read for trained in one.trained])


class Around(NamedTuple):
    """What a container is read with: where its parts are written, and the files that it may mount."""

    places: Places
    namespace: str
    files: Surroundings


def read_spoken(roles: Sequence[RawRole], source: Object, workload: Workload, around: Around) -> Spoken:
    """What each container with devices says, and the command lines outside the pods. Where all these say nothing, the
    other roles speak for them: the launcher of an MPI job holds the command, its workers only listen.
    Raises Unreadable."""
    budget = Budget()
    with_devices = [role for role in roles if role.devices and not role.apart]
    read = [*_scripts(with_devices[0], source, workload, budget)] if with_devices else []
    read += _of_roles(with_devices, around, budget)
    if not any(one.evidence or one.batch or one.trainers.told for one in read):
        read += _of_roles([role for role in roles if role.apart or not role.devices], around, budget)
    told: list[tuple[RawRole, Evidence]] = []
    batch: list[Sighting] = []
    programs: list[Program] = []
    memory_settings: dict[str, str] = {}
    faults: list[Finding] = []
    for one in read:
        told += [(one.role, said) for said in one.evidence]
        batch += one.batch
        programs += one.programs
        memory_settings.update(one.memory_settings)
        faults += [fault for fault in one.faults if fault not in faults]
    containers = _containers(roles, {one.at: one.unset for one in read})
    return Spoken(told, batch, read, tuple(programs), memory_settings, tuple(containers), tuple(faults))


class _Read(NamedTuple):
    """What one container says."""

    role: RawRole
    at: Pointer
    evidence: list[Evidence]
    batch: list[Sighting]
    trainers: Trainers
    programs: list[Program]
    memory_settings: Mapping[str, str]
    unset: tuple[str, ...] = ()
    faults: tuple[Finding, ...] = ()
    moved_to: tuple[Pointer, Pointer] | None = None

    @property
    def trained(self) -> Iterator[Trained]:
        """The trainers that were found."""
        for one, said in self.trainers.told:
            if one.trainer is not None:
                yield Trained(one, one.trainer, said, self.moved_to)

    def again(self, role: RawRole) -> "_Read":
        """What the same container of a role with the same pods says. Of trainers that are told the same, only the first
        is asked where that stands."""
        here, there = self.role.spec, role.spec
        at = (*there, *self.at[len(here) :])
        said = [one.moved(here, there) for one in self.evidence]
        seen = [one.moved(here, there) for one in self.batch]
        return self._replace(role=role, at=at, evidence=said, batch=seen, moved_to=(here, there))


def _of_roles(roles: Sequence[RawRole], around: Around, budget: Budget) -> Iterator[_Read]:
    """What the containers of these roles say. Pods that are the same as those of the role before (a master and its
    workers mostly are) say the same again, in another place."""
    before: RawRole | None = None
    said: list[_Read] = []
    for role in roles:
        if before is not None and around.places is IN_PLACE and _same_pods(before, role) and not _faulty(said):
            yield from (one.again(role) for one in said)
        else:
            before, said = role, [*_of_role(role, around, budget)]
            yield from said


def _same_pods(one: RawRole, other: RawRole) -> bool:
    try:
        return one.pod == other.pod
    except RecursionError:  # nested deeper than can be compared
        return False


def _faulty(said: Sequence[_Read]) -> bool:
    """Whether a fault names a place."""
    return any(one.faults for one in said)


def _of_role(role: RawRole, around: Around, budget: Budget) -> Iterator[_Read]:
    """Of a role with devices the containers that ask for them; all where only an init container does."""
    containers = objects(role.pod, "containers", role.spec)
    for index in role.resources.containers or range(len(containers)):
        yield _container(role, containers[index], (*role.spec, "containers", index), around, budget)


def _container(role: RawRole, container: Object, at: Pointer, around: Around, budget: Budget) -> _Read:
    files = Files.of(role.pod, container, namespace=around.namespace, budget=budget, surroundings=around.files)
    try:
        environment = Environment(container, at, budget, around.places)
        programs = invocations(container, at, environment, budget, files)
        image = text(container, "image", at)
    except Unreadable as fault:
        raise around.places.of_fault(fault) from None
    unset = environment.unset
    if sources := container.get("envFrom"):
        unset += tuple(f"envFrom[{index}]" for index in range(len(sources))) if isinstance(sources, list) else ()
    return _said(role, at, programs, environment, image, unset, files)


def _scripts(role: RawRole, source: Object, workload: Workload, budget: Budget) -> Iterator[_Read]:
    """Command lines outside the pods: they speak for the roles with devices, of which `role` is the first."""
    for path in workload.scripts:
        written = found(source, path)
        if written is None:
            continue
        if not isinstance(written, str):
            raise Unreadable(path, A_STRING, written)
        environment = Environment({}, path, budget)
        yield _said(role, path, scripted(written, path, environment, budget), environment)


def _said(
    role: RawRole,
    at: Pointer,
    programs: list[Invocation],
    environment: Environment,
    image: str = "",
    unset: tuple[str, ...] = (),
    files: Files | None = None,
) -> _Read:
    # Before what was found in files is asked for: this opens them.
    seen = sightings(programs, environment, at)
    return _Read(
        role,
        at,
        evidence(programs, environment, at),
        seen,
        Trainers(programs, at),
        [_program(one, image) for one in programs] or [Program(image)],
        _memory_settings(programs, environment),
        unset,
        () if files is None else files.faults,
    )


def _program(one: Invocation, image: str) -> Program:
    line = tuple(one.words.texts)
    batch: tuple[int, ...] = ()
    if one.environment.sets_any(known := launchers().environment_names):
        batch = tuple(
            at
            for at in range(len(line))
            if any(piece.origin is not None and piece.origin.variable in known for piece in one.words.word(at).pieces)
        )
    return Program(image, line[one.start :], line, bool(one.launches), batch)


def _memory_settings(programs: Sequence[Invocation], environment: Environment) -> Mapping[str, str]:
    known = _settings_known()
    found: dict[str, str] = {}
    for one in (environment, *[program.environment for program in programs]):
        if one.sets_any(known):
            found.update((name, word.text[:_LONGEST]) for name in sorted(known) if (word := one.get(name)))
    return found


@cache
def _settings_known() -> frozenset[str]:
    """The variables whose values are kept."""
    return memory_variables() | volatile().variables


def _containers(roles: Sequence[RawRole], unset: Mapping[Pointer, tuple[str, ...]]) -> Iterator[Container]:
    """Every container; those that were read have an entry in `unset`."""
    for role in roles:
        for part in ("containers", "initContainers"):
            for index, container in enumerate(objects(role.pod, part, role.spec)):
                at, name = (*role.spec, part, index), container.get("name")
                known = name if isinstance(name, str) else ""
                said = container.get("terminationMessagePolicy")
                termination = said if isinstance(said, str) else "" if said is None else None
                yield Container(role.name, known, at, at in unset, unset.get(at, ()), termination)
