"""Two indexes over the nodes of a fleet: by text (labels) and by number (amounts).

Both answer with bitsets and touch no node one by one, however many there are. Neither ever changes: `changed` gives
another one, which shares with it what stayed the same.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from math import ceil, floor
from typing import TypeAlias

_FEW = 64
_SHORT = 64
_ONE = ord("1")
_INTEGER = re.compile(r"[+-]?[0-9]{1,64}\Z")
# Labels hold any int64; amounts start at zero.
_ZERO = 1 << 63

Positions: TypeAlias = "int | list[int] | tuple[int, ...]"
"""One position, or several."""


class LabelIndex:
    """One label key: which nodes carry it, and with which value.

    A value that more than 64 nodes share is kept as a bitset, a rarer one as a sorted tuple of positions, or as the one
    position: 10,000 bitsets of one bit (host names) would take 6 MiB a key.
    """

    __slots__ = ("_numbers", "_rare", "_shared", "present")

    def __init__(self, positions_by_value: Mapping[str, Positions]) -> None:
        self._shared: dict[str, int] = {}
        self._rare: dict[str, int | tuple[int, ...]] = {}
        self._numbers: ThresholdIndex | None = None
        self.present = 0
        rare: list[int] = []
        for value, positions in positions_by_value.items():
            if isinstance(positions, int):
                self._rare[value] = positions
                rare.append(positions)
            elif len(positions) > _FEW:
                self._shared[value] = bits_of(positions)
                self.present |= self._shared[value]
            elif positions:
                self._rare[value] = positions[0] if len(positions) == 1 else tuple(sorted(positions))
                rare += positions
        self.present |= bits_of(rare)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelIndex):
            return NotImplemented
        return self._rare == other._rare and self._shared == other._shared

    __hash__ = None  # type: ignore[assignment]  # equal by content, as the dicts inside are

    def equal(self, value: str) -> int:
        """The nodes whose value is exactly `value`."""
        bits = self._shared.get(value)
        if bits is not None:
            return bits
        positions = self._rare.get(value)
        return 0 if positions is None else _bits(positions)

    def items(self) -> Iterator[tuple[str, int]]:
        """Every value with its nodes. As many steps as there are values: for keys with few of them."""
        yield from self._shared.items()
        for value, positions in self._rare.items():
            yield value, _bits(positions)

    def above(self, bound: int) -> int:
        """The nodes whose value is an integer (as Kubernetes reads it) of more than `bound`."""
        return self._integers().above(bound + _ZERO)

    def below(self, bound: int) -> int:
        """The nodes whose value is an integer (as Kubernetes reads it) of less than `bound`."""
        return self._integers().below(bound + _ZERO)

    def _integers(self) -> "ThresholdIndex":
        """Made on first use: one step for each distinct value."""
        if self._numbers is None:
            self._numbers = ThresholdIndex(
                (number + _ZERO, position)
                for value, bits in self.items()
                if (number := int64(value)) is not None
                for position in positions_of(bits)
            )
        return self._numbers

    def changed(self, gone: Iterable[tuple[str, int]], come: Iterable[tuple[str, int]]) -> "LabelIndex":
        """The index without the pairs of value and position that have gone and with those that have come."""
        sets: dict[str, int] = {}
        for value, position in gone:
            sets[value] = sets.get(value, self.equal(value)) & ~(1 << position)
        for value, position in come:
            sets[value] = sets.get(value, self.equal(value)) | 1 << position
        other = LabelIndex({})
        other._shared, other._rare = self._shared.copy(), self._rare.copy()
        old = new = 0
        for value, bits in sets.items():
            old |= self.equal(value)
            new |= bits
            other._shared.pop(value, None)
            other._rare.pop(value, None)
            if bits.bit_count() > _FEW:
                other._shared[value] = bits
            elif bits:
                positions = tuple(positions_of(bits))
                other._rare[value] = positions[0] if len(positions) == 1 else positions
        # A node carries one value of a key.
        other.present = self.present & ~old | new
        return other


class ThresholdIndex:
    """One number of zero or more a node (some nodes may have none): which nodes have at least so much.

    Bit-sliced (O'Neil and Quass, "Improved query performance with variant indexes", SIGMOD 1997): bit b of all nodes'
    numbers is one bitset. A comparison is a few operations for each bit of the number until nothing is undecided, a sum
    is exact, a change of one node touches no other, and 10,000 distinct amounts of memory take 50 KiB. Fractions are
    cut off.
    """

    __slots__ = ("_slices", "_spans", "present")

    def __init__(self, amounts: Iterable[tuple[float, int]]) -> None:
        """From pairs of number and position."""
        by_position = {position: int(amount) for amount, position in amounts}
        self.present = bits_of(list(by_position))
        self._slices = _sliced(by_position)
        """The lowest bit first; the last is never empty."""
        self._spans: dict[int, tuple[int, int]] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ThresholdIndex):
            return NotImplemented
        return self.present == other.present and self._slices == other._slices

    __hash__ = None  # type: ignore[assignment]  # equal by content, as a label index is

    def changed(self, amounts: Mapping[int, int | None]) -> "ThresholdIndex":
        """The index with other numbers at some positions; None where a position has none any more."""
        come = ThresholdIndex((amount, position) for position, amount in amounts.items() if amount is not None)
        stay = ~bits_of(list(amounts))
        slices = [bits & stay for bits in self._slices]
        slices += [0] * (len(come._slices) - len(slices))
        for place, bits in enumerate(come._slices):
            slices[place] |= bits
        while slices and not slices[-1]:
            slices.pop()
        come._slices = slices
        come.present |= self.present & stay
        return come

    def at_least(self, amount: float) -> int:
        """The nodes whose number is `amount` or more."""
        return self._from(ceil(amount))

    def above(self, amount: float) -> int:
        """The nodes whose number is more than `amount`."""
        return self._from(floor(amount) + 1)

    def below(self, amount: float) -> int:
        """The nodes whose number is less than `amount`."""
        return self.present & ~self.at_least(amount)

    def at_most(self, amount: float) -> int:
        """The nodes whose number is `amount` or less."""
        return self.present & ~self.above(amount)

    def value(self, position: int) -> int:
        """The number of one node. Raises KeyError where it has none."""
        if not self.present >> position & 1:
            raise KeyError(position)
        return sum((bits >> position & 1) << place for place, bits in enumerate(self._slices))

    def least(self, among: int) -> int | None:
        """The smallest number among these nodes; None where none of them has one."""
        among &= self.present
        if not among:
            return None
        least = 0
        for bits in reversed(self._slices):
            with_it = among & bits
            least <<= 1
            if with_it == among:
                least |= 1
            elif with_it:
                among ^= with_it
        return least

    def span(self, among: int) -> tuple[int, int] | None:
        """The smallest and the largest number among these nodes; None where none of them has one.

        What was asked lately is remembered: jobs ask of the same nodes, those of a model, again and again.
        """
        among &= self.present
        if not among:
            return None
        known = self._spans.get(among)
        if known is None:
            if len(self._spans) >= _FEW:
                self._spans.clear()
            known = self._spans[among] = self._span(among)
        return known

    def _span(self, among: int) -> tuple[int, int]:
        low = high = among
        least = most = 0
        for bits in reversed(self._slices):
            least <<= 1
            most <<= 1
            with_low = low & bits
            # Both are the same nodes until a digit differs: mostly, the nodes of a model report one number.
            with_high = with_low if high is low else high & bits
            if with_high:
                most |= 1
                high = with_high
            if with_low == low:
                least |= 1
                low = with_low
            elif with_low:
                low ^= with_low
        return least, most

    def total(self, among: int) -> int:
        """The sum over these nodes."""
        total = 0
        for place, bits in enumerate(self._slices):
            total += (bits & among).bit_count() << place
        return total

    def _from(self, amount: int) -> int:
        if amount <= 0:
            return self.present
        slices = self._slices
        if amount.bit_length() > len(slices):
            return 0
        more, alike = 0, self.present
        # Below the last 1 of the amount (of 128Gi the 38th digit) nothing is less any more.
        last = (amount & -amount).bit_length() - 1
        for place in range(len(slices) - 1, last - 1, -1):
            if amount >> place & 1:
                alike &= slices[place]
            else:
                here = alike & slices[place]
                more |= here
                alike ^= here
            if not alike:
                return more
        return more | alike


def _sliced(amounts: Mapping[int, int]) -> list[int]:
    width = max(amounts.values(), default=0).bit_length()
    if len(amounts) <= _SHORT:
        slices = [0] * width
        for position, amount in amounts.items():
            here = 1 << position
            for place in range(amount.bit_length()):
                if amount >> place & 1:
                    slices[place] |= here
        return slices
    if not width:
        return []
    # All numbers in binary, one after another, the last node's first: every width-th digit belongs to one slice.
    digits = ["0" * width] * (max(amounts) + 1)
    written: dict[int, str] = {}
    for position, amount in amounts.items():
        digits[-1 - position] = written.get(amount) or written.setdefault(amount, f"{amount:0{width}b}")
    text = "".join(digits)
    return [int(text[width - 1 - place :: width], 2) for place in range(width)]


def _bits(positions: int | tuple[int, ...]) -> int:
    return 1 << positions if isinstance(positions, int) else bits_of(positions)


def bits_of(positions: Iterable[int]) -> int:
    """The bitset of these positions."""
    here = positions if isinstance(positions, list | tuple) else list(positions)
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
