"""TrainingProfiles in the cluster: one is read, written with one more run in it, and deleted when it has grown old."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import orjson

from webhook.cluster.access import Client, StatusError
from webhook.cluster.learning import MEASURED
from webhook.evidence.learned import learned
from webhook.model.profile import KEPT_S, Profile
from webhook.model.run import Ending, Run
from webhook.policy.training_profile import ProfileError, TrainingPart, document_of, name_of, read_profile

_COLLECTION = "/apis/samestep.dev/v1alpha1"
_PLURAL = "trainingprofiles"
_OWNER = "samestep"
_FORM = "application/apply-patch+yaml"
_PAGE = "250"
MOST_IN_NAMESPACE = 500
"""Of more profiles in one namespace, those of which no run was seen for the longest time are deleted."""
# While a run goes on, that it still does is not worth a write.
_STILL_SEEN_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class Lesson:
    """A run, what people know its training by, and the policies that the job was decided by. `measured` is the reason
    and the message of the condition Measured, which is left as it is where None: nothing was to be measured."""

    run: Run
    training: TrainingPart
    policies: tuple[str, ...] = ()
    measured: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A profile as the cluster has it. `object` is empty where it is still to be created."""

    profile: Profile
    object: Mapping[str, Any] = field(default_factory=dict)


async def find(client: Client, run: Run) -> Kept:
    """The profile of the recipe of a run. One that cannot be read counts as empty: nobody else writes them.

    Raises StatusError, aiohttp.ClientError, TimeoutError.
    """
    try:
        obj = orjson.loads(await client.get(_path(run.namespace, name_of(run.recipe))))
    except StatusError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return Kept(empty(run))
    return Kept(_read(obj) or empty(run), obj)


def empty(run: Run) -> Profile:
    """What is kept of the recipe of a run before any was seen."""
    return Profile(run.namespace, name_of(run.recipe), run.recipe)


def is_in(profile: Profile, run: Run) -> bool:
    """Whether a run has ended and was learned from: by this replica, or the one that led before."""
    return run.ending is not Ending.GOES_ON and not _differs(profile, learned(profile, run))


async def write(client: Client, kept: Kept, lesson: Lesson) -> bool:
    """Writes the profile with this run in it; False where that is nothing new. A profile that was changed since it was
    read is left alone.

    Raises StatusError (409 in that case), aiohttp.ClientError, TimeoutError.
    """
    now = learned(kept.profile, lesson.run)
    written = _differs(kept.profile, now)
    if written:
        document = _document(kept, now, lesson)
        version = kept.object.get("metadata", {}).get("resourceVersion")
        if version:
            document["metadata"]["resourceVersion"] = version
        await client.send("PATCH", _path(now.namespace, now.name), document, _QUERY, _FORM)
    status = _status(kept.object, lesson) if written or kept.object else {}
    if status:
        head = {"apiVersion": "samestep.dev/v1alpha1", "kind": "TrainingProfile", "metadata": {"name": now.name}}
        path = f"{_path(now.namespace, now.name)}/status"
        await client.send("PATCH", path, {**head, "status": status}, _QUERY, _FORM)
    return written


def written_down(profile: Profile, lesson: Lesson) -> dict[str, Any]:
    """The profile with this run in it as an object, for a file."""
    return _document(Kept(profile), learned(profile, lesson.run), lesson)


def _read(obj: Mapping[str, Any]) -> Profile | None:
    """The profile of an object; None where it cannot be read."""
    try:
        return read_profile(obj)
    except ProfileError:
        return None


async def sweep(client: Client, now: float, most: int = MOST_IN_NAMESPACE) -> Counter[str]:
    """Deletes profiles of which no run was seen for too long, and in each namespace those above `most`; counts what
    is left, by how much it says.

    Raises StatusError, aiohttp.ClientError, TimeoutError.
    """
    by_namespace: dict[str, list[_Known]] = defaultdict(list)
    states = Counter[str]()
    async for page in client.pages(f"{_COLLECTION}/{_PLURAL}", {"limit": _PAGE}):
        # A page of them takes too long to read for a request to wait for.
        for one in await asyncio.to_thread(lambda items: [_known(item) for item in items], page["items"] or ()):
            by_namespace[one.namespace].append(one)
    for those in by_namespace.values():
        those.sort(key=lambda one: one.seen_at, reverse=True)
        for index, one in enumerate(those):
            if index >= most or one.seen_at <= now - KEPT_S:
                await _delete(client, one)
                states["deleted"] += 1
            else:
                states[one.state] += 1
    return states


@dataclass(frozen=True, slots=True)
class _Known:
    namespace: str
    name: str
    version: str
    seen_at: float
    state: str


def _known(obj: Mapping[str, Any]) -> _Known:
    metadata = obj["metadata"]
    full = {"apiVersion": "samestep.dev/v1alpha1", "kind": "TrainingProfile", **obj}
    profile = _read(full)
    created = datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
    seen = max((one.seen_at for one in profile.observations), default=created) if profile else created
    state = _state(profile) if profile else "unreadable"
    return _Known(metadata["namespace"], metadata["name"], metadata["resourceVersion"], seen, state)


def _state(profile: Profile) -> str:
    if any(one.out_of_memory for one in profile.observations):
        return "out_of_memory"
    return "measured" if any(one.peak_mib is not None for one in profile.observations) else "unmeasured"


async def _delete(client: Client, one: _Known) -> None:
    try:
        # A run that ends at this moment keeps it.
        unchanged = {"preconditions": {"resourceVersion": one.version}}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **unchanged}
        await client.send("DELETE", _path(one.namespace, one.name), body)
    except StatusError as error:
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise


_QUERY = {"fieldManager": _OWNER, "force": "true"}


def _document(kept: Kept, now: Profile, lesson: Lesson) -> dict[str, Any]:
    before = kept.object.get("spec", {}).get("policies") or ()
    return document_of(now, lesson.training, dict.fromkeys((*lesson.policies, *before)))


def _differs(before: Profile, now: Profile) -> bool:
    """Whether the one says more than the other, but for when something was seen last."""
    known = {one.product: one for one in before.observations}
    for one in now.observations:
        was = known.get(one.product)
        if was is None or one.seen_at - was.seen_at > _STILL_SEEN_S:
            return True
        if any(getattr(one, part) != getattr(was, part) for part in _SAYING):
            return True
        # Written down, a peak is in whole MiB, and a part in whole percents.
        if (one.peak_mib or 0) > (was.peak_mib or 0) + 1 or abs((one.imbalance or 0) - (was.imbalance or 0)) > _PERCENT:
            return True
    return len(now.observations) != len(before.observations)


_PERCENT = 0.01
_SAYING = ("memory_mib", "runs", "good_at", "out_of_memory")


def _status(obj: Mapping[str, Any], lesson: Lesson) -> dict[str, Any]:
    """The condition Measured; empty where it is there already."""
    if lesson.measured is None:
        return {}
    why, message = lesson.measured
    status = "True" if lesson.measured == MEASURED else "False"
    wanted = {"type": "Measured", "status": status, "reason": why, "message": message}
    there = next((one for one in _conditions(obj) if one.get("type") == "Measured"), {})
    if wanted.items() <= there.items():
        return {}
    stays = there.get("status") == wanted["status"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    since = there.get("lastTransitionTime") if stays else None
    return {"conditions": [{**wanted, "lastTransitionTime": since or now}]}


def _conditions(obj: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    conditions: Iterable[object] = (obj.get("status") or {}).get("conditions") or ()
    for one in conditions:
        if isinstance(one, dict):
            yield one


def _path(namespace: str, name: str) -> str:
    return f"{_COLLECTION}/namespaces/{namespace}/{_PLURAL}/{name}"
