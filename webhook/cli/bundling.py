"""A decision with all that it looked up, as files from which it can be made again."""

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from webhook.answer.document import API_VERSION
from webhook.answer.message import message
from webhook.answer.warnings import warnings
from webhook.cli.audited import Owned
from webhook.cli.documents import Document
from webhook.cli.redaction import redacted, scrubbed
from webhook.cli.seen import Seen, seen_in
from webhook.fleet.snapshot import to_objects
from webhook.model.request import Object
from webhook.model.verdict import Review, Verdict

BUNDLE, JOB, CLUSTER = "bundle.yaml", "job.yaml", ("fleet.yaml", "pods.yaml", "surroundings.yaml", "policies.yaml")
_CATALOGS = ("accelerators", "codes", "configs", "launchers", "models", "queues", "sizing", "stacks", "workloads")
_OWN_GROUP = "samestep.dev/"
_READ_WITH_STATUS = frozenset({"NodePool", "ResourceClaim"})
_LOOKED_UP = frozenset(
    {
        *("Namespace", "ResourceFlavor", "ClusterQueue", "LocalQueue", "Cohort", "Queue", "NodePool", "ResourceClaim"),
        *("ResourceClaimTemplate", "TrainingRuntime", "ClusterTrainingRuntime", "CustomResourceDefinition"),
    }
)
_MOST_BYTES = 256 << 20


class BundleError(Exception):
    """No bundle, or none that can be read; the message is one line."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a bundle is about: a job that is there, or a manifest (an AdmissionReview too) that was decided on the
    cluster. `now` is when, in seconds since the epoch."""

    now: float
    owned: Owned | None = None
    manifest: Document | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A bundle that is read back: the cluster, the job in it (`named` as TYPE/NAME, or a manifest), and when."""

    seen: Seen
    now: float
    named: str = ""
    namespace: str = ""
    manifest: Document | None = None


def bundle(seen: Seen, subject: Subject, review: Review | None, beside: Mapping[str, str]) -> dict[str, bytes]:
    """The files by name. `review` is what was decided; `beside` what replicas say, by name of the file."""
    owned, manifest = subject.owned, subject.manifest
    own = [*owned.between, owned.document.object] if owned else [manifest.object] if manifest else []
    pods = {id(pod) for pod in own}
    others = [one.object for one in seen.documents if one.object["kind"] == "Pod" and id(one.object) not in pods]
    held = [one.object for one in seen.documents if not one.object["apiVersion"].startswith(_OWN_GROUP)]
    return {
        BUNDLE: _yaml([_about(subject, review)]),
        JOB: _yaml(map(_whole, own)),
        "fleet.yaml": _yaml(to_objects(seen.world.fleet)),
        "pods.yaml": _yaml(map(_pod, others)),
        "surroundings.yaml": _yaml(_surroundings(held)),
        "policies.yaml": _yaml(map(_policy, seen.ours)),
        **{name: scrubbed(text).encode() for name, text in beside.items()},
    }


def written(made: Mapping[str, bytes], path: Path) -> None:
    """Into a folder, or a .tar.gz where the name ends so. Raises OSError."""
    if not path.name.endswith((".tar.gz", ".tgz")):
        for name, content in made.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, content in made.items():
            member = tarfile.TarInfo(f"bundle/{name}")
            member.size = len(content)
            member.mode = 0o600
            archive.addfile(member, io.BytesIO(content))


def opened(path: Path) -> Opened:
    """A folder or an archive, read back. Raises BundleError."""
    with _unpacked(path) as folder:
        try:
            about = yaml.safe_load((folder / BUNDLE).read_text("utf-8"))
            subject = about["subject"]
            now, named, namespace = float(about["now"]), str(subject["named"]), str(subject["namespace"])
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
            raise BundleError(f"{path}: no bundle: {BUNDLE} is not there, or cannot be read") from None
        names = [*CLUSTER, JOB] if named else list(CLUSTER)
        there = [folder / name for name in names if (folder / name).exists()]
        seen = seen_in(there, [], None)
        if named:
            return Opened(seen, now, named, namespace)
        manifests = seen_in([folder / JOB], [], None).documents
        if len(manifests) != 1:
            raise BundleError(f"{path}: {JOB} does not hold one manifest")
        return Opened(seen, now, manifest=manifests[0])


def told(review: Review) -> dict[str, Any]:
    """What was decided, as far as a replay has to come to the same."""
    return {
        "verdict": review.verdict.value,
        "wouldBe": review.would_be.value,
        "codes": [finding.code for finding in review.decision.findings],
        "models": [model.product for model in review.decision.models],
        "message": message(review) if review.verdict is Verdict.DENY else "\n".join(warnings(review)),
    }


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(path, "r:*") as archive:
                members = [one for one in archive if one.isfile()]
                if sum(one.size for one in members) > _MOST_BYTES:
                    raise BundleError(f"{path}: larger than {_MOST_BYTES >> 20} MiB")
                archive.extractall(folder, members, filter="data")
        except (OSError, tarfile.TarError, EOFError) as error:
            told = error.strerror if isinstance(error, OSError) and error.strerror else "not a .tar.gz archive"
            raise BundleError(f"{path}: {told}") from None
        yield Path(folder) / "bundle"


def _about(subject: Subject, review: Review | None) -> dict[str, Any]:
    owned = subject.owned
    kind = owned.kind if owned else None
    plural = f"{kind.kind.lower()}{f'.{kind.group}' if kind.group else ''}" if kind else ""
    return {
        "apiVersion": API_VERSION,
        "kind": "Bundle",
        "samestep": version("samestep"),
        "catalogs": {name: _hash(name) for name in _CATALOGS},
        "now": subject.now,
        "subject": {
            "named": f"{plural}/{owned.name}" if owned else "",
            "namespace": owned.namespace if owned else "",
        },
        "decision": told(review) if review is not None else None,
        "redacted": "values of environment variables, and what looks like a secret; look through it before you send it",
    }


def _hash(name: str) -> str:
    return hashlib.sha256(files("webhook.catalog").joinpath(f"{name}.yaml").read_bytes()).hexdigest()


def _whole(obj: Object) -> dict[str, Any]:
    """The job itself; of an AdmissionReview the objects in it, and who asked."""
    if obj["kind"] != "AdmissionReview":
        return redacted(obj)
    request = obj.get("request")
    made = dict(request) if isinstance(request, Mapping) else {}
    for name in ("object", "oldObject"):
        if isinstance(made.get(name), Mapping):
            made[name] = redacted(made[name])
    user = made.get("userInfo")
    if isinstance(user, Mapping):
        made["userInfo"] = {key: user[key] for key in ("username", "groups") if key in user}
    made.pop("options", None)
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "request": made}


def _pod(obj: Object) -> dict[str, Any]:
    """What decisions look at of pods that are there already."""
    made = redacted(obj)
    spec = obj.get("spec")
    kept = ("nodeName", "nodeSelector", "overhead", "resources", "resourceClaims", "schedulingGates")
    made["spec"] = {key: spec[key] for key in kept if key in spec} if isinstance(spec, Mapping) else {}
    for name in ("containers", "initContainers"):
        held = spec.get(name) if isinstance(spec, Mapping) else None
        if isinstance(held, list):
            parts = ("name", "resources", "restartPolicy")
            made["spec"][name] = [
                {key: one[key] for key in parts if key in one} for one in held if isinstance(one, Mapping)
            ]
    return made


def _surroundings(objects: Iterable[Object]) -> Iterator[dict[str, Any]]:
    for obj in objects:
        if obj["kind"] in _LOOKED_UP:
            yield redacted(obj, status=obj["kind"] in _READ_WITH_STATUS)
        elif obj["kind"] == "ConfigMap" and (obj.get("metadata") or {}).get("name") == "cluster-autoscaler-status":
            data = obj.get("data")
            status = data.get("status") if isinstance(data, Mapping) else None
            yield {**redacted(obj), "data": {"status": scrubbed(str(status or ""))}}


def _policy(obj: Object) -> dict[str, Any]:
    kept = ("name", "namespace", "uid", "creationTimestamp", "labels")
    metadata = {key: obj["metadata"][key] for key in kept if key in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "spec": obj.get("spec")}


def _yaml(documents: Iterable[Object]) -> bytes:
    plain = json.loads(json.dumps([dict(one) for one in documents]))
    return yaml.safe_dump_all(plain, sort_keys=False, allow_unicode=True).encode() if plain else b""
