"""Where things are written that are read as if they stood elsewhere: a TrainJob's arguments, read in its runtime."""

from collections.abc import Mapping

from webhook.intake.fields import Unreadable
from webhook.model.placement import Pointer


class Places:
    """From a path in what is read to the path where that is written; most things are read where they stand."""

    __slots__ = ("_moved",)

    def __init__(self, moved: Mapping[Pointer, Pointer]) -> None:
        self._moved = moved

    def of(self, at: Pointer) -> Pointer:
        """The path where it is written: the longest beginning that was moved decides."""
        if self._moved:
            for length in range(len(at), 0, -1):
                if (place := self._moved.get(at[:length])) is not None:
                    return (*place, *at[length:])
        return at

    def of_fault(self, fault: Unreadable) -> Unreadable:
        """The same fault, at the place where it is written."""
        return Unreadable(self.of(fault.at), fault.expected, fault.value)


IN_PLACE = Places({})
