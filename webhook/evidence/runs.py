"""From the ranks of a job and what was measured of them to what the run showed on each model."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from webhook.evidence.measured import IDLE_MIB, Place
from webhook.model.run import NOT_MEASURED, Device, Ending, Measured, Rank, Run, Shown


def run_of(run: Run, ranks: Sequence[Rank], place: Place, measured: Measured = NOT_MEASURED) -> Run:
    """The run with what its ranks showed."""
    by_product: dict[str, list[Rank]] = {}
    devices: dict[str, Device] = {}
    unplaced = 0
    for rank in ranks:
        device = place(rank)
        if device is None:
            unplaced += bool(rank.node)
            continue
        devices[device.product] = device
        by_product.setdefault(device.product, []).append(rank)
    shown = [_shown(devices[product], those, run, measured) for product, those in by_product.items()]
    return replace(run, shown=tuple(_with_imbalance(shown, by_product, measured)), unplaced=unplaced)


def _shown(device: Device, ranks: Sequence[Rank], run: Run, measured: Measured) -> Shown:
    peaks = [measured.peaks_mib[one.uid] for one in ranks if one.uid in measured.peaks_mib]
    peak = max(peaks, default=None)
    # One that was replaced after it had failed says nothing of how the run ended.
    ended_well = run.ending is Ending.WELL and any(one.ending is not Ending.BADLY for one in ranks)
    # It found that it was done already, say.
    idle = peak is not None and peak < IDLE_MIB
    return Shown(
        device.product,
        device.memory_mib,
        well=ended_well and not idle,
        peak_mib=None if idle else peak,
        out_of_memory_at=max((one.out_of_memory_at for one in ranks if one.out_of_memory_at is not None), default=None),
    )


def _with_imbalance(shown: Sequence[Shown], ranks: dict[str, list[Rank]], measured: Measured) -> Iterable[Shown]:
    """Of a run over several models: those that had most work waited for nobody."""
    active = {product: _active(those, measured) for product, those in ranks.items()}
    known = {product: part for product, part in active.items() if part is not None}
    busiest = max(known.values(), default=0.0)
    for one in shown:
        if len(known) > 1 and busiest > 0 and one.product in known:
            yield replace(one, imbalance=1 - known[one.product] / busiest)
        else:
            yield one


def _active(ranks: Iterable[Rank], measured: Measured) -> float | None:
    parts = [measured.active[one.uid] for one in ranks if one.uid in measured.active]
    return fmean(parts) if parts else None
