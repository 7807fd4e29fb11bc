"""Exceptions that do not count, or not any more."""

from collections.abc import Iterator, Mapping, Sequence

from webhook.catalog.codes import codes
from webhook.cli.lints.found import Found, error, warning
from webhook.cli.lints.matching import unknown_kinds
from webhook.model.finding import Action
from webhook.model.policy import Policy
from webhook.model.rules import PolicyException
from webhook.model.workload import Workloads
from webhook.policy.load import Read

# An exception to it also means no pin, whether or not it denies.
_ALSO_UNPINS = "SST302"


def check_exception(
    one: Read,
    exception: PolicyException,
    policies: Mapping[str, Policy],
    never_good: Sequence[str],
    kinds: Workloads,
    now: float,
) -> Iterator[Found]:
    """`policies` are those of the set by name, `never_good` the names of those that could not be read."""
    if not exception.until > now:
        yield warning(one, "expired", "is past: the exception does not count any more", "spec", "until")
    for index, name in enumerate(exception.policies):
        policy = policies.get(name)
        if policy is None and name not in never_good:
            yield error(one, "unknown-policy", f"no policy is named {name}", "spec", "policies", index)
        elif policy is not None and not policy.exceptions:
            told = f"{name} allows no exceptions (exceptions: Allowed there): this does not count"
            yield error(one, "not-allowed", told, "spec", "policies", index)
    yield from unknown_kinds(one, exception.kinds, kinds, "match")
    named = [policies[name] for name in exception.policies if name in policies]
    for index, code in enumerate(exception.codes):
        if named and code != _ALSO_UNPINS and not any(_denies(policy, code) for policy in named):
            told = f"{code} denies under none of these policies: this changes nothing"
            yield warning(one, "no-effect", told, "spec", "codes", index)


def _denies(policy: Policy, code: str) -> bool:
    return policy.codes.get(code, codes()[code].action) is Action.DENY
