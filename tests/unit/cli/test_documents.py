"""Documents out of files."""

import io
import json
from pathlib import Path

import pytest

from webhook.catalog.strict_yaml import YamlError, load_all
from webhook.cli.documents import STDIN, Document, Unreadable, parse_documents

HEAD = "apiVersion: v1\nkind: ConfigMap\n"
HELM = "a template that was not rendered (Helm): run `helm template` and check what it prints"
SOME_TEMPLATE = "a template that was not rendered: render it and check the result"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "input.yaml"


def read(file: Path, content: str | bytes) -> list[Document | Unreadable]:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(parse_documents(file))


def only(file: Path, content: str | bytes) -> dict[str, object]:
    (one,) = read(file, content)
    assert isinstance(one, Document), one
    return one.object


def fault(file: Path, content: str | bytes) -> str:
    (one,) = read(file, content)
    assert isinstance(one, Unreadable), one
    return str(one)


def test_each_document_of_a_file_is_named_by_its_place(file: Path) -> None:
    found = read(file, f"# first\n{HEAD}---\n# nothing here\n---\n{HEAD}")
    assert [one.source for one in found] == ["input.yaml#0", "input.yaml#2"]


def test_json_is_read_as_well(file: Path) -> None:
    assert only(file, json.dumps({"apiVersion": "v1", "kind": "Pod"}, indent="\t")) == {
        "apiVersion": "v1",
        "kind": "Pod",
    }


def test_a_list_is_taken_apart(file: Path) -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: batch/v1, kind: Job}\n- {apiVersion: v1, kind: Pod}\n"
    found = read(file, listed)
    assert [one.source for one in found] == ["input.yaml#0.items[0]", "input.yaml#0.items[1]"]
    assert [one.object["kind"] for one in found if isinstance(one, Document)] == ["Job", "Pod"]


def test_items_of_a_typed_list_get_its_kind_where_they_have_none(file: Path) -> None:
    assert only(file, "apiVersion: v1\nkind: NodeList\nitems:\n- metadata: {name: a}\n") == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
    }


def test_a_list_inside_a_list_is_taken_apart_too(file: Path) -> None:
    inner = "{apiVersion: v1, kind: PodList, items: [{}, {}]}"
    found = read(file, f"apiVersion: v1\nkind: List\nitems:\n- {inner}\n")
    assert [one.source for one in found] == ["input.yaml#0.items[0].items[0]", "input.yaml#0.items[0].items[1]"]


@pytest.mark.parametrize("items", ["", "items: null\n", "items: []\n"])
def test_an_empty_list_holds_nothing(file: Path, items: str) -> None:
    assert read(file, f"apiVersion: v1\nkind: List\n{items}") == []


def test_a_list_whose_items_are_no_list_is_an_error(file: Path) -> None:
    assert fault(file, "apiVersion: v1\nkind: List\nitems: 5\n") == "input.yaml#0: items: expected a list, got a number"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"{HEAD}a: [\n", "input.yaml#0: line 4, column 1: did not find expected node content"),
        (f"{HEAD}\tb: 1\n", "input.yaml#0: line 3, column 1: found a tab character that violates indentation"),
        (f"{HEAD}a: 1\na: 2\n", 'input.yaml#0: line 4, column 1: key "a" comes twice'),
        (f"{HEAD}? [a]\n: 1\n", "input.yaml#0: line 3, column 3: expected a plain key"),
        (f"{HEAD}a: {{<<: {{[b]: 1}}}}\n", "input.yaml#0: line 3, column 10: expected a plain key"),
        (f"{HEAD}a: *b\n", "input.yaml#0: line 3, column 4: found undefined alias"),
        (f"{HEAD}a: &a [*a]\n", "input.yaml#0: line 3, column 4: found unconstructable recursive node"),
        (f"{HEAD}a: {'9' * 5000}\n", "input.yaml#0: line 3, column 4: not a number"),
        (f'{HEAD}a: !!int ""\n', "input.yaml#0: line 3, column 4: not a number"),
        (f"{HEAD}a: !!bool maybe\n", "input.yaml#0: line 3, column 4: not a boolean"),
        (f"{HEAD}a: !!map 5\n", "input.yaml#0: line 3, column 4: not a map"),
        (
            f"{HEAD}a: !!binary aGVsbG8=\n",
            "input.yaml#0: line 3, column 4: could not determine a constructor for the tag 'tag:yaml.org,2002:binary'",
        ),
        (f"{HEAD}a: {'[' * 5000}\n", "input.yaml#0: line 3, column 1003: exceeded maximum nesting depth"),
        (f"{HEAD}a: {'[' * 900}{']' * 900}\n", "input.yaml#0: nested too deeply"),
        (
            "metadata:\n  name: {{ .Release.Name }}-x\n",
            f"input.yaml#0: line 2, column 28: did not find expected key ({HELM})",
        ),
        (
            "metadata: {name: {{ name }}}\n",
            f"input.yaml#0: line 1, column 19: expected a plain key ({SOME_TEMPLATE})",
        ),
        ("- a\n", "input.yaml#0: expected a Kubernetes object, got a list"),
        ("just words\n", 'input.yaml#0: expected a Kubernetes object, got "just words"'),
        ("kind: Pod\n", "input.yaml#0: apiVersion: expected a string, got nothing"),
        ("apiVersion: v1\nkind: 7\n", "input.yaml#0: kind: expected a string, got a number"),
        ("apiVersion: v1\nkind: ''\n", 'input.yaml#0: kind: expected a string, got ""'),
        (
            "apiVersion: v1\nkind: List\nitems: [null]\n",
            "input.yaml#0.items[0]: expected a Kubernetes object, got nothing",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(file: Path, content: str, said: str) -> None:
    assert fault(file, content) == said


def test_what_stands_before_a_fault_is_kept_and_what_comes_after_it_is_not_guessed(file: Path) -> None:
    first, second = read(file, f"{HEAD}---\na: [\n---\n{HEAD}")
    assert isinstance(first, Document)
    assert isinstance(second, Unreadable)
    assert second.source == "input.yaml#1"


def test_a_document_that_is_no_object_does_not_hide_the_next(file: Path) -> None:
    first, second = read(file, f"- a\n---\n{HEAD}")
    assert isinstance(first, Unreadable)
    assert isinstance(second, Document)


def test_dates_stay_text(file: Path) -> None:
    found = only(file, f"{HEAD}at: 2026-01-01T00:00:00Z\nday: 2026-01-01\n")
    assert (found["at"], found["day"]) == ("2026-01-01T00:00:00Z", "2026-01-01")


def test_keys_are_text_whatever_they_look_like(file: Path) -> None:
    assert only(file, f"{HEAD}data: {{1: a, true: b, null: c, 1.50: d}}\n")["data"] == {
        "1": "a",
        "true": "b",
        "null": "c",
        "1.50": "d",
    }


def test_a_merge_may_be_overridden(file: Path) -> None:
    found = only(file, f"{HEAD}base: &base {{a: 1, b: 1}}\ndata: {{<<: *base, b: 2}}\n")
    assert found["data"] == {"a": 1, "b": 2}


def test_an_equals_sign_is_text(file: Path) -> None:
    assert only(file, f"{HEAD}a: =\n")["a"] == "="


def test_an_empty_file_holds_nothing(file: Path) -> None:
    assert read(file, "") == []
    assert read(file, "---\n# only a comment\n") == []


def test_a_binary_file_is_told_as_one(file: Path) -> None:
    assert fault(file, b"\x89PNG\r\n\x1a\n") == "input.yaml: not UTF-8 text (byte 0)"
    assert fault(file, b"a\x00b").startswith("input.yaml#0: unacceptable character #x0000")


def test_a_file_that_cannot_be_opened_is_told_by_name(tmp_path: Path) -> None:
    missing, folder = list(parse_documents(tmp_path / "none.yaml")), list(parse_documents(tmp_path))
    assert [str(one) for one in missing] == ["none.yaml: No such file or directory"]
    assert [str(one) for one in folder] == [f"{tmp_path.name}: Is a directory"]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(HEAD.encode())))
    assert [one.source for one in parse_documents(STDIN)] == ["stdin#0"]


def test_standard_input_of_another_encoding_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    latin = io.TextIOWrapper(io.BytesIO(f"{HEAD}a: é".encode("latin-1")), "utf-8", errors="surrogateescape")
    monkeypatch.setattr("sys.stdin", latin)
    assert [str(one) for one in parse_documents(STDIN)] == ["stdin: not UTF-8 text (byte 34)"]


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFFF", "\\udc00\\ud800", "\\ud83d\\ude00\\ud83d", "\\\\\\ud800"])
def test_half_a_character_in_json_is_told_with_its_place(file: Path, half: str) -> None:
    told = fault(file, f'{{"apiVersion": "v1",\n "kind": "Pod",\n "a": "{half}"}}')
    assert told.startswith("input.yaml#0: line 3, column ")
    assert told.endswith("), which is no character")


def test_the_place_of_half_a_character_is_that_of_its_escape(file: Path) -> None:
    told = fault(file, '{"apiVersion": "v1",\n "kind": "Pod", "\\ud83d\\ude00\\ud800": 1}')
    assert told == "input.yaml#0: line 2, column 30: half of a surrogate pair (\\ud800), which is no character"


def test_half_a_character_in_yaml_is_told_with_its_place(file: Path) -> None:
    assert fault(file, f'{HEAD}a: "\\ud800"\n').startswith("input.yaml#0: line 3, column ")


def test_a_character_of_two_escapes_is_one_and_an_escaped_backslash_begins_none(file: Path) -> None:
    found = only(file, '{"apiVersion": "v1", "kind": "Pod", "a": "\\ud83d\\uDE00", "b": "\\\\ud800"}')
    assert (found["a"], found["b"]) == ("\N{GRINNING FACE}", "\\ud800")


def test_half_a_character_in_a_text_is_told_with_its_place() -> None:
    with pytest.raises(YamlError, match="line 2, column 4: half of a surrogate pair, which is no character"):
        list(load_all("a: 1\nb: \ud800\n"))
