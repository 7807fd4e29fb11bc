"""What several signals say of the number of nodes and processes, where they disagree."""

from collections.abc import Iterator, Sequence

from webhook.intake.evidence import Evidence, Stated
from webhook.intake.roles import RawRole, Told
from webhook.model.finding import Facts, Finding
from webhook.model.paths import dotted

_MOST = 3


def disagreements(roles: Sequence[RawRole], told: Told) -> list[Finding]:
    """SST103 where launchers are told different numbers of nodes, or where nodes or processes are not as many as the
    roles with devices have pods or devices, all together or each. A range, one node, and what cannot be read say
    nothing."""
    nodes = [(role, one, stated) for role, one in told if (stated := _exactly(one.nodes))]
    findings = [*_differing(nodes)] if len(nodes) > 1 else []
    numbers = [*nodes, *[(role, one, stated) for role, one in told if (stated := _exactly(one.total))]]
    if numbers and not findings:
        findings = [*_not_of(roles, numbers)]
    return findings[:_MOST]


def _exactly(stated: Stated | None) -> Stated | None:
    return stated if stated and stated.low == stated.high and (stated.low or 0) > 1 else None


def _differing(nodes: Sequence[tuple[RawRole, Evidence, Stated]]) -> Iterator[Finding]:
    """Launchers that are told different numbers, unless each is told the pods of its own role: a gang of its own."""
    odd = [(one, stated, role) for role, one, stated in nodes if stated.low != role.pods]
    _, first, counted = nodes[0]
    for one, stated, role in odd:
        if stated.low != counted.low:
            facts = {"one": _quoted(first, counted), "other": _quoted(one, stated)}
            yield _finding(role, stated, facts, "nodes-differ")


def _not_of(roles: Sequence[RawRole], numbers: Sequence[tuple[RawRole, Evidence, Stated]]) -> Iterator[Finding]:
    """Numbers that are neither the pods nor, for processes, the devices of the job or of one role."""
    pods = {sum(role.pods for role in roles), *(role.pods for role in roles)}
    devices = {sum(role.pods * role.devices for role in roles), *(role.pods * role.devices for role in roles)}
    for role, one, stated in numbers:
        is_nodes = stated is one.nodes
        if stated.low not in (pods if is_nodes else pods | devices):
            facts: Facts = {"said": _quoted(one, stated), "pods": max(pods), "devices": max(devices)}
            yield _finding(role, stated, facts, "nodes" if is_nodes else "processes")


def _quoted(one: Evidence, stated: Stated) -> str:
    return f"{one.says} {stated.says}".strip()


def _finding(role: RawRole, stated: Stated, facts: Facts, variant: str) -> Finding:
    at = (stated.number and stated.number.edit().path) or role.spec
    return Finding("SST103", dotted(at), facts, variant)
