"""`TrainingProfile`: what runs of one recipe were seen to take, by model. Only the observer writes it; whoever may read
the namespace's jobs may read it, and delete it."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, SkipValidation, StrictInt, ValidationError, model_validator

from webhook.model.job import TrainingJob
from webhook.model.profile import Allocator, Observation, OutOfMemory, Profile, Recipe
from webhook.model.quantity import MEBI, units
from webhook.policy.documents import printable
from webhook.policy.parts import (
    KindName,
    Metadata,
    Name,
    Part,
    Quantity,
    Status,
    Text,
    Time,
    epoch,
    faults,
    rule,
    ruled,
)

RECIPE_LABEL = "samestep.dev/recipe"
FAMILY_LABEL = "samestep.dev/family"
MOST_OBSERVATIONS = 16
MOST_POLICIES = 16
_MOST_RUNS = 1_000_000_000
_MOST_DEVICES = 10_000_000
_LARGEST_BATCH = 1 << 31
_SHOWN = 253
_FAULTS_SHOWN = 3

_Digest = Annotated[str, Field(max_length=64, pattern="^[0-9a-f]{16,64}$")]
_Share = Annotated[str, Field(max_length=4, pattern="^(100|[0-9]{1,2})%$")]
_Shown = Annotated[str, Field(max_length=_SHOWN)]
_Count = Annotated[StrictInt, Field(ge=0, le=_MOST_RUNS)]


class RecipePart(Part):
    """The fingerprint of what decides the memory of a training."""

    digest: _Digest
    """Of everything. The object's name is `recipe-` and this."""
    family: _Digest
    """Of everything but the micro-batch: profiles of one family are neighbours."""
    micro_batch: Annotated[StrictInt, Field(ge=1, le=_LARGEST_BATCH)] | None = None
    """Samples that one device takes at a time. Left out: it could not be read."""
    allocator: Allocator = Allocator.UNKNOWN
    """How the framework takes memory. Caching: it keeps what it once got. Preallocating: a share of the card at once.
    Unknown: nothing shows which framework it is."""


class TrainingPart(Part):
    """What people know the training by. No arguments, and nothing that decides."""

    kind: KindName | None = None
    """Kind of the job, as `Kind.group`."""
    image: _Shown = ""
    """The image of the container that trains, without its digest."""
    trainer: _Shown = ""
    """The trainer, where one of the catalog was recognised."""
    model: _Shown = ""
    """The model that is trained, where it was read."""
    devices: Annotated[StrictInt, Field(ge=0, le=_MOST_DEVICES)] | None = None
    """Devices in all."""


class OutOfMemoryPart(Part):
    """Devices that ran out of memory."""

    at: Time
    """When it was seen last."""
    job: Text
    """The name of the job that it happened to."""
    in_a_row: Annotated[StrictInt, Field(ge=1, le=_MOST_RUNS)] = 1
    """How many runs in a row, since one ended well on this model."""


class ObservationPart(Part):
    """Runs on one model."""

    model_config = ConfigDict(
        json_schema_extra=ruled(
            rule("has(self.lastGood) == (has(self.runs) && self.runs > 0)", "goes with runs", "lastGood"),
        )
    )

    product: Text
    """The accelerator's product, as nodes name it."""
    memory: Quantity
    """What one of its devices has in all."""
    runs: _Count = 0
    """How many ended well."""
    last_good: Time | None = None
    """When the last of these ended."""
    peak: Quantity | None = None
    """The most that any rank held in a run that ended well or goes on. Left out: nothing was measured."""
    last_seen: Time
    """When anything was seen last. 90 days later the observation no longer counts."""
    device_out_of_memory: OutOfMemoryPart | None = None
    """Devices ran out of memory here, on whole devices."""
    imbalance: _Share | None = None
    """Of runs that were mixed over models: the part of the time that this model's ranks waited for others."""

    @model_validator(mode="after")
    def _goes_with_runs(self) -> Self:
        if (self.last_good is not None) != (self.runs > 0):
            raise ValueError("lastGood: goes with runs")
        return self

    def resolved(self) -> Observation:
        """The same as plain values."""
        out = self.device_out_of_memory
        return Observation(
            product=self.product,
            memory_mib=_mib(self.memory),
            runs=self.runs,
            good_at=epoch(self.last_good) if self.last_good else None,
            peak_mib=_mib(self.peak) if self.peak is not None else None,
            seen_at=epoch(self.last_seen),
            out_of_memory=OutOfMemory(epoch(out.at), out.job, out.in_a_row) if out else None,
            imbalance=int(self.imbalance.removesuffix("%")) / 100 if self.imbalance is not None else None,
        )


def _one_for_each_product(observations: tuple[ObservationPart, ...]) -> tuple[ObservationPart, ...]:
    products = [one.product for one in observations]
    if twice := [one for one in products if products.count(one) > 1]:
        raise ValueError(f"{twice[0]!r} comes twice")
    return observations


class SummaryPart(Part):
    """The observations in a few words, for `kubectl get`. Nothing reads it."""

    models: _Shown = ""
    """The models, with how many runs ended well on each."""
    runs: _Count = 0
    """Runs that ended well, over all models."""
    out_of_memory: _Shown = ""
    """The models whose devices ran out of memory."""
    peak: _Shown = ""
    """The largest peak."""
    last_seen: Time | None = None
    """When anything was seen last."""


class Spec(Part):
    """A recipe and what was seen of it."""

    recipe: RecipePart
    training: TrainingPart = TrainingPart()
    observations: Annotated[
        tuple[ObservationPart, ...],
        Field(
            max_length=MOST_OBSERVATIONS,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["product"]},
        ),
        AfterValidator(_one_for_each_product),
    ] = ()
    """One for each model, the one that was seen last first."""
    policies: Annotated[tuple[Name, ...], Field(max_length=MOST_POLICIES)] = ()
    """TrainingPolicies that the jobs were decided by."""
    summary: SummaryPart = SummaryPart()


class _Metadata(Metadata):
    namespace: Name


class TrainingProfile(Part):
    """What runs of one training took, by model. Written by Samestep alone; delete it to have it learned anew."""

    api_version: Literal["samestep.dev/v1alpha1"]
    kind: Literal["TrainingProfile"]
    metadata: _Metadata
    spec: Spec
    status: SkipValidation[Status | None] = None

    def resolved(self) -> Profile:
        """The same as plain values."""
        recipe = self.spec.recipe
        return Profile(
            namespace=self.metadata.namespace,
            name=self.metadata.name,
            recipe=Recipe(recipe.digest, recipe.family, recipe.micro_batch, Allocator(recipe.allocator)),
            observations=tuple(one.resolved() for one in self.spec.observations),
        )


class ProfileError(ValueError):
    """Not a TrainingProfile as it should be; the message names its first fields that are wrong."""


def read_profile(obj: Mapping[str, Any]) -> Profile:
    """What an object says. Raises ProfileError."""
    try:
        return TrainingProfile.model_validate(obj).resolved()
    except ValidationError as error:
        found = faults(error)
        more = [f"and {len(found) - _FAULTS_SHOWN} problems more"] if len(found) > _FAULTS_SHOWN else []
        raise ProfileError(printable("; ".join([*found[:_FAULTS_SHOWN], *more]))) from None


def name_of(recipe: Recipe) -> str:
    """The name of the one profile of a recipe in a namespace."""
    return f"recipe-{recipe.digest}"


def training_of(job: TrainingJob) -> TrainingPart:
    """What people know a job's training by: nothing of its arguments but the model's name, and no credentials."""
    images = [one.image for one in job.programs if one.image]
    model = job.told.settings.get("model") if job.told else None
    return TrainingPart.model_validate(
        {
            "kind": str(job.kind),
            "image": _public(images[0]) if images else "",
            "trainer": _shown(job.told.trainer) if job.told else "",
            "model": _shown(model.value) if model else "",
            "devices": min(sum(role.pods * role.devices for role in job.device_roles), _MOST_DEVICES),
        }
    )


def document_of(profile: Profile, training: TrainingPart | None = None, policies: Iterable[str] = ()) -> dict[str, Any]:
    """The profile as an object, without a status. Of more observations, or policies, than there is room for, those that
    were seen last, or come first, are kept; times are whole seconds, memory is rounded up to MiB."""
    by_product = {one.product[:_SHOWN]: one for one in profile.observations}
    kept = sorted(by_product.values(), key=lambda one: (-one.seen_at, one.product))[:MOST_OBSERVATIONS]
    recipe = profile.recipe
    spec: dict[str, Any] = {
        "recipe": {
            "digest": recipe.digest,
            "family": recipe.family,
            **({} if recipe.micro_batch is None else {"microBatch": recipe.micro_batch}),
            "allocator": recipe.allocator.value,
        },
        "training": (training or TrainingPart()).model_dump(by_alias=True, exclude_defaults=True),
        "observations": [_observation(one) for one in kept],
        "policies": list(policies)[:MOST_POLICIES],
        "summary": _summary(kept),
    }
    return {
        "apiVersion": "samestep.dev/v1alpha1",
        "kind": "TrainingProfile",
        "metadata": {
            "name": profile.name,
            "namespace": profile.namespace,
            "labels": {RECIPE_LABEL: recipe.digest[:63], FAMILY_LABEL: recipe.family[:63]},
        },
        "spec": {key: value for key, value in spec.items() if value not in ({}, [])},
    }


def _observation(one: Observation) -> dict[str, Any]:
    out = one.out_of_memory
    written: dict[str, Any] = {
        "product": one.product[:_SHOWN],
        "memory": _quantity(one.memory_mib),
        "runs": min(one.runs, _MOST_RUNS),
        "lastGood": _time(one.seen_at if one.good_at is None else one.good_at) if one.runs else None,
        "peak": None if one.peak_mib is None else _quantity(one.peak_mib),
        "lastSeen": _time(one.seen_at),
        "deviceOutOfMemory": out
        and {"at": _time(out.at), "job": _shown(out.job) or "?", "inARow": min(max(out.in_a_row, 1), _MOST_RUNS)},
        "imbalance": None if one.imbalance is None else f"{round(min(max(one.imbalance, 0), 1) * 100)}%",
    }
    return {key: value for key, value in written.items() if value is not None}


def _summary(observations: Iterable[Observation]) -> dict[str, Any]:
    seen = list(observations)
    if not seen:
        return {}
    peaks = [one.peak_mib for one in seen if one.peak_mib is not None]
    out = [one.product for one in seen if one.out_of_memory]
    return {
        "models": _shown(", ".join(f"{one.product} ({one.runs})" for one in seen)),
        "runs": min(sum(one.runs for one in seen), _MOST_RUNS),
        **({"outOfMemory": _shown(", ".join(out))} if out else {}),
        **({"peak": f"{max(peaks) / 1024:.1f} GiB"} if peaks else {}),
        "lastSeen": _time(max(one.seen_at for one in seen)),
    }


def _mib(quantity: str) -> float:
    return units(quantity) / MEBI


def _quantity(mib: float) -> str:
    return f"{math.ceil(mib)}Mi"


def _time(at: float) -> str:
    return datetime.fromtimestamp(round(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _shown(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _public(image: str) -> str:
    """An image without its digest, and without what a careless address holds before an @ (user:password@registry)."""
    return _shown(_DIGEST_OF_IMAGE.sub("", image).rpartition("@")[2])


_DIGEST_OF_IMAGE = re.compile(r"@[a-z0-9+._-]{1,32}:[0-9a-fA-F]{32,}\Z")
