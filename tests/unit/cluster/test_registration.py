"""The webhook configurations."""

from pathlib import Path
from typing import Any

import pytest

from webhook.catalog.workloads import workloads
from webhook.cluster.registration import manifest, match_conditions, webhook_configurations
from webhook.model.workload import Workload
from webhook.server.admission import Limits

MANIFEST = Path(__file__).parents[3] / "manifests" / "base" / "webhooks.yaml"


def webhooks(client_config: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    found = webhook_configurations(client_config or {"url": "https://127.0.0.1:8443/"})
    return [webhook for configuration in found for webhook in configuration["webhooks"]]


def test_the_manifest_is_what_the_catalog_gives() -> None:
    assert MANIFEST.read_text() == manifest(), "samestep webhooks > manifests/base/webhooks.yaml"


def test_each_kind_of_the_catalog_has_one_webhook_in_each_configuration() -> None:
    kinds = [(entry.group, entry.plural) for entry in workloads().reviewed]

    for configuration in webhook_configurations({"url": "https://127.0.0.1:8443"}):
        rules = [rule for webhook in configuration["webhooks"] for rule in webhook["rules"]]
        assert [(rule["apiGroups"][0], rule["resources"][0]) for rule in rules] == kinds


def test_no_two_webhooks_have_one_name() -> None:
    for configuration in webhook_configurations({"url": "https://127.0.0.1:8443"}):
        names = [webhook["name"] for webhook in configuration["webhooks"]]
        assert len(names) == len(set(names))
        assert {"v1.mpijobs", "v2beta1.mpijobs"} <= {name.partition(".kubeflow.org")[0] for name in names}


def test_an_object_without_a_namespace_comes_by_a_rule_of_its_scope() -> None:
    scopes = {rule["resources"][0]: rule["scope"] for webhook in webhooks() for rule in webhook["rules"]}
    assert [resource for resource, scope in scopes.items() if scope == "Cluster"] == ["clustertrainingruntimes"]


@pytest.mark.parametrize("entry", workloads().reviewed, ids=lambda entry: f"{entry.kind}.{entry.group}")
def test_devices_are_a_condition_where_the_pod_templates_are_in_the_object_itself(entry: Workload) -> None:
    conditions = match_conditions(entry)
    assert ("asks-for-devices" in conditions) == bool(entry.roles)
    assert ("said-to-train" in conditions) == (entry.kind == "StatefulSet")


@pytest.mark.parametrize("webhook", webhooks(), ids=lambda webhook: webhook["name"])
def test_each_webhook_is_narrow_short_and_without_side_effects(webhook: dict[str, Any]) -> None:
    [rule] = webhook["rules"]
    assert rule["operations"] == ["CREATE", "UPDATE"]
    assert not any("/" in resource or "*" in resource for resource in rule["resources"])
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["sideEffects"] == "None"
    assert webhook["matchPolicy"] == "Equivalent"
    assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "samestep-system"]


def test_the_server_answers_before_the_api_server_gives_up() -> None:
    assert Limits().deadline_s < min(webhook["timeoutSeconds"] for webhook in webhooks()) == 2


def test_only_mutating_webhooks_are_reinvoked() -> None:
    mutating, validating = webhook_configurations({"url": "https://127.0.0.1:8443"})

    assert {webhook["reinvocationPolicy"] for webhook in mutating["webhooks"]} == {"IfNeeded"}
    assert not any("reinvocationPolicy" in webhook for webhook in validating["webhooks"])


def test_a_url_and_a_service_are_given_the_path_of_the_handler() -> None:
    by_url = webhooks({"url": "https://127.0.0.1:8443/", "caBundle": "Q0E="})[0]["clientConfig"]
    by_service = webhooks({"service": {"name": "samestep", "namespace": "gpu"}, "caBundle": "Q0E="})[-1]["clientConfig"]

    assert by_url == {"url": "https://127.0.0.1:8443/admit/pin", "caBundle": "Q0E="}
    assert by_service == {
        "service": {"name": "samestep", "namespace": "gpu", "path": "/admit/check"},
        "caBundle": "Q0E=",
    }
