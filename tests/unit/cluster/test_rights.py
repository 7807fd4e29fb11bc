"""The rights of manifests/base/rbac.yaml, which say no more and no less than what is asked of the API server."""

from pathlib import Path

import yaml

from webhook.catalog.workloads import workloads
from webhook.cluster.access import Access
from webhook.cluster.following import Following
from webhook.cluster.jobs import watched
from webhook.cluster.world import Worlds
from webhook.model.policy import Policy

MANIFEST = Path(__file__).parents[3] / "manifests" / "base" / "rbac.yaml"


def allowed(kind: str, verb: str) -> set[tuple[str, str]]:
    """Group and plural of what the roles of this kind allow to do that with."""
    documents = yaml.safe_load_all(MANIFEST.read_text("utf-8"))
    rules = [rule for one in documents if one["kind"] == kind for rule in one["rules"] if verb in rule["verbs"]]
    return {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}


def test_what_is_followed_and_the_kinds_of_job_may_be_watched_and_nothing_else() -> None:
    following = Following(Access().client, Worlds(Policy()))
    sources = [one._source for one in following._reflectors]
    clusterwide = {(one.group, one.plural) for one in sources if not one.namespace} | watched(workloads()).keys()

    assert allowed("ClusterRole", "watch") == clusterwide
    assert allowed("ClusterRole", "list") == clusterwide


def test_objects_without_jobs_of_their_own_are_not_watched() -> None:
    kinds = {plural for _, plural in watched(workloads())}

    assert {"jobs", "pytorchjobs", "trainjobs", "pods"} <= kinds
    assert not kinds & {"cronjobs", "workflows", "appwrappers", "trainingruntimes", "deployments"}


def test_events_and_what_runs_teach_are_all_that_may_be_created_in_the_whole_cluster() -> None:
    assert allowed("ClusterRole", "create") == {("", "events"), ("samestep.dev", "trainingprofiles")}
