"""What is kept of a run: a profile, and the same with one more run in it."""

from dataclasses import replace

from webhook.model.profile import KEPT_S, Observation, OutOfMemory, Profile
from webhook.model.run import Ending, Run, Shown

MOST_MODELS = 16
"""Observations of one profile, as a TrainingProfile holds; of more models, those that were seen longest ago go."""


def learned(profile: Profile, run: Run) -> Profile:
    """The profile with what this run showed, as far as it goes on or has ended.

    Told the same again, it stays the same: a replica that begins to lead sees what the one before it has seen. So a run
    counts as one that ended well where that was after all that counted before, and as one more in a row that ran out of
    memory where it began after the last one that is noted.
    """
    observations = {one.product: one for one in profile.observations}
    for shown in run.shown:
        before = observations.get(shown.product)
        if before is not None or _says(shown, run):
            observations[shown.product] = _with(before or Observation(shown.product, shown.memory_mib), shown, run)
    kept = [one for one in observations.values() if one.seen_at > run.at - KEPT_S]
    kept = sorted(kept, key=lambda one: one.seen_at, reverse=True)[:MOST_MODELS]
    return replace(profile, observations=tuple(sorted(kept, key=lambda one: one.product)))


def _says(shown: Shown, run: Run) -> bool:
    """Whether this is more than that there was a run."""
    return (
        shown.well
        or shown.out_of_memory_at is not None
        or (shown.peak_mib is not None and run.ending is not Ending.BADLY)
    )


def _with(before: Observation, shown: Shown, run: Run) -> Observation:
    now = replace(before, memory_mib=shown.memory_mib, seen_at=max(before.seen_at, run.at))
    # Whatever ended another run, its ranks may have held what it takes to fail.
    if run.ending is not Ending.BADLY and shown.out_of_memory_at is None and shown.peak_mib is not None:
        now = replace(now, peak_mib=max(before.peak_mib or 0.0, shown.peak_mib))
    if shown.imbalance is not None and run.ending is not Ending.BADLY:
        now = replace(now, imbalance=shown.imbalance)
    if shown.out_of_memory_at is not None:
        now = _out_of_memory(now, shown.out_of_memory_at, run)
    if shown.well and (before.good_at is None or run.at > before.good_at):
        now = replace(now, runs=before.runs + 1, good_at=run.at)
    if now.out_of_memory is not None and now.good_at is not None and now.good_at >= now.out_of_memory.at:
        # It has been shown since that the model is large enough.
        now = replace(now, out_of_memory=None)
    return now


def _out_of_memory(before: Observation, at: float, run: Run) -> Observation:
    noted = before.out_of_memory
    if noted is None:
        return replace(before, out_of_memory=OutOfMemory(at, run.job))
    in_a_row = noted.in_a_row + (run.began_at > noted.at)
    latest = max((noted.at, noted.job), (at, run.job))
    return replace(before, out_of_memory=OutOfMemory(*latest, in_a_row))
