"""A real API server that shows who it is, as the how-to on certificates says, and a webhook that serves nobody else."""

import base64
import json
from pathlib import Path

import pytest

from controlplane.rig import ControlPlane
from demo.serving import Webhook, await_calls, start_webhook, unregister
from tests.cluster.team import Team
from tests.unit.server.clients import Clients


@pytest.mark.usefixtures("demo_fleet")
def test_only_an_api_server_that_shows_its_certificate_is_answered(
    control_plane: ControlPlane, account: Path, team: Team, tmp_path: Path
) -> None:
    clients = Clients(tmp_path)
    shown = clients.client("kube-apiserver")
    options = (f"--kubeconfig={account}", f"--client-ca={clients.file}", "--client-name=kube-apiserver")
    webhook = start_webhook(control_plane.processes, tmp_path, *options)
    try:
        configurations = webhook.configurations()
        for entry in (entry for one in configurations for entry in one["webhooks"]):
            entry["failurePolicy"] = "Fail"
        control_plane.apply(*configurations)
        control_plane.processes.wait("kube-apiserver", lambda: "failed calling webhook" in creation(team))
        assert (webhook.calls("pin"), webhook.calls("check")) == (0, 0)

        config = admission_config(tmp_path, webhook, shown)
        control_plane.restart_apiserver(f"--admission-control-config-file={config}")
        await_calls(control_plane, webhook, {"pin", "check"})
        assert creation(team) == "job.batch/any created (server dry run)"
        unregister(control_plane, webhook)
    finally:
        control_plane.processes.stop("samestep", grace_s=5)
        control_plane.restart_apiserver()


def creation(team: Team) -> str:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any", **limits}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "any"}, "spec": {"template": {"spec": spec}}}
    done = team.kubectl("create", "--dry-run=server", "-f", "-", stdin=job, check=False)
    return (done.stdout + done.stderr).strip()


def admission_config(folder: Path, webhook: Webhook, shown: Path) -> Path:
    """What --admission-control-config-file takes: which certificate is shown to this webhook."""
    pem = base64.b64encode(shown.read_bytes()).decode()
    user = {"client-certificate-data": pem, "client-key-data": pem}
    kubeconfig = folder / "webhook-users.yaml"
    users = [{"name": f"127.0.0.1:{webhook.port}", "user": user}]
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
    plugin = {
        "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(kubeconfig),
        }
    }
    plugins = [{"name": name, **plugin} for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")]
    config = folder / "admission.yaml"
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    config.write_text(json.dumps(document))
    return config
