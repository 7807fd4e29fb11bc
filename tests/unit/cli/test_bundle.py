"""`samestep bundle`: a decision that can be made again from it, and no secrets in it."""

import asyncio
import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dumps import LARGE, PLANTED, SMALL, dump, owned_pod, planted, running
from tests.queues import flavor, local, queue, queued
from tests.samples import Json, ask, job, patched, pod, pytorchjob
from tests.unit.cli.folders import exception, policy, pool
from tests.unit.cluster.api_server import served
from tests.unit.intake.runtimes import definition, node, runtime, train_job
from tests.unit.server.conftest import admission_review
from tests.unit.server.conftest import running as running_server
from webhook.cli import main
from webhook.model.job import PatchShape


def bundle(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["bundle", "-n", "team-a", *map(str, words)])


def explained(*words: str | Path) -> Any:  # noqa: ANN401 - JSON
    result = CliRunner().invoke(main, ["explain", *map(str, words), "-o", "json"])
    return json.loads(result.stdout)["items"][0]["decision"]["review"]


def said(review: Json) -> tuple[object, ...]:
    """What a replay has to come to again."""
    findings = [(one["code"], one["severity"], one["message"]) for one in review["findings"]]
    return review["verdict"], review["wouldBe"], review["models"], review["policy"], findings, review["pin"]


def held(path: Path) -> dict[str, str]:
    """The files of an archive."""
    with tarfile.open(path) as archive:
        return {one.name: (archive.extractfile(one) or io.BytesIO()).read().decode() for one in archive}


def pinned() -> list[Json]:
    made = patched(ask(pytorchjob(pod(gpus=4), workers=2, memory_per_device="20Gi")))
    made["status"] = {"startTime": "2027-01-01T00:00:00Z"}
    return [made, owned_pod(made, "ddp-0", SMALL[0]), owned_pod(made, "ddp-1")]


CASES: dict[str, tuple[str, list[Json]]] = {
    "pinned": ("pytorchjob/ddp", pinned()),
    "mixed": ("pytorchjob/spread", running("spread", [SMALL[0], LARGE[0]], memory_per_device="40Gi")),
    "too large": ("pytorchjob/ddp", [pytorchjob(memory_per_device="200Gi")]),
    "under a policy": (
        "pytorchjob/ddp",
        [pytorchjob(memory_per_device="200Gi"), policy(validationActions=["Warn"], memory={"reserve": "2Gi"})],
    ),
    "excepted, in a pool": (
        "pytorchjob/ddp",
        [
            pytorchjob(pod(gpus=4), workers=2, memory_per_device="20Gi"),
            policy(exceptions="Allowed"),
            exception(codes=["SST401"], match={"names": ["ddp"]}),
            pool(nodeSelector={"matchLabels": {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5090"}}),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {"team": "a"}}},
        ],
    ),
    "a TrainJob, its runtime and the definition of its kind": (
        "trainjob/tj",
        [
            train_job(annotations={"samestep.dev/memory-per-device": "20Gi"}),
            runtime(node(gpus=4, env=[{"name": "TOKEN", "value": "x"}]), nodes=2),
            {
                **definition(PatchShape.POD_TEMPLATE_OVERRIDES),
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "trainjobs.trainer.kubeflow.org"},
            },
        ],
    ),
    "read from flags": (
        "pytorchjob/ddp",
        [
            pytorchjob(
                pod(
                    command=(
                        *("torchrun", "train.py", "--model_name_or_path=meta-llama/Llama-2-7b-hf", "--bf16=True"),
                        *(
                            "--per_device_train_batch_size=$(BATCH)",
                            "--fsdp=full_shard",
                            "--hub_token",
                            "hf_" + "a" * 34,
                        ),
                    )
                )
            )
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["bundle.tar.gz", "folder"])
def test_a_decision_made_from_a_bundle_is_the_live_one(name: str, target: str, tmp_path: Path) -> None:
    named, objects = CASES[name]
    file, out = dump(tmp_path, objects), tmp_path / target

    result = bundle(named, "--fleet", file, "-w", out)

    assert result.exit_code == 0, result.output
    assert "the decision made from it is the same" in result.stdout
    live = explained(named, "-n", "team-a", "-f", file)
    assert said(explained("--bundle", out)) == said(live)


def test_a_job_in_a_queue_is_decided_again_by_its_flavors(tmp_path: Path) -> None:
    small, large = (
        flavor(name, {"nvidia.com/gpu.product": product})
        for name, product in (
            ("small", "NVIDIA-GeForce-RTX-5090"),
            ("large", "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"),
        )
    )
    held_back = queued(job(pod(gpus=4), pods=2, name="queued", memory_per_device="40Gi"))
    file = dump(tmp_path, held_back, [small, large, queue({"small": 8, "large": 8}), local()])
    out = tmp_path / "b.tar.gz"
    assert bundle("job/queued", "--fleet", file, "-w", out).exit_code == 0
    assert said(explained("--bundle", out)) == said(explained("job/queued", "-n", "team-a", "-f", file))


def test_a_manifest_that_was_denied_and_an_admission_review_can_be_bundled(tmp_path: Path) -> None:
    cluster, file, out = dump(tmp_path), tmp_path / "job.yaml", tmp_path / "b.tar.gz"
    body = pytorchjob(memory_per_device="200Gi")
    kind = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}
    for written in (body, admission_review(body, kind=kind)):
        file.write_text(yaml.safe_dump(written))
        result = bundle("-f", file, "--fleet", cluster, "-w", out)
        assert result.exit_code == 0, result.output
        assert yaml.safe_load(held(out)["bundle/bundle.yaml"])["decision"]["verdict"] == "Deny"
        assert explained("--bundle", out)["verdict"] == "Deny"


def test_a_bundle_says_of_what_it_is(tmp_path: Path) -> None:
    out = tmp_path / "b.tar.gz"
    bundle("pytorchjob/ddp", "--fleet", dump(tmp_path, pinned()), "-w", out)
    about = yaml.safe_load(held(out)["bundle/bundle.yaml"])
    assert about["subject"] == {"named": "pytorchjob.kubeflow.org/ddp", "namespace": "team-a"}
    assert len(about["catalogs"]["accelerators"]) == 64
    assert about["decision"]["codes"] == ["SST301"]


async def test_what_replicas_say_is_in_it(tmp_path: Path) -> None:
    out, file = tmp_path / "b.tar.gz", dump(tmp_path, pinned())
    async with running_server() as serving:
        url = f"http://127.0.0.1:{serving.server.metrics_port}/"
        words = ("pytorchjob/ddp", "--fleet", file, "-w", out, "--url", url)
        assert (await asyncio.to_thread(bundle, *words)).exit_code == 0
        silent = await asyncio.to_thread(bundle, *words, "--url", "http://127.0.0.1:9", "--url", "localhost:9")
    assert silent.exit_code == 2
    assert "unreadable: http://127.0.0.1:9/metrics: Connection refused\n" in silent.stderr
    assert "unreadable: localhost:9/metrics: not a URL" in silent.stderr
    assert "the decision made from it is the same" in silent.stdout
    files = held(out)
    assert "samestep_build_info" in files["bundle/replicas/0/metrics.txt"]
    assert "[+]handlers ok: served" in files["bundle/replicas/0/readyz.txt"]
    assert files["bundle/replicas/1/readyz.txt"].startswith("no answer")


@pytest.mark.parametrize("content", [b"", b"no archive", gzip.compress(b"no tar")], ids=["empty", "text", "no tar"])
def test_what_is_no_bundle_ends_with_status_2(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "b.tar.gz"
    file.write_bytes(content)
    result = CliRunner().invoke(main, ["explain", "--bundle", str(file)])
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_an_archive_that_reaches_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "b.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        member = tarfile.TarInfo("../outside")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    assert CliRunner().invoke(main, ["explain", "--bundle", str(file)]).exit_code == 2
    assert not (tmp_path.parent / "outside").exists()


WORDS = st.text("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=16, max_size=30)
SECRETS = st.lists(WORDS, min_size=PLANTED, max_size=PLANTED, unique=True)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secrets=SECRETS)
def test_no_secret_is_in_the_archive(secrets: list[str], tmp_path: Path) -> None:
    given_out = iter(secrets)
    file, out = dump(tmp_path, planted(given_out)), tmp_path / "b.tar.gz"
    assert not list(given_out), "every secret is planted somewhere"

    result = bundle("pytorchjob/ddp", "--fleet", file, "-w", out)

    assert result.exit_code == 0, result.output
    whole = out.read_bytes() + gzip.decompress(out.read_bytes())
    assert not [one for one in secrets if one.encode() in whole]
    assert b"--run=$(REFERRED)" in whole, "what is no secret stays"


async def test_no_token_of_the_kubeconfig_is_in_the_archive(tmp_path: Path) -> None:
    objects = [*yaml.safe_load_all(dump(tmp_path, pinned()).read_text())]
    paths = {"Node": "/api/v1/nodes", "Pod": "/api/v1/pods", "PyTorchJob": "/apis/kubeflow.org/v1/pytorchjobs"}
    out = tmp_path / "b.tar.gz"
    async with served(tmp_path) as (api, kubeconfig):
        collections = {kind: api.serve(path, kind) for kind, path in paths.items()}
        for one in objects:
            collections[one["kind"]].put(one)
        content = json.loads(kubeconfig.read_text())
        content["users"][0]["user"]["token"] = "a-token-of-the-kubeconfig"
        kubeconfig.write_text(json.dumps(content))
        result = await asyncio.to_thread(bundle, "pytorchjob/ddp", "--kubeconfig", kubeconfig, "-w", out)
        assert result.exit_code == 0, result.output
    assert b"a-token-of-the-kubeconfig" not in gzip.decompress(out.read_bytes())
