import pytest

from tests.unit.intake.jobs import (
    GPU,
    JOB,
    PYTORCH_JOB,
    Json,
    changed,
    container,
    job,
    outside,
    pytorch_job,
    read,
    template,
)
from webhook.answer.wording import own_sentence
from webhook.model.request import User

TORCHRUN = ("torchrun", "--nnodes=8", "--nproc-per-node=8", "train.py")


@pytest.mark.parametrize(
    ("parallelism", "completions", "pods", "runs"),
    [
        (None, None, 1, 1),
        (4, None, 4, 4),
        (4, 4, 4, 4),
        (4, 100, 4, 100),
        (8, 4, 4, 4),
        (None, 5, 1, 5),
        (0, 5, 0, 5),
        (0, None, 0, 0),
    ],
)
def test_pods_of_a_job_are_the_lesser_of_parallelism_and_completions(
    parallelism: int | None, completions: int | None, pods: int, runs: int
) -> None:
    spec = {"parallelism": parallelism, "completions": completions, "template": template(container("x"))}
    (role,) = read({"metadata": {}, "spec": spec}).roles
    assert (role.name, role.pods, role.gang, role.runs) == ("Job", pods, pods, runs)


def test_replicas_of_a_pytorch_job_are_one_where_they_are_not_set() -> None:
    specs = {"Master": {"template": template(container("x"))}, "Worker": {"replicas": 3, "template": {}}, "Old": None}
    found = read({"metadata": {}, "spec": {"pytorchReplicaSpecs": specs}}, PYTORCH_JOB)
    assert [(role.name, role.pods, role.runs, role.devices) for role in found.roles] == [
        ("Master", 1, 1, 1),
        ("Worker", 3, 3, 0),
    ]
    assert [role.name for role in found.device_roles] == ["Master"]


def test_a_role_points_at_its_pod_spec() -> None:
    assert [role.spec for role in read(pytorch_job(container("x")), PYTORCH_JOB).roles] == [
        ("spec", "pytorchReplicaSpecs", "Master", "template", "spec"),
        ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec"),
    ]


def test_an_elastic_pytorch_job_needs_only_its_least_workers_and_its_replicas_are_not_for_us_to_change() -> None:
    found = read(pytorch_job(container("x"), workers=8, elasticPolicy={"minReplicas": 2}), PYTORCH_JOB)
    assert [(role.name, role.pods, role.gang) for role in found.roles] == [("Master", 1, 1), ("Worker", 8, 2)]
    assert found.roles[1].replicas() is None


def test_a_range_of_nodes_sets_the_gang_of_a_kind_without_an_elastic_field() -> None:
    elastic = ("torchrun", "--nnodes=2:8", "train.py")
    assert read(job(container(*elastic), pods=8)).roles[0].gang == 2
    assert read(job(container(*elastic), pods=2)).roles[0].gang == 2
    assert read(pytorch_job(container(*elastic), workers=7), PYTORCH_JOB).roles[1].gang == 7


def test_fewer_pods_of_a_job_change_parallelism_and_completions_and_what_the_launcher_is_told() -> None:
    source = job(container(*TORCHRUN, gpus=8), pods=8, indexed=True)
    after = changed(source, (read(source).roles[0].replicas(), 4))
    assert (after["spec"]["parallelism"], after["spec"]["completions"]) == (4, 4)
    assert after["spec"]["template"]["spec"]["containers"][0]["command"][1] == "--nnodes=4"
    assert read(after).roles[0].pods == 4


def test_fewer_pods_of_a_work_queue_change_parallelism_alone() -> None:
    source = job(container("python", "trial.py"), parallelism=4, completions=100)
    after = changed(source, (read(source).roles[0].replicas(), 2))
    assert (after["spec"]["parallelism"], after["spec"]["completions"]) == (2, 100)


def test_fewer_workers_tell_the_launchers_of_all_roles_how_many_nodes_are_left() -> None:
    source = pytorch_job(container(*TORCHRUN), workers=7)
    after = changed(source, (read(source, PYTORCH_JOB).roles[1].replicas(), 3))
    specs = after["spec"]["pytorchReplicaSpecs"]
    assert specs["Worker"]["replicas"] == 3
    for name in ("Master", "Worker"):
        assert specs[name]["template"]["spec"]["containers"][0]["command"][1] == "--nnodes=4"


def test_there_is_one_master_whatever_a_suggestion_wants() -> None:
    assert read(pytorch_job(container("x"), workers=3), PYTORCH_JOB).roles[0].replicas() is None


@pytest.mark.parametrize(
    ("command", "after"),
    [
        (
            ["accelerate", "launch", "--num_machines", "2", "--num_processes", "16", "train.py"],
            ["accelerate", "launch", "--num_machines", "1", "--num_processes", "8", "train.py"],
        ),
        (["sh", "-c", "N=2; torchrun --nnodes $N t.py"], ["sh", "-c", "N=1; torchrun --nnodes $N t.py"]),
        (["mpirun", "-np", "16", "python", "train.py"], ["mpirun", "-np", "8", "python", "train.py"]),
    ],
)
def test_numbers_of_nodes_and_processes_follow_the_number_of_pods(command: list[str], after: list[str]) -> None:
    source = job(container(*command, gpus=8), pods=2)
    result = changed(source, (read(source).roles[0].replicas(), 1))
    assert result["spec"]["template"]["spec"]["containers"][0]["command"] == after


@pytest.mark.parametrize(
    "command",
    [
        ("accelerate", "launch", "--num_processes", "8", "train.py"),
        ("torchrun", "--standalone", "--nproc-per-node=8", "train.py"),
        ("torchrun", "--nnodes=1", "train.py"),
    ],
)
def test_launchers_that_stay_in_their_pod_are_left_alone(command: tuple[str, ...]) -> None:
    source = job(container(*command, gpus=8), pods=4)
    after = changed(source, (read(source).roles[0].replicas(), 2))
    assert after["spec"]["parallelism"] == 2
    assert after["spec"]["template"] == source["spec"]["template"]


def test_a_literal_world_size_follows_the_number_of_pods() -> None:
    env = [{"name": "MASTER_ADDR", "value": "ddp-0"}, {"name": "WORLD_SIZE", "value": "32"}]
    source = job(container("python", "train.py", gpus=8, env=env), pods=4)
    after = changed(source, (read(source).roles[0].replicas(), 2))
    assert after["spec"]["template"]["spec"]["containers"][0]["env"][1]["value"] == "16"


@pytest.mark.parametrize(
    "command",
    [
        ("torchrun", "--nnodes=$(NODES)", "train.py"),
        ("torchrun", "--nnodes=3", "train.py"),
        ("torchrun", "--nnodes=2:4", "train.py"),
        ("deepspeed", "--hostfile=/etc/hosts.txt", "train.py"),
    ],
)
def test_pods_are_not_for_us_to_change_where_the_launcher_would_wait_for_those_that_are_gone(
    command: tuple[str, ...],
) -> None:
    env = [{"name": "NODES", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}}]
    assert read(job(container(*command, env=env), pods=4)).roles[0].replicas() is None


def test_what_the_controller_itself_sets_follows_by_itself() -> None:
    source = pytorch_job(container("torchrun", "--nnodes=$(PET_NNODES)", "train.py"), workers=3)
    assert read(source, PYTORCH_JOB).roles[1].replicas() is not None


@pytest.mark.parametrize(
    ("suspend", "status", "suspended", "started", "fixed"),
    [
        (None, {}, False, False, True),
        (True, None, True, False, False),
        (True, {"startTime": "2027-01-01T00:00:00Z"}, True, True, True),
        (False, {"startTime": "2027-01-01T00:00:00Z"}, False, True, True),
        (True, [], True, False, False),
    ],
)
def test_the_template_of_a_job_may_change_while_it_is_suspended_and_has_never_started(
    suspend: object, status: object, suspended: bool, started: bool, fixed: bool
) -> None:
    found = read({**job(container("x"), suspend=suspend), "status": status})
    assert (found.suspended, found.started, found.template_fixed) == (suspended, started, fixed)


@pytest.mark.parametrize(
    ("status", "started"), [({"conditions": [{"type": "Suspended"}]}, False), ({"startTime": "2027-01-01"}, True)]
)
def test_the_template_of_a_pytorch_job_is_never_fixed(status: Json, started: bool) -> None:
    found = read({**pytorch_job(container("x"), runPolicy={"suspend": True}), "status": status}, PYTORCH_JOB)
    assert (found.suspended, found.started, found.template_fixed) == (True, started, False)


@pytest.mark.parametrize(
    ("metadata", "name", "namespace"),
    [
        ({"name": "ddp", "generateName": "x-"}, "ddp", "team-a"),
        ({"generateName": "ddp-"}, "ddp-*", "team-a"),
        ({"namespace": "other"}, "", "team-a"),
        (None, "", "team-a"),
    ],
)
def test_a_job_needs_no_name_and_its_namespace_comes_from_the_request(
    metadata: object, name: str, namespace: str
) -> None:
    found = read({"metadata": metadata, "spec": job(container("x"))["spec"]})
    assert (found.name, found.namespace) == (name, namespace)


OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "p", "controller": True}
CONTROLLER = User("system:serviceaccount:kubeflow:training-operator")


@pytest.mark.parametrize(
    ("owner", "user", "child"),
    [
        (OWNER, CONTROLLER, True),
        (OWNER, User("system:kube-controller-manager"), True),
        (OWNER, User("mallory"), False),
        ({**OWNER, "controller": False}, CONTROLLER, False),
        ({**OWNER, "apiVersion": "batch/v1", "kind": "CronJob"}, CONTROLLER, False),
        ({**OWNER, "apiVersion": "kubeflow.org/v9"}, CONTROLLER, True),
        ({**OWNER, "apiVersion": 7}, CONTROLLER, False),
        ("nonsense", CONTROLLER, False),
    ],
)
def test_a_child_is_made_by_a_controller_of_a_decided_kind(owner: object, user: User, child: bool) -> None:
    source = job(container("x"))
    source["metadata"]["ownerReferences"] = [owner]
    found = read(source, JOB, user)
    assert (found.child_of is not None) is child
    if found.child_of:
        assert found.child_of.kind == "PyTorchJob"


@pytest.mark.parametrize(
    ("source", "where", "expected", "got"),
    [
        (
            job(container("x", gpus="two")),
            "spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]",
            "a quantity",
            '"two"',
        ),
        (job(parallelism="4"), "spec.parallelism", "a whole number from 0 to 2147483647", '"4"'),
        (job(parallelism=-1), "spec.parallelism", "a whole number from 0 to 2147483647", "-1"),
        (job(parallelism=10**400), "spec.parallelism", "a whole number from 0 to 2147483647", "a huge number"),
        (job(parallelism=True), "spec.parallelism", "a whole number from 0 to 2147483647", "true"),
        (job(suspend="yes"), "spec.suspend", "true or false", '"yes"'),
        (job(template=[]), "spec.template", "a map", "a list"),
        (job(template={"spec": {"containers": {}}}), "spec.template.spec.containers", "a list", "a map"),
        (job(template={"spec": {"containers": [None]}}), "spec.template.spec.containers[0]", "a map", "nothing"),
        (job(container("x", args=["a", 1])), "spec.template.spec.containers[0].args[1]", "a string", "1"),
        (
            job(container("x", env=[{"value": "v"}])),
            "spec.template.spec.containers[0].env[0].name",
            "a string",
            "nothing",
        ),
        (
            job(container("x", gpus=-1)),
            f"spec.template.spec.containers[0].resources.limits[{GPU}]",
            "a quantity of zero or more",
            "-1",
        ),
        ({"metadata": "x"}, "metadata", "a map", '"x"'),
        ({"metadata": {"annotations": []}}, "metadata.annotations", "a map", "a list"),
        ({"spec": 3}, "spec", "a map", "3"),
    ],
)
def test_a_wrong_type_is_named_by_its_path_and_by_what_stands_there(
    source: dict[str, object], where: str, expected: str, got: str
) -> None:
    (finding,) = outside(source).findings
    assert (finding.code, finding.where) == ("SST101", where)
    assert own_sentence(finding) == f"{where}: expected {expected}, got {got}"


def test_integral_floats_count_as_numbers() -> None:
    assert read(job(container("x"), parallelism=2.0, completions=2.0)).roles[0].pods == 2
