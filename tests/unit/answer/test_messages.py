"""What people read, word for word. After a change of a text: `pytest --snapshot-update`, and read the difference."""

import re
from dataclasses import replace
from pathlib import Path
from string import Formatter

import pytest
import yaml
from click.testing import CliRunner
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from tests.samples import ask, job, pod, pytorchjob
from tests.unit.answer.cases import DENIALS, EVERY, TWO_TO_ONE, WARNINGS, ddp, every_finding, on_many_models, told_in
from tests.unit.answer.terminal import printed
from webhook.answer.document import document
from webhook.answer.message import message
from webhook.answer.response import admission_response
from webhook.answer.texts import texts
from webhook.answer.warnings import warnings
from webhook.answer.wording import sentence
from webhook.catalog.codes import codes
from webhook.cli import main
from webhook.model.finding import Action, Finding
from webhook.model.policy import FleetShown, Language
from webhook.model.verdict import Review, Verdict

MODELS = ("RTX-5090", "RTX-PRO-6000", "Made-Up", "A100", "Blackwell")


def action(key: str) -> Action:
    code, _, variant = key.partition("/")
    return codes()[code].action if variant in ("", "mixed") else Action.WARN


each_denial = pytest.mark.parametrize("name", list(DENIALS))
each_warning = pytest.mark.parametrize("name", list(WARNINGS))
each_language = pytest.mark.parametrize("language", list(Language))


@each_language
@each_denial
def test_a_denial_reads_like_this(name: str, language: Language, snapshot: SnapshotAssertion) -> None:
    assert lines(message(told_in(DENIALS[name], language))) == snapshot


@each_language
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", list(EVERY))
def test_a_terminal_shows_it_like_this(
    name: str, columns: int, language: Language, snapshot: SnapshotAssertion
) -> None:
    shown = printed(told_in(EVERY[name], language), columns)
    assert all(cell_len(row) <= columns for row in shown)
    assert shown == snapshot


@each_language
@each_denial
def test_a_denial_fits_where_it_is_printed(name: str, language: Language) -> None:
    text = message(told_in(DENIALS[name], language))
    first, *_, last = text.splitlines()
    assert len(text.encode()) < 1000
    assert len(first) < 250
    assert last.startswith(texts(language)["end"].format(policy="one-model-per-job", code=first.split()[0]))
    assert [line for line in text.splitlines() if not line.isprintable() or line != line.rstrip()] == []


@each_language
@each_denial
def test_a_table_breaks_nowhere_but_in_its_last_column(name: str, language: Language) -> None:
    """At 80 columns; at 120 it does not break at all."""
    text = message(told_in(DENIALS[name], language))
    header = next((line for line in text.splitlines() if line.startswith("  ") and "  " in line.strip()), "")
    rows = [line for line in text.splitlines() if line.startswith("  ") and not line.startswith("  - ")]
    assert cell_len(header[: header.find(texts(language)["table"]["header"][-1])]) <= 80
    assert [row for row in rows if cell_len(row) > 120] == []


@each_language
def test_a_table_is_aligned_in_columns_of_the_terminal(language: Language) -> None:
    outcome = told_in(DENIALS["memory and room, the design's example"], language)
    header, *rows = (line for line in message(outcome).splitlines() if re.match(r"  \S", line) and "  - " not in line)
    title = texts(language)["table"]["header"][-1]
    start = cell_len(header[: header.index(title)])
    assert len(rows) == 2
    for row in rows:
        before = _cells(row, start)
        assert before.endswith("  "), row
        assert not row.removeprefix(before).startswith(" "), row


def _cells(row: str, columns: int) -> str:
    """The beginning of a row that takes so many columns."""
    return next(row[:end] for end in range(len(row) + 1) if cell_len(row[:end]) == columns)


@each_denial
def test_a_denial_is_answered_as_forbidden_with_a_cause_for_each_finding(name: str) -> None:
    outcome = DENIALS[name]
    response = admission_response(outcome)
    assert (response["allowed"], response["status"]["code"], response["status"]["reason"]) == (False, 403, "Forbidden")
    causes = response["status"]["details"]["causes"]
    assert sorted(one["reason"] for one in causes) == sorted(one.code for one in outcome.decision.findings)
    assert causes[0]["reason"] == message(outcome).split()[0]
    assert all(one["message"] and one["field"].startswith(("spec.", "metadata.")) for one in causes)
    assert not {"patch", "patchType", "warnings"} & set(response)


@each_language
@each_warning
def test_a_warning_fits_into_its_header(name: str, language: Language) -> None:
    outcome = told_in(WARNINGS[name], language)
    told = warnings(outcome)
    assert outcome.verdict is not Verdict.DENY
    assert 1 <= len(told) <= 3
    assert [line for line in told if cell_len(line) > 120 or "…" in line or not line.isprintable()] == []


@each_language
@pytest.mark.parametrize("shown", list(FleetShown))
def test_every_text_of_a_finding_reads_like_this(
    shown: FleetShown, language: Language, snapshot: SnapshotAssertion
) -> None:
    outcome = told_in(DENIALS["memory and room, the design's example"], language, shown)
    told = {key: sentence(one, outcome) for key, one in every_finding().items()}
    assert told == snapshot


@each_language
@pytest.mark.parametrize("key", [key for key in texts()["findings"] if action(key) is not Action.DENY])
def test_every_text_of_a_warning_fits_into_its_header(key: str, language: Language) -> None:
    outcome = told_in(DENIALS["memory and room, the design's example"], language)
    line = f"SST000 {sentence(every_finding()[key], outcome)}"
    assert cell_len(line) <= 120, line


def test_a_name_cannot_break_a_line_of_anybodys_terminal_or_log() -> None:
    outcome = ask(pytorchjob(name="a\x1b[31m\nb\u2028c", memory_per_device="120Gi"))
    assert "that a [31m b c may use has that" in message(outcome).splitlines()[0]


def test_a_wide_warning_is_cut_between_characters_at_120_columns() -> None:
    wide = Finding("SST303", facts={"models": "가" * 100})
    (line,) = warnings(told_in(replace_findings(WARNINGS["child"], wide), Language.KO))
    assert 118 < cell_len(line) <= 120
    assert line.endswith("가…")


def replace_findings(outcome: Review, *findings: Finding) -> Review:
    return replace(outcome, decision=replace(outcome.decision, findings=findings))


def test_warnings_stand_in_their_order_and_others_are_for_the_audit_alone() -> None:
    ordered = ("SST301", "SST202", "SST401/packing", "SST403/pin", "SST101/annotation", "SST303")
    known = every_finding()
    findings = [replace(known[key], action=Action.WARN) for key in reversed(ordered)]
    audited = [Finding(code, action=Action.WARN) for code in ("SST701", "SST902")]
    for first in range(len(ordered)):
        some = [*audited, *findings[: len(ordered) - first]]
        told = [line.split()[0] for line in warnings(replace_findings(WARNINGS["pinned"], *some))]
        assert told == [key.partition("/")[0] for key in ordered[first : first + 3]]


@each_language
@pytest.mark.parametrize("name", list(EVERY))
def test_where_the_policy_shows_nothing_of_the_fleet_no_model_of_it_is_named(name: str, language: Language) -> None:
    outcome = told_in(EVERY[name], language, FleetShown.NONE)
    response = admission_response(outcome)
    told = [*response.get("warnings", ()), *_strings(response.get("status", {}))]
    own = str(outcome.request.object)
    assert [line for line in told for model in MODELS if model in line and model not in own] == []


def _strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in _strings(one)]
    return [str(value)]


def test_every_text_that_tells_of_the_fleet_has_one_that_does_not() -> None:
    fleet = {"models", "model", "slow", "fast", "nodes", "there", "free", "usable", "memory", "percent", "values"}
    fleet |= {"pool", "pools"}
    for language in Language:
        words = texts(language)
        telling = {key for key, text in words["findings"].items() if fleet & placeholders(text)}
        assert telling == set(words["hidden"])
        assert [text for text in words["hidden"].values() if fleet & placeholders(text)] == []


def test_a_policy_that_shows_all_tells_of_the_nodes_beside_the_candidates() -> None:
    outcome = DENIALS["room"]
    pool = replace(outcome.decision.pool, unknown_nodes=2, share_nodes=1)
    beside = replace(outcome, decision=replace(outcome.decision, pool=pool))
    line = "  nodes beside these: 2 of unknown model, 0 with two models, 1 with shares only"
    assert line in message(told_in(beside, Language.EN, FleetShown.FULL)).splitlines()
    assert line not in message(told_in(beside, Language.EN)).splitlines()
    assert message(told_in(outcome, Language.EN, FleetShown.FULL)) == message(outcome)


def test_a_long_message_names_fewer_models_before_it_grows_too_long_for_an_event() -> None:
    outcome = told_in(on_many_models(), Language.KO)
    long = replace(outcome, policy=replace(outcome.policy, name="정책" * 60))
    assert len(message(long).encode()) < 1000
    rows = [sum("Made-Up" in line for line in message(one).splitlines()) for one in (outcome, long)]
    assert rows[0] > rows[1] >= 2


def test_every_text_belongs_to_a_code() -> None:
    assert {key.partition("/")[0] for key in texts()["findings"]} <= set(codes())


def test_every_language_has_the_same_texts_with_the_same_placeholders() -> None:
    english = flat(texts(Language.EN))
    for language in Language:
        assert {key: placeholders(text) for key, text in flat(texts(language)).items()} == {
            key: placeholders(text) for key, text in english.items()
        }


def test_no_particle_that_depends_on_the_sound_before_it_stands_behind_a_placeholder() -> None:
    particle = re.compile(r"[}\]](은|는|이|가|을|를|과|와|으로|로|이나|나|이라|라)(?![가-힣])")
    found = [text for text in flat(texts(Language.KO)).values() if particle.search(text) and "{room}가" not in text]
    assert found == []
    # What stands there ends in a vowel, whether it is empty or not.
    assert texts(Language.KO)["room"].endswith("자리")
    assert "이 메모리{room}가" in texts(Language.KO)["findings"]["SST201"]


def flat(words: object, place: str = "") -> dict[str, str]:
    if isinstance(words, dict):
        return {key: text for name, one in words.items() for key, text in flat(one, f"{place}.{name}").items()}
    if isinstance(words, list):
        return {key: text for at, one in enumerate(words) for key, text in flat(one, f"{place}.{at}").items()}
    return {place: str(words)}


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_programs_read_the_language_of_the_review() -> None:
    outcome = told_in(DENIALS["memory and room, the design's example"], Language.KO)
    told = document(outcome, "ddp.yaml#0")
    assert told["findings"][0]["message"].startswith("메모리 부족: micro-batch 64 기준")
    assert "(global batch 유지)" in told["suggestions"][0]["change"]
    assert admission_response(outcome)["status"]["details"]["causes"][0]["message"] == told["findings"][0]["message"]


def test_check_prints_what_the_submitter_reads_and_what_changes(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump_all(TWO_TO_ONE))
    single = job(pod(gpus=1), pods=1, name="single")
    jobs = [
        ddp("--per_device_train_batch_size", "64"),
        ddp("--per_device_train_batch_size", "64", workers=4, name="ddp-half"),
        ddp("--per_device_train_batch_size", "32", "--gradient_accumulation_steps", "2", name="ddp-accumulating"),
        single,
        {
            "apiVersion": "example.com/v1",
            "kind": "Trainer",
            "metadata": {"name": "x"},
            "spec": pod(),
        },
    ]
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump_all(jobs))
    command = ["check", "-f", str(tmp_path / "jobs.yaml"), "--fleet", str(tmp_path / "nodes.yaml")]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert lines(result.stdout) == snapshot


def lines(text: str) -> list[str]:
    """As a list, so that the snapshot shows blank lines and trailing spaces."""
    return text.splitlines()
