"""From findings to sentences."""

import re
from collections.abc import Mapping

from webhook.answer.texts import texts
from webhook.model.demand import Demand, DemandSource
from webhook.model.finding import Finding
from webhook.model.job import TrainingJob
from webhook.model.verdict import Out, Review, Straggler

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def sentence(finding: Finding, review: Review) -> str:
    """One line for one finding, without its code; control characters of names and values are gone."""
    return _sentence(finding, _figures(review))


def own_sentence(finding: Finding) -> str:
    """The same for a finding of intake, whose text needs no figure of a review."""
    return _sentence(finding, {})


def _sentence(finding: Finding, figures: Mapping[str, str]) -> str:
    pattern = texts()["findings"][f"{finding.code}/{finding.variant}" if finding.variant else finding.code]
    return one_line(pattern.format(**figures, **_facts(finding)))


def one_line(text: str) -> str:
    """The text without control characters: what a user wrote may end up in other people's terminals and logs."""
    return _CONTROL.sub(" ", text).strip()


def gib(mib: float, *, unit: bool = True) -> str:
    """MiB as people read memory: "44.8 GiB"."""
    return f"{mib / 1024:.1f} GiB" if unit else f"{mib / 1024:.1f}"


def need(demand: Demand) -> str:
    """What every GPU must have, with where the figure is from; empty where it is not known."""
    low, likely, high = demand.low_mib, demand.likely_mib, demand.high_mib
    words = texts()["need"]
    if likely is None and high is not None:
        return str(words[demand.source].format(high=gib(high)))
    if likely is None or high is None:
        return "" if low is None else str(words["bound"].format(low=gib(low)))
    assert low is not None
    if low == high:
        return str(words[demand.source].format(low=gib(low)))
    figures = {"low": gib(low, unit=False), "likely": gib(likely), "high": gib(high, unit=False)}
    return str(words["interval"].format(**figures))


def gang(job: TrainingJob) -> str:
    """What must run at once: "16 GPUs (8 pods with 2 each)"."""
    words = texts()["gang"]
    roles = [role for role in job.device_roles if role.gang]
    facts = {"devices": wanted(job), "pods": sum(role.gang for role in roles)}
    each = {role.devices for role in roles}
    if len(each) != 1:
        return str(words["devices"].format(**facts))
    return str(words["pods"].format(each=each.pop(), **facts))


def wanted(job: TrainingJob) -> int:
    """Devices that must be there at once."""
    return sum(role.gang * role.devices for role in job.device_roles)


def slowed(straggler: Straggler) -> str:
    """What ranks on the slow model would make those on the fast one wait."""
    least, most = round(straggler.least_percent), round(straggler.most_percent)
    by = "alike" if least == most else "compute" if straggler.most_by_compute else "bandwidth"
    names = {"slow": straggler.slow.name, "fast": straggler.fast.name}
    return one_line(texts()["straggler"][by].format(wait=_wait(straggler), **names))


def _wait(straggler: Straggler) -> str:
    least, most = round(straggler.least_percent), round(straggler.most_percent)
    return f"{most} %" if least == most else f"{least}–{most} %"


def _figures(review: Review) -> dict[str, str]:
    """The placeholders that any text may use."""
    job = review.job
    if job is None:
        return {"job": "", "need": "", "batch": "", "gang": "", "room": "", "in_pool": ""}
    words = texts()
    declared = job.declared.per_device_mib is not None and review.demand.source is DemandSource.DECLARED
    batch = None if declared else review.micro_batch
    prefix = words["demand"]
    if batch is not None:
        pattern = words["batch"] if batch.certain else words["batch_total"]
        prefix = pattern.format(batch=batch.value, flag=batch.name)
    roomy = any(not one.memory_out and Out.UNWISHED not in one.out for one in review.decision.pool.candidates)
    return {
        "job": job.name,
        "need": need(review.demand),
        "batch": prefix,
        "gang": gang(job),
        "in_pool": words["in_pool"].format(pool=pool) if (pool := review.decision.pool_name) else "",
        "room": words["room"].format(devices=wanted(job)) if roomy else "",
        **_slowed(review.decision.straggler),
    }


def _slowed(straggler: Straggler | None) -> dict[str, str]:
    if straggler is None:
        return {}
    names = {"slow": straggler.slow.name, "fast": straggler.fast.name}
    return {**names, "wait": _wait(straggler), "unused": gib(straggler.unused_mib)}


def _facts(finding: Finding) -> dict[str, str]:
    """A finding's facts as text; memory ("usable_mib") loses its unit from the name and gets one in the text."""
    return {
        key.removesuffix("_mib"): gib(float(value)) if key.endswith("_mib") else str(value)
        for key, value in finding.facts.items()
    }
