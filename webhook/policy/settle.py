"""What files and the objects of a cluster come to together, and how each object stands."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from webhook.model.request import Object
from webhook.model.rules import PolicyException, Rules
from webhook.policy.documents import printable
from webhook.policy.load import Loaded
from webhook.policy.objects import Good, Key, ObjectError, key_of, read_object, rules_of

NO_FILES = Loaded(Rules())


@dataclass(frozen=True, slots=True)
class Known:
    """What was made of an object whose spec is `spec`. `good` is what counts of it: None where it never was good.
    `problem`: why it does not count as it stands; empty where it does."""

    spec: object
    good: Good | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """How an object stands: `reason` in one word, `message` for people, empty where it is in force."""

    object: Object
    reason: str
    message: str = ""

    @property
    def ready(self) -> bool:
        return not self.message


@dataclass(frozen=True, slots=True)
class Settled:
    """The rules, how each object stands, and by uid what is known of it."""

    rules: Rules
    standings: tuple[Standing, ...] = ()
    known: Mapping[str, Known] = field(default_factory=dict)


def settle(objects: Iterable[Object], files: Loaded, before: Settled, now: float) -> Settled:
    """An object that is no good counts as it was when it was good last (`before`), as long as it is the same object.

    What a file says goes before an object of the same kind and name: who deploys the webhook has the last word over
    who may edit objects.
    """
    known: dict[str, Known] = {}
    standings: list[Standing] = []
    good: dict[Key, Good] = {}
    never_good: list[str] = list(files.rules.never_good)
    for obj in objects:
        key = key_of(obj)
        if key is None:
            continue
        uid = str(obj["metadata"].get("uid", key))
        known[uid] = one = _known(obj, before.known.get(uid))
        from_file = files.read.get(key)
        standings.append(_standing(obj, one, from_file.source.file if from_file else "", now))
        if one.good is not None:
            good[key] = one.good
        elif key.kind == "TrainingPolicy":
            never_good.append(key.name)
    good |= {key: one.good for key, one in files.read.items()}
    there = {key.name for key in good if key.kind == "TrainingPolicy"}
    rules = rules_of(good.values(), (name for name in never_good if name not in there))
    return Settled(rules, tuple(standings), known)


def _known(obj: Object, before: Known | None) -> Known:
    spec = obj.get("spec")
    if before is not None and before.spec == spec:
        return before
    try:
        return Known(spec, read_object(obj))
    except ObjectError as error:
        return Known(spec, before.good if before else None, printable(str(error)))


def _standing(obj: Object, known: Known, file: str, now: float) -> Standing:
    if file:
        return Standing(obj, "Overruled", f"{file} has one of the same name, which counts")
    if known.problem:
        kept = "never good, so it does not count" if known.good is None else "what it said before counts on"
        return Standing(obj, "Invalid", f"{known.problem} ({kept})")
    setting = known.good.setting if known.good else None
    if isinstance(setting, PolicyException) and setting.until <= now:
        return Standing(obj, "Expired", f"it ended at {obj['spec']['until']}")
    return Standing(obj, "InForce")
