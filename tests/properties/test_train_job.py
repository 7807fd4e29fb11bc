"""A TrainJob is decided as the same pods are elsewhere, whichever field of its API the pin goes into; and whatever
stands in it, in its runtime or in the definition of its kind, there is an answer."""

from copy import deepcopy
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties.strategies import AFFINITY, CASES, SELECTORS, Case
from tests.properties.test_any_json import ANY, assert_presentable, places
from tests.samples import Json, ask, fleet, patched, products
from tests.unit.intake.runtimes import DEFINITION, definition, in_view, override, patch, runtime, train_job
from webhook.answer.response import patch as written
from webhook.model.job import PatchShape
from webhook.model.request import Stage, User
from webhook.model.surroundings import Surroundings
from webhook.model.verdict import Review, Verdict

SHAPES = (PatchShape.POD_TEMPLATE_OVERRIDES, PatchShape.RUNTIME_PATCHES)
# What a patch may say of where pods land.
LAID = st.fixed_dictionaries({}, optional={"nodeSelector": SELECTORS, "affinity": AFFINITY}).map(deepcopy)


def jobs_of(case: Case) -> dict[str, Json]:
    """The pod specs of a drawn PyTorchJob by role, and how many pods each has."""
    spec = case.job["spec"].get("pytorchReplicaSpecs")
    assume(spec is not None and "elasticPolicy" not in case.job["spec"])
    # The controller makes one pod of none.
    assume(all(role["replicas"] for role in spec.values()))
    return dict(spec)


def as_train_job(case: Case, layers: list[tuple[str, Json]], shape: PatchShape) -> tuple[Json, Surroundings]:
    """The same pods in a runtime, with these pod specs laid over those of the roles that they name."""
    jobs = [
        {"name": name, "template": {"spec": {"parallelism": role["replicas"], "template": deepcopy(role["template"])}}}
        for name, role in jobs_of(case).items()
    ]
    template = shape is PatchShape.POD_TEMPLATE_OVERRIDES
    entries = [
        override(pod, name) if template else patch(f"example.com/{index}", **{name: pod})
        for index, (name, pod) in enumerate(layers)
    ]
    job = train_job(**({shape.value: entries} if entries else {}))
    job["metadata"] |= deepcopy(case.job["metadata"])
    return job, in_view(runtime(*jobs), shape=shape)


def merged(case: Case, layers: list[tuple[str, Json]]) -> Json:
    """The drawn job with the same pod specs laid over its own."""
    job = deepcopy(case.job)
    for name, pod in layers:
        spec = job["spec"]["pytorchReplicaSpecs"][name]["template"]["spec"]
        if pod.get("nodeSelector"):
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **pod["nodeSelector"]}
        if required(pod) is not None:
            spec["affinity"] = pod["affinity"]
    return job


def required(pod: Json) -> object:
    node: Any = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    terms = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return terms.get("nodeSelectorTerms")


def asked(case: Case, job: Json, seen: Surroundings, **given: Any) -> Review:  # noqa: ANN401
    return ask(deepcopy(job), case.fleet, policy=case.policy, now=1000.0, surroundings=seen, **given)


@st.composite
def layered(draw: st.DrawFn) -> tuple[Case, list[tuple[str, Json]]]:
    case = draw(CASES)
    names = list(jobs_of(case))
    return case, draw(st.lists(st.tuples(st.sampled_from(names), LAID), max_size=3))


@given(layered(), st.sampled_from(SHAPES))
def test_it_is_decided_as_the_same_pods_of_a_pytorch_job(
    drawn: tuple[Case, list[tuple[str, Json]]], shape: PatchShape
) -> None:
    case, layers = drawn
    job, seen = as_train_job(case, layers, shape)
    there = case.review(merged(case, layers))
    here = asked(case, job, seen)
    assert (here.verdict, here.decision.models, here.decision.pin) == (
        there.verdict,
        there.decision.models,
        there.decision.pin,
    )


@given(layered(), st.sampled_from(SHAPES))
def test_with_its_pin_it_is_admitted_by_every_stage_and_the_pin_survives_its_file(
    drawn: tuple[Case, list[tuple[str, Json]]], shape: PatchShape
) -> None:
    case, layers = drawn
    job, seen = as_train_job(case, layers, shape)
    outcome = asked(case, job, seen)
    assume(outcome.verdict is Verdict.PIN)
    stored = patched(outcome)
    for stage in Stage:
        again = asked(case, stored, seen, stage=stage)
        assert (again.verdict, written(again)) == (Verdict.ADMIT, [])
        assert products(again) == products(outcome)
    # The controller's webhook takes a list of patches that is as before, and no other, once the job runs.
    assert patched(asked(case, job, seen, old=stored))["spec"] == stored["spec"]


@given(st.data(), layered(), st.sampled_from(PatchShape), st.integers(0, 3))
def test_anything_anywhere_gets_an_answer(
    data: st.DataObject, drawn: tuple[Case, list[tuple[str, Json]]], shape: PatchShape, which: int
) -> None:
    case, layers = drawn
    job, seen = as_train_job(case, layers, SHAPES[which % 2])
    job["spec"]["trainer"] = {"numNodes": 2, "args": ["a"], "env": [{"name": "A"}], "resourcesPerNode": {"limits": {}}}
    known = {**deepcopy(dict(seen)), DEFINITION: definition(shape)}
    for _ in range(data.draw(st.integers(1, 3))):
        whole = data.draw(st.sampled_from([job, *known.values()]))
        every = places(whole["spec"])
        parent, key = every[data.draw(st.integers(0, len(every) - 1))] if every else (whole, "spec")
        parent[key] = data.draw(ANY)
    given: dict[str, Any] = {"policy": case.policy, "surroundings": known}
    assert_presentable(ask(deepcopy(job), fleet(case.nodes), **given))
    user = User("system:serviceaccount:kueue-system:kueue") if which > 1 else User("alice")
    spec = job["spec"] if isinstance(job["spec"], dict) else {}
    old = {**job, "spec": {**deepcopy(spec), "suspend": True}}
    assert_presentable(ask(deepcopy(job), fleet(case.nodes), old=old, user=user, **given))
    (one,) = (one for one in known.values() if one.get("kind") == "ClusterTrainingRuntime")
    assert_presentable(ask(one, fleet(case.nodes), **given))
