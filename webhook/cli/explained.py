"""What was read of objects, as text for a person and as the document that programs read."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
from rich.table import Table

from webhook.answer.document import API_VERSION
from webhook.answer.wording import one_line, own_sentence
from webhook.catalog.codes import action_of
from webhook.cli.documents import Unreadable
from webhook.cli.printing import cut, put, table
from webhook.cli.reading import Explained
from webhook.cli.stories import requirement, show_story, story_document
from webhook.model.job import Coupling, Role
from webhook.model.paths import dotted
from webhook.model.placement import Placement, Term, Toleration


def show(found: Sequence[tuple[str, Explained]]) -> None:
    """Print all of it, one object after the other."""
    for number, (source, one) in enumerate(found):
        if number:
            click.echo()
        _show(source, one, indent=0)


def listing(found: Iterable[tuple[str, Explained]], problems: Iterable[Unreadable]) -> dict[str, Any]:
    """The whole document. Every key is always there; keys are only ever added."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ReadingList",
        "items": [{"source": source, **_item(one, source)} for source, one in found],
        "errors": [{"source": one.source, "field": one.field, "message": one.message} for one in problems],
    }


def _show(source: str, one: Explained, *, indent: int) -> None:
    named = f"{one.namespace}/{one_line(one.name)}".removeprefix("/")
    click.echo(f"{' ' * indent}{source}  {one.kind.kind} {named}")
    indent += 2
    put(_kind(one), indent)
    if one.job is not None:
        click.echo()
        if one.job.roles:
            put(_roles(one.job.roles), indent)
        for role in one.job.device_roles:
            if where := _lands(role.placement):
                put(f"{role.name} lands only where {where}", indent)
        if one.job.roles:
            click.echo()
        put(_facts(one), indent)
    if one.ignored:
        click.echo()
        put(_ignored(one), indent)
    if one.job is not None and one.findings:
        click.echo()
    for finding in one.findings:
        put(f"{finding.code} {own_sentence(finding)}", indent)
        if finding.code == "SST102":
            put("A policy can teach the kind (spec.kinds).", indent)
    if one.review is not None:
        show_story(one.review, one.story, indent)
    for inner in one.held:
        click.echo()
        _show(f"{source} {inner.at}".rstrip(), inner, indent=indent)


def _kind(one: Explained) -> str:
    """How the object is read, or why it is not."""
    if one.because:
        return f"not read: {one.because}"
    assert one.entry is not None
    read = f"read as {one.entry.kind} of {one.kind.api_version}, {_by(one)}"
    if one.job is None:
        return f"{read}; holds {len(one.held)} to be decided when created"
    if not one.job.device_roles:
        ours = ": none of our business" if one.job.coupling is Coupling.SINGLE else ""
        return f"{read}; {one.job.coupling_because}{ours}"
    if one.scope is not None and one.scope.coupling is Coupling.SERVING:
        return f"{read}; it serves: out of scope"
    return read


def _by(one: Explained) -> str:
    return "as the policy teaches" if one.taught else "as the catalog says"


def _roles(roles: Iterable[Role]) -> Table:
    rows = table(("ROLE", "PODS", "AT LEAST", "IN ALL", "DEVICES OF ONE", "POD SPEC"))
    for role in roles:
        devices = f"{role.devices} {role.device}" if role.devices else "none"
        numbers = (str(role.pods), str(role.gang), str(role.runs))
        rows.add_row(one_line(role.name), *numbers, one_line(devices), one_line(dotted(role.spec)))
    return rows


def _facts(one: Explained) -> Table:
    rows = table(("READ", "VALUE", "BY", "AT"))
    for fact in one.facts:
        value = str(fact.value) if not fact.note else f"{fact.value} ({fact.note})"
        rows.add_row(fact.what, cut(value), cut(fact.by), _short(fact.field, one))
    return rows


def _ignored(one: Explained) -> Table:
    rows = table(("NOT READ", "BECAUSE", "AT"))
    for left in one.ignored:
        rows.add_row(cut(left.what), left.because, _short(left.field, one))
    return rows


def _short(field: str, one: Explained) -> str:
    """A place inside the pods of a role as seen from their pod spec, which stands in the table of roles."""
    for role in one.job.roles if one.job else ():
        spec = f"{dotted(role.spec)}."
        if field.startswith(spec):
            return one_line(f"{role.name}: {field.removeprefix(spec)}")
    # The annotation itself stands beside it.
    return "metadata.annotations" if field.startswith("metadata.annotations[") else one_line(field)


def _lands(placement: Placement) -> str:
    """What keeps pods off nodes, and which taints they tolerate."""
    parts = [f"{key}={value}" for key, value in placement.node_selector]
    if placement.terms is not None:
        parts.append(" or ".join(_term(term) for term in placement.terms) or "no node: affinity without terms")
    told = " and ".join(parts)
    if placement.tolerations:
        tolerated = ", ".join(_toleration(one) for one in placement.tolerations)
        told = f"{told or 'its requests can be met'}; tolerates {tolerated}"
    return told


def _term(term: Term) -> str:
    return " and ".join(requirement(one) for one in (*term.expressions, *term.fields)) or "nothing matches"


def _toleration(one: Toleration) -> str:
    what = one.key or "everything"
    return f"{what}={one.value}" if one.operator == "Equal" else what


def _item(one: Explained, source: str) -> dict[str, Any]:
    job, entry = one.job, one.entry
    return {
        "object": {
            "apiVersion": one.kind.api_version,
            "kind": one.kind.kind,
            "namespace": one.namespace or None,
            "name": one.name or None,
        },
        "at": one.at or None,
        "outside": one.because or None,
        "entry": {"kind": entry.kind, "group": entry.group, "taught": one.taught, "source": entry.source}
        if entry
        else None,
        "coupling": {
            "value": job.coupling,
            "because": job.coupling_because,
            "field": dotted(job.coupling_at) or None,
            "applied": one.scope.coupling if one.scope else job.coupling,
        }
        if job
        else None,
        "roles": [_role(role) for role in job.roles] if job else [],
        "state": {"suspended": job.suspended, "started": job.started, "templateFixed": job.template_fixed}
        if job
        else None,
        "group": (job.group or None) if job else None,
        "childOf": str(job.child_of) if job and job.child_of else None,
        "read": [
            {
                "what": fact.what,
                "value": fact.value,
                "by": fact.by or None,
                "field": fact.field or None,
                "note": fact.note or None,
            }
            for fact in one.facts
        ],
        "ignored": [{"what": left.what, "because": left.because, "field": left.field or None} for left in one.ignored],
        "containers": [
            {"role": part.role, "name": part.name, "field": dotted(part.at), "read": part.read}
            for part in (job.containers if job else ())
        ],
        "findings": list(_findings(one)),
        "holds": [_item(inner, source) for inner in one.held],
        "decision": story_document(one.review, one.story, source) if one.review else None,
    }


def _role(role: Role) -> dict[str, Any]:
    placement = role.placement
    return {
        "name": role.name,
        "pods": role.pods,
        "gang": role.gang,
        "runs": role.runs,
        "device": role.device or None,
        "devices": role.devices,
        "requests": dict(role.requests),
        "podSpec": dotted(role.spec),
        "nodeSelector": dict(placement.node_selector),
        "requiredTerms": None
        if placement.terms is None
        else [
            [
                {"key": one.key, "operator": one.operator, "values": list(one.values)}
                for one in (*term.expressions, *term.fields)
            ]
            for term in placement.terms
        ],
        "tolerations": [
            {"key": one.key, "operator": one.operator, "value": one.value, "effect": one.effect}
            for one in placement.tolerations
        ],
    }


def _findings(one: Explained) -> Iterator[dict[str, Any]]:
    for finding in one.findings:
        yield {
            "code": finding.code,
            "severity": action_of(finding),
            "field": one_line(finding.where) or None,
            "message": own_sentence(finding),
        }
