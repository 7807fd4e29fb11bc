"""Whether this replica should be sent requests, and what there is to say about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from webhook.cluster.world import Worlds
from webhook.server.tls import ServingCertificate

_RULES = ("trainingpolicies", "acceleratorpools", "trainingpolicyexceptions", "namespaces")


class State(Enum):
    """FAILED makes a replica unready. WARNING does not: what ails one ails all, and all would leave at once."""

    OK = "+"
    WARNING = "!"
    FAILED = "-"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: State
    told: str

    def __str__(self) -> str:
        return f"[{self.state.value}]{self.name} {self.state.name.lower()}: {self.told}"


def checks(
    worlds: Worlds, certificate: ServingCertificate, *, plugged: bool, draining: bool, now: float
) -> tuple[Check, ...]:
    """Everything that readiness rests on. `plugged` says whether kopf has handed over its handlers."""
    return (
        _fleet(worlds, now),
        _policies(worlds),
        _pods(worlds),
        _surroundings(worlds),
        _objects(worlds),
        _handlers(plugged=plugged),
        _certificate(worlds, certificate, now),
        Check("draining", State.FAILED if draining else State.OK, "stopping" if draining else "not stopping"),
    )


def readiness(found: Iterable[Check], *, verbose: bool) -> tuple[bool, str]:
    """Whether ready, and the text of /readyz."""
    found = tuple(found)
    ready = all(check.state is not State.FAILED for check in found)
    shown = [str(check) for check in found if verbose or check.state is State.FAILED]
    return ready, "\n".join([*shown, "ready" if ready else "not ready", ""])


def _fleet(worlds: Worlds, now: float) -> Check:
    problem = worlds.problems.get("nodes", "")
    if worlds.fleet is None:
        return Check("fleet", State.FAILED, problem or "the first list of nodes is under way")
    age = worlds.age_s(now)
    nodes = len(worlds.fleet.nodes)
    told = f"{nodes} nodes with accelerators" + ("" if age is None else f", confirmed {age:.0f} s ago")
    if worlds.stale(now):
        told += ", stale: denials that rest on nodes are warnings"
    if problem:
        told += f"; {problem}"
    return Check("fleet", State.WARNING if problem or worlds.stale(now) else State.OK, told)


def _pods(worlds: Worlds) -> Check:
    problem = worlds.problems.get("pods", "")
    if worlds.current is not None and worlds.current.fleet.free is not None:
        return Check("pods", State.WARNING if problem else State.OK, problem or "what is free now is known")
    told = "what is free now is not looked at"
    return Check("pods", State.WARNING if problem else State.OK, f"{told}; {problem}" if problem else told)


def _policies(worlds: Worlds) -> Check:
    problems = [told for plural in _RULES if (told := worlds.problems.get(plural))]
    if worlds.awaited:
        told = f"the first list of {' and '.join(worlds.awaited)} is under way"
        return Check("policies", State.FAILED, "; ".join(problems) or told)
    told = f"{worlds.policies} in force" if worlds.policies else "the built-in default is in force"
    return Check("policies", State.WARNING if problems else State.OK, "; ".join((told, *problems)))


def _surroundings(worlds: Worlds) -> Check:
    told_elsewhere = ("nodes", "pods", "certificates", *_RULES)
    problems = [told for plural, told in sorted(worlds.problems.items()) if plural not in told_elsewhere]
    told = "; ".join(problems) or "what jobs refer to is followed"
    return Check("surroundings", State.WARNING if problems else State.OK, told)


def _objects(worlds: Worlds) -> Check:
    faults = [f"{kind} {fault}" for kind, those in sorted(worlds.faults.items()) for fault in those]
    told = "; ".join(faults) or "every object of ours that is in view counts"
    return Check("objects", State.WARNING if faults else State.OK, told)


def _handlers(*, plugged: bool) -> Check:
    if plugged:
        return Check("handlers", State.OK, "served")
    return Check("handlers", State.FAILED, "kopf has not found out the cluster's kinds yet")


def _certificate(worlds: Worlds, certificate: ServingCertificate, now: float) -> Check:
    problem = worlds.problems.get("certificates", "")
    if certificate.awaited:
        return Check("certificate", State.FAILED, problem or "none yet that the API server could trust")
    until = datetime.fromtimestamp(certificate.expires_at, UTC).isoformat(timespec="seconds")
    told = f"{'expired' if certificate.expires_at < now else 'valid until'} {until}"
    if certificate.problem:
        told += f"; what is there now is not served: {certificate.problem}"
    if problem:
        told += f"; {problem}"
    bad = certificate.problem or problem or certificate.expires_at < now
    return Check("certificate", State.WARNING if bad else State.OK, told)
