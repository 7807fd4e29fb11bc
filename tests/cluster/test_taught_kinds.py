"""A kind that only the policy knows, with names of fields that CEL takes in no other way than as an index."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controlplane.api import ApiError
from controlplane.rig import ControlPlane
from demo.serving import Webhook, start_webhook
from tests.cluster.conftest import await_fleet
from tests.cluster.test_registration import failed_conditions
from tests.samples import Json, pod
from webhook.cluster.registration import webhook_configurations
from webhook.policy.kinds import kinds_of
from webhook.policy.load import load_policy

COLLECTION = "/apis/ml.example.com/v1/namespaces/default/oddruns"
POLICY = """
apiVersion: samestep.dev/v1alpha1
kind: TrainingPolicy
metadata: {name: teaches}
spec:
  kinds:
  - kind: OddRun
    group: ml.example.com
    versions: [v1]
    plural: oddruns
    children: Decided
    only_with: ml.example.com/train.it
    roles:
    - {at: spec.rank-groups, each: Entry, template: in.pod-template, pods: [as]}
    - {at: spec.namespace.more, each: Item, template: "1st", pods: [for]}
    coupling: {several: Synchronous}
    source: a kind made up for a test
"""
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "oddruns.ml.example.com"},
    "spec": {
        "group": "ml.example.com",
        "scope": "Namespaced",
        "names": {"kind": "OddRun", "plural": "oddruns"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def taught(
    control_plane: ControlPlane, account: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ControlPlane, Webhook]]:
    folder = tmp_path_factory.mktemp("taught")
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    control_plane.apply(DEFINITION)
    control_plane.kubectl("wait", "--for=condition=Established", "crd/oddruns.ml.example.com")
    webhook = start_webhook(control_plane.processes, folder, f"--kubeconfig={account}", f"--policies={policy}")
    try:
        client = {"url": f"https://127.0.0.1:{webhook.port}", "caBundle": base64.b64encode(webhook.ca).decode()}
        control_plane.apply(*webhook_configurations(client, kinds_of(load_policy(policy))))
        yield control_plane, webhook
    finally:
        for kind in ("mutating", "validating"):
            control_plane.kubectl("delete", "--ignore-not-found", f"{kind}webhookconfigurations", "samestep")
        control_plane.processes.stop("samestep", grace_s=5)
        control_plane.kubectl("delete", "-f", "-", stdin=yaml.safe_dump(DEFINITION))


def run(*, ranks: int = 0, more: int = 0, said: bool = True) -> Json:
    annotations = {"ml.example.com/train.it": "yes", "samestep.dev/memory-per-device": "44Gi"}
    return {
        "apiVersion": "ml.example.com/v1",
        "kind": "OddRun",
        "metadata": {"generateName": "odd-", "annotations": annotations if said else {}},
        "spec": {
            "rank-groups": {"a-1": {"as": 2, "in": {"pod-template": {"spec": pod(gpus=ranks)}}}},
            "namespace": {"more": [{"for": 2, "1st": {"spec": pod(gpus=more)}}]},
        },
    }


def created(control_plane: ControlPlane, obj: Json) -> Json:
    return control_plane.api.request("POST", f"{COLLECTION}?dryRun=All", obj)


@pytest.mark.usefixtures("demo_fleet")
def test_it_is_sent_where_it_asks_for_devices_and_pinned_in_its_own_fields(
    taught: tuple[ControlPlane, Webhook],
) -> None:
    control_plane, webhook = taught
    await_fleet(control_plane, webhook, {"RTX-5090": 2, "RTX-PRO-6000-Blackwell-Server": 2})
    failed = failed_conditions(control_plane, "samestep.dev")

    def sent() -> bool:
        before = webhook.calls("pin")
        created(control_plane, run(ranks=2))
        return webhook.calls("pin") > before

    control_plane.processes.wait("kube-apiserver", sent)
    for obj, is_sent in (
        (run(ranks=2), True),
        (run(more=2), True),
        (run(), False),
        (run(ranks=2, said=False), False),
        (run() | {"spec": {}}, False),
        (run() | {"spec": {"rank-groups": {}, "namespace": {"more": [{}]}}}, False),
    ):
        before = webhook.calls("pin"), webhook.calls("check")
        stored = created(control_plane, obj)
        assert (webhook.calls("pin") > before[0], webhook.calls("check") > before[1]) == (is_sent, is_sent), obj
        assert ("nodeSelector" in str(stored["spec"])) == is_sent
    ranks = created(control_plane, run(ranks=2))["spec"]["rank-groups"]["a-1"]["in"]["pod-template"]["spec"]
    others = created(control_plane, run(more=2))["spec"]["namespace"]["more"][0]["1st"]["spec"]
    assert ranks["nodeSelector"] == others["nodeSelector"]
    too_much = run(ranks=2)
    too_much["metadata"]["annotations"]["samestep.dev/memory-per-device"] = "200Gi"
    with pytest.raises(ApiError, match="SST201"):
        created(control_plane, too_much)
    assert failed_conditions(control_plane, "samestep.dev") == failed
