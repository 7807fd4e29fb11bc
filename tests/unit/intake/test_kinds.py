"""What is read of each kind beside Job and PyTorchJob: its roles, how many pods they have, what binds them."""

from copy import deepcopy
from typing import Any

import pytest

from tests.cluster.kinds import JOBS, MANIFESTS, WRAPPERS, Manifest, asks, pod_specs
from tests.unit.intake.jobs import GPU, Json, changed, container, edit_of, outside, read, template
from webhook.catalog.workloads import workloads
from webhook.intake.read import Wrapper, read_job
from webhook.model.job import Coupling, Role, TrainingJob
from webhook.model.request import Kind, User

JOB_SET = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet")
LWS = Kind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet")
RAY_CLUSTER = Kind("ray.io", "v1", "RayCluster")
RAY_JOB = Kind("ray.io", "v1", "RayJob")
VOLCANO_JOB = Kind("batch.volcano.sh", "v1alpha1", "Job")
MPI_JOBS = [Kind("kubeflow.org", version, "MPIJob") for version in ("v1", "v2beta1")]
TF_JOB = Kind("kubeflow.org", "v1", "TFJob")
STATEFUL_SET = Kind("apps", "v1", "StatefulSet")
POD = Kind("", "v1", "Pod")

each_job = pytest.mark.parametrize("manifest", JOBS, ids=lambda one: one.stem)
each_wrapper = pytest.mark.parametrize("manifest", WRAPPERS, ids=lambda one: one.stem)


def kind_of(manifest: Manifest) -> Kind:
    group, _, version = manifest.source["apiVersion"].rpartition("/")
    return Kind(group, version, manifest.source["kind"])


def counted(found: TrainingJob) -> list[tuple[str, int, int]]:
    """Of each role: name, pods, and how many of them must run."""
    return [(role.name, role.pods, role.gang) for role in found.roles]


def only(found: TrainingJob) -> Role:
    (role,) = found.device_roles
    return role


# Every kind.


@each_job
def test_a_job_of_four_pods_with_two_devices_is_read_alike_of_every_kind(manifest: Manifest) -> None:
    found = read(manifest.source, kind_of(manifest))
    assert sum(role.pods * role.devices for role in found.device_roles) == 8
    assert sum(role.gang for role in found.device_roles) == 4
    assert found.coupling in (Coupling.SYNCHRONOUS, Coupling.UNKNOWN)
    assert (found.name, found.suspended, found.started) == ("ddp", False, found.started)
    assert [role.name for role in found.roles if not role.devices] == {
        "pytorchjob": ["Master"],
        "tfjob": ["PS"],
        "xgboostjob": ["Master"],
        "paddlejob": ["Master"],
        "mpijob-v1": ["Launcher"],
        "mpijob-v2beta1": ["Launcher"],
        "raycluster": ["head", "loaders"],
        "rayjob": ["head", "loaders", "submitter"],
        "jobset": ["driver"],
        "volcano-job": ["master"],
    }.get(manifest.stem, [])


@each_job
def test_a_role_points_at_its_own_pod_spec(manifest: Manifest) -> None:
    pointed = [(at(manifest.source, role.spec), role) for role in read(manifest.source, kind_of(manifest)).roles]
    assert {id(spec) for spec, _ in pointed} == {id(spec) for spec in pod_specs(manifest.source)}
    assert [bool(role.devices) for _, role in pointed] == [asks(spec) for spec, _ in pointed]


def at(obj: Json, path: tuple[object, ...]) -> Json:
    for step in path:
        obj = obj[step]
    return obj


@each_job
def test_a_suspended_job_is_held_back_and_nulls_count_as_not_set(manifest: Manifest) -> None:
    suspend = manifest.workload.suspend
    if suspend is None:
        assert manifest.stem in ("volcano-job", "leaderworkerset", "statefulset")
        return
    held: Json = [{"name": "a"}] if manifest.stem == "pod" else True
    for value, expected in ((held, True), (None, False), ([] if manifest.stem == "pod" else False, False)):
        obj = deepcopy(manifest.source)
        parent = obj
        for name in suspend[:-1]:
            parent = parent.setdefault(name, {})
        parent[suspend[-1]] = value
        found = read(obj, kind_of(manifest))
        assert found.suspended is expected
        assert found.template_fixed is (manifest.workload.template == "UntilStarted" and not expected)


@each_job
@pytest.mark.parametrize("hostile", [-1, 2**31, "4", True, 1.5, [], {}, 10**400], ids=lambda one: str(one)[:20])
def test_a_number_that_is_none_is_named_by_its_path(manifest: Manifest, hostile: Json) -> None:
    for path in numbers(manifest.source["spec"], ("spec",)):
        obj = deepcopy(manifest.source)
        at(obj, path[:-1])[path[-1]] = hostile
        found = read_job(obj, kind=kind_of(manifest), namespace="team-a", user=User("alice"))
        if isinstance(found, TrainingJob):
            # The operator's to judge: there is one launcher, and slots only count where they say several.
            assert path[-2:] in [("Launcher", "replicas"), ("spec", "slotsPerWorker")]
        else:
            assert not isinstance(found, Wrapper)
            (finding,) = found.findings
            assert finding.where.endswith(str(path[-1]))


def numbers(value: Json, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [(*path, key) for key, one in inner if type(one) is int]
    return found + [place for key, one in inner for place in numbers(one, (*path, key))]


# JobSet.


def job_set(*jobs: Json) -> dict[str, Any]:
    return {"metadata": {"name": "set"}, "spec": {"replicatedJobs": list(jobs)}}


def replicated(*command: str, name: str | None = "ranks", replicas: Json = None, gpus: int = 1, **spec: Json) -> Json:
    inner = {**spec, "template": template(container(*command, gpus=gpus))}
    found = {"name": name, "replicas": replicas, "template": {"spec": inner}}
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("fields", "pods", "runs"),
    [
        ({}, 1, 1),
        ({"replicas": 4}, 4, 4),
        ({"replicas": 2, "parallelism": 4, "completions": 4}, 8, 8),
        ({"replicas": 2, "parallelism": 2, "completions": 8}, 4, 16),
        ({"replicas": 0, "parallelism": 2}, 0, 0),
        ({"parallelism": None, "completions": 3}, 1, 3),
    ],
)
def test_pods_of_a_replicated_job_are_those_of_its_job_so_many_times(
    fields: dict[str, Json], pods: int, runs: int
) -> None:
    role = only(read(job_set(replicated("x", **fields)), JOB_SET))
    assert (role.pods, role.gang, role.runs) == (pods, pods, runs)


def test_a_replicated_job_without_a_name_goes_by_its_place() -> None:
    assert counted(read(job_set(replicated("x", name=None), replicated("x", name="b")), JOB_SET)) == [
        ("0", 1, 1),
        ("b", 1, 1),
    ]


def test_fewer_pods_of_a_job_set_change_the_one_factor_that_is_not_one() -> None:
    cases: list[dict[str, Any]] = [{"replicas": 4}, {"replicas": 1, "parallelism": 4, "completions": 4}]
    for fields in cases:
        source = job_set(replicated("torchrun", "--nnodes=4", "t.py", **fields))
        after = changed(source, (only(read(source, JOB_SET)).replicas(), 2))
        assert only(read(after, JOB_SET)).pods == 2
        assert at(after, only(read(after, JOB_SET)).spec)["containers"][0]["command"][1] == "--nnodes=2"
    both = job_set(replicated("x", replicas=2, parallelism=2, completions=2))
    assert only(read(both, JOB_SET)).replicas() is None


def test_several_jobs_of_a_set_belong_together_in_a_way_that_the_object_does_not_tell() -> None:
    found = read(job_set(replicated("python", "t.py", replicas=4, gpus=8)), JOB_SET)
    assert (found.coupling, found.selector_only) == (Coupling.UNKNOWN, True)
    assert read(job_set(replicated("torchrun", "--nnodes=4", "t.py", replicas=4)), JOB_SET).coupling == "Synchronous"


@pytest.mark.parametrize(
    "spec", [None, {}, {"replicatedJobs": None}, {"replicatedJobs": []}, {"replicatedJobs": [{"name": "a"}]}]
)
def test_a_job_set_of_nothing_has_no_roles(spec: Json) -> None:
    assert read({"metadata": {}, "spec": spec}, JOB_SET).roles == ()


@pytest.mark.parametrize(
    ("jobs", "where"),
    [
        ("none", "spec.replicatedJobs"),
        ([None], "spec.replicatedJobs[0]"),
        ([{"name": 1, "template": {}}], "spec.replicatedJobs[0].name"),
        ([{"template": {"spec": []}}], "spec.replicatedJobs[0].template.spec"),
        ([{"template": {"spec": {"template": {"spec": 1}}}}], "spec.replicatedJobs[0].template.spec.template.spec"),
    ],
)
def test_what_is_wrong_in_a_list_of_roles_is_named(jobs: Json, where: str) -> None:
    (finding,) = outside({"metadata": {}, "spec": {"replicatedJobs": jobs}}, JOB_SET).findings
    assert (finding.code, finding.where) == ("SST101", where)


# Ray.


def worker_group(**fields: Json) -> Json:
    return {"groupName": "workers", "template": template(container("ray", "start", gpus=8)), **fields}


def ray_cluster(*groups: Json, **spec: Json) -> dict[str, Any]:
    head = {"template": template(container("ray", "start", gpus=None))}
    return {"metadata": {"name": "ray"}, "spec": {"headGroupSpec": head, "workerGroupSpecs": list(groups), **spec}}


@pytest.mark.parametrize(
    ("fields", "scales", "pods", "gang"),
    [
        ({"replicas": 4, "minReplicas": 4, "maxReplicas": 4}, None, 4, 4),
        ({"replicas": 4}, False, 4, 4),
        # KubeRay keeps them between their bounds.
        ({"replicas": 1, "minReplicas": 2}, False, 2, 2),
        ({"minReplicas": 3}, None, 3, 3),
        ({"replicas": 8, "maxReplicas": 2}, None, 2, 2),
        # The definition's own defaults.
        ({"replicas": 0, "minReplicas": 0, "maxReplicas": 2147483647, "numOfHosts": 1}, None, 0, 0),
        ({}, None, 0, 0),
        # A cluster that scales itself begins with its least and may come to its most.
        ({"replicas": 2, "minReplicas": 1, "maxReplicas": 8}, True, 8, 1),
        ({"replicas": 4, "minReplicas": 2, "maxReplicas": 2147483647}, True, 4, 2),
        ({"replicas": 0, "minReplicas": 0, "maxReplicas": 2147483647}, True, 2, 0),
        ({"replicas": None, "minReplicas": None}, True, 2, 0),
        # Each replica may be several hosts.
        ({"replicas": 2, "minReplicas": 2, "numOfHosts": 4}, False, 8, 8),
        ({"replicas": 2, "minReplicas": 1, "maxReplicas": 4, "numOfHosts": 4}, True, 16, 4),
        ({"replicas": 2, "numOfHosts": None}, False, 2, 2),
    ],
)
def test_workers_of_a_ray_cluster_are_kept_between_their_bounds(
    fields: dict[str, Json], scales: bool | None, pods: int, gang: int
) -> None:
    source = ray_cluster(worker_group(**fields), enableInTreeAutoscaling=scales)
    assert counted(read(source, RAY_CLUSTER)) == [("head", 1, 1), ("workers", pods, gang)]
    job = {"metadata": {"name": "ray"}, "spec": {"rayClusterSpec": source["spec"]}}
    assert counted(read(job, RAY_JOB)) == [("head", 1, 1), ("workers", pods, gang)]


def test_a_cluster_that_may_scale_to_several_pods_is_several() -> None:
    one = worker_group(replicas=0, minReplicas=0, maxReplicas=2147483647)
    assert read(ray_cluster(one, enableInTreeAutoscaling=True), RAY_CLUSTER).coupling is Coupling.UNKNOWN
    assert read(ray_cluster(worker_group(replicas=1)), RAY_CLUSTER).coupling is Coupling.ONE_NODE


def test_fewer_workers_of_a_ray_cluster_move_the_bounds_that_would_bring_them_back() -> None:
    source = ray_cluster(worker_group(replicas=4, minReplicas=4, maxReplicas=4))
    after = changed(source, (only(read(source, RAY_CLUSTER)).replicas(), 2))
    group = after["spec"]["workerGroupSpecs"][0]
    assert [group[name] for name in ("replicas", "minReplicas", "maxReplicas")] == [2, 2, 2]
    scaling = ray_cluster(worker_group(replicas=4, minReplicas=1, maxReplicas=4), enableInTreeAutoscaling=True)
    assert only(read(scaling, RAY_CLUSTER)).replicas() is None


def test_the_batch_of_a_ray_job_is_read_from_its_entrypoint_and_can_be_changed_there() -> None:
    source = {
        "metadata": {"name": "ray"},
        "spec": {
            "entrypoint": "python train.py --per_device_train_batch_size 64 --epochs 3",
            "rayClusterSpec": ray_cluster(worker_group(replicas=4))["spec"],
            "submitterPodTemplate": template(container("ray", "job", "submit", gpus=None)),
        },
    }
    found = read(source, RAY_JOB)
    assert [role.name for role in found.roles] == ["head", "workers", "submitter"]
    assert found.batch.micro is not None
    assert (found.batch.micro.value, found.batch.micro.field) == (64, "spec.entrypoint")
    after = changed(source, (edit_of(found.batch.micro), 32))
    assert after["spec"]["entrypoint"] == "python train.py --per_device_train_batch_size 32 --epochs 3"
    (finding,) = outside({**source, "spec": {**source["spec"], "entrypoint": ["python"]}}, RAY_JOB).findings
    assert finding.where == "spec.entrypoint"


def test_a_ray_job_on_a_cluster_that_is_there_already_asks_for_nothing_itself() -> None:
    source = {"metadata": {"name": "ray"}, "spec": {"clusterSelector": {"ray.io/cluster": "a"}, "entrypoint": "a"}}
    assert read(source, RAY_JOB).roles == ()


# MPIJob.


def mpi_job(launcher: Json = None, worker: Json = None, **spec: Json) -> dict[str, Any]:
    launcher = {"template": template(container("mpirun", "-np", "16", "python", "t.py", gpus=None))} | (launcher or {})
    worker = {"replicas": 2, "template": template(container("sshd", "-De", gpus=8))} | (worker or {})
    return {"metadata": {"name": "mpi"}, "spec": {"mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker}, **spec}}


@pytest.mark.parametrize("kind", MPI_JOBS, ids=lambda one: one.version)
def test_the_launcher_of_an_mpi_job_speaks_for_the_workers(kind: Kind) -> None:
    batch = container("mpirun", "-np", "16", "python", "t.py", "--per_device_train_batch_size=32", gpus=None)
    source = mpi_job({"template": template(batch)}, slotsPerWorker=8)
    found = read(source, kind)
    assert counted(found) == [("Launcher", 1, 1), ("Worker", 2, 2)]
    assert (found.coupling, found.coupling_because) == (Coupling.SYNCHRONOUS, "mpirun -np=16")
    assert found.batch.micro is not None
    assert found.batch.micro.value == 32
    after = changed(source, (only(found).replicas(), 1))
    specs = after["spec"]["mpiReplicaSpecs"]
    assert specs["Worker"]["replicas"] == 1
    assert specs["Launcher"]["template"]["spec"]["containers"][0]["command"][2] == "8"


@pytest.mark.parametrize("kind", MPI_JOBS, ids=lambda one: one.version)
def test_an_mpi_job_has_one_launcher_and_no_worker_where_their_numbers_are_not_set(kind: Kind) -> None:
    assert counted(read(mpi_job(worker={"replicas": None}), kind)) == [("Launcher", 1, 1), ("Worker", 0, 0)]


def test_a_launcher_that_works_too_is_a_rank() -> None:
    launcher = {"template": template(container("mpirun", "-np", "24", "python", "t.py", gpus=8))}
    found = read(mpi_job(launcher, runLauncherAsWorker=True), MPI_JOBS[1])
    assert [(role.name, role.pods, role.devices) for role in found.device_roles] == [
        ("Launcher", 1, 8),
        ("Worker", 2, 8),
    ]
    assert found.roles[0].replicas() is None
    after = changed(mpi_job(launcher, runLauncherAsWorker=True), (found.roles[1].replicas(), 1))
    launched = after["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    assert launched["command"][2] == "16"


def test_a_launcher_that_does_not_work_itself_is_no_rank_and_speaks_for_the_workers_all_the_same() -> None:
    launcher = {"template": template(container("mpirun", "-np", "16", "python", "t.py", gpus=1))}
    found = read(mpi_job(launcher), MPI_JOBS[1])
    assert [role.name for role in found.device_roles] == ["Worker"]
    assert (found.coupling, found.coupling_because, found.findings) == (Coupling.SYNCHRONOUS, "mpirun -np=16", ())
    assert [role.name for role in read(mpi_job(launcher), MPI_JOBS[0]).device_roles] == ["Launcher", "Worker"]


def test_a_launcher_without_workers_is_the_job() -> None:
    launcher = {"template": template(container("mpirun", "-np", "8", "python", "t.py", gpus=8))}
    found = read(mpi_job(launcher, worker={"replicas": 0}), MPI_JOBS[1])
    assert [role.name for role in found.device_roles] == ["Launcher", "Worker"]
    assert found.coupling is Coupling.ONE_NODE


# Volcano.


def volcano_job(*tasks: Json, **spec: Json) -> dict[str, Any]:
    return {"metadata": {"name": "vc"}, "spec": {"tasks": list(tasks), **spec}}


def task(name: str | None, replicas: Json, gpus: int | None = 1, **fields: Json) -> Json:
    found = {"name": name, "replicas": replicas, "template": template(container("x", gpus=gpus)), **fields}
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("job", "gangs"),
    [
        (volcano_job(task("ps", 2, None), task("worker", 8)), [2, 8]),
        (volcano_job(task("ps", 2, None), task("worker", 8), minAvailable=10), [2, 8]),
        (volcano_job(task("ps", 2, None), task("worker", 8), minAvailable=0), [2, 8]),
        (volcano_job(task("ps", 2, None), task("worker", 8), minAvailable=None), [2, 8]),
        # So many of all: of each, those that the others cannot make up for.
        (volcano_job(task("ps", 2, None), task("worker", 8), minAvailable=6), [0, 4]),
        (volcano_job(task("ps", 2, None), task("worker", 8), minAvailable=1), [0, 0]),
        (volcano_job(task("ps", 2, None), task("worker", 8), minAvailable=99), [2, 8]),
        # A task's own least, which counts where the job's number is no smaller than all of them together.
        (volcano_job(task("ps", 2, None), task("worker", 8, minAvailable=3)), [2, 3]),
        (volcano_job(task("ps", 2, None), task("worker", 8, minAvailable=3), minAvailable=5), [2, 3]),
        (volcano_job(task("ps", 2, None), task("worker", 8, minAvailable=3), minAvailable=7), [2, 5]),
        (volcano_job(task("ps", 2, None), task("worker", 8, minAvailable=3), minAvailable=3), [0, 1]),
    ],
)
def test_so_many_pods_of_a_volcano_job_must_run(job: Json, gangs: list[int]) -> None:
    assert [role.gang for role in read(job, VOLCANO_JOB).roles] == gangs
    assert [role.pods for role in read(job, VOLCANO_JOB).roles] == [2, 8]


def test_a_volcano_task_has_no_pods_where_none_are_set_and_goes_by_its_place_without_a_name() -> None:
    assert counted(read(volcano_job(task(None, None), task("b", 1)), VOLCANO_JOB)) == [("0", 0, 0), ("b", 1, 1)]


def test_fewer_pods_of_a_volcano_task_lower_what_must_run_of_it_and_of_all() -> None:
    source = volcano_job(task("ps", 2, None), task("worker", 8, minAvailable=8), minAvailable=10)
    after = changed(source, (only(read(source, VOLCANO_JOB)).replicas(), 4))
    assert [after["spec"]["tasks"][1][name] for name in ("replicas", "minAvailable")] == [4, 4]
    assert after["spec"]["minAvailable"] == 6
    elastic = volcano_job(task("worker", 8), minAvailable=4)
    assert only(read(elastic, VOLCANO_JOB)).replicas() is None


@pytest.mark.parametrize(
    ("plugins", "coupling"),
    [
        (None, Coupling.UNKNOWN),
        ({"svc": [], "env": []}, Coupling.UNKNOWN),
        ({"pytorch": ["--master=a"]}, Coupling.SYNCHRONOUS),
        ({"pytorch": []}, Coupling.SYNCHRONOUS),
        ({"mpi": []}, Coupling.SYNCHRONOUS),
    ],
)
def test_a_plugin_of_volcano_that_sets_up_a_process_group_couples(plugins: Json, coupling: Coupling) -> None:
    assert read(volcano_job(task("worker", 4), plugins=plugins), VOLCANO_JOB).coupling is coupling


def test_the_template_of_a_volcano_job_never_changes() -> None:
    assert read(volcano_job(task("worker", 4)), VOLCANO_JOB).template_fixed


# LeaderWorkerSet.


def leader_worker_set(*command: str, leader: bool = False, **fields: Json) -> dict[str, Any]:
    held = {"workerTemplate": template(container(*command, gpus=8))}
    if leader:
        held["leaderTemplate"] = template(container(*command, gpus=8))
    size, replicas = fields.pop("size", None), fields.pop("replicas", None)
    return {"metadata": {"name": "lws"}, "spec": {"replicas": replicas, "leaderWorkerTemplate": {**held, "size": size}}}


@pytest.mark.parametrize(
    ("fields", "roles"),
    [
        ({}, [("worker", 1, 1)]),
        ({"size": 4}, [("worker", 4, 4)]),
        ({"size": 4, "replicas": 2}, [("worker", 8, 4)]),
        ({"size": 4, "replicas": 0}, [("worker", 0, 4)]),
        ({"size": 4, "leader": True}, [("leader", 1, 1), ("worker", 3, 3)]),
        ({"size": 4, "replicas": 3, "leader": True}, [("leader", 3, 1), ("worker", 9, 3)]),
        ({"size": 1, "leader": True}, [("leader", 1, 1), ("worker", 0, 0)]),
        ({"size": 0, "leader": True}, [("leader", 1, 1), ("worker", 0, 0)]),
    ],
)
def test_each_group_of_a_leader_worker_set_is_a_gang(fields: dict[str, Any], roles: list[tuple[str, int, int]]) -> None:
    assert counted(read(leader_worker_set("x", **fields), LWS)) == roles


def test_a_leader_worker_set_serves_unless_a_launcher_spans_its_pods() -> None:
    assert read(leader_worker_set("vllm", "serve", "a", size=4), LWS).coupling is Coupling.SERVING
    assert read(leader_worker_set("torchrun", "--nnodes=4", "t.py", size=4), LWS).coupling is Coupling.SYNCHRONOUS


def test_fewer_pods_of_a_group_change_its_size_and_of_several_groups_nothing() -> None:
    source = leader_worker_set("torchrun", "--nnodes=4", "t.py", size=4)
    after = changed(source, (only(read(source, LWS)).replicas(), 2))
    assert after["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert only(read(leader_worker_set("torchrun", "--nnodes=4", "t.py", size=4, replicas=2), LWS)).replicas() is None


# Those of kubeflow.org/v1.


def test_parameter_servers_and_evaluators_of_a_tf_job_are_no_ranks() -> None:
    roles: dict[str, Any] = {
        name: {"template": template(container("x", gpus=1))} for name in ("PS", "Chief", "Evaluator")
    }
    found = read({"metadata": {}, "spec": {"tfReplicaSpecs": roles}}, TF_JOB)
    assert [role.name for role in found.device_roles] == ["Chief"]
    assert [role.name for role in found.roles if role.apart] == ["PS", "Evaluator"]
    assert found.coupling is Coupling.SINGLE  # the chief alone is a rank, with one device
    roles["Worker"] = {"replicas": 3, "template": template(container("x", gpus=1))}
    assert read({"metadata": {}, "spec": {"tfReplicaSpecs": roles}}, TF_JOB).coupling is Coupling.SYNCHRONOUS
    del roles["Chief"], roles["Worker"]
    alone = read({"metadata": {}, "spec": {"tfReplicaSpecs": roles}}, TF_JOB)
    assert [role.name for role in alone.device_roles] == ["PS", "Evaluator"]


def test_the_batch_of_an_evaluator_is_not_that_of_the_ranks() -> None:
    roles = {
        name: {"replicas": 2, "template": template(container("x", f"--per_device_train_batch_size={batch}", gpus=1))}
        for name, batch in (("Worker", 8), ("Evaluator", 64))
    }
    found = read({"metadata": {}, "spec": {"tfReplicaSpecs": roles}}, TF_JOB)
    assert found.batch.micro is not None
    assert (found.batch.micro.value, found.findings) == (8, ())


def test_an_elastic_paddle_job_needs_only_its_least_workers() -> None:
    roles = {"Worker": {"replicas": 8, "template": template(container("x"))}}
    spec = {"paddleReplicaSpecs": roles, "elasticPolicy": {"minReplicas": 2}}
    assert counted(read({"metadata": {}, "spec": spec}, Kind("kubeflow.org", "v1", "PaddleJob"))) == [("Worker", 8, 2)]


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("TFJob", "tfReplicaSpecs"),
        ("XGBoostJob", "xgbReplicaSpecs"),
        ("PaddleJob", "paddleReplicaSpecs"),
        ("JAXJob", "jaxReplicaSpecs"),
    ],
)
def test_a_job_of_kubeflow_has_started_once_it_has_a_start_time(kind: str, field: str) -> None:
    roles = {"Worker": {"replicas": 2, "template": template(container("x"))}}
    source = {"metadata": {}, "spec": {field: roles, "runPolicy": {"suspend": True}}}
    known = Kind("kubeflow.org", "v1", kind)
    held = read({**source, "status": {"conditions": [{"type": "Created"}, {"type": "Suspended"}]}}, known)
    begun = read({**source, "status": {"startTime": "2027-01-01T00:00:00Z"}}, known)
    assert [(one.suspended, one.started) for one in (held, begun)] == [(True, False), (True, True)]
    assert held.coupling is Coupling.SYNCHRONOUS


# StatefulSet and Pod.


def test_a_stateful_set_is_read_only_where_it_is_said_to_train() -> None:
    source: dict[str, Any] = {"metadata": {}, "spec": {"replicas": 4, "template": template(container("x"))}}
    assert "serves" in outside(source, STATEFUL_SET).because
    source["metadata"] = {"annotations": {"samestep.dev/coupling": "Synchronous"}}
    found = read(source, STATEFUL_SET)
    assert (found.coupling_wish, counted(found)) == (Coupling.SYNCHRONOUS, [("StatefulSet", 4, 4)])


def pod(*command: str, gpus: int = 8, **metadata: Json) -> dict[str, Any]:
    return {"metadata": {"name": "a", **metadata}, "spec": {"containers": [container(*command, gpus=gpus)]}}


@pytest.mark.parametrize(
    ("metadata", "group", "pods"),
    [
        ({}, "", 1),
        ({"labels": None, "annotations": None}, "", 1),
        ({"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}, "g", 1),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "g", 1),
        ({"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}, "g", 1),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, "g", 1),
        ({"annotations": {"scheduling.volcano.sh/group-name": "g"}}, "g", 1),
        # The number of pods is Kueue's to say, of its own groups.
        ({"annotations": {"kueue.x-k8s.io/pod-group-total-count": "4"}}, "", 1),
        *(
            (
                {
                    "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
                    "annotations": {"kueue.x-k8s.io/pod-group-total-count": total},
                },
                "g",
                pods,
            )
            for total, pods in (
                ("4", 4),
                ("1", 1),
                ("0", 1),
                ("-4", 1),
                ("four", 1),
                (4, 1),
                ("٤", 1),
                ("999999999", 1_000_000),
                ("9" * 400, 1),
            )
        ),
    ],
)
def test_a_pod_belongs_to_the_group_that_a_label_names(metadata: dict[str, Json], group: str, pods: int) -> None:
    found = read(pod("python", "t.py", **metadata), POD)
    assert (found.group, counted(found)) == (group, [("Pod", pods, pods)])
    assert found.coupling is (Coupling.UNKNOWN if group else Coupling.ONE_NODE)


def test_a_pod_belongs_to_those_of_the_same_controller() -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Trainer", "name": "t", "uid": "4f7c", "controller": True}
    assert read(pod("x", ownerReferences=[{**owner, "controller": False}, owner]), POD).group == "4f7c"
    assert read(pod("x", ownerReferences=[{**owner, "uid": 4}]), POD).group == ""


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_labels_that_are_no_map_are_named(where: str) -> None:
    metadata: dict[str, Any] = {where: ["kueue.x-k8s.io/pod-group-name"]}
    (finding,) = outside(pod("x", **metadata), POD).findings
    assert finding.where == f"metadata.{where}"


def test_a_launcher_in_a_bare_pod_that_spans_nodes_couples_it_to_pods_that_are_not_named() -> None:
    assert read(pod("torchrun", "--nnodes=4", "t.py"), POD).coupling is Coupling.SYNCHRONOUS
    assert read(pod("torchrun", "--standalone", "t.py"), POD).coupling is Coupling.ONE_NODE


def test_the_template_of_a_pod_may_be_narrowed_while_a_gate_holds_it_back() -> None:
    gated = pod("x")
    gated["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    found = read(gated, POD)
    assert (found.suspended, found.started, found.template_fixed, found.narrows_only) == (True, False, False, True)
    assert read(pod("x"), POD).template_fixed


# Wrappers.


@each_wrapper
def test_a_wrapper_gives_the_jobs_that_it_holds(manifest: Manifest) -> None:
    found = read_job(manifest.source, kind=kind_of(manifest), namespace="team-a", user=User("alice"))
    assert isinstance(found, Wrapper)
    (held,) = found.held
    # A runtime holds nothing: what is told is the shortest job that names it, which looks it up.
    surroundings = {held.refers_to: manifest.source} if held.refers_to else {}
    inner = read_job(held.object, kind=held.kind, namespace="team-a", user=User("alice"), surroundings=surroundings)
    assert isinstance(inner, TrainingJob)
    assert (only(inner).pods, only(inner).devices, inner.coupling) == (4, 2, Coupling.SYNCHRONOUS)
    # What a runtime declares is for no job: that is the annotation of the TrainJob.
    assert inner.declared.per_device_mib == (None if held.refers_to else 44 * 1024)
    assert inner.name == {"appwrapper": "inner", "workflow": "inner", "cronjob": "ddp-*"}.get(manifest.stem, "ddp")
    assert at(manifest.source, held.at) is not None


def test_the_manifests_name_every_resource_by_the_plural_that_the_catalog_has() -> None:
    assert {one.workload.plural for one in MANIFESTS} == {one.plural for one in workloads().reviewed} - {"trainjobs"}
    assert GPU in str([one.source for one in JOBS])


def workflow(*templates: Json, **spec: Json) -> dict[str, Any]:
    return {"metadata": {"name": "wf"}, "spec": {"templates": list(templates), **spec}}


def held_by(source: Json, kind: Kind) -> Wrapper:
    found = read_job(source, kind=kind, namespace="team-a", user=User("alice"))
    assert isinstance(found, Wrapper), found
    return found


WORKFLOW = Kind("argoproj.io", "v1alpha1", "Workflow")


def test_steps_of_a_workflow_are_pods_with_the_selectors_of_the_whole() -> None:
    step = container("torchrun", "--standalone", "t.py", gpus=2)
    source = workflow(
        {"name": "one", "container": step},
        {"name": "two", "script": {**step, "command": ["bash"], "source": "torchrun --standalone t.py"}},
        {"name": "three", "containerSet": {"containers": [step, step]}, "nodeSelector": {"a": "own"}},
        {"name": "steps", "steps": [[{"name": "a", "template": "one"}]]},
        nodeSelector={"a": "whole"},
    )
    pods = [read(one.object, one.kind) for one in held_by(source, WORKFLOW).held]
    assert [(one.name, only(one).devices) for one in pods] == [("one", 2), ("two", 2), ("three", 4)]
    assert [dict(only(one).placement.node_selector) for one in pods] == [{"a": "whole"}, {"a": "whole"}, {"a": "own"}]
    assert all(one.coupling is Coupling.ONE_NODE for one in pods)


@pytest.mark.parametrize(
    ("manifest", "held"),
    [
        (None, 0),
        ("", 0),
        ("apiVersion: batch/v1\nkind: Job\n---\napiVersion: v1\nkind: Pod\n", 2),
        # A placeholder is filled in when the step runs: the object is decided then.
        ("apiVersion: batch/v1\nkind: {{inputs.parameters.kind}}\n", 0),
    ],
)
def test_a_step_that_creates_objects_holds_them(manifest: Json, held: int) -> None:
    assert len(held_by(workflow({"name": "a", "resource": {"manifest": manifest}}), WORKFLOW).held) == held


@pytest.mark.parametrize(
    ("kind", "source", "where"),
    [
        (WORKFLOW, workflow({"resource": {"manifest": ["a"]}}), "spec.templates[0].resource.manifest"),
        (WORKFLOW, workflow({"resource": {"manifest": "a: b: c"}}), "spec.templates[0].resource.manifest"),
        (WORKFLOW, workflow({"resource": {"manifest": "- a"}}), "spec.templates[0].resource.manifest"),
        (WORKFLOW, workflow({"resource": {"manifest": "a" * 300_000}}), "spec.templates[0].resource.manifest"),
        (WORKFLOW, workflow({"containerSet": []}), "spec.templates[0].containerSet"),
        (WORKFLOW, workflow(None), "spec.templates[0]"),
        (Kind("batch", "v1", "CronJob"), {"spec": {"jobTemplate": []}}, "spec.jobTemplate"),
        (
            Kind("workload.codeflare.dev", "v1beta2", "AppWrapper"),
            {"spec": {"components": [{"template": {"kind": "Job"}}]}},
            "spec.components[0].template",
        ),
    ],
)
def test_what_is_wrong_in_a_wrapper_is_named(kind: Kind, source: Json, where: str) -> None:
    (finding,) = outside(source, kind).findings
    assert (finding.code, finding.where) == ("SST101", where)
