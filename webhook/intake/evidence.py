"""What a container's launchers and environment say about nodes and processes."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from webhook.catalog.flags import Means
from webhook.catalog.launchers import Strategy, launchers
from webhook.intake.commands import Invocation, Launch, Variables
from webhook.intake.words import UNREAD, Listed, Number, Word
from webhook.model.job import Coupling, Edit
from webhook.model.paths import printable
from webhook.model.placement import Pointer

# 2, or MIN:MAX as torchrun takes it.
_COUNT = re.compile(r"0{0,9}(\d{1,9})(?::0{0,9}(\d{1,9}))?\Z", re.ASCII)
_REFERENCES = re.compile(r"\$[({]?([A-Za-z_][A-Za-z0-9_]*)")
_LONGEST = 60


class Stated(NamedTuple):
    """A number of nodes or processes: from `low` to `high`, both None where it cannot be read; `number` is None where
    it is a variable without a value in the object."""

    name: str
    low: int | None
    high: int | None
    number: Number | None

    @property
    def says(self) -> str:
        """How people would quote it: "--nnodes=2"."""
        text = self.number.written if self.number else self.name
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

    @property
    def references(self) -> frozenset[str]:
        """The variables on which a number that cannot be read depends."""
        if self.low is not None:
            return frozenset()
        return frozenset(_REFERENCES.findall(self.number.written)) if self.number else frozenset({self.name})

    def moved(self, here: Pointer, there: Pointer) -> "Stated":
        """The same, said a second time: below `there` as it is below `here`."""
        return self._replace(number=self.number.moved(here, there)) if self.number else self

    def edit(self, *, plus: int, times: int) -> Edit:
        """How to make the number follow the number of pods; what that makes of a range is not for us to say."""
        if self.number is None or self.low is None or self.low != self.high:
            return Edit(self.name, None)
        return self.number.edit(plus=plus, times=times)


class Evidence(NamedTuple):
    """One launcher, the rendezvous environment, or a program's own flags, of one container.

    `nodes` and `total` are None where nothing is said of them; `processes` is what is said of one node. `open`: a file
    or an option that cannot be read may say how many nodes there are, the address of another node is set, or a strategy
    is named that needs several ranks. `hint`: what a strategy says that does not couple the ranks, Asynchronous (where
    the job has parameter servers) or HeterogeneityAware. `launches`: it is more than a named strategy. `at`
    is the container, or the script, that says it.
    """

    says: str
    nodes: Stated | None = None
    total: Stated | None = None
    processes: Stated | None = None
    one_node: bool = False
    open: bool = False
    hint: Coupling | None = None
    launches: bool = True
    at: Pointer = ()

    def spans(self, devices: int) -> bool:
        """Whether it reaches over several pods of so many devices; what cannot be read is taken to."""
        if self.nodes is not None:
            return self.nodes.high is None or self.nodes.high > 1
        if self.one_node:
            return False
        if self.total is not None:
            return self.total.high is None or self.total.high > max(devices, 1)
        return self.open

    def moved(self, here: Pointer, there: Pointer) -> "Evidence":
        """The same, said a second time: below `there` as it is below `here`."""
        return self._replace(
            nodes=self.nodes and self.nodes.moved(here, there),
            total=self.total and self.total.moved(here, there),
            processes=self.processes and self.processes.moved(here, there),
            at=(*there, *self.at[len(here) :]),
        )

    @property
    def place(self) -> Pointer:
        """Where it stands: the number, else the container."""
        stated = self.nodes or self.total
        return (stated and stated.number and stated.number.at_path) or self.at

    @property
    def because(self) -> str:
        """What shows it, in a few words: "torchrun --nnodes=2"."""
        stated = self.nodes or self.total
        return f"{self.says} {stated.says}".strip() if stated else self.says


def evidence(found: Sequence[Invocation], environment: Variables, at: Pointer = ()) -> list[Evidence]:
    """Everything that the container at a path says, its launchers first. Launchers that are told the number of nodes do
    not look into the environment for it; what a program's own flags say counts where it is started without one."""
    launches: dict[int, Launch] = {}
    environments: dict[int, Variables] = {}
    seen: list[Evidence] = []
    own: list[Evidence] = []
    for one in found:
        environments[id(one.environment)] = one.environment
        for launch in one.launches:
            launches[id(launch)] = launch
        for strategy in _strategies(one, at):
            (seen if strategy.hint else own).append(strategy)
    counted = False
    for launch in launches.values():
        launched = _launched(launch, at)
        seen.append(launched)
        counted = counted or launched.nodes is not None or launched.one_node
    if counted:
        return seen
    for variables in environments.values() if environments else (environment,):
        seen += _rendezvous(variables, at)
    return seen if launches else seen + own


def _strategies(invocation: Invocation, at: Pointer) -> list[Evidence]:
    """What the flags of one program say of nodes, processes and strategies."""
    known, flags = launchers(), invocation.flags
    seen: list[Evidence] = []
    table = known.counts_of.get(invocation.program, known.counts)
    for flag in sorted(known.strategies.keys() & flags.keys(), key=flags.__getitem__):
        value = invocation.number(flag).text
        value = value if value and value[0] != "-" else "true"
        for strategy in known.strategies[flag]:
            if strategy.is_meant_by(value):
                says = f"{flag.removesuffix('=')} {value}" if value != "true" else flag
                seen.append(_strategy(strategy, says, at))
    for name, strategy in known.strategy_variables.items():
        word = invocation.environment.get(name)
        if word is not None and strategy.is_meant_by(word.text):
            seen.append(_strategy(strategy, f"{name}={word.text}", at))
    if counts := table.keys() & flags.keys():
        stated = {table[flag]: _stated(invocation.number(flag)) for flag in counts}
        nodes, processes = stated.get(Means.NODES), stated.get(Means.PER_NODE)
        if nodes or processes:
            seen.append(Evidence(invocation.program, nodes, stated.get(Means.TOTAL), processes, at=at))
    return seen


def _strategy(strategy: Strategy, says: str, at: Pointer) -> Evidence:
    says = printable(says.split(UNREAD)[0].strip())
    if strategy.coupling is Coupling.SYNCHRONOUS:
        return Evidence(says, open=True, launches=False, at=at)
    return Evidence(says, hint=strategy.coupling, at=at)


def _launched(launch: Launch, at: Pointer) -> Evidence:
    stated = {means: _stated(number) for means, number in launch.given}
    return Evidence(
        launch.name,
        stated.get(Means.NODES),
        stated.get(Means.TOTAL),
        stated.get(Means.PER_NODE),
        launch.one_node,
        launch.hidden,
        at=at,
    )


def _rendezvous(variables: Variables, at: Pointer) -> list[Evidence]:
    if not variables.sets_any(launchers().rendezvous_names):
        return []
    known = launchers().rendezvous
    nodes, total, processes = (
        next((_variable(name, variables.get(name)) for name in names if name in variables), None)
        for names in (known.nodes, known.total, known.per_node)
    )
    address = next((name for name in known.address if name in variables), "")
    if nodes or total:
        return [Evidence("", nodes, total, processes, at=at)]
    if address:
        word = variables.get(address)
        hosts = set() if word is None else {word.text, word.text.rpartition(":")[0]}
        return [Evidence(address, processes=processes, open=known.local.isdisjoint(hosts), at=at)]
    return [Evidence("", processes=processes, at=at)] if processes else []


def _variable(name: str, word: Word | None) -> Stated:
    if word is None:
        return Stated(name, None, None, None)
    return _stated(Number(f"{name}=", Listed([word]), 0, 0))


def _stated(number: Number) -> Stated:
    counted = _COUNT.match(number.text)
    if counted is None:
        return Stated(number.name, None, None, number)
    low, high = int(counted[1]), int(counted[2] or counted[1])
    return Stated(number.name, low, max(low, high), number)
