"""What the submitter asks for by annotation: whether it counts, and what it leaves."""

from collections.abc import Iterator
from dataclasses import replace

from webhook.catalog.accelerators import accelerators
from webhook.decision.scope import is_decided, scope
from webhook.model.finding import Action, Finding
from webhook.model.fleet import Model
from webhook.model.job import Coupling, TrainingJob
from webhook.model.policy import Policy
from webhook.model.verdict import Candidate, Out
from webhook.sizing.demand import sized_for_mib

_PREFIX = "samestep.dev/"
_SIZED_FOR = f"{_PREFIX}sized-for"


def heard(job: TrainingJob, policy: Policy) -> tuple[Finding, ...]:
    """What intake found, as this policy takes it: an unreadable annotation that would not count anyway is no reason to
    refuse the job. What does not count is told, and so is a model named in sized-for that nobody knows."""
    unheard = uncounted(job, policy)
    if unheard and not is_decided(job, scope(job, policy)):
        unheard = ()
    told = (
        Finding("SST101", _where(name), {"annotation": f"{_PREFIX}{name}", "policy": policy.name}, "not-counted")
        for name in unheard
    )
    return (*(_taken(one, policy) for one in job.findings), *told, *_unheard_of(job, policy))


def uncounted(job: TrainingJob, policy: Policy) -> tuple[str, ...]:
    """The annotations of the submitter that can be read, and do not count under this policy, without their prefix."""
    said, wishes = job.declared, job.wishes
    present = {
        "memory-per-device": said.per_device_mib is not None,
        "memory-fixed": said.fixed_mib is not None,
        "memory-per-sample": said.per_sample_mib is not None,
        "micro-batch": job.batch.declared is not None,
        "sized-for": wishes.sized_for is not None,
        "model": bool(wishes.model),
        "pool": bool(wishes.pool),
        "ignore": bool(wishes.ignore),
        "allow-mixed": bool(wishes.allow_mixed),
    }
    unheard = [name for name, there in present.items() if there and not _counts(name, policy)]
    if job.coupling_wish not in (None, Coupling.SYNCHRONOUS) and not policy.coupling:
        unheard.append("coupling")
    return tuple(unheard)


def ignored(job: TrainingJob, policy: Policy) -> str:
    """Why the job is left alone on its submitter's word; empty where it is not."""
    return f"out of scope: {_PREFIX}ignore: {job.wishes.ignore}" if policy.ignore and job.wishes.ignore else ""


def model_asked_for(job: TrainingJob, policy: Policy) -> str:
    """The model that the submitter asks for; empty where none is, or where policy does not listen."""
    return job.wishes.model if policy.model else ""


def narrowed_to(weighed: tuple[Candidate, ...], wish: str) -> tuple[Candidate, ...]:
    """The candidates with all of them out, whatever else they lack, that are not what was asked for."""
    if not wish:
        return weighed
    wanted = accelerators().canonical(wish)
    return tuple(one if _names(one.models, wish, wanted) else replace(one, out=_unwished(one.out)) for one in weighed)


def asked_for(weighed: tuple[Candidate, ...], wish: str) -> tuple[Candidate, ...]:
    """Of candidates that are narrowed to a wish, those that it leaves."""
    return tuple(one for one in weighed if Out.UNWISHED not in one.out) if wish else weighed


def unmet(job: TrainingJob, weighed: tuple[Candidate, ...], withheld: str) -> Finding:
    """No node of the pool has the model that was asked for. `withheld` is why that is no denial, empty where it is."""
    there = ", ".join(one.model.name for one in weighed)
    facts = {"asked": job.wishes.model, "models": there}
    action = Action.WARN if withheld else None
    return Finding("SST404", _where("model"), facts, withheld, action)


def _names(models: tuple[Model, ...], wish: str, wanted: str) -> bool:
    """In any spelling that the catalog knows, or as messages call it."""
    return any(
        wish.casefold() == one.name.casefold() or accelerators().canonical(one.product) == wanted for one in models
    )


def _unwished(out: tuple[Out, ...]) -> tuple[Out, ...]:
    return tuple(reason for reason in Out if reason in out or reason is Out.UNWISHED)


def _taken(finding: Finding, policy: Policy) -> Finding:
    if finding.code != "SST106" or _counts(str(finding.facts["annotation"]).removeprefix(_PREFIX), policy):
        return finding
    return replace(finding, action=Action.INFORM)


def _counts(name: str, policy: Policy) -> bool:
    """A coupling that cannot be read may have been Synchronous, which always counts."""
    match name:
        case "model" | "pool" | "sized-for":
            return policy.model
        case "ignore":
            return policy.ignore
        case "allow-mixed":
            return policy.allow_mixed
        case "coupling":
            return True
        case _:
            return policy.declare


def _unheard_of(job: TrainingJob, policy: Policy) -> Iterator[Finding]:
    said = job.wishes.sized_for
    if policy.model and isinstance(said, str) and sized_for_mib(said) is None:
        facts = {"annotation": _SIZED_FOR, "got": said}
        yield Finding("SST101", _where("sized-for"), facts, "sized-for")


def _where(name: str) -> str:
    return f"metadata.annotations[{_PREFIX}{name}]"
