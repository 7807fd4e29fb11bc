"""Our own objects, out of files or a cluster, and what they come to together."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import ValidationError

from webhook.catalog.additions import Accelerator
from webhook.model.policy import Policy
from webhook.model.rules import AcceleratorPool as ResolvedPool
from webhook.model.rules import PolicyException, Rules
from webhook.policy.accelerator_pool import AcceleratorPool
from webhook.policy.cel import CelError, check
from webhook.policy.exception import TrainingPolicyException
from webhook.policy.parts import Steps, dotted, problems
from webhook.policy.training_policy import TrainingPolicy

Setting: TypeAlias = Policy | ResolvedPool | PolicyException | Accelerator

KINDS: Mapping[str, type[TrainingPolicy | AcceleratorPool | TrainingPolicyException | Accelerator]] = MappingProxyType(
    {one.__name__: one for one in (TrainingPolicy, AcceleratorPool, TrainingPolicyException, Accelerator)}
)
_GROUP = "samestep.dev"
_NAMESPACED = frozenset({"TrainingPolicyException"})
_ELSEWHERE = frozenset({"PolicyTest", "TrainingProfile"})


@dataclass(frozen=True, order=True, slots=True)
class Key:
    """What tells our objects apart; `namespace` is empty for those of the cluster."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class Good:
    """An object that counts. `created` is in seconds since the epoch; 0 for what is in no cluster."""

    key: Key
    setting: Setting
    created: float = 0.0


class ObjectError(ValueError):
    """Not an object of ours as it should be: each problem with the steps to its field."""

    def __init__(self, found: Iterable[tuple[Steps, str]]) -> None:
        self.problems = tuple(found)
        super().__init__("; ".join(f"{dotted(steps)}: {message}" for steps, message in self.problems))


def is_ours(obj: Mapping[str, Any]) -> bool:
    """Whether an object is meant to be one of these. A misspelt kind in our group is; a PolicyTest or a
    TrainingProfile is no setting."""
    kind, group = str(obj.get("kind")), str(obj.get("apiVersion")).partition("/")[0]
    return kind in KINDS or (group == _GROUP and kind not in _ELSEWHERE)


def key_of(obj: Mapping[str, Any]) -> Key | None:
    """Of an object that may be a bad one; None where it does not say what it is."""
    match obj:
        case {"kind": str(kind), "metadata": {"name": str(name), **rest}} if kind in KINDS and name:
            namespace = rest.get("namespace")
            return Key(kind, namespace if isinstance(namespace, str) and kind in _NAMESPACED else "", name)
    return None


def read_object(obj: Mapping[str, Any]) -> Good:
    """What an object of ours says. Raises ObjectError."""
    model = KINDS.get(str(obj.get("kind")))
    if model is None:
        raise ObjectError([(("kind",), f"expected one of {', '.join(KINDS)}")])
    try:
        read = model.model_validate(obj)
    except ValidationError as error:
        raise ObjectError(problems(error)) from None
    key = key_of(obj)
    assert key is not None, "the models want a name"
    if isinstance(read, Accelerator):
        return Good(key, read)
    setting = read.resolved()
    if isinstance(setting, Policy) and (faults := list(_uncompilable(setting))):
        raise ObjectError(faults)
    return Good(key, setting, read.metadata.created)


def _uncompilable(policy: Policy) -> Iterator[tuple[Steps, str]]:
    """What the API server cannot check for us: our CEL is not quite its own."""
    for index, one in enumerate(policy.match.conditions):
        try:
            check(one.expression)
        except CelError as error:
            yield ("spec", "match", "matchConditions", index, "expression"), str(error)


def rules_of(good: Iterable[Good], never_good: Iterable[str] = ()) -> Rules:
    """What these come to: policies in the order in which they steer, the others by name. `never_good` are the names of
    policies that exist and never could be read."""
    ordered = sorted(good, key=lambda one: one.key)
    policies = [(one.setting, one.created) for one in ordered if isinstance(one.setting, Policy)]
    policies.sort(key=lambda one: (-one[0].priority, one[1], one[0].name))
    return Rules(
        policies=tuple(policy for policy, _ in policies),
        never_good=tuple(sorted(set(never_good))),
        pools=tuple(one.setting for one in ordered if isinstance(one.setting, ResolvedPool)),
        exceptions=tuple(one.setting for one in ordered if isinstance(one.setting, PolicyException)),
    )
