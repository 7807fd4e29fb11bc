"""How the ranks of a job depend on one another (first match wins)."""

from collections.abc import Sequence

from webhook.intake.fields import found
from webhook.intake.roles import RawRole, Told
from webhook.model.job import Coupling
from webhook.model.paths import dotted
from webhook.model.request import Object
from webhook.model.workload import Workload

# Roles that hold parameters for others: TFJob and PaddleJob, BytePS and MXNet.
_SERVERS = frozenset({"ps", "server", "parameterserver", "parameter-server"})


def read_coupling(
    source: Object,
    workload: Workload,
    roles: Sequence[RawRole],
    told: Told,
    *,
    grouped: bool = False,
    every: Sequence[RawRole] = (),
) -> tuple[Coupling, str]:
    """The coupling of the roles with devices, and what decided it, in a few words.

    Single and OneNode go before anything that a launcher says: a process group inside one pod binds no other pod.
    `grouped`: the object says that it is one pod of a group whose others are objects of their own. `every` is every
    role of the job: ranks that are told to be asynchronous are where one of these serves parameters. An annotation is
    not looked at: whether it counts is the policy's say.
    """
    if not roles:
        return Coupling.SINGLE, "no accelerator asked for"
    if grouped or workload.groups is not None:
        spanning = next((one.because for role, one in told if one.spans(role.devices)), "")
        if spanning:
            return Coupling.SYNCHRONOUS, spanning
        if grouped:
            return Coupling.UNKNOWN, f"{workload.kind} of a group"
    pods, runs = sum(role.pods for role in roles), sum(role.runs for role in roles)
    devices = sum(role.runs * role.devices for role in roles)
    if devices <= 1:
        return Coupling.SINGLE, "one device in all"
    if runs == 1:
        return Coupling.ONE_NODE, f"one pod with {devices} devices"
    if pods <= 1:
        return Coupling.INDEPENDENT, f"{runs} pods that run one after another"
    served = any(role.name.casefold() in _SERVERS for role in every)
    for _, one in told:
        if one.hint is Coupling.HETEROGENEITY_AWARE or (one.hint is Coupling.ASYNCHRONOUS and served):
            return one.hint, one.because
    for role, one in told:
        if one.spans(role.devices):
            return Coupling.SYNCHRONOUS, one.because
    rule = workload.coupling
    assert rule is not None
    for by in rule.by:
        value = found(source, by.at)
        if isinstance(value, str) and value in by.values:
            return by.values[value], f"{value} {workload.kind} without a launcher"
        if by.there is not None and value is not None:
            return by.there, f"{dotted(by.at)} of the {workload.kind}"
    if rule.several is Coupling.INDEPENDENT:
        return Coupling.INDEPENDENT, f"{workload.kind} with {pods} pods and no launcher that spans them"
    return rule.several, f"{workload.kind} with {pods} pods"
