"""Lines of log."""

import json
import logging

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from tests.dumps import PLANTED, planted
from tests.unit.server.conftest import Serve, admission_review
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


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_no_secret_of_an_object_is_logged(serve: Serve, level: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever becomes of it: decided, unreadable, no review at all, or no JSON."""
    secrets = [f"a-secret-{number}-of-the-team" for number in range(PLANTED)]
    made, pod, *_ = planted(iter(secrets))
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    of_pod = admission_review(pod, kind=kind, requestKind=kind, resource={**kind, "resource": "pods"})
    unreadable = admission_review({**made, "spec": {"pytorchReplicaSpecs": made["spec"]}})
    update = admission_review(made, operation="UPDATE", oldObject={**made, "spec": {}})
    serving = await serve()
    configure_logs("json", level)
    answers = [
        (await serving.post(f"/admit/{stage}", body))[0]
        for stage in ("pin", "check")
        for body in (
            *(admission_review(made), update, of_pod, unreadable),
            {"kind": "AdmissionReview", "request": made},
            json.dumps(made).encode()[:-9],
        )
    ]
    told = capsys.readouterr().err

    assert answers == [200, 200, 200, 200, 400, 400] * 2
    assert told.count('"verdict"') == 8
    assert not [one for one in secrets if one in told]
