"""What is registered with kopf."""

import kopf
from kopf._cogs.structs.references import Resource

from webhook.catalog.workloads import workloads
from webhook.cluster.handlers import STAGES, admission_handlers
from webhook.cluster.operator import admission_registry
from webhook.model.request import Stage


def test_every_kind_is_served_by_one_mutating_and_one_validating_handler() -> None:
    handlers = admission_registry(admission_handlers())._webhooks.get_all_handlers()

    for entry in workloads().reviewed:
        for version in entry.versions:
            resource = Resource(entry.group, version, entry.plural)
            serving = [handler for handler in handlers if handler.selector and handler.selector.check(resource)]
            assert {handler.id: handler.reason.value for handler in serving if handler.reason} == {
                handler_id: "mutating" if stage is Stage.MUTATE else "validating"
                for handler_id, stage in STAGES.items()
            }


def test_every_selector_names_its_group_so_that_no_other_is_scanned() -> None:
    handlers = admission_registry(admission_handlers())._webhooks.get_all_handlers()

    assert {handler.selector.group for handler in handlers if handler.selector} == {
        entry.group for entry in workloads().reviewed
    }


def test_a_kind_of_the_same_plural_in_another_group_is_not_served() -> None:
    handlers = admission_registry(admission_handlers())._webhooks.get_all_handlers()
    resource = kopf.Resource("example.com", "v1", "jobs")

    assert not any(handler.selector.check(resource) for handler in handlers if handler.selector)
