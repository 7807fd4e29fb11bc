"""`samestep explain`: every code that a person may meet."""

import pytest
from click.testing import CliRunner, Result

from webhook.catalog.codes import codes
from webhook.cli import main


def explain(*words: str) -> Result:
    return CliRunner().invoke(main, ["explain", *words])


@pytest.mark.parametrize("code", list(codes()))
def test_every_code_says_what_it_means_and_what_to_do(code: str) -> None:
    result = explain(code)
    assert result.exit_code == 0
    title, _, text = result.stdout.partition("\n")
    assert title == f"# {code}: {codes()[code].title}"
    meaning, _, way_out = text.partition("## What to do")
    assert codes()[code].meaning.strip() in meaning
    assert codes()[code].way_out.strip() in way_out


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
