"""POST /admit/ID, over HTTPS and through kopf."""

import asyncio
import base64
import io
import json
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import jsonpatch
import pytest

from controlplane.nodes import RTX_5090, RTX_PRO_6000
from tests.profiles import known, profile, recipe
from tests.samples import Json, demo_nodes, fleet, job
from tests.unit.server.conftest import Asked, Serve, Serving, admission_review, kopf_fn
from webhook.cluster.handlers import Call, by_kopf, selected_by_kopf, without_kopf
from webhook.cluster.world import Worlds
from webhook.model.policy import PinWhen, Policy, ValidationAction
from webhook.model.profile import Observation, OutOfMemory
from webhook.model.request import Request, Stage
from webhook.model.rules import PolicyException, Rules
from webhook.model.verdict import Review, Verdict
from webhook.model.world import World
from webhook.review import review
from webhook.server.admission import Limits

PIN, CHECK = "/admit/pin", "/admit/check"
PASSES = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "response": {"uid": "0b4f8f4c-1", "allowed": True},
}


@pytest.fixture
async def serving(serve: Serve) -> Serving:
    return await serve()


async def test_a_job_in_a_mixed_pool_is_answered_with_a_patch_that_pins_it(serving: Serving) -> None:
    status, answer = await serving.post(PIN, admission_review())

    response = answer["response"]
    assert (status, response["uid"], response["allowed"]) == (200, "0b4f8f4c-1", True)
    operations = json.loads(base64.b64decode(response["patch"]))
    pinned = jsonpatch.apply_patch(job(), operations)
    assert pinned["spec"]["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": RTX_PRO_6000.product}


async def test_the_pinned_job_passes_the_check_without_a_patch(serving: Serving) -> None:
    _, answer = await serving.post(PIN, admission_review())
    pinned = jsonpatch.apply_patch(job(), json.loads(base64.b64decode(answer["response"]["patch"])))

    _, answer = await serving.post(CHECK, admission_review(pinned))

    assert answer["response"]["allowed"]
    assert "patch" not in answer["response"]


async def test_a_job_that_fits_no_model_is_forbidden_with_its_causes(serving: Serving) -> None:
    _, answer = await serving.post(PIN, admission_review(job(memory_per_device="200Gi")))

    response = answer["response"]
    assert not response["allowed"]
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    assert response["status"]["message"].startswith("SST201 ")
    assert response["status"]["details"]["causes"][0]["reason"] == "SST201"


async def test_each_answered_review_is_heard_and_no_other_request(serving: Serving) -> None:
    heard: list[Review] = []
    serving.admission.heard = heard.append
    await serving.post(PIN, admission_review())
    await serving.post(CHECK, admission_review(job(memory_per_device="200Gi")))
    await serving.post(PIN, admission_review(operation="DELETE", object=None, oldObject=job()))
    await serving.post(PIN, b"{}")

    assert [(one.request.stage, one.verdict) for one in heard] == [
        (Stage.MUTATE, Verdict.PIN),
        (Stage.VALIDATE, Verdict.DENY),
    ]


async def test_the_same_handlers_answer_without_kopf(serving: Serving) -> None:
    _, through_kopf = await serving.post(PIN, admission_review())
    serving.admission.decide = without_kopf()

    assert await serving.post(PIN, admission_review()) == (200, through_kopf)


@pytest.mark.parametrize("path", ["/", "/admit", "/admit/", "/admit/other", "/admit/pin/more", "/mutate/pin", "/pin"])
async def test_an_unknown_path_or_handler_is_not_found_and_never_an_admission(serving: Serving, path: str) -> None:
    status, answer = await serving.post(path, admission_review())

    assert status == 404
    assert "allowed" not in answer


async def test_admission_takes_nothing_but_post(serving: Serving) -> None:
    assert (await serving.get(PIN))[0] == 405


@pytest.mark.parametrize(
    "changes",
    [
        {"operation": "DELETE", "object": None, "oldObject": job()},
        {"operation": "CONNECT", "object": {}},
        {"operation": "UPDATE", "subResource": "status", "oldObject": job()},
        {"operation": "UPDATE", "subResource": "scale", "object": {"kind": "Scale"}},
        {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}},
        {"resource": {"group": "example.com", "version": "v1", "resource": "jobs"}},
    ],
    ids=["delete", "connect", "status", "scale", "other kind", "other group"],
)
async def test_what_is_none_of_our_business_passes_before_any_handler(serve: Serve, changes: Json) -> None:
    judge = Asked()
    serving = await serve(judge=judge)

    assert await serving.post(PIN, admission_review(**changes)) == (200, PASSES)
    assert await serving.post(CHECK, admission_review(**changes)) == (200, PASSES)
    assert judge.requests == []


async def test_kopf_runs_each_handler_as_often_as_it_is_called(serve: Serve) -> None:
    judge = Asked()
    serving = await serve(judge=judge)
    for path in (PIN, CHECK, PIN, PIN):
        await serving.post(path, admission_review())

    assert [request.stage for request in judge.requests] == [Stage.MUTATE, Stage.VALIDATE, Stage.MUTATE, Stage.MUTATE]
    assert await serving.metric('samestep_handler_runs_total{handler="pin"}') == 3
    assert await serving.metric('samestep_handler_runs_total{handler="check"}') == 1


async def test_the_handler_is_given_the_whole_object(serve: Serve) -> None:
    judge = Asked()
    serving = await serve(judge=judge)
    await serving.post(PIN, admission_review(operation="UPDATE", oldObject=job(pods=8)))

    assert judge.requests[0].object == job()
    assert judge.requests[0].old_object == job(pods=8)


async def test_a_handler_that_did_not_run_is_no_admission(serving: Serving) -> None:
    async def fn(*_: object, **__: object) -> object:
        return {"response": {"uid": "0b4f8f4c-1", "allowed": True}}

    serving.admission.decide = by_kopf(fn)  # type: ignore[arg-type]
    status, answer = await serving.post(PIN, admission_review())

    assert status == 500
    assert "allowed" not in answer


async def test_a_kind_that_kopf_has_not_found_yet_is_no_admission(serving: Serving) -> None:
    resource = {"group": "batch", "version": "v9", "resource": "jobs"}

    assert (await serving.post(PIN, admission_review(resource=resource)))[0] == 500


async def test_kopf_selects_the_handler_once_for_each_resource_and_each_id(serving: Serving) -> None:
    through, asked = kopf_fn(review), list[object]()

    async def fn(request: Any, *, webhook: str | None = None, **rest: Any) -> Any:  # noqa: ANN401 (kopf's words)
        asked.append((webhook, request["request"]["resource"]["resource"]))
        return await through(request, webhook=webhook, **rest)

    serving.admission.decide = selected_by_kopf(fn)
    jobsets = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"}
    for _ in range(3):
        for path in (PIN, CHECK):
            assert (await serving.post(path, admission_review()))[0] == 200
        assert (await serving.post(PIN, admission_review(resource=jobsets)))[0] == 200

    assert asked == [("pin", "jobs"), ("check", "jobs"), ("pin", "jobsets")]


async def test_kopf_is_asked_again_about_a_kind_for_which_it_has_selected_nothing(serving: Serving) -> None:
    through, asked = kopf_fn(review), 0

    async def fn(request: Any, **rest: Any) -> Any:  # noqa: ANN401 (kopf's words)
        nonlocal asked
        asked += 1
        if asked < 3:
            raise LookupError("not served yet")
        return await through(request, **rest)

    serving.admission.decide = selected_by_kopf(fn)
    for _ in range(5):
        status, answer = await serving.post(PIN, admission_review())
        assert (status, answer["response"]["patchType"]) == (200, "JSONPatch")

    assert asked == 3


async def test_a_kind_that_kopf_has_not_found_is_decided_all_the_same(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    serving.admission.decide = selected_by_kopf(kopf_fn(review))
    resource = {"group": "batch", "version": "v9", "resource": "jobs"}

    status, answer = await serving.post(PIN, admission_review(resource=resource))

    assert status == 200
    assert answer["response"]["patchType"] == "JSONPatch"
    assert "kopf selects no handler" in caplog.text


async def test_a_review_that_failed_under_kopf_is_not_begun_again(serve: Serve) -> None:
    asked = 0

    def judge(request: Request, world: World) -> Review:
        nonlocal asked
        asked += 1
        raise RuntimeError(f"{request} in {world}")

    serving = await serve(judge=judge)
    serving.admission.decide = selected_by_kopf(kopf_fn(judge), judge)

    assert (await serving.post(PIN, admission_review()))[0] == 500
    assert asked == 1


async def test_an_exception_in_review_is_a_500_that_quotes_nothing_of_it(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    fails = True

    def judge(request: Request, world: World) -> Review:
        if fails:
            raise RuntimeError("secret of node-17")
        return Asked()(request, world)

    serving = await serve(judge=judge)
    status, text = await serving.post(PIN, admission_review())
    fails = False

    assert status == 500
    assert "secret" not in text
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    facts = record.__dict__["facts"]
    assert len(facts["reference"]) == 12
    assert facts["reference"] in text
    assert facts["uid"] == "0b4f8f4c-1"
    assert record.exc_info is not None
    assert "secret of node-17" in str(record.exc_info[1])
    assert (await serving.post(PIN, admission_review()))[0] == 200


async def test_each_review_is_one_line_of_log_and_a_denial_is_no_error(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="webhook")
    await serving.post(PIN, admission_review(job(memory_per_device="200Gi")))

    [record] = [record for record in caplog.records if record.name.startswith("webhook")]
    assert record.levelno == logging.INFO
    facts = record.__dict__["facts"]
    assert (facts["uid"], facts["verdict"], facts["namespace"]) == ("0b4f8f4c-1", "Deny", "team-a")
    assert "SST201" in facts["codes"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "not JSON"),
        (b"not json", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": "\xff\xfe"}', "not JSON"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"NaN", "not JSON"),
        (b"[]", "document: expected an object, got a list"),
        (b"null", "document: expected an object, got null"),
        (b"1e400", "not JSON"),
        (b"1" * 400, "not JSON"),
        (b"{}", "kind: expected AdmissionReview"),
        (
            b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": null}',
            "request: expected an object, got null",
        ),
        (json.dumps(admission_review(resource={"group": "batch"})).encode(), "request.resource.version"),
        (json.dumps(admission_review(object="job")).encode(), "request.object: expected an object, got a string"),
        (json.dumps(admission_review(userInfo=[])).encode(), "request.userInfo: expected an object, got a list"),
    ],
)
async def test_what_is_no_review_is_a_bad_request_that_says_why(serving: Serving, body: bytes, told: str) -> None:
    status, text = await serving.post(PIN, body)

    assert status == 400
    assert told in text
    assert "Traceback" not in text
    assert (await serving.post(PIN, admission_review()))[0] == 200


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        7,
        [],
        "text",
        {"name": 3, "namespace": {}, "labels": [], "annotations": 5},
        {"labels": {"a": None, "b": 1, "c": {}}, "annotations": {"samestep.dev/micro-batch": 8}},
        {"labels": {"": ""}, "annotations": None, "ownerReferences": {}, "uid": []},
    ],
    ids=str,
)
async def test_metadata_of_wrong_types_gets_an_answer(serving: Serving, metadata: object) -> None:
    broken = job() | {"metadata": metadata}

    for path in (PIN, CHECK):
        status, answer = await serving.post(
            path, admission_review(broken, operation="UPDATE", oldObject={"metadata": metadata})
        )
        assert (status, answer["response"]["uid"]) == (200, "0b4f8f4c-1")


@pytest.mark.parametrize("number", ["1e308", "-1", "1e-300", "9" * 19])
async def test_huge_numbers_get_an_answer(serving: Serving, number: str) -> None:
    body = json.dumps(admission_review()).replace('"parallelism": 4', f'"parallelism": {number}')

    status, answer = await serving.post(PIN, body.encode())

    assert (status, answer["response"]["uid"]) == (200, "0b4f8f4c-1")


async def chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 65536):
        yield b" " * 65536


@pytest.mark.parametrize("with_length", [True, False], ids=["with its length", "in chunks"])
async def test_a_body_of_8_mib_is_too_large(serving: Serving, *, with_length: bool) -> None:
    data = io.BytesIO(b" " * (8 << 20)) if with_length else chunks(8 << 20)
    async with serving.client.post(serving.url(PIN), data=data) as answer:
        assert answer.status == 413
    assert (await serving.post(PIN, admission_review()))[0] == 200


async def test_a_body_of_6_mib_is_read(serving: Serving) -> None:
    large = job()
    large["metadata"]["annotations"] = {"note": "x" * (6 << 20)}

    body = io.BytesIO(json.dumps(admission_review(large)).encode())
    async with serving.client.post(serving.url(PIN), data=body) as answer:
        assert answer.status == 200
        assert (await answer.json())["response"]["allowed"]


async def test_who_asks_before_sending_a_body_is_told_to_go_on(serve: Serve) -> None:
    serving = await serve(limits=Limits(read_s=0.5))
    async with serving.client.post(serving.url(PIN), json=admission_review(), expect100=True) as answer:
        assert answer.status == 200


async def test_a_body_that_does_not_come_is_not_waited_for(serve: Serve) -> None:
    serving = await serve(limits=Limits(read_s=0.1))

    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5)

    async with serving.client.post(serving.url(PIN), data=stalled()) as answer:
        assert answer.status == 408


async def test_a_body_under_a_wrong_encoding_is_a_bad_request(serving: Serving) -> None:
    async with serving.client.post(serving.url(PIN), data=b"{}", headers={"Content-Encoding": "gzip"}) as answer:
        assert answer.status == 400


async def test_requests_over_the_limit_wait_for_a_turn_and_are_turned_away_after_the_deadline(serve: Serve) -> None:
    serving = await serve(limits=Limits(concurrent=1, deadline_s=1.0))
    decide = serving.admission.decide
    takes_s = 0.2
    assert decide is not None

    async def slow(handler: str, call: Call) -> None:
        await asyncio.sleep(takes_s)
        await decide(handler, call)

    async def send() -> int:
        return (await serving.post(PIN, admission_review()))[0]

    serving.admission.decide = slow
    assert sorted(await asyncio.gather(send(), send())) == [200, 200]
    takes_s = 0.7
    assert sorted(await asyncio.gather(send(), send())) == [200, 503]


async def test_nothing_is_decided_before_the_fleet_is_in_sync(serve: Serve) -> None:
    worlds = Worlds(Policy())
    serving = await serve(worlds=worlds)

    status, answer = await serving.post(PIN, admission_review())
    assert status == 503
    assert "allowed" not in answer
    assert await serving.post(PIN, admission_review(operation="DELETE", object=None)) == (200, PASSES)


async def test_nothing_is_decided_before_kopf_has_handed_over_its_handlers(serve: Serve) -> None:
    serving = await serve(plugged=False)

    assert (await serving.post(PIN, admission_review()))[0] == 503


async def test_metrics_count_reviews_and_name_no_job_namespace_or_user(serving: Serving) -> None:
    await serving.post(PIN, admission_review())
    await serving.post(PIN, admission_review(job(memory_per_device="200Gi")))
    await serving.post(PIN, b"{}")

    by = 'policy="one-model-per-job",stage="Mutate",verdict='
    assert await serving.metric(f'samestep_reviews_total{{{by}"Pin"}}') == 1
    assert await serving.metric(f'samestep_reviews_total{{{by}"Deny"}}') == 1
    assert await serving.metric('samestep_findings_total{code="SST201",stage="Mutate"}') == 1
    assert await serving.metric('samestep_http_responses_total{code="400"}') == 1
    assert await serving.metric('samestep_review_duration_seconds_count{stage="Mutate"}') == 2
    text = await serving.scrape()
    for name in ("team-a", '"ddp"', "ada", "0b4f8f4c"):
        assert name not in text


async def test_what_jobs_mixed_on_purpose_cost_is_counted_by_policy(serve: Serve) -> None:
    policy = Policy("never-pins", pin_when=PinWhen.NEVER)
    serving = await serve(worlds=Worlds(policy, fleet(demo_nodes())))
    for path in (PIN, CHECK):
        await serving.post(path, admission_review(job(memory_per_device="20Gi")))
    await serving.post(PIN, admission_review(job(memory_per_device="44Gi")))  # denied

    by = '{policy="never-pins"}'
    assert await serving.metric(f"samestep_mixed_job_wait_ratio_count{by}") == 1
    assert 0.55 <= await serving.metric(f"samestep_mixed_job_wait_ratio_sum{by}") < 0.56
    unused = (RTX_PRO_6000.memory_mib - RTX_5090.memory_mib) << 20
    assert await serving.metric(f"samestep_mixed_job_unused_memory_bytes_sum{by}") == unused


async def test_reviews_that_used_what_runs_showed_are_counted_by_what_that_was(serve: Serve) -> None:
    worlds = Worlds(Policy(), fleet(demo_nodes()))
    now = time.time()
    ran_out = Observation(RTX_5090.product, RTX_5090.memory_mib, seen_at=now, out_of_memory=OutOfMemory(now, "ddp-7"))
    ran_well = Observation(RTX_PRO_6000.product, RTX_PRO_6000.memory_mib, 2, now, 40_000, now)
    worlds.learn(known(profile(recipe(job()), ran_out, ran_well)))
    serving = await serve(worlds=worlds)
    await serving.post(PIN, admission_review(job()))
    await serving.post(PIN, admission_review(job(memory_per_device="44Gi")))

    counted = [await serving.metric(f'samestep_profiles_used_total{{fact="{one}"}}') for one in ("fits", "out", "peak")]
    assert counted == [2, 2, 1]


async def test_metrics_count_what_an_audit_would_have_done_and_which_exceptions_were_used(serve: Serve) -> None:
    worlds = Worlds(Policy(), fleet(demo_nodes()))
    worlds.rule(
        Rules(
            (Policy("audits", validation_action=ValidationAction.AUDIT), Policy("open", priority=-1, exceptions=True)),
            exceptions=(PolicyException("team-a", "trial", ("open",), float("inf"), "a trial"),),
        )
    )
    serving = await serve(worlds=worlds)
    await serving.post(PIN, admission_review())

    assert await serving.metric('samestep_would_be_total{policy="audits",stage="Mutate",verdict="Pin"}') == 1
    assert await serving.metric('samestep_exceptions_used_total{code="",policy="open"}') == 1
