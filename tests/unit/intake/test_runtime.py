"""Facts: kubeflow/trainer v2.0 to v2.2, pkg/runtime/core, pkg/runtime/framework/plugins and manifests/base/runtimes."""

from typing import Any

import jsonpatch
import pytest

from tests.unit.intake.runtimes import (
    DEFINITION,
    GPU,
    TRAIN_JOB,
    among,
    definition,
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
from webhook.answer.wording import own_sentence
from webhook.intake.read import Outside, read_job
from webhook.intake.references import references
from webhook.model.job import Coupling, PatchShape, TrainingJob, writes
from webhook.model.patch import replace as replaced
from webhook.model.policy import Policy
from webhook.model.request import Kind, User
from webhook.model.surroundings import Reference

Json = Any
TORCHRUN = ["torchrun", "train.py"]
BATCH = "--per_device_train_batch_size=8"
POD = "spec.template.spec.replicatedJobs[0].template.spec.template.spec"


def sizes(job: TrainingJob) -> dict[str, tuple[int, int]]:
    """Pods of each role, and the devices of one."""
    return {role.name: (role.pods, role.devices) for role in job.roles}


def test_what_the_runtime_says_is_the_job_where_the_job_says_no_more() -> None:
    initializer = replicated("dataset-initializer", step="dataset-initializer")
    job = read(train_job(), in_view(runtime(initializer, node(command=[*TORCHRUN, BATCH]), nodes=2)))
    assert sizes(job) == {"dataset-initializer": (1, 0), "node": (2, 8)}
    assert (job.coupling, job.coupling_because) == (Coupling.SYNCHRONOUS, "TrainJob with 2 pods")
    micro = job.batch.micro
    assert micro is not None
    assert micro.value == 8
    assert micro.field == (
        "ClusterTrainingRuntime torch: spec.template.spec.replicatedJobs[1].template.spec.template.spec"
        ".containers[0].command[2]"
    )
    # No patch of the job changes what stands in the runtime.
    edit = micro.edit()
    assert edit is not None
    assert edit.path is None


def test_a_runtime_of_the_namespace_is_found_beside_one_of_the_cluster() -> None:
    both = in_view(runtime(node(gpus=8)), runtime(node(gpus=4), kind="TrainingRuntime"))
    assert sizes(read(train_job(), both)) == {"node": (1, 8)}
    assert sizes(read(train_job(ref={"kind": "TrainingRuntime", "name": "torch"}), both)) == {"node": (1, 4)}


@pytest.mark.parametrize(
    "ref",
    [
        {"name": "other"},
        {"kind": "TrainingRuntime", "name": "torch"},
        {"kind": "SlurmRuntime", "apiGroup": "example.com", "name": "torch"},
    ],
)
def test_a_runtime_that_is_not_in_view_is_named(ref: Json) -> None:
    job = read(train_job(ref=ref, trainer={"numNodes": 4}), in_view(runtime(node())))
    (finding,) = job.findings
    kind = ref.get("kind", "ClusterTrainingRuntime")
    assert (finding.code, finding.where, finding.facts["reference"]) == (
        "SST104",
        "spec.runtimeRef",
        f"{kind} {ref['name']}",
    )
    assert (job.roles, job.coupling) == ((), Coupling.UNKNOWN)


@pytest.mark.parametrize(
    ("policy", "trainer", "pods"),
    [
        ({"nodes": 2}, None, 2),
        ({"nodes": 2}, {"numNodes": 4}, 4),
        ({"nodes": None}, None, 1),
        ({"nodes": 2, "jax": {}}, {"numNodes": 3}, 3),
        ({"nodes": 2, "xgboost": {}}, {"numNodes": 3}, 3),
        ({"nodes": 0}, None, 1),
    ],
)
def test_nodes_are_counted_as_the_controller_does(policy: Json, trainer: Json, pods: int) -> None:
    given = node(job={"parallelism": 7, "completions": 7})
    assert sizes(read(train_job(trainer=trainer), in_view(runtime(given, **policy)))) == {"node": (pods, 8)}


def test_other_jobs_keep_their_own_parallelism_whatever_their_completions() -> None:
    other = replicated("reader", gpus=1, job={"parallelism": 3, "completions": 2})
    assert sizes(read(train_job(trainer={"numNodes": 2}), in_view(runtime(node(), other)))) == {
        "node": (2, 8),
        "reader": (3, 1),
    }


def test_without_a_label_the_job_called_node_is_the_one_that_trains() -> None:
    seen = in_view(runtime(replicated("node", gpus=8), nodes=2))
    assert sizes(read(train_job(), seen)) == {"node": (2, 8)}


@pytest.mark.parametrize(
    ("as_node", "roles"), [(False, {"launcher": 0, "node": 32}), (True, {"launcher": 8, "node": 24})]
)
def test_an_mpi_runtime_has_its_devices_in_the_nodes_and_its_command_in_the_launcher(
    as_node: bool, roles: dict[str, int]
) -> None:
    launcher = replicated("launcher", step="trainer", command=["mpirun", "python", "train.py"])
    launcher["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "node" if as_node else "launcher"
    given = runtime(launcher, replicated("node", gpus=0 if as_node else 8), mpi={"runLauncherAsNode": as_node})
    trainer = {"numNodes": 4, "args": [BATCH], **({"resourcesPerNode": {"limits": {GPU: 8}}} if as_node else {})}
    job = read(train_job(trainer=trainer), in_view(given))
    assert {role.name: role.pods * role.devices for role in job.roles} == roles
    assert job.coupling is Coupling.SYNCHRONOUS
    # One of the nodes is the launcher: no change of numNodes gives so many pods of this role.
    node_role = next(role for role in job.roles if role.name == "node")
    assert (node_role.replicas() is None) is as_node


def test_what_the_job_says_of_its_trainer_stands_over_the_runtime_and_is_read_where_it_is_written() -> None:
    trainer = {
        "numNodes": 2,
        "image": "registry.example/b:2",
        "command": ["torchrun"],
        "args": ["--nnodes=$(PET_NNODES)", "train.py", "--per_device_train_batch_size", "$(BATCH)"],
        "env": [{"name": "BATCH", "value": "16"}, {"name": "MORE", "value": "1"}],
        "resourcesPerNode": {"limits": {GPU: 4}, "requests": {"cpu": "8"}},
    }
    given = node(
        command=["old"], args=["--batch-size=1"], env=[{"name": "A", "value": "1"}, {"name": "BATCH", "value": "2"}]
    )
    job = read(train_job(trainer=trainer), in_view(runtime(given)))
    assert sizes(job) == {"node": (2, 4)}
    assert job.roles[0].requests == {GPU: 4, "cpu": 8000}
    assert [one.image for one in job.programs] == ["registry.example/b:2"]
    micro = job.batch.micro
    assert micro is not None
    assert (micro.value, micro.field) == (16, "spec.trainer.env[0].value")
    edit = micro.edit()
    assert edit is not None
    (write,) = writes([(edit, 4)])
    assert (write.path, write.value) == (("spec", "trainer", "env", 0, "value"), "4")
    # The controller sets PET_NNODES: the number of nodes may change alone.
    replicas = job.roles[0].replicas()
    assert replicas is not None
    assert replicas.path == ("spec", "trainer", "numNodes")


def test_a_batch_among_the_arguments_of_the_job_can_be_changed_there() -> None:
    source = train_job(trainer={"args": ["train.py", BATCH]})
    job = read(source, in_view(runtime(node(command=["torchrun"]))))
    micro, accumulation = job.batch.micro, job.batch.accumulation_edit()
    assert micro is not None
    edit = micro.edit()
    assert edit is not None
    assert accumulation is not None
    operations = [
        {"op": "add", "path": "/" + "/".join(map(str, one.path)), "value": one.value}
        if one.adds
        else replaced(one.path, one.value)
        for one in writes([(edit, 4), (accumulation, 2)])
    ]
    changed = jsonpatch.apply_patch(source, operations)
    assert changed["spec"]["trainer"]["args"] == [
        "train.py",
        "--per_device_train_batch_size=4",
        "--gradient_accumulation_steps=2",
    ]


def test_of_tune_run_the_command_stays_the_runtimes() -> None:
    # The controller completes it from the runtime (plugins/torch/torchtune.go).
    command = [
        "tune",
        "run",
        "--rdzv_endpoint=localhost:29500",
        "full_finetune_distributed",
        "--config",
        "llama3_2/1B_full",
    ]
    source = train_job(trainer={"command": ["tune", "run"], "args": ["batch_size=6"]})
    micro = read(source, in_view(runtime(node(command=command)))).batch.micro
    assert micro is not None
    assert (micro.value, micro.field) == (6, "spec.trainer.args[0]")


def test_only_the_container_called_node_of_the_job_that_trains_is_told() -> None:
    given = node()
    given["template"]["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "s:1"})
    other = replicated("evaluator", gpus=1)
    trainer = {"image": "b:2", "resourcesPerNode": {"limits": {GPU: 2}}}
    job = read(train_job(trainer=trainer), in_view(runtime(given, other)))
    assert sizes(job) == {"node": (1, 2), "evaluator": (1, 1)}
    assert [one.image for one in job.programs] == ["b:2", "registry.example/a:1"]


def layered(shape: PatchShape, *pods: Json) -> Json:
    """The field of a TrainJob with an entry for the job called node for each of these pod specs."""
    if shape is PatchShape.RUNTIME_PATCHES:
        return {shape.value: [patch(f"example.com/{index}", node=pod) for index, pod in enumerate(pods)]}
    if shape is PatchShape.POD_TEMPLATE_OVERRIDES:
        return {shape.value: [override(pod, "node") for pod in pods]}
    return {shape.value: [{"targetJobs": [{"name": "node"}], **pod} for pod in pods]}


@pytest.mark.parametrize("shape", PatchShape)
def test_of_several_patches_maps_are_merged_and_lists_are_the_last_ones(shape: PatchShape) -> None:
    base = {
        "nodeSelector": {"zone": "a", "pool": "x"},
        "tolerations": [{"key": "base"}],
        **required(among("kind", "base")),
    }
    first = {"nodeSelector": {"pool": "y"}, "tolerations": [{"key": "first"}], **required(among("kind", "first"))}
    second = {"nodeSelector": {"rack": "1"}, **required(among("kind", "second"), among("kind", "third"))}
    job = read(train_job(**layered(shape, first, second)), in_view(runtime(node(job={"pod": base}))))
    placement = job.roles[0].placement
    assert dict(placement.node_selector) == {"zone": "a", "pool": "y", "rack": "1"}
    assert [one.key for one in placement.tolerations] == ["first"]
    assert [term.expressions[0].values for term in placement.terms or ()] == [("second",), ("third",)]


def test_a_patch_reaches_only_the_jobs_that_it_names() -> None:
    other = replicated("reader", gpus=1)
    entry = override({"nodeSelector": {"zone": "a"}}, "reader", "nobody")
    job = read(train_job(podTemplateOverrides=[entry]), in_view(runtime(node(), other)))
    assert [dict(role.placement.node_selector) for role in job.roles] == [{}, {"zone": "a"}]


def test_a_variable_in_a_patch_of_another_container_is_read_there() -> None:
    given = node(
        command=["torchrun", "train.py", "--per_device_train_batch_size=$(BATCH)"],
        env=[{"name": "BATCH", "value": "2"}],
    )
    given["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "worker"
    pod = {
        "containers": [{"name": "worker", "env": [{"name": "OTHER", "value": "1"}, {"name": "BATCH", "value": "32"}]}]
    }
    job = read(train_job(runtimePatches=[patch("example.com/a", node=pod)]), in_view(runtime(given)))
    micro = job.batch.micro
    assert micro is not None
    assert micro.value == 32
    assert micro.field == (
        "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"
        ".containers[0].env[1].value"
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            train_job(trainer={"numNodes": "2"}),
            'spec.trainer.numNodes: expected a whole number from 0 to 2147483647, got "2"',
        ),
        (train_job(trainer={"args": ["train.py", 8]}), "spec.trainer.args[1]: expected a string, got 8"),
        (train_job(trainer={"args": "train.py"}), 'spec.trainer.args: expected a list, got "train.py"'),
        (
            train_job(trainer={"resourcesPerNode": {"limits": {GPU: "many"}}}),
            f'spec.trainer.resourcesPerNode.limits[{GPU}]: expected a quantity, got "many"',
        ),
        (
            train_job(runtimePatches=[patch("a.b/c", node={"nodeSelector": {"zone": 1}})]),
            (
                "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"
                ".nodeSelector.zone: expected a string, got 1"
            ),
        ),
        (train_job(ref={"name": ["torch"]}), "spec.runtimeRef.name: expected a string, got a list"),
        (train_job(ref="torch"), 'spec.runtimeRef: expected a map, got "torch"'),
    ],
)
def test_a_fault_is_named_where_it_is_written(source: Json, said: str) -> None:
    found = read_job(source, kind=TRAIN_JOB, namespace="team-a", user=User(), surroundings=in_view(runtime(node())))
    assert isinstance(found, Outside)
    assert [own_sentence(one) for one in found.findings] == [said]


def test_a_fault_in_the_runtime_is_named_with_it() -> None:
    seen = in_view(runtime(node(job={"pod": {"tolerations": "all"}})))
    found = read_job(train_job(), kind=TRAIN_JOB, namespace="team-a", user=User(), surroundings=seen)
    assert isinstance(found, Outside)
    assert own_sentence(found.findings[0]) == (
        f'ClusterTrainingRuntime torch: {POD}.tolerations: expected a list, got "all"'
    )


@pytest.mark.parametrize(
    ("spec", "defined", "shape"),
    [
        ({}, None, PatchShape.RUNTIME_PATCHES),
        ({"podSpecOverrides": []}, None, PatchShape.POD_SPEC_OVERRIDES),
        ({"podTemplateOverrides": []}, None, PatchShape.POD_TEMPLATE_OVERRIDES),
        ({"podSpecOverrides": []}, (PatchShape.POD_TEMPLATE_OVERRIDES,), PatchShape.POD_SPEC_OVERRIDES),
        ({"podSpecOverrides": None}, (PatchShape.POD_TEMPLATE_OVERRIDES,), PatchShape.POD_TEMPLATE_OVERRIDES),
        ({}, (PatchShape.POD_SPEC_OVERRIDES,), PatchShape.POD_SPEC_OVERRIDES),
        ({}, tuple(PatchShape), PatchShape.RUNTIME_PATCHES),
        ({}, (), PatchShape.RUNTIME_PATCHES),
    ],
)
def test_a_pin_is_written_in_the_field_that_the_job_uses_or_the_definition_has(
    spec: Json, defined: tuple[PatchShape, ...] | None, shape: PatchShape
) -> None:
    seen = dict(in_view(runtime(node())))
    if defined is not None:
        seen[DEFINITION] = definition(*defined)
    patches = read(train_job(**spec), seen).pin_patches
    assert patches is not None
    assert (patches.shape, patches.there) == (shape, spec.get(shape.value) is not None)


@pytest.mark.parametrize("broken", [[], {"spec": 1}, {"spec": {"versions": [{"name": "v1alpha1", "schema": "no"}]}}])
def test_a_definition_that_cannot_be_read_is_none(broken: Json) -> None:
    seen = {**in_view(runtime(node())), DEFINITION: broken if isinstance(broken, dict) else {}}
    patches = read(train_job(podSpecOverrides=[]), seen).pin_patches
    assert patches is not None
    assert patches.shape is PatchShape.POD_SPEC_OVERRIDES


def test_a_train_job_refers_to_its_runtime_and_to_the_definition_of_its_kind() -> None:
    named = Reference(Kind("trainer.kubeflow.org", "", "TrainingRuntime"), "team-a", "torch")
    source = train_job(ref={"kind": "TrainingRuntime", "name": "torch"})
    assert references(source, TRAIN_JOB, "team-a", Policy()) == (named, DEFINITION)
    cluster = Reference(Kind("trainer.kubeflow.org", "", "ClusterTrainingRuntime"), "", "torch")
    assert references(train_job(), TRAIN_JOB, "team-a", Policy())[0] == cluster
    assert references({"spec": {"runtimeRef": 1}}, TRAIN_JOB, "team-a", Policy()) == ()
    assert references(train_job(), Kind("batch", "v1", "Job"), "team-a", Policy()) == ()
