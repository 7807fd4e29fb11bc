"""Questions to a Prometheus that is well, ill, or worse."""

import gzip
import math
from pathlib import Path

import pytest

from controlplane.rig import free_ports
from tests.unit.cluster.prometheus_server import FakePrometheus, prometheus
from webhook.cluster.prometheus import Endpoint, Outcome, Prometheus, PrometheusError
from webhook.evidence.questions import Question

QUESTION = Question('DCGM_FI_DEV_FB_USED{pod="a"}', 1000.5)


async def refused(fake: FakePrometheus, *, timeout_s: float = 5.0) -> PrometheusError:
    client = Prometheus(Endpoint(fake.url), timeout_s=timeout_s)
    with pytest.raises(PrometheusError) as caught:
        await client.ask(QUESTION)
    await client.close()
    return caught.value


async def test_an_answer_is_values_with_their_labels(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    async with prometheus() as fake:
        fake.answer = lambda _: [{"metric": {"pod": "a"}, "value": "20480"}, {"metric": {}, "value": "NaN"}]
        client = Prometheus(Endpoint(f"{fake.url}/", token))
        first, second = await client.ask(QUESTION)
        await client.close()
    assert (first.labels, first.value) == ({"pod": "a"}, 20480)
    assert math.isnan(second.value)
    assert fake.asked[0] == {"query": QUESTION.expression, "time": "1000.500", "timeout": "5s"}
    assert fake.authorization == ["Bearer secret"]


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (b"", Outcome.UNREADABLE),
        (b"<html>log in</html>", Outcome.UNREADABLE),
        (b"[" * 100_000, Outcome.UNREADABLE),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', Outcome.UNREADABLE),
        (b'{"status":"error","errorType":"bad_data","error":"parse\\nerror"}', Outcome.REFUSED),
        (b" " * (10 << 20), Outcome.TOO_LARGE),
        (gzip.compress(b" " * (10 << 20)), Outcome.UNREADABLE),
    ],
)
async def test_an_answer_that_is_none_is_refused(body: bytes, outcome: Outcome) -> None:
    async with prometheus() as fake:
        fake.body = body
        if body[:2] == b"\x1f\x8b":
            fake.headers = {"Content-Encoding": "gzip"}
        assert (await refused(fake)).outcome is outcome


async def test_series_that_are_none_are_left_out() -> None:
    async with prometheus() as fake:
        series = b'[{"metric":{"pod":"a"},"value":[1,"7"]},{"metric":[],"value":[1,"7"]},7,{"value":[1,"7"]},null]'
        fake.body = b'{"status":"success","data":{"resultType":"vector","result":' + series + b"}}"
        client = Prometheus(Endpoint(fake.url))
        assert [one.value for one in await client.ask(QUESTION)] == [7]
        await client.close()


async def test_no_other_host_is_asked() -> None:
    async with prometheus() as other, prometheus() as fake:
        fake.status, fake.headers = 307, {"Location": f"{other.url}/api/v1/query"}
        assert (await refused(fake)).outcome is Outcome.REFUSED
        assert other.asked == []


async def test_a_slow_one_is_not_waited_for() -> None:
    async with prometheus() as fake:
        fake.delay_s = 5
        assert (await refused(fake, timeout_s=0.1)).outcome is Outcome.TIMEOUT


async def test_one_that_is_down_is_told_in_one_line() -> None:
    fake = FakePrometheus()
    fake.url = f"http://127.0.0.1:{free_ports(1)[0]}"
    error = await refused(fake)
    assert error.outcome is Outcome.UNREACHABLE
    assert "\n" not in str(error)


async def test_a_token_that_is_gone_is_no_crash(tmp_path: Path) -> None:
    client = Prometheus(Endpoint("http://127.0.0.1:1", tmp_path / "gone"))
    with pytest.raises(PrometheusError):
        await client.ask(QUESTION)


@pytest.mark.parametrize(
    "url", ["", "prometheus:9090", "ftp://a", "http://", "http://a?x=1", "http://a#b", "file:///a"]
)
def test_what_is_no_address_is_told(url: str) -> None:
    assert Endpoint(url).problem()


def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    assert not Endpoint("http://prometheus.monitoring:9090/prefix").problem()
    assert "no such file" in Endpoint("https://a", tmp_path / "gone").problem()
    (tmp_path / "ca").write_text("no certificate")
    assert "no certificates" in Endpoint("https://a", None, tmp_path / "ca").problem()
