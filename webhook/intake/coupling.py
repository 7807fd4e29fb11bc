"""How the ranks of a job depend on one another (first match wins)."""

from collections.abc import Sequence
from typing import NamedTuple

from webhook.intake.fields import found
from webhook.intake.roles import RawRole, Told
from webhook.model.job import Coupling
from webhook.model.paths import dotted
from webhook.model.placement import Pointer
from webhook.model.request import Object
from webhook.model.workload import Workload

# Roles that hold parameters for others: TFJob and PaddleJob, BytePS and MXNet.
_SERVERS = frozenset({"ps", "server", "parameterserver", "parameter-server"})


class Coupled(NamedTuple):
    """The coupling, what decided it, in a few words, and where that stands; no path where it is what is missing."""

    coupling: Coupling
    because: str
    at: Pointer = ()


def read_coupling(
    source: Object,
    workload: Workload,
    roles: Sequence[RawRole],
    told: Told,
    *,
    grouped: bool = False,
    every: Sequence[RawRole] = (),
) -> Coupled:
    """The coupling of the roles with devices, and what decided it.

    Single and OneNode go before anything that a launcher says: a process group inside one pod binds no other pod.
    `grouped`: the object says that it is one pod of a group whose others are objects of their own. `every` is every
    role of the job: ranks that are told to be asynchronous are where one of these serves parameters. An annotation is
    not looked at: whether it counts is the policy's say.
    """
    if not roles:
        return Coupled(Coupling.SINGLE, "no accelerator asked for")
    if grouped or workload.groups is not None:
        # A flag that shards says nothing of other pods, where the object does not say either that there are any.
        spanning = next((one for role, one in told if one.spans(role.devices) and (grouped or one.launches)), None)
        if spanning is not None:
            return Coupled(Coupling.SYNCHRONOUS, spanning.because, spanning.place)
        if grouped:
            return Coupled(Coupling.UNKNOWN, f"{workload.kind} of a group", ("metadata",))
    pods = runs = devices = 0
    for role in roles:
        pods += role.pods
        runs += role.runs
        devices += role.runs * role.devices
    if devices <= 1:
        return Coupled(Coupling.SINGLE, "one device in all", roles[0].spec)
    if runs == 1:
        return Coupled(Coupling.ONE_NODE, f"one pod with {devices} devices", roles[0].spec)
    if pods == 1:
        return Coupled(Coupling.INDEPENDENT, f"{runs} pods that run one after another", _counted(roles))
    # A Job that is paused by its parallelism has begun: this is when it can be pinned.
    if pods == 0 and not any(one.spans(role.devices) for role, one in told):
        return Coupled(Coupling.INDEPENDENT, "no pods for now, and no launcher that spans any", _counted(roles))
    for _, one in told:
        if one.hint is Coupling.HETEROGENEITY_AWARE or (one.hint is Coupling.ASYNCHRONOUS and _served(every)):
            return Coupled(one.hint, one.because, one.place)
    for role, one in told:
        if one.spans(role.devices):
            return Coupled(Coupling.SYNCHRONOUS, one.because, one.place)
    rule = workload.coupling
    assert rule is not None
    for by in rule.by:
        value = found(source, by.at)
        if isinstance(value, str) and value in by.values:
            return Coupled(by.values[value], f"{value} {workload.kind} without a launcher that spans pods", by.at)
        if by.there is not None and value is not None:
            return Coupled(by.there, f"{dotted(by.at)} of the {workload.kind}", by.at)
    if rule.several is Coupling.INDEPENDENT:
        because = f"{workload.kind} with {pods} pods and no launcher that spans them"
        return Coupled(Coupling.INDEPENDENT, because, _counted(roles))
    return Coupled(rule.several, f"{workload.kind} with {pods} pods", _counted(roles))


def _counted(roles: Sequence[RawRole]) -> Pointer:
    """Where the number of pods stands; the first pod spec where none is written."""
    return next((role.numbers[0] for role in roles if role.numbers), roles[0].spec)


def _served(roles: Sequence[RawRole]) -> bool:
    return any(role.name.casefold() in _SERVERS for role in roles)
