"""`samestep check`: exit status, and what is printed."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.nodes import RTX_5090, RTX_PRO_6000, gpu_node
from tests.samples import Json, ask, demo_nodes, job, patched, pod, pytorchjob
from tests.unit.intake.runtimes import definition, node, runtime, train_job
from webhook.cli import main
from webhook.model.job import PatchShape

PRODUCT = "nvidia.com/gpu.product"
PINNED = pytorchjob(memory_per_device="44Gi")
DENIED = pytorchjob(name="too-big", memory_per_device="120Gi")
ADMITTED = job(pod(gpus=1), pods=1, name="single")

Check = Callable[..., Result]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Runs the command on objects, on the demo fleet unless told otherwise."""
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(yaml.safe_dump_all(demo_nodes()))

    def run(*objects: Json, options: tuple[str, ...] = (), fleet: bool = True, stdin: str | None = None) -> Result:
        file = tmp_path / "jobs.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        words = ["check", "-f", "-" if stdin is not None else str(file)]
        if fleet:
            words += ["--fleet", str(nodes)]
        return CliRunner().invoke(main, [*words, *options], input=stdin)

    return run


def listed(result: Result) -> Any:  # noqa: ANN401 - JSON
    return json.loads(result.stdout)


def asked(obj: Json, *, old: Json | None = None, **request: Any) -> Json:  # noqa: ANN401 - fields of a request
    """An AdmissionReview of a PyTorchJob: a CREATE, or an UPDATE where there is an old object."""
    kind = {"group": "kubeflow.org", "version": "v1"}
    fields = {
        "uid": "1",
        "kind": {**kind, "kind": "PyTorchJob"},
        "resource": {**kind, "resource": "pytorchjobs"},
        "namespace": "team-a",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "user@example.com"},
        "object": obj,
        **({} if old is None else {"oldObject": old}),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**fields, **request}}


def test_all_admitted_or_pinned_is_success(check: Check) -> None:
    assert check(PINNED, ADMITTED).exit_code == 0


def test_one_denial_among_others_is_one(check: Check) -> None:
    assert check(PINNED, DENIED, ADMITTED).exit_code == 1


def test_what_cannot_be_read_outranks_a_denial_and_the_rest_is_still_judged(check: Check) -> None:
    result = check(DENIED, {"apiVersion": "v1"}, PINNED)
    assert result.exit_code == 2
    assert "unreadable: jobs.yaml#1: kind: expected a string, got nothing" in result.stderr
    assert "team-a/too-big: Deny" in result.stdout
    assert "team-a/ddp: Pin" in result.stdout


def test_nothing_to_review_is_success(check: Check) -> None:
    result = check(stdin="")
    assert (result.exit_code, result.output) == (0, "")


def test_without_nodes_the_fleet_is_asked_for(check: Check) -> None:
    result = check(PINNED, fleet=False)
    assert result.exit_code == 2
    assert "give --fleet FILE" in result.stderr


def test_nodes_among_the_inputs_serve_as_the_fleet_and_give_no_item(check: Check) -> None:
    result = check(*demo_nodes(), PINNED, fleet=False, options=("-o", "json"))
    assert result.exit_code == 0
    assert [item["object"]["name"] for item in listed(result)["items"]] == ["ddp"]


def test_what_a_decision_only_looks_up_gives_no_item(check: Check) -> None:
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "any"}}
    assert [item["source"] for item in listed(check(flavor, PINNED, options=("-o", "json")))["items"]] == [
        "jobs.yaml#1"
    ]


def test_a_fleet_file_that_cannot_be_read_is_an_error(check: Check, tmp_path: Path) -> None:
    result = check(PINNED, options=("--fleet", str(tmp_path / "none.yaml")))
    assert result.exit_code == 2
    assert "unreadable: none.yaml: No such file or directory" in result.stderr


def test_a_node_without_a_name_is_an_error(check: Check) -> None:
    (node, *_) = demo_nodes()
    node["metadata"]["name"] = None
    result = check(node, PINNED)
    assert result.exit_code == 2
    assert "jobs.yaml#0: metadata.name: expected a name" in result.stderr


def test_several_fleet_files_add_up(check: Check, tmp_path: Path) -> None:
    small, large = demo_nodes()[:2], demo_nodes()[2:]
    for name, nodes in (("small.yaml", small), ("large.json", large)):
        (tmp_path / name).write_text(yaml.safe_dump_all(nodes) if name.endswith("yaml") else listing(nodes))
    both = ("--fleet", str(tmp_path / "small.yaml"), "--fleet", str(tmp_path / "large.json"))
    assert "Pin" in check(PINNED, fleet=False, options=both).stdout
    assert check(PINNED, fleet=False, options=both[:2]).exit_code == 1


def test_standard_input_is_read(check: Check) -> None:
    result = check(stdin=json.dumps(DENIED))
    assert (result.exit_code, result.stdout.split()[0]) == (1, "stdin#0")


def test_the_patch_is_shown_as_a_diff(check: Check) -> None:
    lines = [line.strip() for line in check(PINNED).stdout.splitlines()]
    added = [line for line in lines if line.startswith("+") and not line.startswith("+++")]
    assert [line.lstrip("+ ") for line in added if "pinned" not in line] == [
        "nodeSelector:",
        f"{PRODUCT}: {RTX_PRO_6000.product}",
    ]
    assert [line for line in lines if line.startswith("-") and not line.startswith("---")] == []


def test_nothing_changed_shows_no_diff(check: Check) -> None:
    assert check(ADMITTED).stdout == "jobs.yaml#0  Job team-a/single: Admit (Single: one device in all)\n"


def test_an_unknown_kind_is_named_and_admitted(check: Check) -> None:
    other = {"apiVersion": "example.com/v1", "kind": "Trainer", "metadata": {"name": "x"}, "spec": pod()}
    result = check(other)
    assert result.exit_code == 0
    assert "Trainer default/x: Admit (Trainer.example.com is not a kind" in result.stdout
    assert "SST102" in result.stdout


@pytest.mark.parametrize(
    ("kind", "because"),
    [
        ("Deployment", "out of scope: Deployment.apps serves"),
        ("StatefulSet", "out of scope: StatefulSet.apps serves, unless annotated with samestep.dev/coupling"),
    ],
)
def test_a_kind_that_serves_is_told_to_be_out_of_scope(check: Check, kind: str, because: str) -> None:
    template = {"spec": pod()}
    server = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "vllm"},
        "spec": {"replicas": 4, "template": template},
    }
    result = check(server)
    assert (result.exit_code, result.stdout) == (0, f"jobs.yaml#0  {kind} default/vllm: Admit ({because})\n")


def test_pods_that_serve_in_a_kind_that_is_read_are_told_to_be_out_of_scope(check: Check) -> None:
    template = {"size": 4, "workerTemplate": {"spec": pod(command=("vllm", "serve"))}}
    obj = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "vllm"},
        "spec": {"replicas": 2, "leaderWorkerTemplate": template},
    }
    assert "Admit (Serving, out of scope: LeaderWorkerSet with 8 pods)" in check(obj).stdout
    obj["metadata"] = {"name": "vllm", "annotations": {"samestep.dev/coupling": "Synchronous"}}
    assert "(Synchronous: annotation samestep.dev/coupling)" in check(obj).stdout


def test_a_field_of_a_wrong_type_is_admitted_with_its_place(check: Check) -> None:
    obj = pytorchjob(workers=4)
    obj["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = "two"
    result = check(obj)
    assert result.exit_code == 0
    assert (
        'SST101 spec.pytorchReplicaSpecs.Worker.replicas: expected a whole number from 0 to 2147483647, got "two"'
        in result.stdout
    )


def test_an_object_without_metadata_is_judged_like_any_other(check: Check) -> None:
    obj = pytorchjob(workers=4)
    del obj["metadata"]
    assert "default/: Pin" in check(obj).stdout
    obj["metadata"] = None
    assert "default/: Pin" in check(obj).stdout
    obj["metadata"] = {"generateName": "sweep-"}
    assert "default/sweep-*: Pin" in check(obj).stdout


SHAPE: Json = {
    "object": {"apiVersion", "kind", "namespace", "name"},
    "pin": {"key", "values"},
    "job": {"coupling", "couplingBecause", "devices", "microBatch", "microBatchFrom", "roles"},
    "demand": {"lowMib", "likelyMib", "highMib", "source", "mayDeny", "assumptions"},
    "runs": {"recipe", "profiles", "facts", "lineThrough"},
    "pool": {"nodes", "unknownNodes", "twoModelNodes", "shareNodes", "smallestUsableMib", "candidates"},
}
KEYS = {
    *SHAPE,
    *("source", "verdict", "wouldBe", "policy", "outside", "models", "patch", "findings", "suggestions"),
    *("straggler", "acceleratorPool"),
}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_every_key_is_always_there(check: Check, output: str) -> None:
    known_batch = pytorchjob(pod(command=("torchrun", "train.py", "--per_device_train_batch_size=512")), name="batch")
    known_batch["metadata"]["annotations"] = {
        "samestep.dev/memory-fixed": "2Gi",
        "samestep.dev/memory-per-sample": "684Mi",
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    result = check(PINNED, DENIED, ADMITTED, known_batch, service, options=("-o", output))
    document = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
    assert set(document) == {"apiVersion", "kind", "items", "errors"}
    assert (document["apiVersion"], document["kind"]) == ("samestep.dev/v1alpha1", "ReviewList")
    assert [item["verdict"] for item in document["items"]] == ["Pin", "Deny", "Admit", "Deny", "Admit"]
    for item in document["items"]:
        assert set(item) == KEYS
        for name, keys in SHAPE.items():
            assert item[name] is None or set(item[name]) == keys
        for one in item["pool"]["candidates"]:
            assert set(one) == {
                *("model", "models", "memoryMib", "usableMib", "nodes", "devicesThere", "devicesNow"),
                *("feasible", "because", "chosen", "ranOut", "endedWell"),
            }
        for one in item["findings"]:
            assert set(one) == {"code", "severity", "field", "message"}
        for one in item["suggestions"]:
            assert set(one) == {"change", "field", "value", "model", "models", "patch"}
        for one in (item["job"] or {"roles": []})["roles"]:
            assert set(one) == {"name", "pods", "gang", "apart", "device", "devices"}
    assert document["items"][3]["suggestions"] != []


def test_what_mixing_would_cost_is_told_of_a_pinned_job(check: Check) -> None:
    result = check(PINNED, options=("-o", "json"))
    (item,) = listed(result)["items"]
    assert item["straggler"] == {
        "slow": RTX_5090.product,
        "fast": RTX_PRO_6000.product,
        "leastPercent": 0,
        "leastBy": "bandwidth",
        "mostPercent": 55,
        "mostBy": "compute",
        "unusedMib": RTX_PRO_6000.memory_mib - RTX_5090.memory_mib,
        "seen": None,
    }
    told = "RTX-5090 ranks would make the RTX-PRO-6000-Blackwell-Server ranks wait 0–55 % of each step"
    assert told in check(PINNED).stdout
    assert told not in check(DENIED).stdout


def test_the_figures_of_a_pinned_job_are_those_of_the_decision(check: Check) -> None:
    (item,) = listed(check(PINNED, options=("-o", "json")))["items"]
    assert item["pin"] == {"key": PRODUCT, "values": [RTX_PRO_6000.product]}
    assert (item["verdict"], item["wouldBe"], item["policy"]) == ("Pin", "Pin", "one-model-per-job")
    assert item["models"] == [RTX_PRO_6000.product]
    figures = {"lowMib": 45056, "likelyMib": 45056, "highMib": 45056}
    assert item["demand"] == {**figures, "source": "declared", "mayDeny": True, "assumptions": []}
    assert item["pool"]["smallestUsableMib"] == RTX_5090.memory_mib - 640
    small, large = item["pool"]["candidates"]
    assert (small["model"], small["feasible"], small["because"], small["chosen"]) == (
        RTX_5090.product,
        False,
        ["SST201"],
        False,
    )
    assert (large["devicesThere"], large["devicesNow"], large["feasible"], large["chosen"]) == (8, None, True, True)
    assert {one["code"]: one["severity"] for one in item["findings"]} == {"SST301": "Warn", "SST204": "Info"}


def test_what_is_not_known_is_null(check: Check) -> None:
    (item,) = listed(check(ADMITTED, options=("-o", "json")))["items"]
    assert item["pin"] is None
    figures = {"lowMib": None, "likelyMib": None, "highMib": None}
    assert item["demand"] == {**figures, "source": "unknown", "mayDeny": False, "assumptions": []}
    assert (item["models"], item["patch"], item["suggestions"]) == ([], [], [])


def test_an_error_stands_with_its_source_and_field(check: Check) -> None:
    result = check({"apiVersion": "v1", "kind": 5}, asked(PINNED, operation="PATCH"), options=("-o", "json"))
    assert result.exit_code == 2
    assert listed(result)["errors"] == [
        {"source": "jobs.yaml#0", "field": "kind", "message": "expected a string, got a number"},
        {
            "source": "jobs.yaml#1",
            "field": "request.operation",
            "message": "expected one of CREATE, UPDATE, DELETE, CONNECT, got 'PATCH'",
        },
    ]


def test_an_admission_review_is_what_it_says(check: Check) -> None:
    create, dry = asked(PINNED), asked(PINNED, dryRun=True)
    first, second = listed(check(create, dry, options=("-o", "json")))["items"]
    assert (first["verdict"], first["patch"]) == (second["verdict"], second["patch"]) == ("Pin", first["patch"])
    assert first["object"]["namespace"] == "team-a"


def test_an_update_keeps_what_a_create_decided(check: Check, tmp_path: Path) -> None:
    stored = json.loads(json.dumps(PINNED))
    (item,) = listed(check(PINNED, options=("-o", "json")))["items"]
    for one in item["patch"]:
        if one["path"].endswith("nodeSelector"):
            stored["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"] = one["value"]
        else:
            stored["metadata"]["annotations"]["samestep.dev/pinned"] = one["value"]
    changed = json.loads(json.dumps(PINNED))
    changed["spec"]["runPolicy"] = {"backoffLimit": 1}
    result = check(asked(changed, old=stored), options=("-o", "json"))
    assert listed(result)["items"][0]["pin"] == item["pin"]


@pytest.mark.parametrize(
    ("request_fields", "because"),
    [
        ({"operation": "DELETE", "object": None, "oldObject": PINNED}, "operation DELETE"),
        ({"operation": "CONNECT"}, "operation CONNECT"),
        ({"subResource": "status"}, "subresource status"),
        ({"operation": "UPDATE", "oldObject": DENIED}, "spec unchanged"),
    ],
)
def test_what_is_none_of_our_business_is_admitted(check: Check, request_fields: Json, because: str) -> None:
    result = check(asked(DENIED, **request_fields), options=("-o", "json"))
    (item,) = listed(result)["items"]
    assert (result.exit_code, item["verdict"], item["outside"]) == (0, "Admit", because)


def test_a_policy_is_applied(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "policies" / "warn.yaml"
    file.parent.mkdir()
    file.write_text(policy("validationActions: [Warn]"))
    for path in (file, file.parent):
        result = check(DENIED, options=("--policies", str(path), "-o", "json"))
        (item,) = listed(result)["items"]
        assert (result.exit_code, item["verdict"], item["wouldBe"], item["policy"]) == (0, "Admit", "Deny", "mine")
        assert item["findings"][0]["code"] == "SST201"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("pin: {wenn: Always}", "bad.yaml:5:9: spec.pin.wenn: Extra inputs are not permitted"),
        ("room: Maybe", "bad.yaml:5:3: spec.room: Input should be 'Require', 'Prefer' or 'Ignore'"),
        ("memory: {reserve: lots}", "bad.yaml:5:12: spec.memory.reserve: "),
        ("[", "bad.yaml:6:1: did not find expected node content"),
    ],
)
def test_a_policy_that_is_no_good_is_told_with_file_and_field(
    check: Check, tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(policy(content))
    result = check(PINNED, options=("--policies", str(file)))
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_no_policy_where_one_was_promised_is_an_error(check: Check, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "none.yaml"):
        result = check(PINNED, options=("--policies", str(path)))
        assert result.exit_code == 2
        assert str(path) in result.stderr


def test_a_binary_file_is_an_error_and_no_traceback(check: Check, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\x89PNG\r\n\x1a\n")
    result = check(PINNED, options=("-f", str(tmp_path / "image")))
    assert result.exit_code == 2
    assert "unreadable: image: not UTF-8 text" in result.stderr


def test_reviewing_the_admitted_object_changes_nothing(check: Check) -> None:
    assert "Admit" in check(patched(ask(PINNED))).stdout


def policy(spec: str) -> str:
    return f"apiVersion: samestep.dev/v1alpha1\nkind: TrainingPolicy\nmetadata: {{name: mine}}\nspec:\n  {spec}\n"


def listing(nodes: list[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "NodeList", "items": nodes})


@pytest.mark.parametrize("kind", ["ClusterTrainingRuntime", "TrainingRuntime"])
@pytest.mark.parametrize("shape", PatchShape)
def test_what_a_job_refers_to_is_looked_up_in_the_files(check: Check, kind: str, shape: PatchShape) -> None:
    asking = train_job(ref={"kind": kind, "name": "torch"})
    del asking["metadata"]["namespace"]
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **definition(shape)}
    crd["metadata"] = {"name": "trainjobs.trainer.kubeflow.org"}
    # What it refers to may stand behind it; a runtime is reviewed besides, a definition is not.
    result = check(asking, runtime(node(gpus=2), nodes=4, kind=kind), crd, options=("-o", "json"))
    first, second = listed(result)["items"]
    assert (first["verdict"], second["verdict"], len(listed(result)["items"])) == ("Pin", "Admit", 2)
    assert first["patch"][0]["path"] == f"/spec/{shape.value}"


def test_a_job_whose_runtime_is_in_no_file_is_told(check: Check) -> None:
    result = check(train_job())
    assert (result.exit_code, "SST104 ClusterTrainingRuntime torch is not in view" in result.stdout) == (0, True)


def test_accelerators_count_beside_the_jobs_and_beside_the_nodes(check: Check, tmp_path: Path) -> None:
    known = {"apiVersion": "samestep.dev/v1alpha1", "kind": "Accelerator", "metadata": {"name": "new"}}
    new = known | {"spec": {"product": "NVIDIA-New", "vendor": "nvidia", "memory": "64Gi", "source": "our bench"}}
    nodes = [gpu_node(f"new-{index}", RTX_5090) for index in range(2)]
    for one in nodes:
        one["metadata"]["labels"][PRODUCT] = "NVIDIA-New"
        del one["metadata"]["labels"]["nvidia.com/gpu.memory"]
    only_new, and_accelerator = tmp_path / "new.yaml", tmp_path / "both.yaml"
    only_new.write_text(yaml.safe_dump_all([gpu_node("small", RTX_5090), *nodes]))
    and_accelerator.write_text(yaml.safe_dump_all([gpu_node("small", RTX_5090), *nodes, new]))

    def answer(*objects: Json, fleet: Path) -> tuple[str, list[str]]:
        (item,) = listed(check(*objects, options=("--fleet", str(fleet), "-o", "json"), fleet=False))["items"]
        return item["verdict"], item["models"]

    assert answer(PINNED, fleet=only_new) == ("Admit", [])
    assert answer(PINNED, fleet=and_accelerator) == ("Pin", ["NVIDIA-New"])
    assert answer(PINNED, new, fleet=only_new) == ("Pin", ["NVIDIA-New"])


def named(name: str, **spec: Any) -> Json:  # noqa: ANN401 - fields of a spec
    metadata = {"name": name}
    return {"apiVersion": "samestep.dev/v1alpha1", "kind": "TrainingPolicy", "metadata": metadata, "spec": spec}


def test_several_policies_gate_and_the_first_by_name_steers(check: Check, tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "a.yaml").write_text(yaml.safe_dump(named("b-denies")))
    (folder / "b.yaml").write_text(yaml.safe_dump(named("a-warns", validationActions=["Warn"])))
    result = check(DENIED, options=("--policies", str(folder), "-o", "json"))
    (item,) = listed(result)["items"]
    assert (result.exit_code, item["verdict"], item["policy"]) == (1, "Deny", "a-warns")


def test_accelerators_beside_the_policies_count(check: Check, tmp_path: Path) -> None:
    node = gpu_node("new", RTX_5090)
    node["metadata"]["labels"] |= {PRODUCT: "NVIDIA-New"}
    del node["metadata"]["labels"]["nvidia.com/gpu.memory"]
    spec = {"product": "NVIDIA-New", "vendor": "nvidia", "memory": "48Gi", "source": "our bench"}
    known = {"apiVersion": "samestep.dev/v1alpha1", "kind": "Accelerator", "metadata": {"name": "new"}, "spec": spec}
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "new.yaml").write_text(yaml.safe_dump(known))
    assert check(DENIED, node, fleet=False).exit_code == 0
    assert check(DENIED, node, fleet=False, options=("--policies", str(tmp_path / "policies"))).exit_code == 1


def test_two_policies_of_one_name_are_refused(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump_all([named("twice"), named("twice")]))
    result = check(DENIED, options=("--policies", str(file)))
    assert (result.exit_code, "TrainingPolicy twice comes twice: the first, at " in result.stderr) == (2, True)


def test_a_file_without_a_policy_is_refused(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("---\n")
    result = check(DENIED, options=("--policies", str(file)))
    assert (result.exit_code, "found none" in result.stderr) == (2, True)


def test_messages_are_in_the_language_that_is_asked_for(check: Check) -> None:
    text = check(DENIED, options=("--lang", "ko")).stdout
    assert "SST201 메모리 부족: " in text
    assert "samestep explain SST201 --lang ko" in text
    (item,) = listed(check(DENIED, options=("--lang", "ko", "-o", "json")))["items"]
    assert item["findings"][0]["message"].startswith("메모리 부족: ")
    assert check(DENIED, options=("--lang", "en")).stdout == check(DENIED).stdout


HALF = "\ud800"  # of a surrogate pair: JSON can say it, UTF-8 cannot


@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": {"name": f"a{HALF}"}},
        {"metadata": {"name": "a", "labels": {f"zone{HALF}": "a"}}},
        {"metadata": {"name": "a", "labels": {PRODUCT: f"NVIDIA-{HALF}", "nvidia.com/gpu.memory": "81920"}}},
        {"metadata": {"name": "a"}, "spec": {"taints": [{"key": HALF, "value": HALF, "effect": "NoSchedule"}]}},
        {"metadata": {"name": "a"}, "status": {"allocatable": {f"nvidia.com/{HALF}": "8"}}},
    ],
    ids=["name", "label", "product", "taint", "resource"],
)
@pytest.mark.parametrize("command", ["check", "explain", "size", "fleet", "audit"])
def test_half_a_character_in_a_file_of_nodes_is_an_error_with_its_place(
    tmp_path: Path, command: str, odd: Json
) -> None:
    nodes, obj = tmp_path / "nodes.json", tmp_path / "job.yaml"
    found = gpu_node("a", RTX_5090)
    odd = {
        "apiVersion": "v1",
        "kind": "Node",
        **{key: found[key] | odd.get(key, {}) for key in ("spec", "status")},
        **odd,
    }
    nodes.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [odd, *demo_nodes()]}, indent=1))
    obj.write_text(yaml.safe_dump(PINNED))
    words = ["-f", str(nodes)] if command in ("fleet", "audit") else ["-f", str(obj), "--fleet", str(nodes)]
    result = CliRunner().invoke(main, [command, *words])
    assert (result.exit_code, type(result.exception)) == (2, SystemExit)
    assert re.search(r"nodes\.json#0: line \d+, column \d+: half of a surrogate pair \(.ud800\)", result.stderr)


@pytest.mark.parametrize("command", ["check", "explain"])
def test_half_a_character_in_a_job_is_an_error_with_its_place(tmp_path: Path, command: str) -> None:
    file, nodes = tmp_path / "job.json", tmp_path / "nodes.yaml"
    nodes.write_text(yaml.safe_dump_all(demo_nodes()))
    file.write_text(json.dumps(pytorchjob(name=f"ddp{HALF}", memory_per_device="44Gi")))
    result = CliRunner().invoke(main, [command, "-f", str(file), "--fleet", str(nodes)])
    assert (result.exit_code, type(result.exception)) == (2, SystemExit)
    assert "unreadable: job.json#0: line 1, column " in result.stderr


def test_half_a_character_in_a_text_of_a_node_that_is_json_itself_is_left_out(tmp_path: Path) -> None:
    nodes, obj = tmp_path / "nodes.json", tmp_path / "job.yaml"
    odd = gpu_node("odd", RTX_5090)
    register = [{"id": "GPU-1", "type": f"NVIDIA-{HALF}", "count": 1, "devmem": 81920}]
    odd["metadata"]["annotations"] = {
        "hami.io/node-nvidia-register": json.dumps(register),
        "samestep.dev/seen": json.dumps({"last_product": f"NVIDIA-{HALF}", "last_memory_mib": 81920}),
    }
    del odd["metadata"]["labels"][PRODUCT]
    nodes.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [odd, *demo_nodes()]}))
    obj.write_text(yaml.safe_dump(PINNED))
    for words in (["check", "-f", str(obj), "--fleet", str(nodes), "-o", "json"], ["fleet", "-f", str(nodes)]):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0
        assert HALF not in result.stdout
