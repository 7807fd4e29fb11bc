"""The reference pages of the kinds of job: one for each entry of the catalog, and a list."""

from collections.abc import Iterable, Iterator

from docs.markdown import code, page, table
from webhook.catalog.workloads import workloads
from webhook.model.job import Coupling
from webhook.model.workload import Children, Each, HeldAs, Holds, Roles, Template, Workload

_SOURCE = "webhook/catalog/workloads.yaml"
_CHILDREN = {
    Children.DECIDED: "follow it: they are not decided again. One that may land on several models all the same is told "
    "as [SST303](../codes/SST303.md).",
    Children.UNDECIDED: "are decided when they are created, each for itself.",
    Children.SERVING: "serve: they are none of Samestep's business.",
}
_HELD = {
    HeldAs.OBJECT: "an object, whole",
    HeldAs.TEMPLATE: "the metadata and spec of one",
    HeldAs.MANIFEST: "a manifest: YAML in a string, of one or more objects",
    HeldAs.STEP: "a step that becomes a pod: its `container`, `script` or `containerSet`",
    HeldAs.RUNTIME: "what the shortest job that names it would run",
}

_UNKNOWN = "`Unknown` is what the policy's `coupling.whenUnknown` says: pinned by default, never denied for room."


def kind_pages() -> dict[str, str]:
    """By path below docs/reference."""
    known = workloads().entries
    read = [one for one in known if not one.serves]
    return {
        "kinds.md": _list(read, [one for one in known if one.serves]),
        **{_file(one): page(_SOURCE, *_kind(one)) for one in read},
    }


def _file(one: Workload) -> str:
    """Two versions of one kind may be two entries (MPIJob)."""
    alike = [other for other in workloads().entries if (other.kind, other.group) == (one.kind, one.group)]
    version = f".{one.versions[0]}" if len(alike) > 1 else ""
    return f"kinds/{f'{one.kind.lower()}{version}.{one.group}'.rstrip('.')}.md"


def _list(read: Iterable[Workload], serving: Iterable[Workload]) -> str:
    return page(
        _SOURCE,
        "# Kinds of training job",
        "What Samestep reads and keeps on one model. An object of any other kind is admitted unchanged, with "
        "[SST102](codes/SST102.md) where it asks for accelerators; a policy can "
        "[teach a kind](../how-to/teach-a-kind.md). `samestep explain -f FILE` shows what is read of an object.",
        table(
            ("kind", "API", "how it is read", "several pods without a launcher"),
            ((f"[{one.kind}]({_file(one)})", code(_apis(one)), _shape(one), _several(one)) for one in read),
        ),
        "## Kinds that serve",
        "Servers and what they own are never changed and never refused: "
        f"{code(f'{one.kind}.{one.group}' for one in serving)}.",
    )


def _apis(one: Workload) -> list[str]:
    return [f"{one.group}/{version}".lstrip("/") for version in one.versions]


def _shape(one: Workload) -> str:
    if one.holds:
        return "holds objects that are decided when they are created"
    return "the runtime that it names" if one.runtime else "pods of its own"


def _several(one: Workload) -> str:
    return f"`{one.coupling.several}`" if one.coupling and one.groups is None else ""


def _kind(one: Workload) -> Iterator[str]:
    scope = "cluster-scoped, " if one.cluster_scoped else ""
    yield f"# {one.kind}"
    yield f"{code(_apis(one))}, {scope}`{one.plural}`. Paths start at the object, those of a role at the role."
    if one.only_with:
        yield f"Only looked at with the annotation `{one.only_with}`: without it, it serves."
    yield "## What is read"
    yield from _read(one)
    if one.coupling is not None:
        yield "## How its pods are coupled"
        yield from _coupling(one)
    yield "## Where the pin is written"
    yield _pin(one)
    if not one.holds:
        yield "## When it may change"
        yield _change(one)
    yield "## What is not touched"
    yield _untouched(one)
    yield "## What its controller makes"
    yield f"Objects that its controller makes {_CHILDREN[one.children]}"
    yield "## Source"
    yield f"{one.source.strip()}."


def _read(one: Workload) -> Iterator[str]:
    if one.runtime is not None:
        yield (
            f"It has no pod template of its own: those are in the runtime that {_path(one.runtime)} names, changed by "
            "what the object itself says. Without the runtime in view, nothing can be decided."
        )
    if one.holds:
        yield "It runs nothing itself. What it holds is looked into, wrappers in wrappers too:"
        yield table(("where", "what stands there"), ((_place(held.at, held.each), _held(held)) for held in one.holds))
    if one.roles:
        titles = ("role", "at", "pod template", "pods at once", "over its life", "must run at once")
        yield table(titles, (_role(one, roles) for roles in one.roles))
        yield _containers(one)
    if one.groups is not None:
        yield (
            f"The group that it is part of: the first of the labels {code(one.groups.labels)} and the annotations "
            f"{code(one.groups.annotations)} that is there, else its controller. `{one.groups.total}` is the number of "
            "the group's pods."
        )
    facts = [
        ("held back while set", _path(one.suspend)),
        ("started once set", _path(one.started)),
        ("processes per node", _path(one.processes)),
        ("environment that its controller sets", code(sorted(one.environment))),
    ]
    if any(value for _, value in facts):
        yield table(("what", "where"), ((what, value) for what, value in facts if value))


def _containers(one: Workload) -> str:
    scripts = "".join(f"The command line in {_path(path)} speaks for the whole job. " for path in one.scripts)
    return (
        f"{scripts}Command lines and environment are read of the containers that ask for devices; where these say "
        "nothing, of the others. [Launchers and flags](../launchers.md) lists what is known."
    )


def _held(holds: Holds) -> str:
    what = _HELD[holds.held]
    if holds.kind:
        kind, version, group = holds.kind.split(".", 2)
        what += f": {kind} of `{f'{group}/{version}'.lstrip('/')}`"
    return f"{what}, at {_path(holds.object)}" if holds.object else what


def _role(one: Workload, roles: Roles) -> tuple[str, ...]:
    name = f"`{roles.name}`" if roles.name else "by key" if roles.each is Each.ENTRY else f"by {_path(roles.named)}"
    return name, _place(roles.at, roles.each), _path(roles.template), _pods(roles), _path(roles.runs), _gang(one, roles)


def _pods(roles: Roles) -> str:
    told = f"the least of {_paths(roles.pods)}" if len(roles.pods) > 1 else _paths(roles.pods) or "1"
    if roles.pods:
        told += f"; {roles.default} where {_path(roles.pods[0])} is not set"
    if roles.beside is not None:
        told += f"; one less where {_path(roles.beside)} is set"
    if roles.least is not None:
        told += f"; never less than {_path(roles.least)}"
    if roles.most is not None:
        told += f"; up to {_path(roles.most)} where {_path(roles.scales)}"
    told += "".join(f"; times {_path(path)}" for path in roles.times)
    if roles.sets is not None:
        told += f"; in {_path(roles.sets)} groups"
    return told


def _gang(one: Workload, roles: Roles) -> str:
    told = [f"{_path(path)} of `{name}`" for name, path in roles.gang.items()]
    if roles.least is not None:
        told.append(f"{_path(roles.least)}{f' where {_path(roles.scales)}' if roles.scales is not None else ''}")
    if one.together is not None:
        told.append(f"{_path(one.together)} of all roles together")
    if roles.sets is not None:
        told.append("those of one group")
    return "; ".join(told) or "all"


def _coupling(one: Workload) -> Iterator[str]:
    assert one.coupling is not None
    if one.groups is not None:
        yield (
            "`Synchronous` where a launcher or its variables reach over several pods. Else a pod that says which group "
            "it is part of is `Unknown`, and any other stands for itself: `Single` with one device, `OneNode` with "
            "several. Pods of a controller that is not known may be replicas: only a launcher couples them."
        )
        yield _UNKNOWN
        return
    yield (
        "One device in all is `Single`, one pod with several is `OneNode`. Several pods are `Synchronous` where a "
        "launcher or its variables reach over them. Without such a sign, the first line that fits counts:"
    )
    rows: list[tuple[str, str]] = []
    for by in one.coupling.by:
        rows += [(f"{_path(by.at)} is `{value}`", f"`{coupling}`") for value, coupling in by.values.items()]
        if by.there is not None:
            rows.append((f"{_path(by.at)} is set", f"`{by.there}`"))
    yield table(("where", "coupling"), [*rows, ("anything else", f"`{one.coupling.several}`")])
    if Coupling.UNKNOWN in (one.coupling.several, *(value for by in one.coupling.by for value in by.values.values())):
        yield _UNKNOWN
    if one.apart:
        yield f"Roles that are no ranks, and left alone whatever they ask for: {code(sorted(one.apart))}."
    for name, path in sorted(one.joining.items()):
        yield f"Where {_path(path)} is true, {code([name])} is a rank all the same."


def _pin(one: Workload) -> str:
    if one.holds:
        return (
            "Nowhere: what it holds is decided when it is created. A warning tells now what awaits it, where a denial "
            "would come late."
        )
    if one.runtime is not None:
        return (
            f"Into the {one.kind} itself, as an entry of its own patches: `runtimePatches`, `podTemplateOverrides` or "
            "`podSpecOverrides`, whichever its installed definition has. Never into the runtime, which others share. "
            "[Why, and what cannot be written](../../decisions/0030-trainjob-pins.md)."
        )
    places = [f"- `{_spec(roles)}.nodeSelector`" for roles in one.roles]
    affinity = "Where one value does not do, into the required node affinity beside it, each term of it."
    if one.selector_only:
        affinity = (
            "Its own webhook takes no other change, so a choice that takes more than one value cannot be written later."
        )
    elif one.narrows_only:
        affinity += " Once it is there, a selector may only be added to: a pin never moves to another value."
    return "\n".join(["Of every role that asks for devices:", "", *places, "", affinity])


def _spec(roles: Roles) -> str:
    each = {Each.ONE: "", Each.ENTRY: "<name>", Each.ITEM: "<index>"}[roles.each]
    return ".".join(step for step in (*roles.at, each, *roles.template, "spec") if step)


def _change(one: Workload) -> str:
    began = f"It has begun once {_path(one.started)} is set" if one.started else "It has begun unless it is held back"
    if one.template is Template.FREE:
        rule = "Its pod templates may change at any time, and a pin is added until it has begun."
    elif one.suspend is not None:
        rule = f"Its pod templates may change only while {_path(one.suspend)} holds it back and it has not begun."
    else:
        rule = "Its pod templates never change: the pin is written when it is created."
    narrow = " Of these only nodeSelector and tolerations may." if one.selector_only else ""
    return f"{began}. {rule}{narrow}"


def _untouched(one: Workload) -> str:
    if one.holds:
        return "All of it."
    fixed = sorted({name for roles in one.roles for name in roles.fixed})
    number = f" A change of the number of pods is never proposed for {code(fixed)}." if fixed else ""
    return (
        "Roles without devices, requests, numbers of pods, commands, and every selector or affinity that is there: the "
        f"pin is only ever added, with the annotation `samestep.dev/pinned` on the object.{number}"
    )


def _place(at: Iterable[str], each: Each) -> str:
    whole = ".".join(at)
    return f"`{whole}{ {Each.ONE: '', Each.ENTRY: '.<name>', Each.ITEM: '[]'}[each] }`" if whole else "the object"


def _paths(paths: Iterable[Iterable[str]]) -> str:
    return ", ".join(map(_path, paths))


def _path(path: Iterable[str] | None) -> str:
    return "" if path is None else f"`{'.'.join(path)}`" if tuple(path) else "the object"
