"""Any JSON at all gets an answer: no exception, and nothing in it that breaks a terminal, a header or a parser."""

import json
import re
import unicodedata
from copy import deepcopy
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.strategies import CASES, POLICIES, Case, examples, jobs, nodes, under
from tests.samples import USER, fleet
from webhook.answer.document import document
from webhook.answer.response import admission_response
from webhook.catalog.workloads import workloads
from webhook.model.policy import Policy, ValidationAction
from webhook.model.request import Kind, Request, Stage, User
from webhook.model.verdict import Review, Verdict
from webhook.model.world import World
from webhook.review import review

Json = dict[str, Any]

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(("\x1b[31mred\x07", "a\nb\r\n\u2028c", "x" * 400, "nvidia.com/gpu", "9" * 60, "1e999", "-1", "")),
)
FIELDS = st.sampled_from(
    ("metadata", "annotations", "labels", "spec", "template", "containers", "resources", "limits", "nvidia.com/gpu")
) | st.text(max_size=8)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(FIELDS, ANY, max_size=5)
EVERY_KIND = [Kind(one.group, version, one.kind) for one in workloads().entries for version in one.versions]
KINDS = st.sampled_from((*EVERY_KIND, Kind("ray.io", "v1", "X")))
OPERATIONS = st.sampled_from(("CREATE", "UPDATE", "CREATE", "UPDATE", "DELETE", "CONNECT", "", "create"))
SUBRESOURCES = st.sampled_from(("", "", "", "status", "scale"))
USERS = st.sampled_from((USER, User(), User("system:serviceaccount:kube-system:job-controller")))
ACTIONS = st.sampled_from(ValidationAction)


@st.composite
def mutated(draw: st.DrawFn) -> Json:
    """A valid job in which a few values have become something else, or are gone."""
    job = draw(jobs())
    for _ in range(draw(st.integers(1, 3))):
        every = places(job)
        parent, key = every[draw(st.integers(0, len(every) - 1))] if every else (job, "spec")
        if isinstance(parent, dict) and draw(st.sampled_from((False, False, True))):
            parent.pop(key, None)
        elif isinstance(parent, dict) and draw(st.sampled_from((False, False, True))):
            parent[draw(FIELDS)] = draw(ANY)
        else:
            parent[key] = draw(ANY)
    return job


def places(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - JSON
    """Every value inside, as its parent and its key there."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@st.composite
def requests(draw: st.DrawFn, objects: st.SearchStrategy[Json], kinds: st.SearchStrategy[Kind]) -> Request:
    obj = draw(objects)
    return Request(
        kind=draw(kinds),
        operation=draw(OPERATIONS),
        object=obj,
        old_object=draw(st.none() | objects | st.just(deepcopy(obj))),
        stage=draw(st.sampled_from(Stage)),
        namespace=draw(st.sampled_from(("team-a", ""))),
        subresource=draw(SUBRESOURCES),
        user=draw(USERS),
        now=1000.0,
    )


@given(requests(OBJECTS, KINDS), POLICIES)
def test_any_object_gets_an_answer(request: Request, policy: Policy) -> None:
    assert_presentable(review(request, World(fleet([]), policy)))


@examples(4)
@given(st.data(), nodes(), POLICIES)
def test_a_job_with_anything_in_the_wrong_place_gets_an_answer(
    data: st.DataObject, known: list[Json], policy: Policy
) -> None:
    job = data.draw(mutated())
    known_kinds = {(kind.api_version, kind.kind): kind for kind in EVERY_KIND}
    own = known_kinds.get((str(job.get("apiVersion")), str(job.get("kind"))), EVERY_KIND[0])
    request = data.draw(requests(st.just(job) | mutated(), st.just(own) | KINDS))
    before = deepcopy(request)
    assert_presentable(review(request, World(fleet(known), policy)))
    assert request == before


@given(CASES, st.sampled_from(Stage), ACTIONS)
def test_every_answer_to_a_job_is_fit_to_be_read(case: Case, stage: Stage, action: ValidationAction) -> None:
    assert_presentable(under(action, case).review(stage=stage))


def assert_presentable(outcome: Review) -> None:
    response = admission_response(outcome)
    assert json.loads(orjson.dumps(response)) == response
    assert json.loads(json.dumps(document(outcome, "job.yaml#0"), allow_nan=False))["verdict"] == outcome.verdict
    assert response["allowed"] is (outcome.verdict is not Verdict.DENY)
    for warning in response.get("warnings", ()):
        assert_one_line(warning, 120)
    assert len(response.get("warnings", ())) <= 3
    assert ("status" in response) is (outcome.verdict is Verdict.DENY)
    if outcome.verdict is Verdict.DENY:
        first, *rest = response["status"]["message"].split("\n")
        assert_one_line(first, 250)
        assert re.match(r"SST\d{3} ", first)
        for line in rest:
            assert_one_line(line, 1000)
        for cause in response["status"]["details"]["causes"]:
            assert_one_line(cause["field"], 10_000)
            assert_one_line(cause["message"], 10_000)
    for value in response.get("auditAnnotations", {}).values():
        assert isinstance(value, str)


def assert_one_line(text: str, columns: int) -> None:
    assert 0 <= len(text) <= columns
    assert not [one for one in text if unicodedata.category(one) in ("Cc", "Zl", "Zp")]
