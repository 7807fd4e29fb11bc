"""How the ranks of a job depend on one another (first match wins)."""

from collections.abc import Sequence

from webhook.catalog.workloads import Workload
from webhook.intake.fields import found
from webhook.intake.roles import RawRole, Told
from webhook.model.job import Coupling
from webhook.model.request import Object


def read_coupling(source: Object, workload: Workload, roles: Sequence[RawRole], told: Told) -> tuple[Coupling, str]:
    """The coupling of the roles with devices, and what decided it, in a few words.

    Single and OneNode go before anything that a launcher says: a process group inside one pod binds no other pod.
    An annotation is not looked at: whether it counts is the policy's say.
    """
    if not roles:
        return Coupling.SINGLE, "no accelerator asked for"
    pods, runs = sum(role.pods for role in roles), sum(role.runs for role in roles)
    devices = sum(role.runs * role.devices for role in roles)
    if devices <= 1:
        return Coupling.SINGLE, "one device in all"
    if runs == 1:
        return Coupling.ONE_NODE, f"one pod with {devices} devices"
    if pods <= 1:
        return Coupling.INDEPENDENT, f"{runs} pods that run one after another"
    for role, one in told:
        if one.spans(role.devices):
            return Coupling.SYNCHRONOUS, one.because
    rule = workload.coupling
    if rule.by is not None:
        value = found(source, rule.by.field)
        if isinstance(value, str) and value in rule.by.values:
            return rule.by.values[value], f"{value} {workload.kind} without a launcher"
    if rule.several is Coupling.INDEPENDENT:
        return Coupling.INDEPENDENT, f"{workload.kind} with {pods} pods and no launcher that spans them"
    return rule.several, f"{workload.kind} with {pods} pods"
