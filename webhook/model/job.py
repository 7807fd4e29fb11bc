"""A training job as intake read it: what matters of the object, and nothing of its shape."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from webhook.model.finding import Finding
from webhook.model.frozen import frozen
from webhook.model.placement import Placement, Pointer
from webhook.model.queues import Queue, QueueName, Slot
from webhook.model.request import Kind


class Coupling(StrEnum):
    """How the ranks of a job depend on one another."""

    SYNCHRONOUS = "Synchronous"
    ASYNCHRONOUS = "Asynchronous"
    HETEROGENEITY_AWARE = "HeterogeneityAware"
    INDEPENDENT = "Independent"
    ONE_NODE = "OneNode"
    SINGLE = "Single"
    SERVING = "Serving"
    UNKNOWN = "Unknown"


class Edit(NamedTuple):
    """A number, or a word, in the object that a suggestion may change, and how a person writes it: flag, sign, number.

    `path` points at the value; `prefix` and `suffix` are what stands around the number in the same string, so that
    prefix + number + suffix is the whole new string (`--per_device_train_batch_size=` in one argument, most of a shell
    script, empty where the number is a value of its own).
    `path` None: the number was read where no patch can reach (a shell script's variable, say).
    """

    flag: str
    path: Pointer | None
    prefix: str = ""
    suffix: str = ""
    in_string: bool = True
    sign: str = " "
    """What a person puts between flag and number: a space, "=" (key=value, environment) or ": " (a field)."""
    old: str = ""
    """What stands between prefix and suffix now; empty where the flag is not there yet."""
    added: int = 0
    """How many of the last characters of prefix are not in the object yet."""
    inserts: bool = False
    """A list item that is not there yet: to be added before the item that `path` names now, or at the end."""
    plus: int = 0
    times: int = 1
    """As a companion (`also`), this number becomes (number + plus) x times: `--nnodes` counts all roles' pods."""
    also: "tuple[Edit, ...]" = ()
    """What has to change with it: the same flag in other containers, completions beside parallelism, `--nnodes`."""


@frozen
class Write:
    """One value to write into the object: an RFC 6902 "add" where `adds`, else a "replace"."""

    path: Pointer
    value: str | int
    adds: bool = False


def writes(changes: Iterable[tuple[Edit, int | str]]) -> tuple[Write, ...]:
    """What to write so that each edit, with its companions, gets its number or word; to be applied in this order.

    Several numbers in one string become one write. Raises ValueError for an edit whose number no patch can reach.
    """
    replaced: dict[Pointer, list[tuple[Edit, int | str]]] = {}
    inserted: list[tuple[Pointer, Edit, int | str]] = []
    for edit, number in _with_companions(changes):
        if edit.path is None:
            raise ValueError(f"{edit.flag}: no patch can reach it")
        if edit.inserts:
            inserted.append((edit.path, edit, number))
        else:
            replaced.setdefault(edit.path, []).append((edit, number))
    # Inserting moves what comes after: replace first, then insert from the back.
    inserted.sort(key=lambda one: one[0][-1], reverse=True)
    return tuple(Write(path, _rewritten(edits)) for path, edits in replaced.items()) + tuple(
        Write(path, f"{edit.prefix}{number}{edit.suffix}", adds=True) for path, edit, number in inserted
    )


def _with_companions(changes: Iterable[tuple[Edit, int | str]]) -> Iterable[tuple[Edit, int | str]]:
    for edit, number in changes:
        yield edit, number
        if isinstance(number, int):  # nothing follows a word
            for other in edit.also:
                yield other, (number + other.plus) * other.times


def _rewritten(edits: list[tuple[Edit, int | str]]) -> str | int:
    first, number = edits[0]
    if not first.in_string:
        return number
    text = first.prefix[: len(first.prefix) - first.added] + first.old + first.suffix
    # From the back, so that what is still to come keeps its place.
    for edit, number in sorted(edits, key=lambda one: len(one[0].prefix) - one[0].added, reverse=True):
        start = len(edit.prefix) - edit.added
        text = f"{text[:start]}{edit.prefix[start:]}{number}{text[start + len(edit.old) :]}"
    return text


def no_edit() -> Edit | None:
    """Nothing that a suggestion may change."""
    return None


@frozen
class Reading:
    """A number read from the job, and where.

    `certain` is False for flags that some programs take per rank and others for the whole job (`--batch-size`).
    `share_of` is the batch of all devices, where that is what the job tells and `value` a device's share of it.
    `edit` is looked up when it is asked for, as all edits of a job are: only suggestions ask.
    """

    value: int
    field: str
    name: str
    certain: bool = True
    edit: Callable[[], Edit | None] = dataclasses.field(default=no_edit, repr=False, compare=False)
    share_of: int = 0


@frozen
class DeclaredMemory:
    """Device memory that the submitter declared by annotation, in MiB.

    `per_device_mib` wins; else `fixed_mib` + `per_sample_mib` x micro-batch.
    """

    per_device_mib: float | None = None
    fixed_mib: float | None = None
    per_sample_mib: float | None = None


@frozen
class Wishes:
    """What the submitter asks for by annotation; whether it counts is the policy's say. Empty or None: nothing.

    `model` is a product or what messages call it, `pool` an AcceleratorPool, and `sized_for` what the batch was tuned
    on: a model, or its memory in MiB. `ignore` and `allow_mixed` are the reasons given for leaving the job alone, and
    for letting it run on several models.
    """

    model: str = ""
    pool: str = ""
    sized_for: str | float | None = None
    ignore: str = ""
    allow_mixed: str = ""


@frozen
class PinRecord:
    """The annotation `samestep.dev/pinned`: a memory of an earlier answer, not evidence (anyone can write it)."""

    key: str
    values: tuple[str, ...]
    policy: str


@frozen
class Overlay:
    """What the object lays over the pods of a role whose template stands in a runtime.

    `at` is the pod spec, among these, that is ours to change, with its nodeSelector (None where there is none) and what
    it has of affinity (as `Placement.affinity_depth`); None: there is none yet. `terms_at` is the pod spec in the
    object that holds the node affinity in force; None where that stands in the runtime or nowhere. `tolerations_at`
    likewise. `takes_selector`, `takes_affinity` and `takes_tolerations`: a nodeSelector, a required node affinity, and
    tolerations can be written for this role and no other.
    """

    at: Pointer | None = None
    node_selector: Mapping[str, str] | None = None
    affinity_depth: int = 0
    terms_at: Pointer | None = None
    takes_selector: bool = True
    takes_affinity: bool = True
    tolerations_at: Pointer | None = None
    takes_tolerations: bool = True
    selected_at: Mapping[str, Pointer] = field(default_factory=dict)
    """Of the keys of the nodeSelector in force, those that the object writes, and where."""


class PatchShape(StrEnum):
    """The field in which a TrainJob changes the pods of its runtime; each version of its API has one of them."""

    POD_SPEC_OVERRIDES = "podSpecOverrides"
    POD_TEMPLATE_OVERRIDES = "podTemplateOverrides"
    RUNTIME_PATCHES = "runtimePatches"


@frozen
class PinPatches:
    """How a pin is written into an object that holds no pod template. `there`: the list is; `own` is the index of our
    entry in it, and `own_jobs` whether that has a list of jobs to add to (runtimePatches alone)."""

    shape: PatchShape
    there: bool = False
    own: int | None = None
    own_jobs: bool = False


@frozen
class Role:
    """A group of identical pods.

    `pods` run at the same time, `gang` of them at the least (elastic jobs need fewer), `runs` in all over the job's
    life. `requests` are what the scheduler sees for one pod: CPU in thousandths under "cpu", everything else in whole
    units by resource name, devices included. `device` is the accelerator resource asked for, or empty, and `devices`
    how many per pod. `spec` points at the pod spec. `replicas` is the number a suggestion may change. `overlay`: the
    pod spec stands in another object, and this in the one under review.
    """

    name: str
    pods: int
    gang: int
    runs: int
    requests: Mapping[str, int]
    device: str
    devices: int
    placement: Placement
    spec: Pointer
    replicas: Callable[[], Edit | None] = field(default=no_edit, repr=False, compare=False)
    per_pod: Callable[[], Edit | None] = field(default=no_edit, repr=False, compare=False)
    """The number of devices of one pod, with the number of processes where that is told; None: one of them cannot be
    changed, or they differ."""
    products: tuple[str, ...] = ()
    """The products that the claims of a pod name, as they are written there; none: any will do."""
    fraction: str = ""
    """The resource by which a pod asks for a part of each device's memory; empty where its devices are whole."""
    overlay: Overlay | None = None
    apart: bool = False
    """It has devices and no rank: what is decided for the ranks is not for it."""

    @property
    def decided(self) -> bool:
        """Whether it is decided, and changed, with the others."""
        return bool(self.devices) and not self.apart


@frozen
class Batch:
    """What was read of the micro-batch and of gradient accumulation, over all containers with devices.

    `declared` is the annotation `samestep.dev/micro-batch`, which counts only where policy lets it; `micro` what was
    parsed, the largest where several containers differ.
    """

    declared: Reading | None = None
    micro: Reading | None = None
    accumulation: Reading | None = None
    accumulation_flag: str = ""
    """How this job's launcher or trainer spells accumulation; empty where unknown."""
    accumulation_edit: Callable[[], Edit | None] = field(default=no_edit, repr=False, compare=False)
    """Sets accumulation: changes the flag that is there, or puts it in where none is (it stands at 1 then)."""
    total: Reading | None = None
    """The global batch, where a flag of the trainer sets it: accumulation follows from it by itself (Megatron-LM)."""


@frozen
class Said:
    """What a trainer or launcher is told, as it is written: by which flag (or program), and where."""

    value: str
    name: str
    field: str


@frozen
class Told:
    """What the command line says of a training run's memory.

    `trainer` is the entry in the catalog of launchers, `known_by` what shows it: a program, or two flags. `trains` is
    False where the program only evaluates, or nothing shows that it trains. `settings` are those of the catalog by
    name, the last of several. `unread` is what may say more and cannot be read: files, variables, values that are not
    in the catalog. `launched`: a launcher starts one process for each device, or the trainer does so itself.
    """

    trainer: str
    known_by: str
    trains: bool
    settings: Mapping[str, Said] = field(default_factory=dict)
    unread: tuple[Said, ...] = ()
    launched: bool = False


class Remedy(StrEnum):
    """What a trainer can be told so that a run needs less memory: to compute activations again, to share weights and
    states among ranks, to train adapters and nothing else."""

    RECOMPUTE = "recompute"
    SHARD = "shard"
    ADAPTERS = "adapters"


class Switch(NamedTuple):
    """One way to tell a trainer otherwise, in every container that trains: `edits` with the word that each gets,
    `change` as a person makes it. `says` is what it comes to, settings of `Told` by name."""

    remedy: Remedy
    change: str
    edits: tuple[tuple[Edit, str], ...]
    says: tuple[tuple[str, str], ...]


@frozen
class Program:
    """A program that a container runs, with the image it is in: its name and its arguments, as far as they can be read.
    No words: what runs is the image's own say.

    `line` is the whole command line that starts it, launchers and all, and `launched` whether one of those does. Words
    that stand at `batch` come from variables of the environment that hold a batch.
    """

    image: str
    words: tuple[str, ...] = ()
    line: tuple[str, ...] = ()
    launched: bool = False
    batch: tuple[int, ...] = ()


@frozen
class Container:
    """A container of a role. `read`: its command line and environment were looked at. `unset` are the environment
    variables whose value is not in the object; `envFrom[0]` stands for whatever that brings in. `termination` is its
    terminationMessagePolicy, empty where none is set, None where that is no text."""

    role: str
    name: str
    at: Pointer
    read: bool
    unset: tuple[str, ...] = ()
    termination: str | None = ""


def _nowhere(_: str) -> Sequence[Slot]:
    return ()


def _nobody() -> Told | None:
    return None


@frozen
class TrainingJob:
    """One job. `name` is what to call it in a message (generateName followed by "*" where it has no name yet).

    `coupling_because` says in a few words what decided the coupling, and `coupling_at` where that stands (empty where
    it is something that is not there). `started` is True once the kind's controller has
    begun to run it; `suspended` while its suspend field holds it back. `annotations_are_a_map` says whether there is a
    metadata.annotations to add to. What is declared and the wish come from `samestep.dev/`
    annotations; whether they count is the policy's say.
    """

    kind: Kind
    namespace: str
    name: str
    roles: tuple[Role, ...]
    coupling: Coupling
    coupling_because: str
    coupling_at: Pointer = ()
    batch: Batch = Batch()
    reads_told: Callable[[], Told | None] = field(default=_nobody, repr=False, compare=False)
    """Gives `told`. Of a job that declares what it needs nobody asks: read when somebody does."""
    switches: Callable[[], Sequence[Switch]] = field(default=tuple, repr=False, compare=False)
    """How its trainer can be told otherwise, the least change of each remedy first. Asked by few: looked up when it
    is."""
    programs: tuple[Program, ...] = ()
    """What the containers run that speak for the job: those with devices."""
    memory_settings: Mapping[str, str] = field(default_factory=dict)
    """The variables of their environment that the catalog knows to say what is trained, or how memory is taken or
    shared, with their values. No other value of an environment is kept."""
    containers: tuple[Container, ...] = ()
    """All of them, init containers last in each role."""
    declared: DeclaredMemory = DeclaredMemory()
    coupling_wish: Coupling | None = None
    wishes: Wishes = Wishes()
    queue: QueueName | None = None
    """The queue that it is submitted to, where it names one."""
    reach: Queue | None = None
    """Where that lets its pods land; None: nothing in view says, or it names none."""
    queue_slots: Callable[[str], Sequence[Slot]] = field(default=_nowhere, repr=False, compare=False)
    """Where a queue can be named for it, given the scheduler that places it; nowhere: that cannot be written. Asked by
    few: looked up when it is."""
    record: PinRecord | None = None
    given: str = ""
    """The pool that an earlier answer gave it, by its record; a memory too."""
    suspended: bool = False
    started: bool = False
    template_fixed: bool = False
    """The API server refuses a change of the pod template now (a batch/v1 Job that is not suspended or has started)."""
    selector_only: bool = False
    """Where the template may change at all, only nodeSelector and tolerations may (JobSet)."""
    pin_patches: PinPatches | None = None
    """How the pin is written where the pod templates stand in a runtime."""
    narrows_only: bool = False
    """Where the template may change at all, selectors and affinity may only be added to (Pod)."""
    group: str = ""
    """What binds this pod to others that are objects of their own: a pod group's name, or the uid of a controller."""
    child_of: Kind | None = None
    """The Decided kind whose controller made this object; judged on itself alone."""
    annotations_are_a_map: bool = False
    findings: tuple[Finding, ...] = ()
    device_roles: tuple[Role, ...] = field(init=False, repr=False, compare=False)
    """The roles that ask for devices, without those that stand apart; only these are decided and changed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "device_roles", tuple(role for role in self.roles if role.decided))

    @property
    def told(self) -> Told | None:
        """What its trainer is told; None where nothing shows one."""
        return self.reads_told()

    @property
    def wanted(self) -> int:
        """Devices that must be there at once."""
        return sum(role.gang * role.devices for role in self.device_roles)
