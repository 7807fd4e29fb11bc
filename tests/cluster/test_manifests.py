"""Every installation, as the API server takes it; and that the rights in it are those that are used, and no more."""

import base64
import json
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import urllib3
import yaml

from controlplane.api import ApiError
from controlplane.build import artifact
from controlplane.nodes import demo_fleet
from controlplane.rig import ControlPlane
from demo.serving import ACCOUNT, PROGRAM
from tests.cluster.runs import end, run, training
from tests.cluster.team import PRODUCT, SMALL, Team
from tests.queues import groups, kueue
from tests.samples import Json, job, pod
from tests.unit.server.conftest import admission_review
from webhook.catalog.workloads import workloads
from webhook.cli.overlays import overlays, rendered
from webhook.model.profile import KEPT_S, Allocator, Observation, Profile, Recipe
from webhook.policy.training_profile import document_of, name_of

NEIGHBOURS = ("certificates", "issuers", "servicemonitors", "prometheusrules")
INSTALLED = overlays()["own-certificates"]
FOLDERS = {**overlays(), "combined": Path(__file__).parent / "combined"}
NAME = "samestep-installed"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}],
}


@pytest.fixture(scope="module")
def plane(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One of its own, which writes down what the webhook's account asks for; the kinds of neighbours are there."""
    folder = tmp_path_factory.mktemp("audited")
    (folder / "audit.yaml").write_text(yaml.safe_dump(AUDIT))
    flags = (f"--audit-policy-file={folder / 'audit.yaml'}", f"--audit-log-path={folder / 'audit.log'}")
    with ControlPlane(folder, flags) as running:
        for plural in NEIGHBOURS:
            running.kubectl("create", "-f", artifact(f"{plural}.yaml"))
        running.create_namespace("samestep-system")
        yield running


_CALLED = {"localqueues": "LocalQueue", "clusterqueues": "ClusterQueue"}


def definition(group: str, plural: str) -> Json:
    """Enough of any kind's for objects of it to be listed and looked up."""
    known = [one for one in workloads().entries if (one.group, one.plural) == (group, plural)]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": known[0].versions[0] if known else "v1", "schema": {"openAPIV3Schema": schema}}
    names = {"kind": _CALLED.get(plural, plural.removesuffix("s").capitalize()), "plural": plural}
    scope = "Cluster" if plural.startswith("cluster") else "Namespaced"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": scope,
            "versions": [{**version, "served": True, "storage": True}],
        },
    }


def server_side_apply(
    plane: ControlPlane, objects: Iterable[Json], *options: str
) -> "subprocess.CompletedProcess[str]":
    stdin = yaml.dump_all(objects, Dumper=yaml.CSafeDumper)
    return plane.kubectl("apply", "--server-side", "--filename=-", *options, stdin=stdin)


@pytest.mark.parametrize("overlay", FOLDERS)
def test_what_we_print_is_what_kubectl_makes_of_the_overlay(overlay: str) -> None:
    made = subprocess.run(
        [artifact("kubectl"), "kustomize", FOLDERS[overlay]], check=True, capture_output=True, text=True
    ).stdout

    ours, theirs = rendered(FOLDERS[overlay]), list(yaml.load_all(made, yaml.CSafeLoader))
    assert sorted(ours, key=_name) == sorted(theirs, key=_name)


def _name(obj: Json) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


@pytest.mark.parametrize("overlay", FOLDERS)
def test_the_api_server_takes_every_object_as_it_is(plane: ControlPlane, overlay: str) -> None:
    objects = rendered(FOLDERS[overlay])

    done = server_side_apply(plane, objects, "--dry-run=server", "--validate=strict", "--output=name")

    assert len(done.stdout.splitlines()) == len(objects)
    assert done.stderr == ""


def test_pods_are_admitted_under_the_restricted_standard_which_the_namespace_enforces(plane: ControlPlane) -> None:
    objects = rendered(overlays()["cert-manager"])
    server_side_apply(plane, [one for one in objects if one["kind"] in ("Namespace", "ServiceAccount")])
    [template] = [one["spec"]["template"] for one in objects if one["kind"] == "Deployment"]

    def create(**changes: object) -> Json:
        body = {"metadata": {"generateName": "samestep-"}, "spec": {**template["spec"], **changes}}
        return plane.api.request("POST", "/api/v1/namespaces/samestep-system/pods?dryRun=All", body)

    assert create()["spec"]["securityContext"]["runAsNonRoot"]
    with pytest.raises(ApiError, match=r'violates PodSecurity \\"restricted:latest\\"'):
        create(securityContext={})


@dataclass(frozen=True, slots=True)
class Right:
    """To do `verb`; `namespace` is empty for the whole cluster, `name` for objects of any name."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""

    def covers(self, other: "Right") -> bool:
        return (
            (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
            and self.namespace in ("", other.namespace)
            and self.name in ("", other.name)
        )


def granted(objects: Iterable[Json]) -> set[Right]:
    """What these roles and bindings allow our account."""
    objects = list(objects)
    roles = {_name(one): one["rules"] for one in objects if one["kind"] in ("Role", "ClusterRole")}
    rights = set()
    for binding in objects:
        account = {"kind": "ServiceAccount", "name": "samestep", "namespace": "samestep-system"}
        if account not in binding.get("subjects", ()):
            continue
        reference, namespace = binding["roleRef"], binding["metadata"].get("namespace", "")
        for rule in roles[reference["kind"], namespace if reference["kind"] == "Role" else "", reference["name"]]:
            rights |= {
                Right(namespace, group, resource, verb, name)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
                for name in rule.get("resourceNames", ("",))
            }
    return rights


def used(log: Path) -> tuple[set[Right], list[Json]]:
    """What our account has asked for and got, and the events of what it was refused."""
    events = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    refused = [one for one in events if one.get("responseStatus", {}).get("code") == 403]
    rights = set()
    for event in (one for one in events if "objectRef" in one):
        about, verb = event["objectRef"], event["verb"]
        resource = "/".join(about[field] for field in ("resource", "subresource") if field in about)
        name = "" if verb == "create" else about.get("name", "")
        right = Right(about.get("namespace", ""), about.get("apiGroup", ""), resource, verb, name)
        rights.add(right)
        # Server-side apply of what is not there yet takes the right to create it, too.
        if verb == "patch" and event.get("responseStatus", {}).get("code") == 201:
            rights.add(replace(right, verb="create", name=""))
    return rights, refused


class Installed:
    """`samestep serve` as the overlay starts it, but for its ports, and as its own account."""

    def __init__(self, plane: ControlPlane, name: str = NAME) -> None:
        self.name = name
        self._plane = plane
        [args] = [
            one["spec"]["template"]["spec"]["containers"][0]["args"]
            for one in rendered(INSTALLED)
            if one["kind"] == "Deployment"
        ]
        args = [arg for arg in args if not arg.partition("=")[0].endswith("port")]
        ports = ("--port=0", "--probe-port=0", "--metrics-port=0")
        options = ("--host=127.0.0.1", "--lame-duck=0", f"--kubeconfig={plane.kubeconfig_for(ACCOUNT)}")
        plane.processes.start(name, [*PROGRAM, *args, *ports, *options])
        plane.processes.wait(name, lambda: self._listening() is not None)
        listening = self._listening()
        assert listening is not None
        self._ports = listening

    def _listening(self) -> Json | None:
        return next((json.loads(line) for line in self.log().splitlines() if b'"listening"' in line), None)

    def log(self) -> bytes:
        return self._plane.processes.log(self.name).read_bytes()

    def readiness(self) -> str:
        answer = urllib3.request("GET", f"http://127.0.0.1:{self._ports['probe_port']}/readyz?verbose", retries=False)
        return answer.data.decode()

    def review(self, obj: Json) -> None:
        kind = _kind_of(obj)
        review = admission_review(obj, kind=kind, requestKind=kind, namespace="default")
        url = f"https://127.0.0.1:{self._ports['port']}/admit/pin"
        unverified = ssl.create_default_context()
        unverified.check_hostname = False
        unverified.verify_mode = ssl.CERT_NONE
        with urllib.request.urlopen(url, json.dumps(review).encode(), timeout=5, context=unverified) as answer:
            assert json.load(answer)["response"]["allowed"]

    def have_looked_up(self) -> None:
        """Reviews jobs that refer to what is not in view."""
        for one in (train_job("TrainingRuntime"), train_job("ClusterTrainingRuntime"), claiming(), queued()):
            self.review(one)


def _kind_of(obj: Json) -> Json:
    group, _, version = obj["apiVersion"].rpartition("/")
    return {"group": group, "version": version, "kind": obj["kind"]}


def train_job(runtime_kind: str) -> Json:
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": runtime_kind, "name": "of-a-moment-ago"}
    metadata = {"name": "train", "namespace": "default"}
    kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    return {**kind, "metadata": metadata, "spec": {"runtimeRef": reference}}


def claiming() -> Json:
    claims = [{"name": "gpus", "resourceClaimTemplateName": "of-a-moment-ago"}]
    spec = pod(gpus=0, resourceClaims=claims)
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    return job(spec)


def ours(kind: str, spec: Json, **metadata: str) -> Json:
    return {
        "apiVersion": "samestep.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "any", **metadata},
        "spec": spec,
    }


def queued() -> Json:
    body = job(pod())
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "of-a-team"}
    return body


def queues() -> tuple[Json, Json]:
    """A LocalQueue in view, whose ClusterQueue lacks a flavor: all three are looked up."""
    local = kueue("LocalQueue", "of-a-team", version="v1", clusterQueue="shared")
    local["metadata"]["namespace"] = "default"
    return local, kueue("ClusterQueue", "shared", version="v1", resourceGroups=groups({"of-a-moment-ago": 8}))


def forgotten() -> Json:
    """A profile of which no run was seen for longer than they are kept."""
    at = time.time() - 2 * KEPT_S
    recipe = Recipe("0" * 20, "1" * 20, 8, Allocator.CACHING)
    seen = Observation("NVIDIA-L4", 23_034, 1, at, 20_000, at)
    return document_of(Profile("default", name_of(recipe), recipe, (seen,)))


def run_well(plane: ControlPlane) -> None:
    """A run that teaches something, and of which there is something to be measured: of one that failed there may not
    be, and then no status is written."""
    team = Team(plane, "default")
    submitted = training("learned-from")
    submitted["spec"]["template"]["spec"]["nodeSelector"] = {PRODUCT: SMALL}
    end(team, run(team, submitted, SMALL))


LATER = ("trainer.kubeflow.org", "trainjobs")
"""The definition of this kind is looked up while it is not in view, and so must not be there at first."""

UNTIL = (datetime.now(UTC) + timedelta(days=7)).isoformat(timespec="seconds")
OBJECTS = (
    # What the API server cannot check, and we can: it is told in its status, and by an Event.
    ours("TrainingPolicy", {"match": {"matchConditions": [{"name": "some", "expression": "1 +"}]}}),
    ours("AcceleratorPool", {"nodeSelector": {"matchLabels": {"pool": "a"}}}),
    ours("TrainingPolicyException", {"policies": ["any"], "reason": "a test", "until": UNTIL}, namespace="default"),
)


@pytest.fixture(scope="module")
def installed(plane: ControlPlane) -> Iterator[Installed]:
    """Everything of the installation but what would run in pods, and every kind that it has a right to but one."""
    objects = [one for one in rendered(INSTALLED) if one["kind"] not in ("Deployment", "PodDisruptionBudget")]
    served = {group["name"] for group in plane.api.get("/apis")["groups"]} | {"", "samestep.dev"}
    wanted = {(right.group, right.resource) for right in granted(objects) if right.group not in served}
    objects += [definition(*kind) for kind in sorted(wanted) if kind != LATER]
    server_side_apply(plane, objects)
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
    plane.add_nodes(demo_fleet())
    plane.apply(forgotten())
    running = Installed(plane)
    plane.processes.wait(NAME, lambda: running.readiness().endswith("\nready\n"))
    yield running
    plane.processes.stop(NAME, grace_s=10)


def test_every_right_is_needed_and_none_is_missing(plane: ControlPlane, installed: Installed) -> None:
    plane.apply(*queues())
    installed.have_looked_up()
    run_well(plane)
    plane.apply(*OBJECTS, definition(*LATER))
    spoilt = {"data": {"tls.crt": base64.b64encode(b"spoilt").decode()}}
    secret = ("secret", "samestep-certificates", "--namespace=samestep-system")
    plane.processes.wait(NAME, lambda: plane.kubectl("get", *secret, check=False).returncode == 0)
    plane.kubectl("patch", *secret, f"--patch={json.dumps(spoilt)}")
    rights, log = granted(rendered(INSTALLED)), plane.directory / "audit.log"

    def unneeded() -> set[Right]:
        """Those without a request that this one alone allows: each of the others, taken away, is a refusal."""
        allowing = [[right for right in rights if right.covers(one)] for one in used(log)[0]]
        return rights - {alone[0] for alone in allowing if len(alone) == 1}

    until = time.monotonic() + 60
    while unneeded() and time.monotonic() < until:
        installed.have_looked_up()  # once more: a slow machine does not get all that it looks for in time
        time.sleep(0.5)
    assert unneeded() == set()
    assert used(log)[1] == []


def test_the_same_manifests_once_more_take_the_authority_from_nobody(plane: ControlPlane, installed: Installed) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/samestep"

    def authorities() -> set[str]:
        return {entry["clientConfig"].get("caBundle", "") for entry in plane.api.get(path)["webhooks"]}

    plane.processes.wait(NAME, lambda: "" not in authorities())
    before = authorities()
    server_side_apply(plane, [one for one in rendered(INSTALLED) if one["kind"] != "Deployment"])
    assert authorities() == before


def test_a_right_that_is_taken_away_is_missed(plane: ControlPlane, installed: Installed) -> None:
    [role] = [one for one in rendered(INSTALLED) if _name(one) == ("ClusterRole", "", "samestep")]
    fewer = [rule for rule in role["rules"] if rule["resources"] != ["namespaces"]]
    assert len(fewer) == len(role["rules"]) - 1
    plane.kubectl("patch", "clusterrole", "samestep", "--type=merge", f"--patch={json.dumps({'rules': fewer})}")
    plane.kubectl("delete", "role", "samestep", "--namespace=samestep-system")
    again = Installed(plane, name=f"{NAME}-with-less")

    plane.processes.wait(again.name, lambda: "namespaces not followed" in again.readiness())
    assert "403" in again.readiness()
    plane.processes.wait(again.name, lambda: b"the lease cannot be had: 403" in again.log())
    plane.processes.stop(again.name, grace_s=0)
