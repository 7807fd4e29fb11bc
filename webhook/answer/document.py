"""A review as the stable document that programs read."""

from typing import Any

from webhook.answer.evidence import profiles_used, used
from webhook.answer.message import suggested
from webhook.answer.response import patch
from webhook.answer.wording import phrase, place, sentence
from webhook.catalog.codes import action_of
from webhook.model.fleet import Model
from webhook.model.job import TrainingJob
from webhook.model.patch import steps
from webhook.model.paths import dotted
from webhook.model.profile import Fits, RanOut, day
from webhook.model.verdict import Candidate, Out, Review, Straggler

_CODE = {
    Out.MEMORY: "SST201",
    Out.RAN_OUT: "SST205",
    Out.UNREACHABLE: "SST401",
    Out.UNWISHED: "SST404",
    Out.QUOTA: "SST401",
    Out.ROOM: "SST401",
}
API_VERSION = "samestep.dev/v1alpha1"


def review_list(items: list[dict[str, Any]], errors: list[dict[str, str]]) -> dict[str, Any]:
    """The whole document. Keys are only ever added."""
    return {"apiVersion": API_VERSION, "kind": "ReviewList", "items": items, "errors": errors}


def document(review: Review, source: str) -> dict[str, Any]:
    """One item; every key is always there. `source` says which file and document."""
    decision = review.decision
    pin = decision.pin
    smallest = decision.pool.smallest
    return {
        "object": reference(review),
        "source": source,
        "verdict": review.verdict,
        "wouldBe": review.would_be,
        "policy": review.policy.name,
        "outside": review.because or None,
        "pin": {"key": pin.key, "values": list(pin.values)} if pin else None,
        "acceleratorPool": decision.pool_name or None,
        "models": [model.product for model in decision.models],
        "straggler": _straggler(decision.straggler) if decision.straggler else None,
        "patch": patch(review),
        "job": _job(review.job, review) if review.job else None,
        "demand": {
            "lowMib": _whole(review.demand.low_mib),
            "likelyMib": _whole(review.demand.likely_mib),
            "highMib": _whole(review.demand.high_mib),
            "source": review.demand.source,
            "mayDeny": review.demand.known and review.demand.may_deny,
            "assumptions": [phrase(one, review.language) for one in review.demand.assumptions],
        },
        "runs": _runs(review) if review.lessons.recipe else None,
        "pool": {
            "nodes": decision.pool.nodes,
            "unknownNodes": decision.pool.unknown_nodes,
            "twoModelNodes": decision.pool.two_model_nodes,
            "shareNodes": decision.pool.share_nodes,
            "smallestUsableMib": _whole(smallest.usable_mib) if smallest else None,
            "candidates": [_candidate(one, decision.models) for one in decision.pool.candidates],
        },
        "findings": [
            {
                "code": one.code,
                "severity": action_of(one),
                "field": place(one, review) or None,
                "message": sentence(one, review),
            }
            for one in decision.findings
        ],
        "suggestions": [
            {
                "change": change,
                "field": dotted(steps(one.operations[0]["path"])),
                "value": one.operations[0].get("value"),
                "model": one.model.product,
                "models": [model.product for model in (one.model, *one.also)],
                "patch": list(one.operations),
            }
            for one in review.suggestions
            if (change := suggested(one, review))
        ],
    }


def reference(review: Review) -> dict[str, str | None]:
    """Which object was reviewed; `generateName` stands with a "*" for a name that is not there yet."""
    metadata = review.request.object.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return {
        "apiVersion": review.request.kind.api_version,
        "kind": review.request.kind.kind,
        "namespace": review.request.namespace or None,
        "name": review.job.name if review.job else name if isinstance(name, str) else None,
    }


def _job(job: TrainingJob, review: Review) -> dict[str, Any]:
    batch = review.micro_batch
    return {
        "coupling": job.coupling,
        "couplingBecause": job.coupling_because,
        "devices": sum(role.pods * role.devices for role in job.roles),
        "microBatch": batch.value if batch else None,
        "microBatchFrom": batch.field if batch else None,
        "roles": [
            {
                "name": role.name,
                "pods": role.pods,
                "gang": role.gang,
                "device": role.device or None,
                "devices": role.devices,
                "apart": role.apart,
            }
            for role in job.roles
        ],
    }


def _candidate(one: Candidate, chosen: tuple[Model, ...]) -> dict[str, Any]:
    return {
        "model": one.model.product,
        "models": [model.product for model in one.models],
        "memoryMib": _whole(one.memory_mib),
        "usableMib": _whole(one.usable_mib),
        "nodes": one.nodes,
        "devicesThere": one.devices,
        # Null where the pods are not in view, never a guess.
        "devicesNow": one.devices_now,
        "feasible": not one.out,
        "because": [_CODE[reason] for reason in one.out],
        "chosen": one.model in chosen,
        "ranOut": _ran_out(one.ran_out or one.doubt),
        "endedWell": _ended_well(one.fits),
    }


def _ran_out(one: RanOut | None) -> dict[str, Any] | None:
    if one is None:
        return None
    named = {"profile": one.profile, "object": one.job, "microBatch": one.micro_batch}
    return {"day": day(one.at), "times": one.times, **named}


def _ended_well(one: Fits | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"day": day(one.at), "runs": one.runs, "profile": one.profile, "microBatch": one.micro_batch}


def _runs(review: Review) -> dict[str, Any]:
    """What earlier runs taught of the job."""
    recipe = review.lessons.recipe
    return {
        "recipe": recipe.digest if recipe else None,
        "profiles": list(profiles_used(review)),
        "facts": list(used(review)),
        "lineThrough": list(review.lessons.batches),
    }


def _straggler(one: Straggler) -> dict[str, Any]:
    """An estimate: of each step, the ranks on `fast` wait so many percent for those on `slow`; and what was seen."""
    least, most = ("bandwidth", "compute") if one.most_by_compute else ("compute", "bandwidth")
    return {
        "slow": one.slow.product,
        "fast": one.fast.product,
        "leastPercent": round(one.least_percent),
        "leastBy": least,
        "mostPercent": round(one.most_percent),
        "mostBy": most,
        "unusedMib": _whole(one.unused_mib),
        "seen": {"model": one.seen.model.product, "percent": round(one.seen.percent)} if one.seen else None,
    }


def _whole(mib: float | None) -> int | None:
    return None if mib is None else round(mib)
