"""`samestep explain`: every code that a person may meet."""

import re
from importlib.resources import files

import pytest
import yaml
from click.testing import CliRunner, Result

from webhook.catalog.codes import codes
from webhook.cli import main
from webhook.model.policy import Language


def explain(*words: str) -> Result:
    return CliRunner().invoke(main, ["explain", *words])


@pytest.mark.parametrize("code", list(codes()))
def test_every_code_says_what_it_means_and_what_to_do(code: str) -> None:
    result = explain(code)
    assert result.exit_code == 0
    title, _, text = result.stdout.partition("\n")
    assert title == f"# {code}: {codes()[code].title}"
    meaning, _, rest = text.partition("## What to do")
    way_out, _, tune = rest.partition("## For policy authors")
    assert codes()[code].meaning.strip() in meaning
    assert codes()[code].way_out.strip() in way_out
    assert codes()[code].tune.strip() in tune
    assert f"```text\n{code} " in meaning or code.startswith("SST9")


@pytest.mark.parametrize("code", list(codes()))
def test_every_code_says_the_same_in_korean(code: str) -> None:
    result = explain(code, "--lang", "ko")
    assert result.exit_code == 0
    title, *_ = result.stdout.splitlines()
    said = codes(Language.KO)[code]
    assert title == f"# {code}: {said.title}"
    for words in (said.title, said.meaning, said.way_out, said.tune):
        assert re.search("[가-힣]", words), words
    assert re.findall(r"```text\n(SST\d+)", result.stdout) == ([] if code.startswith("SST9") else [code])
    assert said.action is codes()[code].action


def test_the_korean_texts_are_of_codes_that_there_are() -> None:
    written = yaml.safe_load(files("webhook.catalog").joinpath("codes.ko.yaml").read_text("utf-8"))
    assert [one["code"] for one in written] == list(codes())


@pytest.mark.parametrize("code", list(codes()))
def test_texts_name_the_same_fields_and_annotations_in_every_language(code: str) -> None:
    english, korean = codes()[code], codes(Language.KO)[code]
    for said in ("meaning", "way_out", "tune"):
        named = [sorted(re.findall(r"`[^`]+`", getattr(one, said))) for one in (english, korean)]
        assert named[0] == named[1], said


def test_the_list_is_in_the_language_that_is_asked_for() -> None:
    assert "SST301  Warn  고정됨" in explain("--lang", "ko").stdout.splitlines()


def test_a_code_may_be_written_small() -> None:
    assert explain("sst201").stdout == explain("SST201").stdout


def test_without_a_code_all_are_listed_with_what_they_do() -> None:
    result = explain()
    assert result.exit_code == 0
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        [code, one.action] for code, one in codes().items()
    ]


def test_an_unknown_code_is_an_error_that_says_where_to_look() -> None:
    result = explain("SST999")
    assert result.exit_code == 2
    assert 'there is no code "SST999"; `samestep explain` lists them all' in result.stderr


def test_lack_of_room_says_that_a_collective_over_two_models_may_hang() -> None:
    # NVIDIA/nccl#794
    assert "hang" in explain("SST401").stdout
