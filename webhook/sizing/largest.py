"""The inverse of a size: the largest micro-batch that fits."""

from collections.abc import Callable

MOST = 1 << 20
"""The largest that is looked at."""


def largest(fits: Callable[[int], bool], most: int = MOST) -> int:
    """The largest micro-batch up to `most` that fits; 0 where not even 1 does.

    Exact, because what a micro-batch needs never falls as it grows: doubled until one no longer fits, then halved.
    """
    if most < 1 or not fits(1):
        return 0
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
