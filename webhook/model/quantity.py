"""Kubernetes quantities ("1500m", "32Gi", "1e3") as exact integers.

The grammar is `resource.Quantity`'s (k8s.io/apimachinery, pkg/api/resource). The `kubernetes` package has a parser,
but it takes NaN and expands "1e999999999" to a billion digits, which an admission webhook must not.
"""

import re
from fractions import Fraction
from functools import lru_cache

KIBI = 1 << 10
MEBI = 1 << 20

GRAMMAR = r"([+-]?)(\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(|[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})"
"""Sign, number and suffix of a quantity, for a pattern here and, in RE2's terms, in a schema."""
LONGEST = 100

_GRAMMAR = re.compile(GRAMMAR + r"\Z", re.ASCII)
_SUFFIX: dict[str, int | Fraction] = {
    "": 1,
    **{f"{letter}i": 1024 ** (n + 1) for n, letter in enumerate("KMGTPE")},
    **{letter: 1000 ** (n + 1) for n, letter in enumerate("kMGTPE")},
    "m": Fraction(1, 1000),
    "u": Fraction(1, 1000**2),
    "n": Fraction(1, 1000**3),
}
_LARGEST = (1 << 63) - 1
_BYTES = ("memory", "ephemeral-storage", "hugepages-")


class QuantityError(ValueError):
    """Not a quantity; the message shows the text, cut to a readable length."""


def units(value: object) -> int:
    """The quantity in whole units (bytes, devices, pods), rounded up as Kubernetes does, capped at 2^63 - 1.

    Raises QuantityError for anything that the API server would refuse.
    """
    return _scaled(value, 1)


def milli(value: object) -> int:
    """The quantity in thousandths (CPU), rounded up, capped at 2^63 - 1. Raises QuantityError."""
    return _scaled(value, 1000)


def told_amount(resource: str, amount: int) -> str:
    """What there is of a resource, or asked for, as people write it: "16 cpu" (of thousandths), "128.0 GiB memory" (of
    bytes), "8 nvidia.com/gpu"."""
    if resource == "cpu":
        return f"{amount / 1000:g} cpu"
    return f"{amount / (1 << 30):.1f} GiB {resource}" if resource.startswith(_BYTES) else f"{amount} {resource}"


def _scaled(value: object, scale: int) -> int:
    if isinstance(value, str):
        return _ceiling(value, scale)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"expected a quantity, got {type(value).__name__}")
    return min(value * scale, _LARGEST) if isinstance(value, int) else _ceiling(repr(value), scale)


@lru_cache(maxsize=4096)
def _ceiling(text: str, scale: int) -> int:
    amount = _parsed(text) * scale
    return min(-(-amount.numerator // amount.denominator), _LARGEST)


def _parsed(text: str) -> int | Fraction:
    found = _GRAMMAR.match(text) if len(text) <= LONGEST else None
    if found is None:
        raise QuantityError(f"expected a quantity, got {text[:40]!r}")
    sign, number, suffix = found.groups()
    factor = _SUFFIX.get(suffix)
    if factor is None:
        factor = Fraction(10) ** int(suffix[1:])
    # Each node has a memory of its own, in whole units, and a Fraction takes ten times as long.
    amount = (int(number) if number.isdecimal() else Fraction(number)) * factor
    return -amount if sign == "-" else amount
