"""Any bytes at all in a policy file: no exception, no hang, and the good documents beside them count."""

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.policy_examples import GOOD, head
from tests.properties.test_any_json import ANY
from tests.samples import Json
from webhook.policy.load import Loaded, load
from webhook.policy.objects import key_of

SCHEMAS = Path(__file__).parents[2] / "schemas"
KINDS = ("TrainingPolicy", "AcceleratorPool", "TrainingPolicyException", "Accelerator")
MOST_S = 10
FRAGMENTS = st.sampled_from(
    (
        "a: &a [x, *a]\n",
        "&a *a",
        "a: &a {<<: *a}\n",
        "<<: [*a, *b]\n",
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n",
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
        "---\n",
        "--- ",
        "...\n",
        "%YAML 1.1\n",
        "%TAG ! tag:x,2002:\n",
        "!!python/object/apply:os.system [x]\n",
        "!!binary x",
        "!!set {a, b}\n",
        "? [a, b]\n: c\n",
        "{" * 100,
        "[" * 1500,
        "- " * 1500,
        "a: " + "9" * 5000 + "\n",
        "a: 0x\n",
        "a: .inf\n",
        "a: '\\ud800'\n",
        'a: "\\ud800"\n',
        "\ufeff",
        "\x85\u2028",
        "\x00",
        "\t",
        "a: |\n  text\n",
        "a: >\n",
        "apiVersion: samestep.dev/v1alpha1\n",
        "kind: TrainingPolicy\n",
        "kind: List\nitems:\n- ",
        "metadata: {name: a}\n",
        "metadata: {name: a, name: b}\n",
        "spec: {}\n",
    )
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=20), max_size=12).map("".join)
BYTES = st.one_of(
    st.binary(max_size=200),
    TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.tuples(TEXTS, st.binary(max_size=4), TEXTS).map(lambda parts: parts[0].encode() + parts[1] + parts[2].encode()),
)


def from_schema(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the schema takes, or nearly: lengths and patterns are only tried for."""
    if "$ref" in schema:
        return from_schema(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of(*(from_schema(one, defs) for one in schema["anyOf"]))
    match schema.get("type"):
        case "object" if "properties" in schema:
            fields = {name: wrong_at_times(from_schema(one, defs)) for name, one in schema["properties"].items()}
            wanted = set(schema.get("required", ()))
            # A few at a time: of all fields at once, one is wrong nearly always.
            others = st.lists(st.sampled_from(sorted(fields)), max_size=2)
            return others.flatmap(lambda also: st.fixed_dictionaries({name: fields[name] for name in wanted | {*also}}))
        case "object":
            values = from_schema(schema["additionalProperties"], defs) if "additionalProperties" in schema else ANY
            return st.dictionaries(st.sampled_from(("a", "gpu-type", "--lr", "x/y", "")), values, max_size=2)
        case "array":
            least = schema.get("minItems", 0)
            return st.lists(from_schema(schema["items"], defs), min_size=least, max_size=max(least, 2))
        case "string":
            return texts(schema)
        case "integer" | "number":
            return st.integers(schema.get("minimum", -5), schema.get("maximum", 5))
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    return ANY


def texts(schema: Mapping[str, Any]) -> st.SearchStrategy[str]:
    likely = st.sampled_from(("a", "Job.batch", "640Mi", "5%", "5m", "2027-01-31T00:00:00Z", "object.a == 1", "NVIDIA"))
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True).filter(lambda text: len(text) < 60) | likely
    return likely | st.text(max_size=10)


def wrong_at_times(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 39).flatmap(lambda chance: ANY if chance == 23 else right)


def documents(kind: str) -> st.SearchStrategy[Json]:
    schema = json.loads((SCHEMAS / f"{kind.lower()}_v1alpha1.json").read_text())
    return from_schema({**schema, "required": [*schema["required"], "spec"]}, schema.get("$defs", {}))


DOCUMENTS = st.one_of(*map(documents, KINDS))


def named(kind: str, name: str) -> Json:
    spec = GOOD.get(kind, {"product": name, "vendor": "nvidia", "source": "a test"})
    written = head(kind)
    return {**written, "metadata": {**written["metadata"], "name": name}, "spec": spec}


def loaded(files: Mapping[str, bytes]) -> Loaded:
    """Twice, the second time on top of the first, which changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        started = time.monotonic()
        first = load(Path(folder))
        assert time.monotonic() - started < MOST_S
        assert load(Path(folder), first).rules.policies == first.rules.policies
        for fault in first.faults:
            # Lines end in more ways in YAML than with a line feed.
            assert 0 <= fault.line <= len(files[Path(fault.file).name]) + 1
            assert fault.column >= 0
            assert "\n" not in str(fault)
            assert str(fault).encode()
    return first


@given(BYTES)
@example(b"\xff\xfe" + "kind: a".encode("utf-16-le"))
@example(b"{" + b'"a":' * 2000)
@example(b"- &a x\n" + b"- *a\n" * 60_000)
def test_any_bytes_cost_only_their_own_file(content: bytes) -> None:
    files = {"a.yaml": content, "b.yaml": yaml.safe_dump(named("TrainingPolicy", "good")).encode()}
    assert "good" in {one.name for one in loaded(files).rules.policies}


@given(TEXTS)
def test_any_text_costs_only_its_own_document(text: str) -> None:
    around = [yaml.safe_dump(named("TrainingPolicy", name)) for name in ("first", "last")]
    content = f"{around[0]}---\n{text}\n---\n{around[1]}".encode()
    found = loaded({"a.yaml": content})
    assert {"first", "last"} <= {one.name for one in found.rules.policies}


@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_what_counts_of_several_is_what_counts_of_each_alone(several: list[Json]) -> None:
    keys = [key_of(one) for one in several]
    apart = [one for index, one in enumerate(several) if keys[index] not in keys[:index]]
    # What a catalog takes depends on what it has taken.
    apart = [one for one in apart if one.get("kind") != "Accelerator"]
    together = loaded({"all.yaml": yaml.safe_dump_all(apart, allow_unicode=True).encode()})
    alone = [loaded({"all.yaml": yaml.safe_dump(one, allow_unicode=True).encode()}) for one in apart]
    assert together.read.keys() == {key for one in alone for key in one.read}
    assert len(together.faults) == sum(len(one.faults) for one in alone)


@given(DOCUMENTS)
def test_a_document_counts_or_is_told_and_json_is_read_as_yaml_is(one: Json) -> None:
    as_yaml = loaded({"a.yaml": yaml.safe_dump(one, allow_unicode=True, sort_keys=False).encode()})
    as_json = loaded({"a.yaml": json.dumps(one, indent="\t").encode()})
    assert bool(as_yaml.read) != bool(as_yaml.faults)
    assert as_yaml.rules == as_json.rules
    told = [sorted((fault.field, fault.message) for fault in one.faults) for one in (as_yaml, as_json)]
    assert told[0] == told[1]


def test_documents_of_every_kind_count_together() -> None:
    written = yaml.safe_dump_all([named(kind, "one") for kind in KINDS]).encode()
    found = loaded({"a.yaml": written})
    assert (sorted(key.kind for key in found.read), found.faults) == (sorted(KINDS), ())
