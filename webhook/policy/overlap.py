"""What two label selectors have in common: exact, since each of their requirements is about one label alone."""

from dataclasses import dataclass

from webhook.model.placement import Operator, Requirement
from webhook.model.policy import LabelSelector


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What one label may be: absent or not, and these values, or all `but` these."""

    absent: bool = True
    values: frozenset[str] = frozenset()
    but: bool = True

    @property
    def nothing(self) -> bool:
        return not self.absent and not self.but and not self.values

    def both(self, other: "_Allowed") -> "_Allowed":
        absent = self.absent and other.absent
        if self.but and other.but:
            return _Allowed(absent, self.values | other.values)
        if self.but or other.but:
            listed, left_out = (other, self) if self.but else (self, other)
            return _Allowed(absent, listed.values - left_out.values, but=False)
        return _Allowed(absent, self.values & other.values, but=False)

    def within(self, other: "_Allowed") -> bool:
        """Values are without end: what is all but a few is never among a few."""
        return (other.absent or not self.absent) and (
            (not self.but and not self.values) or self.both(other) == _Allowed(self.absent, self.values, self.but)
        )


_ANYTHING = _Allowed()
_NOTHING = _Allowed(absent=False, but=False)


def selects_nothing(selector: LabelSelector) -> bool:
    """Whether no labels at all meet it: it contradicts itself."""
    return any(one.nothing for one in _by_key(selector).values())


def never_meet(one: LabelSelector, other: LabelSelector) -> bool:
    """Whether no labels meet both."""
    return selects_nothing((*one, *other))


def selects_all_of(one: LabelSelector, other: LabelSelector) -> bool:
    """Whether all labels that meet `other` meet `one`."""
    if selects_nothing(other):
        return True
    wanted, given = _by_key(one), _by_key(other)
    return all(given.get(key, _ANYTHING).within(allowed) for key, allowed in wanted.items())


def _by_key(selector: LabelSelector) -> dict[str, _Allowed]:
    found: dict[str, _Allowed] = {}
    for one in selector:
        found[one.key] = found.get(one.key, _ANYTHING).both(_of(one))
    return found


def _of(requirement: Requirement) -> _Allowed:
    values = frozenset(requirement.values)
    match requirement.operator:
        case Operator.IN:
            return _Allowed(absent=False, values=values, but=False)
        case Operator.NOT_IN if values:
            return _Allowed(values=values)
        case Operator.EXISTS:
            return _Allowed(absent=False)
        case Operator.DOES_NOT_EXIST:
            return _Allowed(but=False)
        case _:
            return _NOTHING
