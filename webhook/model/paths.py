"""How places in an object are shown to people."""

import json
import re
from functools import lru_cache

from webhook.model.placement import Pointer

_PLAIN = re.compile(r"[\w-]+\Z")
_LONGEST = 64


class Elsewhere(str):
    """The first step of a path into another object than the one under review: what to call that object."""

    __slots__ = ()


def within(at: Pointer) -> bool:
    """Whether a path stays in the object under review, so that a patch can reach what stands there."""
    return not (at and isinstance(at[0], Elsewhere))


def dotted(at: Pointer) -> str:
    """A path as people read it: `spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]`; one into another
    object begins with what that is called: `TrainingRuntime torch: spec.mlPolicy`."""
    if not within(at):
        return f"{printable(str(at[0]))}: {dotted(at[1:])}"
    steps = [_step(token if isinstance(token, int) else token[: _LONGEST + 1]) for token in at]
    return "".join(steps).removeprefix(".")


@lru_cache(maxsize=1024)
def _step(token: str | int) -> str:
    if isinstance(token, str) and _PLAIN.match(token) and len(token) <= _LONGEST:
        return f".{token}"
    return f"[{printable(str(token))}]"


def printable(value: str) -> str:
    """A text of any kind on one line, cut to a readable length, and safe to encode."""
    cut = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    escaped = json.dumps(cut, ensure_ascii=False)[1:-1].replace('\\"', '"')
    # Lone surrogates are valid JSON escapes that no encoder takes.
    return escaped.encode("utf-8", "backslashreplace").decode()
