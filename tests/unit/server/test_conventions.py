"""Metrics as Prometheus would have them (prometheus.io/docs/practices/naming), and what a line of log names."""

import json
import re

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.samples import pytorchjob
from tests.unit.server.conftest import Serve, Serving, admission_review
from webhook.server.logs import configure_logs

_UNITS = ("_seconds", "_bytes", "_ratio")
_OF_ONE = re.compile(r"(^|_)(job|jobs|user|users|namespace|pod|pods|node|name|uid|image|path|address|ip|reason)$")
"""Labels whose values have no end: each job, user or namespace would make series of its own."""


async def families(serving: Serving) -> list[Metric]:
    for obj in (None, pytorchjob(memory_per_device="400Gi"), {"spec": "?"}):
        for stage in ("pin", "check"):
            await serving.post(f"/admit/{stage}", admission_review(obj))
    text = await serving.scrape()
    found = [one for one in text_string_to_metric_families(text) if not one.name.endswith("_created")]
    assert len(found) > 10
    return found


async def test_every_metric_is_ours_has_a_help_text_and_a_type(serve: Serve) -> None:
    for one in await families(await serve()):
        assert one.name.startswith("samestep_"), one.name
        assert re.fullmatch(r"[a-z][a-z0-9_]*", one.name), one.name
        assert one.documentation.rstrip().endswith("."), one.name
        assert one.type in ("counter", "gauge", "histogram"), one.name


async def test_names_say_what_they_count_and_in_which_unit(serve: Serve) -> None:
    """Base units alone; a counter's samples end in _total and a histogram is of something with a unit."""
    for one in await families(await serve()):
        # The parser of the text format takes `_total` off the name of a counter, as OpenMetrics names it.
        assert not one.name.endswith("_total"), one.name
        assert not re.search(r"(milli|micro|nano|kilo|mega|_mib|_gib|_ms|minutes|hours)", one.name), one.name
        if one.type == "counter":
            assert {sample.name for sample in one.samples if not sample.name.endswith("_created")} <= {
                f"{one.name}_total"
            }
        if one.type == "histogram":
            assert one.name.endswith(_UNITS), one.name
            assert {sample.name.removeprefix(one.name) for sample in one.samples} <= {
                *("_bucket", "_sum", "_count", "_created")
            }


async def test_no_label_names_a_job_a_user_or_a_namespace(serve: Serve) -> None:
    found = await families(await serve())
    for one in found:
        for sample in one.samples:
            assert not any(_OF_ONE.search(label) for label in sample.labels), one.name
    told = {value for one in found for sample in one.samples for value in sample.labels.values()}
    # What the requests above are of.
    assert told.isdisjoint({"ddp", "team-a", "ada", "dev", "0b4f8f4c-1"})


async def test_requests_that_differ_make_no_series_of_their_own(serve: Serve) -> None:
    serving = await serve()
    await families(serving)
    before = await serving.scrape()
    for number in range(5):
        changes: dict[str, object] = {"namespace": f"team-{number}", "userInfo": {"username": f"user-{number}"}}
        await serving.post("/admit/pin", admission_review(pytorchjob(name=f"job-{number}"), **changes))
    after = await serving.scrape()
    assert [line.rpartition(" ")[0] for line in before.splitlines()] == [
        line.rpartition(" ")[0] for line in after.splitlines()
    ]


@pytest.mark.parametrize("stage", ["pin", "check"])
async def test_a_json_line_of_a_review_carries_its_uid(
    serve: Serve, stage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    serving = await serve()
    configure_logs("json", "info")
    await serving.post(f"/admit/{stage}", admission_review(uid="a-uid-of-its-own"))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    told = [one for one in lines if one.get("uid") == "a-uid-of-its-own"]
    assert [one["stage"] for one in told] == [{"pin": "Mutate", "check": "Validate"}[stage]]
