"""From findings to sentences."""

import re
from functools import partial

from webhook.answer.texts import texts
from webhook.model.demand import Demand, DemandSource
from webhook.model.finding import Finding, Phrase
from webhook.model.job import TrainingJob
from webhook.model.paths import dotted
from webhook.model.policy import FleetShown, Language
from webhook.model.verdict import Out, Review, Straggler

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def sentence(finding: Finding, review: Review) -> str:
    """One line for one finding, without its code; control characters of names and values are gone.

    Where the policy shows nothing of the fleet, the text that stands under `hidden` is taken: it names no model and no
    number of what is there.
    """
    hidden = review.policy.fleet_shown is FleetShown.NONE
    return _sentence(finding, _Figures(review), review.language, hidden=hidden)


def own_sentence(finding: Finding, language: Language = Language.EN) -> str:
    """The same for a finding of intake, whose text needs no figure of a review."""
    return _sentence(finding, {}, language, hidden=False)


def phrase(one: Phrase, language: Language = Language.EN) -> str:
    """Words that stand inside a text."""
    return one_line(str(texts(language)["phrases"][one.key]).format(**one.facts))


def _sentence(finding: Finding, said: dict[str, str], language: Language, *, hidden: bool) -> str:
    key = f"{finding.code}/{finding.variant}" if finding.variant else finding.code
    words = texts(language)
    pattern = (words["hidden"].get(key) if hidden else None) or words["findings"][key]
    for name, value in finding.facts.items():
        if isinstance(value, Phrase):
            said[name] = phrase(value, language)
        elif name.endswith("_mib"):  # memory loses its unit from the name and gets one in the text
            said[name.removesuffix("_mib")] = gib(float(value))
        else:
            said[name] = str(value)
    return one_line(pattern.format_map(said))


def place(finding: Finding, review: Review) -> str:
    """The field that a finding is about; one about where the pods may land is about the first pod spec with devices."""
    roles = review.job.device_roles if review.job else ()
    return one_line(finding.where) or (one_line(dotted(roles[0].spec)) if roles else "")


def one_line(text: str) -> str:
    """The text without control characters: what a user wrote may end up in other people's terminals and logs."""
    return text.strip() if text.isprintable() else _CONTROL.sub(" ", text).strip()


def gib(mib: float, *, unit: bool = True) -> str:
    """MiB as people read memory: "44.8 GiB"."""
    return f"{mib / 1024:.1f} GiB" if unit else f"{mib / 1024:.1f}"


def need(demand: Demand, language: Language = Language.EN) -> str:
    """What every GPU must have, with where the figure is from; empty where it is not known."""
    low, likely, high = demand.low_mib, demand.likely_mib, demand.high_mib
    words = texts(language)["need"]
    if likely is None and high is not None:
        return str(words[demand.source].format(most=gib(high)))
    if likely is None or high is None:
        return "" if low is None else str(words["bound"].format(low=gib(low)))
    if low is None:
        return str(words["observed_likely"].format(likely=gib(likely), most=gib(high)))
    if low == high:
        return str(words[demand.source].format(low=gib(low), most=gib(high)))
    figures = {"low": gib(low, unit=False), "likely": gib(likely), "high": gib(high, unit=False)}
    return str(words["observed_interval" if demand.source is DemandSource.OBSERVED else "interval"].format(**figures))


def gang(job: TrainingJob, language: Language = Language.EN) -> str:
    """What must run at once: "16 GPUs (8 pods with 2 each)"."""
    words = texts(language)["gang"]
    roles = [role for role in job.device_roles if role.gang]
    facts = {"devices": job.wanted, "pods": sum(role.gang for role in roles)}
    each = {role.devices for role in roles}
    if len(each) != 1:
        return str(words["devices"].format(**facts))
    return str(words["pods"].format(each=each.pop(), **facts))


def slowed(straggler: Straggler, language: Language = Language.EN) -> str:
    """What ranks on the slow model would make those on the fast one wait."""
    least, most = round(straggler.least_percent), round(straggler.most_percent)
    by = "alike" if least == most else "compute" if straggler.most_by_compute else "bandwidth"
    names = {"slow": straggler.slow.name, "fast": straggler.fast.name}
    words = texts(language)["straggler"]
    estimated = words[by].format(wait=_wait(straggler), **names)
    if straggler.seen is None:
        return one_line(estimated)
    seen = words["seen"].format(model=straggler.seen.model.name, percent=round(straggler.seen.percent))
    return one_line(f"{seen}; {estimated}")


def _wait(straggler: Straggler) -> str:
    least, most = round(straggler.least_percent), round(straggler.most_percent)
    return f"{most} %" if least == most else f"{least}–{most} %"


def assumptions(review: Review) -> str:
    """What an estimate assumes, or where a figure is from, in one line."""
    return "; ".join(map(partial(phrase, language=review.language), review.demand.assumptions))


def told_pool(review: Review) -> str:
    """The AcceleratorPool that the job was decided in; nothing where the policy shows nothing of the fleet."""
    return review.decision.pool_name if review.policy.fleet_shown is not FleetShown.NONE else ""


class _Figures(dict[str, str]):
    """The placeholders that any text may use, each worked out when a text does."""

    def __init__(self, review: Review) -> None:
        super().__init__()
        self._review = review

    def __missing__(self, name: str) -> str:
        job = self._review.job
        return "" if job is None else _figure(name, self._review, job)


def _figure(name: str, review: Review, job: TrainingJob) -> str:
    match name, review.decision.straggler:
        case "job", _:
            return job.name
        case "need", _:
            return need(review.demand, review.language)
        case "batch", _:
            return _batch(review, job)
        case "gang", _:
            return gang(job, review.language)
        case "in_pool", _:
            pool = told_pool(review)
            return str(texts(review.language)["in_pool"].format(pool=pool)) if pool else ""
        case "room", _:
            return _room(review, job)
        case "slow", Straggler(slow=slow):
            return slow.name
        case "fast", Straggler(fast=fast):
            return fast.name
        case "wait", Straggler() as straggler:
            return _wait(straggler)
        case "unused", Straggler(unused_mib=unused):
            return gib(unused)
        case _:
            raise KeyError(name)


def _batch(review: Review, job: TrainingJob) -> str:
    """What asks for the memory: the micro-batch where that is known."""
    words = texts(review.language)
    declared = job.declared.per_device_mib is not None and review.demand.source is DemandSource.DECLARED
    batch = None if declared else review.micro_batch
    if batch is None:
        return str(words["demand"])
    pattern = words["batch"] if batch.certain else words["batch_total"]
    return str(pattern.format(batch=batch.value, flag=batch.name))


def _room(review: Review, job: TrainingJob) -> str:
    """The room that no model has beside the memory, where that is asked for too."""
    roomy = any(not one.memory_out and Out.UNWISHED not in one.out for one in review.decision.pool.candidates)
    return str(texts(review.language)["room"].format(devices=job.wanted)) if roomy else ""
