"""What ranks on two models cost one another, as a model of it: the ratio of slow to fast, by compute and by bandwidth.

Nothing here was measured. A step bound by compute takes as long as the slow card's arithmetic, one bound by memory as
long as its bandwidth; real steps lie between, and devices of one product differ by several percent besides
(https://arxiv.org/abs/2208.11035).
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import permutations

from webhook.model.fleet import Model
from webhook.model.verdict import Straggler


def straggler(memory_mib: Mapping[Model, float]) -> Straggler | None:
    """The estimate for a job that runs on all of these models, each with the MiB that one device of it reports; None
    where no two of them have figures in the catalog."""
    apart = _farthest(tuple(memory_mib))
    if apart is None:
        return None
    slow, fast, by_compute, by_bandwidth = apart
    least, most = sorted((by_compute, by_bandwidth))
    return Straggler(
        slow,
        fast,
        least_percent=least,
        most_percent=most,
        unused_mib=max(memory_mib.values()) - min(memory_mib.values()),
        most_by_compute=by_compute >= by_bandwidth,
    )


@lru_cache(maxsize=256)  # of a fleet the same few sets of models are asked again and again
def _farthest(models: tuple[Model, ...]) -> tuple[Model, Model, float, float] | None:
    """Of all pairs the one whose faster model waits longest, with the percent of a step by compute and by bandwidth."""
    pairs = (
        (slow, fast, _waits(slow.bf16_tflops, fast.bf16_tflops), _waits(slow.bandwidth_gbps, fast.bandwidth_gbps))
        for slow, fast in permutations(models, 2)
    )
    known = ((slow, fast, one, other) for slow, fast, one, other in pairs if one is not None and other is not None)
    # The first of equals: `models` stand in the order of their names.
    return max(known, key=lambda pair: (max(pair[2:]), min(pair[2:])), default=None)


def _waits(slow: float | None, fast: float | None) -> float | None:
    """The percent of a step that `fast` waits; none where it is the slower of the two."""
    return None if slow is None or fast is None else max(0.0, 100 * (1 - slow / fast))
