"""Two indexes over the nodes of a fleet: by text (labels) and by number (amounts).

Both answer with bitsets and touch no node one by one, however many there are.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping

_BLOCK = 16
_FEW = 128
_SHORT = 64
_ONE = ord("1")
_INTEGER = re.compile(r"[+-]?[0-9]{1,64}\Z")


class LabelIndex:
    """One label key: which nodes carry it, and with which value.

    A value that one node alone carries (a hostname) is kept as a position, not as a bitset: 10,000 unique values would
    otherwise take 6 MiB a key.
    """

    __slots__ = ("_alone", "_numbers", "_shared", "present")

    def __init__(self, positions_by_value: Mapping[str, Iterable[int]]) -> None:
        self._alone: dict[str, int] = {}
        self._shared: dict[str, int] = {}
        self._numbers: ThresholdIndex | None = None
        self.present = 0
        for value, positions in positions_by_value.items():
            here = positions if isinstance(positions, list) else list(positions)
            if len(here) == 1:
                self._alone[value] = here[0]
            elif here:
                bits = bits_of(here)
                self._shared[value] = bits
                self.present |= bits
        self.present |= bits_of(self._alone.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelIndex):
            return NotImplemented
        return self._alone == other._alone and self._shared == other._shared

    __hash__ = None  # type: ignore[assignment]  # equal by content, as the dicts inside are

    def equal(self, value: str) -> int:
        """The nodes whose value is exactly `value`."""
        bits = self._shared.get(value)
        if bits is not None:
            return bits
        position = self._alone.get(value)
        return 0 if position is None else 1 << position

    def items(self) -> Iterator[tuple[str, int]]:
        """Every value with its nodes. As many steps as there are values: for keys with few of them."""
        yield from self._shared.items()
        for value, position in self._alone.items():
            yield value, 1 << position

    def numbers(self) -> "ThresholdIndex":
        """The nodes by integer value, for Gt and Lt; values that are no integers are left out, as Kubernetes does.

        Made on first use: one step for each distinct value.
        """
        if self._numbers is None:
            self._numbers = ThresholdIndex(
                (number, position)
                for values in (
                    ((value, (position,)) for value, position in self._alone.items()),
                    ((value, positions_of(bits)) for value, bits in self._shared.items()),
                )
                for value, positions in values
                if (number := int64(value)) is not None
                for position in positions
            )
        return self._numbers


class ThresholdIndex:
    """One number a node (some nodes may have none): which nodes have at least so much.

    Nodes sorted by value, with the bitset of "this one and all after it" kept at cuts: at every distinct value where
    those are few (devices a node), so that a look-up is one bisection; else at every 16th node, because a bitset for
    each of 10,000 distinct amounts would take 6 MiB.
    """

    __slots__ = ("_cuts", "_positions", "_suffixes", "_values", "present")

    def __init__(self, amounts: Iterable[tuple[float, int]]) -> None:
        positions_by_value: dict[float, list[int]] = {}
        for value, position in amounts:
            positions_by_value.setdefault(value, []).append(position)
        self._values: list[float] = []
        self._positions: list[int] = []
        starts: list[int] = []
        for value in sorted(positions_by_value):
            here = positions_by_value[value]
            starts.append(len(self._positions))
            self._values += [value] * len(here)
            self._positions += sorted(here)
        end = len(self._positions)
        self._cuts = [*(starts if len(starts) <= _FEW else range(0, end, _BLOCK)), end]
        suffixes = [0]
        for start, stop in zip(self._cuts[-2::-1], self._cuts[:0:-1], strict=True):
            suffixes.append(suffixes[-1] | bits_of(self._positions[start:stop]))
        self._suffixes = suffixes[::-1]
        self.present = self._suffixes[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ThresholdIndex):
            return NotImplemented
        return self._values == other._values and self._positions == other._positions

    __hash__ = None  # type: ignore[assignment]  # equal by content, as the lists inside are

    @property
    def smallest(self) -> float | None:
        """The smallest value of all; None where no node has one."""
        return self._values[0] if self._values else None

    def at_least(self, amount: float) -> int:
        """The nodes whose value is `amount` or more."""
        return self._from(bisect_left(self._values, amount))

    def above(self, amount: float) -> int:
        """The nodes whose value is more than `amount`."""
        return self._from(bisect_right(self._values, amount))

    def below(self, amount: float) -> int:
        """The nodes whose value is less than `amount`."""
        return self.present & ~self.at_least(amount)

    def at_most(self, amount: float) -> int:
        """The nodes whose value is `amount` or less."""
        return self.present & ~self.above(amount)

    def value(self, position: int) -> float:
        """The value of one node. Raises KeyError where it has none."""
        value = self.least(1 << position)
        if value is None:
            raise KeyError(position)
        return value

    def least(self, among: int) -> float | None:
        """The smallest value among these nodes; None where none of them has a value. O(log n)."""
        among &= self.present
        if not among:
            return None
        low, high = 0, len(self._cuts) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if among & self._suffixes[middle] == among:
                low = middle
            else:
                high = middle
        return self._first(among, range(self._cuts[low], self._cuts[low + 1]))

    def most(self, among: int) -> float | None:
        """The largest value among these nodes; None where none of them has a value. O(log n)."""
        if not among & self.present:
            return None
        low, high = 0, len(self._cuts) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if among & self._suffixes[middle]:
                low = middle
            else:
                high = middle
        return self._first(among, range(self._cuts[low + 1] - 1, self._cuts[low] - 1, -1))

    def total(self, among: int) -> float:
        """The sum over these nodes. One step for each distinct value among them (devices a node: a handful)."""
        total = 0.0
        rest = among & self.present
        while rest:
            value = self.least(rest)
            assert value is not None
            here = rest & ~self.above(value)
            total += value * here.bit_count()
            rest ^= here
        return total

    def _from(self, start: int) -> int:
        cut = bisect_left(self._cuts, start)
        bits = self._suffixes[cut]
        for position in self._positions[start : self._cuts[cut]]:
            bits |= 1 << position
        return bits

    def _first(self, among: int, block: range) -> float:
        """The value of the first of these places whose node is among those asked for; there is one."""
        if self._values[block[0]] == self._values[block[-1]]:
            return self._values[block[0]]
        return next(self._values[place] for place in block if among >> self._positions[place] & 1)


def bits_of(positions: Iterable[int]) -> int:
    """The bitset of these positions."""
    here = positions if isinstance(positions, list) else list(positions)
    if len(here) <= _SHORT:
        bits = 0
        for position in here:
            bits |= 1 << position
        return bits
    # Binary digits are the quickest way to a large int: one plain store for each position.
    digits = bytearray(b"0") * (max(here) + 1)
    for position in here:
        digits[position] = _ONE
    digits.reverse()
    return int(digits.decode(), 2)


def positions_of(bits: int) -> Iterator[int]:
    """The positions of a bitset, ascending. One step each: not for a whole fleet in the path of a request."""
    digits = f"{bits:b}"[::-1]
    position = digits.find("1")
    while position >= 0:
        yield position
        position = digits.find("1", position + 1)


def int64(text: str) -> int | None:
    """The text as Go's strconv.ParseInt(text, 10, 64) reads it, which is what Gt and Lt compare; None where that
    fails (Python's int() alone would also take spaces, underscores and other scripts' digits)."""
    if not _INTEGER.match(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < (1 << 63) else None
