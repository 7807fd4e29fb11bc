"""Where the time of one review goes, by room of the house. `python -m tests.bench.stages` (or `make bench`).

A timer stops the program a thousand times a second and looks which room's code it is in, so that nothing is wrapped and
nothing is made slower than it is. What a room calls in a library counts as the room's.
"""

import base64
import json
import signal
import time
from collections import Counter
from pathlib import Path
from types import FrameType

import orjson
from rich.console import Console
from rich.table import Table

import webhook
from tests.bench.review import fleet_of, sized_job
from webhook.answer.response import admission_response
from webhook.intake.admission import read_request
from webhook.model.policy import Policy
from webhook.model.request import Stage
from webhook.model.world import World
from webhook.review import review

NODES = 10_000
SECONDS = 6.0
_EVERY_S = 0.001
_ROOMS = ("intake", "policy", "fleet", "sizing", "evidence", "decision", "answer", "review", "catalog", "model")
_PACKAGE = str(Path(webhook.__file__).parent)


def main() -> None:
    world = World(fleet_of(NODES), Policy())
    table = Table("stage", "6 KiB: µs", "share", "100 KiB: µs", "share", box=None)
    columns = [profile(review_of(size), world) for size in (6 << 10, 100 << 10)]
    for stage in ("parse", *_ROOMS):
        row = [stage]
        for shares, each_s in columns:
            row += [f"{shares[stage] * each_s * 1e6:.0f}", f"{shares[stage]:.0%}"]
        table.add_row(*row)
    table.add_row("whole", *(text for _, each_s in columns for text in (f"{each_s * 1e6:.0f}", "")))
    Console(width=100).print(table)


def profile(body: bytes, world: World) -> tuple[dict[str, float], float]:
    """The share of each stage, and the seconds of CPU time that one request takes, from its bytes to its answer's."""
    seen: Counter[str] = Counter()

    def look(_: int, frame: FrameType | None) -> None:
        seen[_stage(frame)] += 1

    once(body, world)  # reads the catalog
    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
    rounds, started = 0, time.process_time()
    while time.process_time() - started < SECONDS / 2:
        once(body, world)
        rounds += 1
    each_s = (time.process_time() - started) / rounds
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)
    total = sum(seen.values())
    return {stage: seen[stage] / total for stage in ("parse", *_ROOMS)}, each_s


def once(body: bytes, world: World) -> bytes:
    """What the server does for one request, without the network and without kopf."""
    request = read_request(orjson.loads(body), stage=Stage.MUTATE, now=0)
    return orjson.dumps(admission_response(review(request, world)))


def _stage(frame: FrameType | None) -> str:
    """The innermost room on the stack; the rest of a request is reading and writing JSON."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_PACKAGE):
            room = name[len(_PACKAGE) + 1 :].partition("/")[0].removesuffix(".py")
            if name.endswith("intake/admission.py"):
                return "parse"
            return room
        frame = frame.f_back
    return "parse"


def review_of(size: int) -> bytes:
    """The AdmissionReview of the creation of a PyTorchJob of so many bytes."""
    job = sized_job(size)
    kind = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}
    resource = {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"}
    request = {
        "uid": base64.b16encode(b"bench").decode(),
        "kind": kind,
        "resource": resource,
        "operation": "CREATE",
        "namespace": "team-a",
        "userInfo": {"username": "u"},
        "object": job,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


if __name__ == "__main__":
    main()
