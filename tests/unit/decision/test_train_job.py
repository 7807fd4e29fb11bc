"""The pin of a TrainJob: into its own patches, in the shape that its API has, and in no other object."""

from copy import deepcopy
from typing import Any

import pytest

from controlplane.nodes import A100_80GB, H100, RTX_5090, RTX_PRO_6000, Card
from tests.samples import ask, codes, fleet, nodes, patched, products
from tests.unit.intake.runtimes import (
    GPU,
    among,
    in_view,
    node,
    override,
    patch,
    read,
    replicated,
    required,
    runtime,
    train_job,
)
from webhook.model.fleet import Fleet
from webhook.model.job import PatchShape
from webhook.model.request import Stage, User
from webhook.model.surroundings import Surroundings
from webhook.model.verdict import Review, Verdict

Json = Any

PRODUCT = "nvidia.com/gpu.product"
B200 = Card("NVIDIA-B200", 183_359, "blackwell", (10, 0))
PINNED = {"nodeSelector": {PRODUCT: RTX_PRO_6000.product}}
OURS = "samestep.dev/pin"
KUEUE = User("system:serviceaccount:kueue-system:kueue-controller-manager")
SPEC, TEMPLATE, PATCHES = PatchShape

two_nodes = runtime(replicated("dataset-initializer", step="dataset-initializer"), node(gpus=4), nodes=2)
each_shape = pytest.mark.parametrize("shape", PatchShape)


def entry(shape: PatchShape, pod: Json, *names: str) -> Json:
    """An entry as we write it."""
    names = names or ("node",)
    if shape is PATCHES:
        return patch(OURS, **dict.fromkeys(names, pod))
    return override(pod, *names) if shape is TEMPLATE else {"targetJobs": [{"name": one} for one in names], **pod}


def asked(job: Json, seen: Surroundings, **given: Any) -> Review:  # noqa: ANN401
    return ask(job, surroundings=seen, **given)


def placed(job: Json, seen: Surroundings) -> dict[str, dict[str, str]]:
    """The effective nodeSelector of each role."""
    return {role.name: dict(role.placement.node_selector) for role in read(job, seen).roles}


def zoned() -> Fleet:
    """RTX 5090 in zone a, RTX PRO 6000 in zone b."""
    found = []
    for zone, card in (("a", RTX_5090), ("b", RTX_PRO_6000)):
        for one in nodes((card, 2, 4)):
            one["metadata"]["labels"]["zone"] = zone
            found.append(one)
    return fleet(found)


@each_shape
def test_the_pin_is_one_entry_in_the_shape_of_the_api(shape: PatchShape) -> None:
    seen = in_view(two_nodes, shape=shape)
    outcome = asked(train_job(), seen)
    stored = patched(outcome)
    assert outcome.verdict is Verdict.PIN
    assert stored["spec"] == {"runtimeRef": {"name": "torch"}, shape.value: [entry(shape, PINNED)]}
    assert placed(stored, seen) == {"dataset-initializer": {}, "node": PINNED["nodeSelector"]}
    for stage in (Stage.MUTATE, Stage.VALIDATE):
        again = asked(stored, seen, stage=stage)
        assert (again.verdict, products(again)) == (Verdict.ADMIT, [RTX_PRO_6000.product])


@each_shape
def test_all_roles_with_devices_are_in_the_one_entry(shape: PatchShape) -> None:
    seen = in_view(runtime(node(gpus=1), replicated("reward", gpus=1), replicated("reader")), shape=shape)
    assert patched(asked(train_job(), seen))["spec"][shape.value] == [entry(shape, PINNED, "node", "reward")]


@pytest.mark.parametrize("shape", [TEMPLATE, PATCHES])
def test_entries_that_are_there_stay_behind_ours(shape: PatchShape) -> None:
    theirs = patch("example.com/a", node={"nodeSelector": {"kubernetes.io/os": "linux"}})
    if shape is TEMPLATE:
        theirs = override({"nodeSelector": {"kubernetes.io/os": "linux"}}, "node", "dataset-initializer")
    seen = in_view(two_nodes, shape=shape)
    stored = patched(asked(train_job(**{shape.value: [theirs]}), seen))
    assert stored["spec"][shape.value] == [entry(shape, PINNED), theirs]
    assert asked(stored, seen).verdict is Verdict.ADMIT


def test_the_oldest_api_takes_one_override_for_a_job_and_the_pin_goes_into_it() -> None:
    # v2.0's own webhook refuses a second one for the same job.
    seen = in_view(two_nodes, shape=SPEC)
    theirs = {"targetJobs": [{"name": "node"}], "tolerations": [{"operator": "Exists"}]}
    stored = patched(asked(train_job(podSpecOverrides=[theirs]), seen))
    assert stored["spec"]["podSpecOverrides"] == [{**theirs, **PINNED}]
    assert asked(stored, seen).verdict is Verdict.ADMIT
    shared = {"targetJobs": [{"name": "node"}, {"name": "dataset-initializer"}]}
    outcome = asked(train_job(podSpecOverrides=[shared]), seen)
    assert (outcome.verdict, "SST307" in codes(outcome)) == (Verdict.ADMIT, True)


def test_sixteen_patches_leave_no_place_for_ours() -> None:
    full = [patch(f"example.com/{index}", node={}) for index in range(16)]
    outcome = asked(train_job(runtimePatches=full), in_view(two_nodes))
    assert (outcome.verdict, "SST307" in codes(outcome)) == (Verdict.ADMIT, True)
    assert asked(train_job(runtimePatches=full[1:]), in_view(two_nodes)).verdict is Verdict.PIN


def test_a_runtime_that_names_the_model_needs_no_pin() -> None:
    seen = in_view(runtime(node(gpus=4, job={"pod": PINNED}), nodes=2))
    assert asked(train_job(), seen).verdict is Verdict.ADMIT


def test_a_job_whose_runtime_is_not_in_view_is_admitted_and_told() -> None:
    outcome = asked(train_job(trainer={"numNodes": 2, "resourcesPerNode": {"limits": {GPU: 4}}}), {})
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST104"])


class TestSeveralModelsAreLeft:
    """A job on one node is kept off the models that are too small by required affinity."""

    known = nodes((RTX_5090, 2, 4), (A100_80GB, 2, 4), (H100, 2, 4))
    left = among(PRODUCT, A100_80GB.product, H100.product)
    job = train_job(annotations={"samestep.dev/memory-per-device": "44Gi"})

    def one_node(self, **pod: Json) -> Json:
        return runtime(node(gpus=4, job={"pod": pod}))

    @pytest.mark.parametrize("shape", [TEMPLATE, PATCHES])
    def test_by_affinity_in_our_entry(self, shape: PatchShape) -> None:
        seen = in_view(self.one_node(), shape=shape)
        outcome = asked(self.job, seen, known=self.known)
        stored = patched(outcome)
        assert stored["spec"][shape.value] == [entry(shape, required(self.left))]
        assert asked(stored, seen, known=self.known).verdict is Verdict.ADMIT

    def test_the_runtimes_own_terms_are_written_out_and_narrowed(self) -> None:
        # Terms are a list that a patch replaces as a whole.
        fields = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}
        seen = in_view(self.one_node(**required({**among("zone", "a", ""), **fields}, {}, fields)), shape=PATCHES)
        outcome = asked(self.job, seen, known=fleet(self.labelled()))
        (ours,) = patched(outcome)["spec"]["runtimePatches"]
        expressions = self.left["matchExpressions"]
        assert ours == patch(
            OURS,
            node=required(
                {"matchExpressions": [*among("zone", "a", "")["matchExpressions"], *expressions], **fields},
                {},
                {"matchExpressions": expressions, **fields},
            ),
        )

    def labelled(self) -> list[Json]:
        return [
            {**one, "metadata": {**one["metadata"], "labels": {**one["metadata"]["labels"], "zone": "a"}}}
            for one in self.known
        ]

    def test_terms_of_the_job_are_narrowed_where_they_stand(self) -> None:
        theirs = patch("example.com/a", node=required({"matchFields": []}, among("zone", "a")))
        seen = in_view(self.one_node())
        job = {**self.job, "spec": {**self.job["spec"], "runtimePatches": [theirs]}}
        outcome = asked(job, seen, known=fleet(self.labelled()))
        (narrowed,) = patched(outcome)["spec"]["runtimePatches"]
        both = among("zone", "a")["matchExpressions"] + self.left["matchExpressions"]
        assert narrowed == patch("example.com/a", node=required({"matchFields": []}, {"matchExpressions": both}))
        assert asked(patched(outcome), seen, known=fleet(self.labelled())).verdict is Verdict.ADMIT

    def test_terms_that_other_jobs_share_are_left_alone(self) -> None:
        theirs = override(required(among("zone", "a")), "node", "dataset-initializer")
        seen = in_view(runtime(node(gpus=4), replicated("dataset-initializer")), shape=TEMPLATE)
        job = {**self.job, "spec": {**self.job["spec"], "podTemplateOverrides": [theirs]}}
        outcome = asked(job, seen, known=fleet(self.labelled()))
        assert (outcome.verdict, "SST307" in codes(outcome)) == (Verdict.ADMIT, True)

    def test_the_oldest_api_has_no_affinity(self) -> None:
        outcome = asked(self.job, in_view(self.one_node(), shape=SPEC), known=self.known)
        assert (outcome.verdict, "SST307" in codes(outcome)) == (Verdict.ADMIT, True)


class TestUpdates:
    @each_shape
    def test_a_pin_that_an_update_dropped_is_put_back_as_it_was(self, shape: PatchShape) -> None:
        seen = in_view(two_nodes, shape=shape)
        stored = patched(asked(train_job(), seen))
        again = train_job(suspend=False)
        outcome = asked(again, seen, old={**stored, "status": {"conditions": []}})
        assert outcome.verdict is Verdict.PIN
        # The controller's webhook lets no patch change now: the list has to be the old one.
        assert patched(outcome)["spec"][shape.value] == stored["spec"][shape.value]

    def test_it_goes_back_before_what_a_queue_has_added(self) -> None:
        seen = in_view(two_nodes)
        queue = patch("kueue.x-k8s.io/manager", node={"nodeSelector": {"flavor": "a"}})
        stored = patched(asked(train_job(), seen))
        stored["spec"]["runtimePatches"].append(queue)
        again = train_job(runtimePatches=[queue])
        assert patched(asked(again, seen, old=stored))["spec"] == stored["spec"]

    def test_what_a_queue_adds_is_no_change(self) -> None:
        seen = in_view(two_nodes)
        stored = patched(asked(train_job(suspend=True), seen))
        admitted = deepcopy(stored)
        admitted["spec"]["runtimePatches"].append(
            patch("kueue.x-k8s.io/manager", node={"nodeSelector": {PRODUCT: RTX_5090.product}})
        )
        assert asked(admitted, seen, old=stored, user=KUEUE).verdict is Verdict.ADMIT
        running = deepcopy(admitted)
        running["spec"]["suspend"] = False
        assert asked(running, seen, old=admitted, user=KUEUE).verdict is Verdict.ADMIT

    @pytest.mark.parametrize("shape", [TEMPLATE, PATCHES])
    def test_while_it_is_suspended_our_pin_moves_with_what_the_submitter_says(self, shape: PatchShape) -> None:
        seen, known = in_view(two_nodes, shape=shape), zoned()
        stored = patched(asked(train_job(suspend=True), seen, known=known))
        assert stored["spec"][shape.value] == [entry(shape, PINNED)]
        pod = {"nodeSelector": {"zone": "a"}}
        theirs = override(pod, "node") if shape is TEMPLATE else patch("example.com/a", node=pod)
        changed = deepcopy(stored)
        changed["spec"][shape.value].append(theirs)
        moved = patched(asked(changed, seen, old=stored, known=known))
        other = {"nodeSelector": {PRODUCT: RTX_5090.product}}
        assert moved["spec"][shape.value] == [entry(shape, other), theirs]
        assert RTX_5090.product in moved["metadata"]["annotations"]["samestep.dev/pinned"]
        assert asked(moved, seen, known=known).verdict is Verdict.ADMIT

    def test_a_pin_of_several_models_moves_in_place(self) -> None:
        known = nodes((RTX_5090, 2, 4), (A100_80GB, 2, 4), (H100, 2, 4), (RTX_PRO_6000, 2, 4))
        seen = in_view(runtime(node(gpus=4)))
        job = train_job(suspend=True, annotations={"samestep.dev/memory-per-device": "44Gi"})
        stored = patched(asked(job, seen, known=known))
        three = among(PRODUCT, A100_80GB.product, H100.product, RTX_PRO_6000.product)
        assert stored["spec"]["runtimePatches"] == [entry(PATCHES, required(three))]
        without = [one for one in known if RTX_PRO_6000.product not in str(one)]
        more = nodes((B200, 2, 4))
        changed = deepcopy(stored)
        changed["spec"]["runtimePatches"].append(
            patch("example.com/a", node={"nodeSelector": {"kubernetes.io/os": "linux"}})
        )
        moved = patched(asked(changed, seen, old=stored, known=[*without, *more]))
        three = among(PRODUCT, A100_80GB.product, B200.product, H100.product)
        assert moved["spec"]["runtimePatches"][0] == entry(PATCHES, required(three))

    def test_patches_stay_as_they_are_once_it_runs(self) -> None:
        seen, known = in_view(two_nodes), zoned()
        stored = train_job(suspend=True)
        freed = train_job(suspend=False, runtimePatches=[patch("example.com/a", node={"nodeSelector": {"zone": "a"}})])
        outcome = asked(freed, seen, old=stored, known=known)
        assert (outcome.verdict, outcome.decision.pin) == (Verdict.ADMIT, None)


class TestRuntimes:
    """A runtime is only checked: what the shortest job that names it would be."""

    @pytest.mark.parametrize("kind", ["ClusterTrainingRuntime", "TrainingRuntime"])
    def test_a_runtime_is_told_what_awaits_its_jobs(self, kind: str) -> None:
        small = runtime(node(gpus=8), nodes=2, kind=kind)
        outcome = asked(small, {})
        assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST403"])
        crowded = runtime(node(gpus=4), nodes=4, kind=kind)
        outcome = asked(crowded, {})
        assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST401"])

    def test_a_runtime_that_fits_is_admitted_without_a_word(self) -> None:
        outcome = asked(two_nodes, {})
        assert (outcome.verdict, codes(outcome), patched(outcome)) == (Verdict.ADMIT, [], two_nodes)

    def test_a_fault_is_named_by_its_place(self) -> None:
        outcome = asked(runtime(node(gpus=4), nodes="2"), {})  # type: ignore[arg-type] # that is the fault
        (finding,) = outcome.decision.findings
        where = "ClusterTrainingRuntime torch: spec.mlPolicy.numNodes"
        assert (finding.code, finding.where) == ("SST101", where)
