"""Dataclasses that nobody changes."""

import dataclasses
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[_T]) -> type[_T]:
    """A dataclass with slots, equal and hashed by its fields, that mypy lets nobody change.

    Python would: `dataclass(frozen=True)` sets each field by a call of `object.__setattr__`, which was an eighth of the
    time of a review.
    """
    return dataclasses.dataclass(slots=True, unsafe_hash=True)(cls)
