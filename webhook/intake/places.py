"""Where things are written that are read as if they stood elsewhere: a TrainJob's arguments, read in its runtime."""

from webhook.intake.fields import Unreadable
from webhook.model.placement import Pointer


class Places:
    """From a path in what is read to the path where that is written; most things are read where they stand."""

    __slots__ = ("_items", "_moved")

    def __init__(self) -> None:
        self._moved: dict[Pointer, Pointer] = {}
        self._items: dict[Pointer, dict[int, tuple[Pointer, int]]] = {}

    def move(self, at: Pointer, there: Pointer) -> None:
        """What is read at `at`, and all below it, is written at `there`."""
        self._moved[at] = there

    def items(self, at: Pointer) -> dict[int, tuple[Pointer, int]]:
        """For the list that is read at `at`: of an item, the list that it is written in and its index there."""
        return self._items.setdefault(at, {})

    def of(self, at: Pointer) -> Pointer:
        """The path where it is written: the longest beginning that was moved decides."""
        if not self._moved and not self._items:
            return at
        for length in range(len(at), 0, -1):
            if (place := self._moved.get(at[:length])) is not None:
                return (*place, *at[length:])
            index = at[length - 1]
            if isinstance(index, int) and (item := self._items.get(at[: length - 1], {}).get(index)) is not None:
                return (*item[0], item[1], *at[length:])
        return at

    def of_fault(self, fault: Unreadable) -> Unreadable:
        """The same fault, at the place where it is written."""
        return Unreadable(self.of(fault.at), fault.expected, fault.value)


IN_PLACE = Places()
