"""Lines of log."""

import json
import logging

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from webhook.server.logs import configure_logs


def test_a_json_line_carries_message_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info")
    logging.getLogger("webhook.server").info("Pin Job.batch", extra={"facts": {"uid": "u-1", "codes": ["SST301"]}})

    line = json.loads(capsys.readouterr().err)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "webhook.server",
        "message": "Pin Job.batch",
        "uid": "u-1",
        "codes": ["SST301"],
    }


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_an_exception_is_told_with_its_traceback(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(log_format, "info")
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logging.getLogger("webhook").exception("review failed", extra={"facts": {"reference": "abc"}})

    told = capsys.readouterr().err
    assert "RuntimeError: broken" in told
    assert ("review failed reference=abc" in told) == (log_format == "text")
    assert log_format == "text" or told.count("\n") == 1


def test_kopf_is_quiet_unless_debugging(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text", "info")
    logging.getLogger("kopf.objects").info("Handler 'pin' succeeded.")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("level", "told"), [("info", False), ("debug", True)])
def test_what_is_no_http_is_told_only_when_debugging(
    level: str, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("json", level)
    for error in (BadHttpMessage("password=hunter2"), RuntimeError("ours")):
        try:
            raise error
        except (BadHttpMessage, RuntimeError):
            logging.getLogger("aiohttp.server").exception("Error handling request")
    lines = capsys.readouterr().err
    assert ("hunter2" in lines) == told
    assert "RuntimeError: ours" in lines
