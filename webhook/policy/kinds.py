"""The kinds of job that can be read under a policy."""

from webhook.catalog.workloads import workloads
from webhook.model.policy import Policy
from webhook.model.workload import Workloads


def kinds_of(policy: Policy) -> Workloads:
    """Those of the catalog, and before them those that the policy teaches."""
    return workloads().with_also(policy.kinds) if policy.kinds else workloads()
