"""`samestep render`, and what the manifests say without an API server."""

import re
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from webhook.cli import main
from webhook.cli.overlays import overlays, rendered
from webhook.cluster.keeper import Keeper
from webhook.cluster.lease import LABELS
from webhook.cluster.world import Worlds
from webhook.model.policy import Policy
from webhook.policy.definitions import definitions
from webhook.server.certificates import self_signed
from webhook.server.metrics import Metrics
from webhook.server.tls import ServingCertificate

ROOT = Path(__file__).parents[3]
Json = dict[str, Any]


def render(*words: str) -> str:
    done = CliRunner().invoke(main, ["render", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


@cache
def objects_of(overlay: str) -> list[Json]:
    return rendered(overlays()[overlay])


def deployment(objects: list[Json]) -> Json:
    [found] = [one for one in objects if one["kind"] == "Deployment"]
    pod: Json = found["spec"]["template"]["spec"]
    return pod


def configuration(overlay: str, kind: str) -> list[Json]:
    [found] = [one for one in objects_of(overlay) if one["kind"] == kind]
    hooks: list[Json] = found["webhooks"]
    return hooks


@pytest.mark.parametrize("overlay", overlays())
def test_what_is_printed_is_the_objects_each_once(overlay: str) -> None:
    objects = list(yaml.load_all(render(overlay), yaml.CSafeLoader))

    assert objects == objects_of(overlay)
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects]
    assert len(names) == len(set(names))
    # What others lie in comes first, and nothing is sent to us before we are there.
    assert names[0] == ("Namespace", None, "samestep-system")
    assert names.index(("Deployment", "samestep-system", "samestep")) < names.index(
        ("MutatingWebhookConfiguration", None, "samestep")
    )


@pytest.mark.parametrize("overlay", overlays())
def test_every_object_has_the_label_by_which_it_is_found_again_and_removed(overlay: str) -> None:
    assert [one["metadata"]["name"] for one in objects_of(overlay) if not LABELS.items() <= _labels(one).items()] == []


def _labels(one: Json) -> dict[str, str]:
    labels: dict[str, str] = one["metadata"]["labels"]
    return labels


def test_every_kind_of_ours_is_installed() -> None:
    found = {one["metadata"]["name"] for one in objects_of("own-certificates") if one["kind"].startswith("CustomRes")}
    assert {f"{name}.yaml" for name in found} == definitions().keys()


def test_an_image_takes_the_place_of_the_overlays_and_nothing_else() -> None:
    before, after = render("own-certificates"), render("own-certificates", "--image", "example.test/samestep@sha256:0")

    changed = [pair for pair in zip(before.splitlines(), after.splitlines(), strict=True) if pair[0] != pair[1]]
    assert changed == [("        image: samestep:0.1.0", "        image: example.test/samestep@sha256:0")]


def test_an_installed_package_prints_the_same(tmp_path: Path) -> None:
    build = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    wheel = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    installed = tmp_path / "installed"
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        archive.extractall(installed)

    done = subprocess.run(
        [sys.executable, "-m", "webhook.cli", "render", "fail-closed"],
        cwd=installed,
        env={"PYTHONPATH": str(installed)},
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout == render("fail-closed")


def test_a_field_of_kustomize_that_we_do_not_know_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: []\nnamePrefix: a-\n")
    with pytest.raises(ValueError, match="namePrefix cannot be rendered"):
        rendered(tmp_path)


@pytest.mark.parametrize("overlay", overlays())
def test_every_replica_is_started_by_flags_that_exist(overlay: str) -> None:
    [container] = deployment(objects_of(overlay))["containers"]
    command, *options = container["args"]
    known = {option for parameter in main.commands[command].params for option in parameter.opts}

    assert {option.partition("=")[0] for option in options} <= known
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for flag, name in (("--port", "https"), ("--probe-port", "probes"), ("--metrics-port", "metrics")):
        assert f"{flag}={ports[name]}" in options


def test_fail_closed_refuses_only_new_objects_that_train_and_no_pods() -> None:
    hooks = configuration("fail-closed", "ValidatingWebhookConfiguration")
    closed = [hook for hook in hooks if hook["failurePolicy"] == "Fail"]
    resources = {hook["rules"][0]["resources"][0] for hook in closed}

    assert {"jobs", "pytorchjobs", "trainjobs", "rayjobs", "jobsets"} <= resources
    assert not resources & {"pods", "cronjobs", "workflows", "trainingruntimes"}
    assert {operation for hook in closed for operation in hook["rules"][0]["operations"]} == {"CREATE"}
    assert {hook["failurePolicy"] for hook in configuration("fail-closed", "MutatingWebhookConfiguration")} == {
        "Ignore"
    }


def test_fail_closed_asks_about_the_same_as_the_base_does() -> None:
    def asked(overlay: str) -> set[tuple[str, ...]]:
        return {
            (
                rule["apiGroups"][0],
                rule["apiVersions"][0],
                rule["resources"][0],
                operation,
                str(hook["matchConditions"]),
            )
            for hook in configuration(overlay, "ValidatingWebhookConfiguration")
            for rule in hook["rules"]
            for operation in rule["operations"]
        }

    assert asked("fail-closed") == asked("own-certificates")


def test_how_to_install_says_when_to_take_which_overlay() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text("utf-8")
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == sorted(overlays())


def test_observing_changes_nothing_of_a_job_that_is_pinned_else(tmp_path: Path) -> None:
    [policies] = [one["data"] for one in objects_of("observe-only") if one["kind"] == "ConfigMap"]
    for name, text in policies.items():
        (tmp_path / name).write_text(text)
    words = ["check", "--filename", str(ROOT / "examples/1-pinned.yaml"), "--fleet", str(ROOT / "demo/fleet.yaml")]

    usual = CliRunner().invoke(main, words).stdout
    observed = CliRunner().invoke(main, [*words, "--policies", str(tmp_path)]).stdout

    assert ": Pin (" in usual
    assert ": Admit (" in observed
    assert "nodeSelector" not in observed


def test_alerts_and_their_thresholds_are_of_metrics_that_are_there() -> None:
    rules = yaml.safe_load((ROOT / "manifests/components/monitoring/rules.yaml").read_text())
    expressions = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    _, cert, key = self_signed(["localhost"])
    certificate = ServingCertificate.of(cert, key)
    certificate.authority_expires_at = certificate.expires_at
    metrics = Metrics(Worlds(Policy()), certificate, "")
    metrics.keep(Keeper("", lambda: None, ""))
    text = metrics.text().decode()
    known = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}

    used = {
        re.sub(r"_(bucket|count|sum)$", "", name) for one in expressions for name in re.findall(r"samestep_\w+", one)
    }
    # The age is not told before a fleet has been seen.
    assert used - known <= {"samestep_fleet_age_seconds"}
