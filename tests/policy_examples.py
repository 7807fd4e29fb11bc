"""Objects of the policy API at the edges of each constraint, for the models that read them and for an API server."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.samples import Json

CODE = "SST203"


@dataclass(frozen=True, slots=True)
class Example:
    """`spec` replaces fields of `GOOD`. `field` is what a refusal must name; empty: it is accepted."""

    kind: str
    spec: Json
    field: str = ""

    @property
    def document(self) -> Json:
        spec = {key: value for key, value in (GOOD[self.kind] | self.spec).items() if value is not LEFT_OUT}
        return {**head(self.kind), "spec": spec}


LEFT_OUT: Any = object()
GOOD: dict[str, Json] = {
    "TrainingPolicy": {},
    "AcceleratorPool": {"nodeSelector": {}},
    "TrainingPolicyException": {"policies": ["one"], "reason": "why", "until": "2027-01-31T00:00:00Z"},
    "TrainingProfile": {"recipe": {"digest": "a1" * 10, "family": "b2" * 10}},
}
PLURALS = {
    "TrainingPolicy": "trainingpolicies",
    "AcceleratorPool": "acceleratorpools",
    "TrainingPolicyException": "trainingpolicyexceptions",
    "TrainingProfile": "trainingprofiles",
}
NAMESPACED = ("TrainingPolicyException", "TrainingProfile")
TAUGHT: Json = {
    "kind": "TrainingRun",
    "group": "ml.example.com",
    "versions": ["v1"],
    "plural": "trainingruns",
    "children": "Decided",
    "roles": [{"at": "spec.groups", "each": "Item", "template": "pod"}],
    "coupling": {"several": "Synchronous"},
    "source": "the CRD of the platform team",
}
ROLE = TAUGHT["roles"][0]


def head(kind: str) -> Json:
    named: Json = {"name": "one"} | ({"namespace": "default"} if kind in NAMESPACED else {})
    return {"apiVersion": "samestep.dev/v1alpha1", "kind": kind, "metadata": named}


def at(path: str, value: object) -> Json:
    """The value below nested fields."""
    first, _, rest = path.partition(".")
    return {first: at(rest, value) if rest else value}


def some(kind: str, path: str, good: list[Any], bad: list[tuple[Any, str]]) -> Iterator[Example]:
    """Values of one field: those that are taken, and those that are not with what is named below the field."""
    for value in good:
        yield Example(kind, at(path, value))
    for value, below in bad:
        yield Example(kind, at(path, value), f"spec.{path}{below}")


def texts(kind: str, path: str, longest: int) -> Iterator[Example]:
    """A list of texts that are not empty."""
    good = [[], ["a", "x" * longest]]
    yield from some(kind, path, good, [("a", ""), ([""], ".0"), (["x" * (longest + 1)], ".0"), ([1], ".0")])


def most(kind: str, path: str, one: object, count: int) -> Iterator[Example]:
    yield from some(kind, path, [[one] * count], [([one] * (count + 1), "")])


def choice(kind: str, path: str, *values: str) -> Iterator[Example]:
    yield from some(kind, path, list(values), [("Other", ""), (values[0].upper() + "x", ""), (1, ""), (True, "")])


def switch(kind: str, path: str) -> Iterator[Example]:
    yield from some(kind, path, [True, False], [("true", ""), (1, "")])


def whole(kind: str, path: str, least: int, greatest: int) -> Iterator[Example]:
    yield from some(kind, path, [least, greatest], [(least - 1, ""), (greatest + 1, ""), ("1", ""), (1.5, "")])


def percentage(kind: str, path: str) -> Iterator[Example]:
    bad = ["10", "1.5%", "-1%", "%", "1000%", "10 %", "٣%", 10]
    yield from some(kind, path, ["0%", "100%", "999%"], [(one, "") for one in bad])


def amount(kind: str, path: str) -> Iterator[Example]:
    good = ["0", "640Mi", "2.1Gi", "1e9", "1" * 40 + "." + "0" * 40]
    bad = ["lots", "-1Gi", "1GiB", "1 Gi", "", "NaN", "1" * 41, "1" * 101, 5]
    yield from some(kind, path, good, [(one, "") for one in bad])


LABEL_KEYS = ["a", "gpu-type", "nvidia.com/gpu.product", "A_b.C", "a" * 253 + "/" + "b" * 63]
BAD_LABEL_KEYS = ["", "-a", "a-", "a b", "/a", "a/", "A.com/b", "a/b/c", "b" * 64, "a..b/c", "ä"]


def label_keys(kind: str, path: str) -> Iterator[Example]:
    yield from some(kind, path, [[], LABEL_KEYS], [*(([key], ".0") for key in BAD_LABEL_KEYS), ("a", ""), ([1], ".0")])
    yield from some(kind, path, [], [(["a" * 254 + "/" + "b" * 63], ".0")])
    yield from most(kind, path, "a", 16)


def map_keys(kind: str, path: str, good: list[str], bad: list[str], value: str) -> Iterator[Example]:
    yield from some(kind, path, [{}, dict.fromkeys(good, value)], [({key: value}, "") for key in bad])
    yield from some(kind, path, [], [(["a"], "")])


def selector(kind: str, path: str) -> Iterator[Example]:
    labels, expressions = f"{path}.matchLabels", f"{path}.matchExpressions"
    yield from some(kind, path, [{}, {"matchLabels": {}, "matchExpressions": []}], [("a", ""), ({"a": "b"}, ".a")])
    yield from map_keys(kind, labels, LABEL_KEYS, BAD_LABEL_KEYS, "b")
    yield from some(
        kind,
        labels,
        [{"a": ""}, {"a": "x" * 63}, {f"a{n}": "b" for n in range(32)}],
        [({"a": "x" * 64}, ".a"), ({"a": "-"}, ".a"), ({"a": 1}, ".a"), ({f"a{n}": "b" for n in range(33)}, "")],
    )
    there = {"key": "a", "operator": "Exists"}
    among = {"key": "a", "operator": "In", "values": ["b"]}
    yield from some(
        kind,
        expressions,
        [[there, among, there | {"operator": "DoesNotExist", "values": []}, among | {"operator": "NotIn"}]],
        [
            ([there | {"values": ["b"]}], ".0.values"),
            ([{"key": "a", "operator": "In"}], ".0.values"),
            ([among | {"values": []}], ".0.values"),
            ([among | {"values": ["-"]}], ".0.values.0"),
            ([among | {"values": ["x" * 64]}], ".0.values.0"),
            ([among | {"values": ["b"] * 65}], ".0.values"),
            ([among | {"values": "b"}], ".0.values"),
            ([there | {"operator": "Gt"}], ".0.operator"),
            ([there | {"operator": "exists"}], ".0.operator"),
            ([{"key": "a"}], ".0.operator"),
            ([{"operator": "Exists"}], ".0.key"),
            *(([there | {"key": key}], ".0.key") for key in BAD_LABEL_KEYS),
            ([there | {"value": "b"}], ".0.value"),
        ],
    )
    yield from some(kind, expressions, [[among | {"values": ["b"] * 64}]], [])
    yield from most(kind, expressions, there, 32)


def kinds_of_job(kind: str, path: str) -> Iterator[Example]:
    good = ["Pod", "Job.batch", "PyTorchJob.kubeflow.org", "A" * 63 + "." + "b" * 253]
    bad = ["", "Job.", ".batch", "Job batch", "Job/batch", "1Job", "Job.Batch", "A" * 64, "Job..a", "O'Job"]
    yield from some(kind, path, [[], good], [*(([one], ".0") for one in bad), ("Job.batch", ""), ([1], ".0")])
    yield from some(kind, path, [], [(["A" * 63 + "." + "b" * 254], ".0")])
    yield from most(kind, path, "Job.batch", 64)


def codes(kind: str, path: str) -> Iterator[Example]:
    yield from some(
        kind, path, [[], [CODE, "SST302"]], [(["SST999"], ".0"), (["sst203"], ".0"), ([CODE, CODE], ""), (CODE, "")]
    )


def _policies() -> Iterator[Example]:
    of = "TrainingPolicy"
    yield Example(of, {})
    yield Example(of, {"learning": {}}, "spec.learning")
    yield Example(of, {"Priority": 1}, "spec.Priority")
    yield from whole(of, "priority", -1_000_000_000, 1_000_000_000)
    yield from selector(of, "match.namespaceSelector")
    yield from selector(of, "match.objectSelector")
    yield from kinds_of_job(of, "match.kinds")
    condition = {"name": "a", "expression": "true"}
    yield from some(
        of,
        "match.matchConditions",
        [[], [condition, {"name": "A.b_c-9" + "x" * 56, "expression": "x" * 4096}]],
        [
            ([{"name": "a"}], ".0.expression"),
            ([{"expression": "true"}], ".0.name"),
            ([condition | {"expression": ""}], ".0.expression"),
            ([condition | {"expression": "x" * 4097}], ".0.expression"),
            ([condition | {"expression": True}], ".0.expression"),
            ([condition | {"name": ""}], ".0.name"),
            ([condition | {"name": "a b"}], ".0.name"),
            ([condition | {"name": "x" * 64}], ".0.name"),
            ([condition, condition], ""),
            ([condition | {"cel": "true"}], ".0.cel"),
            ([condition | {"name": f"a{n}"} for n in range(17)], ""),
        ],
    )
    yield from some(of, "match.matchConditions", [[condition | {"name": f"a{n}"} for n in range(16)]], [])
    yield from some(
        of,
        "validationActions",
        [["Deny"], ["Warn"], ["Audit"]],
        [([], ""), (["Deny", "Warn"], ""), ("Deny", ""), (["Dny"], ".0"), (["Info"], ".0"), ([True], ".0")],
    )
    entry = {"code": CODE, "action": "Deny"}
    yield from some(
        of,
        "codes",
        [[], [entry, {"code": "SST403", "action": "Warn"}, {"code": "SST901", "action": "Audit"}]],
        [
            ([{"code": "SST403", "action": "Deny"}], ".0.action"),
            ([{"code": "SST901", "action": "Deny"}], ".0.action"),
            ([entry | {"action": "Info"}], ".0.action"),
            ([entry | {"action": 1}], ".0.action"),
            ([entry | {"code": "SST999"}], ".0.code"),
            ([entry | {"code": "203"}], ".0.code"),
            ([{"code": CODE}], ".0.action"),
            ([{"action": "Deny"}], ".0.code"),
            ([entry, {"code": CODE, "action": "Warn"}], ""),
            ([entry | {"why": "x"}], ".0.why"),
            ({CODE: "Deny"}, ""),
        ],
    )
    yield from choice(of, "pin.when", "WhenMixed", "Always", "Never")
    yield from some(of, "pin.strategy", ["MostFree", "BestFit", "Largest"], [("mostFree", ""), (1, "")])
    yield from some(
        of,
        "pin",
        [{"strategy": "Ordered", "order": ["H100", "x" * 253]}, {"order": []}, {"strategy": "Largest", "order": []}],
        [
            ({"strategy": "Ordered"}, ".order"),
            ({"strategy": "Ordered", "order": []}, ".order"),
            ({"order": ["H100"]}, ".order"),
            ({"strategy": "Largest", "order": ["H100"]}, ".order"),
            ({"strategy": "Ordered", "order": "H100"}, ".order"),
            ({"strategy": "Ordered", "order": [""]}, ".order.0"),
            ({"strategy": "Ordered", "order": ["x" * 254]}, ".order.0"),
            ({"strategy": "Ordered", "order": ["a"] * 65}, ".order"),
            ({"wenn": "Always"}, ".wenn"),
        ],
    )
    yield from label_keys(of, "pin.keys")
    yield from label_keys(of, "modelLabels")
    yield from choice(of, "likeness.require", "Model", "Equivalent")
    yield from percentage(of, "likeness.computeTolerance")
    yield from percentage(of, "likeness.bandwidthTolerance")
    pair = ["a", "b"]
    yield from some(
        of,
        "likeness.classes",
        [[], [pair, ["a"] * 16], [pair] * 16],
        [
            ([["a"]], ".0"),
            ([["a"] * 17], ".0"),
            ([pair] * 17, ""),
            ([["a", ""]], ".0.1"),
            ([["a", "x" * 254]], ".0.1"),
            ([["a", 1]], ".0.1"),
            (pair, ".0"),
        ],
    )
    for part in ("host", "fabric"):
        yield from choice(of, f"likeness.{part}.action", "Ignore", "Warn", "Require")
        yield from label_keys(of, f"likeness.{part}.labels")
    resources = ["cpu", "nvidia.com/gpu", "hugepages-2Mi", "a" * 317]
    yield from map_keys(of, "likeness.host.resources", resources, ["", " ", "-a", "a b", "a" * 318], "10%")
    yield from some(
        of,
        "likeness.host.resources",
        [{f"a{n}": "1%" for n in range(16)}],
        [({f"a{n}": "1%" for n in range(17)}, ""), ({"cpu": 10}, ".cpu"), ({"cpu": "10"}, ".cpu")],
    )
    yield from some(of, "likeness.fabric", [], [({"resources": {"cpu": "10%"}}, ".resources")])
    yield from amount(of, "memory.reserve")
    yield from percentage(of, "memory.headroom")
    yield from choice(of, "memory.onUnknown", "Allow", "Warn", "Deny")
    yield from _declared(of)
    yield from choice(of, "coupling.whenUnknown", "Synchronous", "Independent")
    yield from some(of, "coupling", [], [({"whenUnknown": "Serving"}, ".whenUnknown")])
    yield from choice(of, "room", "Require", "Prefer", "Ignore")
    yield from choice(of, "unknownNodes", "Withhold", "Deny")
    durations = ["5m", "90s", "1h30m", "1h1m1s", "0s", "999999h999999m999999s"]
    bad_durations = ["", "5", "5x", "5d", "1m1h", "-5m", "5 m", "1.5h", "1000000s", 5]
    yield from some(of, "staleAfter", durations, [(one, "") for one in bad_durations])
    for name in ("declare", "coupling", "model", "ignore", "allowMixed"):
        yield from switch(of, f"annotations.{name}")
    yield from some(of, "annotations", [], [({"declare_": True}, ".declare_")])
    yield from choice(of, "exceptions", "Forbidden", "Allowed")
    yield from switch(of, "configMaps")
    for name in ("ignoreImageTag", "terminationMessage"):
        yield from switch(of, f"evidence.{name}")
    queries = ["", "amd_gpu_used_vram * 1048576", "x" * 1024]
    yield from some(of, "evidence.query", queries, [("x" * 1025, ""), (1, "")])
    yield from choice(of, "messages.fleet", "Full", "Models", "None")
    yield from some(of, "language", ["en", "ko"], [("EN", ""), ("de", ""), (1, "")])
    yield from _taught(of)


def _declared(of: str) -> Iterator[Example]:
    good = {"match": {"image": "*"}, "fixed": "1Gi"}
    path = "memory.declared"
    for amounts in (*amount(of, "fixed"), *amount(of, "perSample")):
        below = amounts.field.removeprefix("spec.")
        yield Example(of, at(path, [good | amounts.spec]), f"spec.{path}.0.{below}" if below else "")
    yield from most(of, path, good, 128)
    yield from some(
        of,
        path,
        [
            [{"match": {"model": "*llama*", "image": ""}, "fixed": "1Gi"}],
            [{"match": {"args": {"--arch": "resnet50", "lr=": "*", "x" * 128: "x" * 512}}, "fixed": "1Gi"}],
            [{"match": {"image": "x" * 512, "model": "x" * 512}, "fixed": "1Gi"}],
            [{"match": {"args": {f"-{n}": "*" for n in range(16)}}, "fixed": "1Gi"}],
        ],
        [
            ([{"match": {}, "fixed": "1Gi"}], ".0.match"),
            ([{"match": {"image": "", "args": {}, "model": ""}, "fixed": "1Gi"}], ".0.match"),
            ([{"fixed": "1Gi"}], ".0.match"),
            ([{"match": {"image": "*"}}], ".0.fixed"),
            ([good | {"match": {"image": "x" * 513}}], ".0.match.image"),
            ([good | {"match": {"image": 1}}], ".0.match.image"),
            ([good | {"match": {"model": "x" * 513}}], ".0.match.model"),
            ([good | {"match": {"images": "*"}}], ".0.match.images"),
            ([good | {"match": {"args": ["--arch"]}}], ".0.match.args"),
            ([good | {"match": {"args": {"--lr": 0.1}}}], ".0.match.args.--lr"),
            ([good | {"match": {"args": {"--lr": "x" * 513}}}], ".0.match.args.--lr"),
            ([good | {"match": {"args": {"": "x"}}}], ".0.match.args"),
            ([good | {"match": {"args": {"--a b": "x"}}}], ".0.match.args"),
            ([good | {"match": {"args": {"x" * 129: "x"}}}], ".0.match.args"),
            ([good | {"match": {"args": {f"-{n}": "*" for n in range(17)}}}], ".0.match.args"),
            ([good | {"perDevice": "1Mi"}], ".0.perDevice"),
        ],
    )


def _taught(of: str) -> Iterator[Example]:
    def role(**changed: object) -> list[Json]:
        return [TAUGHT | {"roles": [ROLE | changed]}]

    def entry(**changed: object) -> list[Json]:
        return [{key: value for key, value in (TAUGHT | changed).items() if value is not LEFT_OUT}]

    def holds(**changed: object) -> list[Json]:
        held = {"at": "spec.template", "each": "One", "held": "Object"} | changed
        return entry(roles=LEFT_OUT, coupling=LEFT_OUT, children="Undecided", holds=[held])

    def by(**changed: object) -> list[Json]:
        return entry(coupling={"several": "Independent", "by": [{"at": "spec.mode"} | changed]})

    serving = {"roles": LEFT_OUT, "coupling": LEFT_OUT, "children": "Serving"}
    yield from some(
        of,
        "kinds",
        [
            [],
            [TAUGHT],
            entry(**serving),
            entry(roles=LEFT_OUT, runtime="spec.runtimeRef"),
            entry(group="", versions=[f"v{n}" for n in range(8)], kind="A" * 63, plural="a" * 63),
            entry(group="a" * 63 + "." + "b" * 63, only_with="example.com/train", suspend="", started="status.a"),
            entry(roles=[ROLE] * 32),
            [TAUGHT, TAUGHT | {"versions": ["v2"]}],
            role(each="One", name="worker"),
            role(most="scale.max", scales="scale.auto", pods=["scale.replicas", "replicas"], default=0),
            role(gang={"worker": "min"}, fixed=["head"], times=["spec.times"]),
            holds(),
            holds(held="Template", kind="Pod.v1."),
            by(there="Synchronous"),
            by(values={"a": "Synchronous"}),
            entry(groups={"labels": ["a"], "annotations": [], "total": "b"}, scripts=["spec.script"]),
        ],
        [
            ([TAUGHT, TAUGHT], ""),
            ([TAUGHT, entry(plural="others")[0]], ""),
            ([TAUGHT] * 33, ""),
            (entry(kind="Training Run"), ".0.kind"),
            (entry(kind="A" * 64), ".0.kind"),
            (entry(group="ml_example"), ".0.group"),
            (entry(group=".".join(["a" * 63] * 4)), ".0.group"),
            (entry(plural="TrainingRuns"), ".0.plural"),
            (entry(plurals="x"), ".0.plurals"),
            (entry(versions=[]), ".0.versions"),
            (entry(versions=["v1"] * 9), ".0.versions"),
            (entry(versions=["V1"]), ".0.versions.0"),
            (entry(versions=["v" * 64]), ".0.versions.0"),
            (entry(source=LEFT_OUT), ".0.source"),
            (entry(children="Others"), ".0.children"),
            (entry(children="Serving"), ".0"),
            (entry(holds=holds()[0]["holds"]), ".0"),
            (entry(runtime="spec.runtime"), ".0"),
            (entry(roles=LEFT_OUT), ".0"),
            (entry(coupling=LEFT_OUT), ".0.coupling"),
            (entry(**serving | {"coupling": {"several": "Synchronous"}}), ".0.coupling"),
            (entry(coupling={"several": "Maybe"}), ".0.coupling.several"),
            (entry(coupling={}), ".0.coupling.several"),
            (entry(template="Never"), ".0.template"),
            (entry(only_with="a b"), ".0.only_with"),
            (entry(suspend="spec.it's"), ".0.suspend"),
            (entry(started="status..a"), ".0.started"),
            (entry(scripts=["a b"]), ".0.scripts.0"),
            (entry(cluster_scoped="yes"), ".0.cluster_scoped"),
            (entry(roles=[ROLE] * 33), ".0.roles"),
            (entry(roles=[ROLE, {"each": "Item", "template": "pod"}]), ".0.roles.1.at"),
            (role(each="Items"), ".0.roles.0.each"),
            (role(each="One"), ".0.roles.0.name"),
            (role(name="worker"), ".0.roles.0.name"),
            (role(most="scale.max"), ".0.roles.0.most"),
            (role(template=5), ".0.roles.0.template"),
            (role(pods="scale.replicas"), ".0.roles.0.pods"),
            (role(pods=["scale..replicas"]), ".0.roles.0.pods.0"),
            (role(default=-1), ".0.roles.0.default"),
            (role(default="1"), ".0.roles.0.default"),
            (role(gang={"worker": "a b"}), ".0.roles.0.gang.worker"),
            (role(fixed=["a", 1]), ".0.roles.0.fixed.1"),
            (holds(held="Template"), ".0.holds.0.kind"),
            (holds(kind="Pod.v1."), ".0.holds.0.kind"),
            (holds(held="Template", kind="Pod"), ".0.holds.0.kind"),
            (holds(held="Whole"), ".0.holds.0.held"),
            (by(), ".0.coupling.by.0.values"),
            (by(there="Synchronous", values={"a": "Synchronous"}), ".0.coupling.by.0.values"),
            (by(values={"a": "Maybe"}), ".0.coupling.by.0.values.a"),
            (by(there="Maybe"), ".0.coupling.by.0.there"),
            (
                entry(coupling={"several": "Independent", "by": [{"at": "a", "there": "Synchronous"}] * 33}),
                ".0.coupling.by",
            ),
        ],
    )


def _pools() -> Iterator[Example]:
    of = "AcceleratorPool"
    yield Example(of, {})
    yield Example(of, {"nodeSelector": LEFT_OUT}, "spec.nodeSelector")
    yield Example(of, {"nodes": {}}, "spec.nodes")
    yield from selector(of, "nodeSelector")
    yield from whole(of, "order", -1_000_000_000, 1_000_000_000)
    yield from some(of, "modelLabel", [None, *LABEL_KEYS], [(key, "") for key in (*BAD_LABEL_KEYS, 1)])
    yield from selector(of, "allowed.namespaceSelector")
    yield from texts(of, "allowed.groups", 253)
    yield from most(of, "allowed.groups", "a", 64)
    yield from whole(of, "capacity.max", 0, 10_000_000)
    yield from some(of, "capacity", [{}, {"max": None}], [({"min": 1}, ".min")])
    taint = {"key": "a", "operator": "Exists"}
    yield from some(
        of,
        "inject.tolerations",
        [
            [],
            [taint | {"effect": effect} for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")],
            [{"operator": "Exists"}],
            [{"key": "a"}, {"key": "a", "value": "x" * 63}, {"key": "a", "operator": "Equal", "value": ""}],
        ],
        [
            ([{}], ".0.operator"),
            ([{"operator": "Equal", "value": "b"}], ".0.operator"),
            ([taint | {"value": "b"}], ".0.value"),
            ([{"key": "a", "value": "b c"}], ".0.value"),
            ([{"key": "a", "value": "x" * 64}], ".0.value"),
            ([taint | {"operator": "Lt"}], ".0.operator"),
            ([taint | {"effect": "Never"}], ".0.effect"),
            ([taint | {"tolerationSeconds": 5}], ".0.tolerationSeconds"),
            *(([taint | {"key": key}], ".0.key") for key in BAD_LABEL_KEYS),
        ],
    )
    yield from most(of, "inject.tolerations", taint, 16)
    for name, longest in (("queueName", 63), ("schedulerName", 253)):
        good = ["", "team-a", "a.b", "x" * longest]
        bad = ["A", "-a", "a b", "a/b", "x" * (longest + 1), 1]
        yield from some(of, f"inject.{name}", good, [(one, "") for one in bad])


def _exceptions() -> Iterator[Example]:
    of = "TrainingPolicyException"
    yield Example(of, {})
    for name in ("policies", "reason", "until"):
        yield Example(of, {name: LEFT_OUT}, f"spec.{name}")
    yield Example(of, {"untill": "2027-01-31T00:00:00Z"}, "spec.untill")
    yield from some(
        of,
        "policies",
        [["a", "a.b-c", "x" * 253]],
        [([], ""), ("a", ""), ([""], ".0"), (["A"], ".0"), (["a*"], ".0"), (["x" * 254], ".0")],
    )
    yield from most(of, "policies", "a", 64)
    yield from kinds_of_job(of, "match.kinds")
    yield from texts(of, "match.names", 253)
    yield from most(of, "match.names", "exp-*", 64)
    yield from codes(of, "codes")
    yield from some(of, "reason", ["x" * 1024, " why "], [("", ""), ("x" * 1025, ""), (" \n\t", ""), (1, "")])
    yield from moments(of, "until")


def moments(kind: str, path: str) -> Iterator[Example]:
    yield from some(kind, path, MOMENTS, [(one, "") for one in BAD_MOMENTS])


MOMENTS = ["2027-01-31T00:00:00Z", "2028-02-29T23:59:59.123456+09:00", "2999-12-31T00:00:00-23:59"]
BAD_MOMENTS = [
    "2027-01-31",
    "2027-02-29T00:00:00Z",
    "2027-13-01T00:00:00Z",
    "2027-01-31T24:00:00Z",
    "2027-01-31T00:00:60Z",
    "2027-01-31T00:00:00",
    "2027-01-31 00:00:00Z",
    "2027-01-31t00:00:00z",
    "1999-01-31T00:00:00Z",
    "2027-01-31T00:00:00+24:00",
    "tomorrow",
    "",
    20270131,
]


def _profiles() -> Iterator[Example]:
    of = "TrainingProfile"
    recipe = GOOD[of]["recipe"]
    yield Example(of, {})
    yield Example(of, {"recipe": LEFT_OUT}, "spec.recipe")
    yield Example(of, {"logs": ["a"]}, "spec.logs")
    for name in ("digest", "family"):
        yield Example(of, {"recipe": {name: recipe[name]}}, f"spec.recipe.{'family' if name == 'digest' else 'digest'}")
        for good in ("0" * 16, "f" * 64):
            yield Example(of, {"recipe": recipe | {name: good}})
        for bad in ("0" * 15, "f" * 65, "A" * 20, "g" * 20, "", 5):
            yield Example(of, {"recipe": recipe | {name: bad}}, f"spec.recipe.{name}")
    fields: list[tuple[str, list[Any], list[Any]]] = [
        ("microBatch", [1, 2**31], [0, 2**31 + 1, "8", 1.5]),
        ("allocator", ["Caching", "Preallocating", "Unknown"], ["Other", "caching", 1]),
    ]
    for field, taken, refused in fields:
        for value in taken:
            yield Example(of, {"recipe": recipe | {field: value}})
        for value in refused:
            yield Example(of, {"recipe": recipe | {field: value}}, f"spec.recipe.{field}")
    yield from some(of, "training.kind", ["PyTorchJob.kubeflow.org", "Pod"], [("", ""), ("a b", ""), (1, "")])
    for name in ("image", "trainer", "model"):
        yield from some(of, f"training.{name}", ["", "x" * 253], [("x" * 254, ""), (1, "")])
    yield from whole(of, "training.devices", 0, 10_000_000)
    yield from some(of, "policies", [[], ["a", "a.b-c"]], [("a", ""), (["A"], ".0"), (["x" * 254], ".0")])
    yield from most(of, "policies", "a", 16)
    yield from _observations(of)
    for name in ("models", "outOfMemory", "peak"):
        yield from some(of, f"summary.{name}", ["", "x" * 253], [("x" * 254, ""), (1, "")])
    yield from whole(of, "summary.runs", 0, 1_000_000_000)
    yield from moments(of, "summary.lastSeen")


def _observations(of: str) -> Iterator[Example]:
    seen: Json = {"product": "NVIDIA-H100-80GB-HBM3", "memory": "81559Mi", "lastSeen": "2027-01-31T00:00:00Z"}
    good = seen | {"runs": 1, "lastGood": "2027-01-31T00:00:00Z", "peak": "61234Mi", "imbalance": "25%"}
    out = {"at": "2027-01-31T00:00:00Z", "job": "llama"}
    full = [seen | {"product": f"model-{number}"} for number in range(17)]
    yield from some(
        of,
        "observations",
        [[], [seen], [good], [good | {"deviceOutOfMemory": out}], full[:16]],
        [(full, ""), ([seen, good], ""), ("a", ""), ([seen | {"log": "a"}], ".0.log")],
    )

    def one(field: str, taken: list[Any], refused: list[Any], part: Json = seen, below: str = "") -> Iterator[Example]:
        def made(value: object) -> list[Json]:
            return [seen | ({below: part | {field: value}} if below else part | {field: value})]

        place = f".0.{below}.{field}" if below else f".0.{field}"
        yield from some(
            of, "observations", [made(value) for value in taken], [(made(value), place) for value in refused]
        )

    yield from one("product", ["x" * 253], ["", "x" * 254, 1])
    yield from one("memory", ["0", "80Gi"], ["lots", "-1Gi", "1" * 101, 5])
    yield from one("peak", ["0", "80Gi"], ["lots", "-1Gi", "1" * 101, 5])
    yield from one("lastSeen", MOMENTS, BAD_MOMENTS)
    yield from one("runs", [0], [-1, 1_000_000_001, "1", 1.5])
    yield from one("lastGood", MOMENTS, BAD_MOMENTS, good)
    yield from one("lastGood", [], MOMENTS[:1])
    yield from some(of, "observations", [], [([seen | {"runs": 1}], ".0.lastGood")])
    yield from one("imbalance", ["0%", "9%", "99%", "100%"], ["101%", "1.5%", "-1%", "%", 10])
    for field, taken, refused in (
        ("at", MOMENTS, BAD_MOMENTS),
        ("job", ["x" * 253], ["", "x" * 254, 1]),
        ("inARow", [1, 1_000_000_000], [0, 1_000_000_001, "1"]),
    ):
        yield from one(field, taken, refused, out, "deviceOutOfMemory")


EXAMPLES = (*_policies(), *_pools(), *_exceptions(), *_profiles())
