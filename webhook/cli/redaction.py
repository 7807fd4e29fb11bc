"""Objects without what is nobody else's business: what decisions read of them stays, and what may be a secret goes.

Nothing can tell every secret from a word. Values of environment variables go, but for those that the catalog reads;
what has a name like a secret's goes wherever it stands; so does what looks like a token, a key or a password.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from webhook.catalog.launchers import launchers
from webhook.catalog.queues import queue_keys
from webhook.catalog.workloads import workloads
from webhook.intake.annotations import PREFIX
from webhook.model.request import Object

REDACTED = "REDACTED"

_CALLED = r"(?:token|passw|passwd|pwd|secret|credential|auth|key|signature|cookie|private)"
_NAMED = re.compile(_CALLED, re.IGNORECASE)
_FLAG = re.compile(r"(--?)?([A-Za-z_][\w.-]*)")
_VALUE = r"""(?P<value>"[^"]*"|'[^']*'|[^\s"'&|;,)}\]]+)"""
# NAME=value, --name=value, "name": "value", name: value; and, with dashes alone, --name value. Each word is looked at
# once, however long it is.
_ASSIGNED = re.compile(rf"""(?<![\w.-])-{{0,2}}(?P<name>\w[\w.-]*+)(?:\\?["'])?\s*+[:=]\s*+\\?{_VALUE}""")
_SPACED = re.compile(rf"(?<![\w.-])-{{1,2}}(?P<name>\w[\w.-]*+)\s++(?!-){_VALUE}")
_LOOKS = (
    re.compile(r"(?<=://)[^/\s@\"']+(?=@)"),
    re.compile(r"(?<=\bbearer\s)[\w+/=.~-]+|(?<=\bbasic\s)[\w+/=.~-]+", re.IGNORECASE),
    re.compile(r"\bhf_\w{10,}|\bgh[opsur]_\w{10,}|\bgithub_pat_\w{10,}|\bglpat-[\w-]{10,}|\bsk-[\w-]{10,}"),
    re.compile(r"\bxox[abprs]-[\w-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\beyJ[\w-]{8,}(?:\.[\w-]+)*"),
    re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL),
    # Wandb and cloud keys are rows of hexadecimal digits; nothing that is read is.
    re.compile(r"\b[0-9a-fA-F]{32,}\b"),
)
_HARMLESS = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?|true|false|True|False")
_REFERRED = re.compile(r"\$\{?\(?([A-Za-z_]\w*)")
_FIELDS_CALLED_SO = frozenset(
    {"key", "topologyKey", "secretName", "matchLabelKeys", "tokenExpirationSeconds", "serviceAccountName", "keys"}
)
"""Fields of Kubernetes that are called like secrets and hold none."""
_DROPPED = frozenset(
    {
        *("managedFields", "selfLink", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"),
        *("imagePullSecrets", "description", "userData", "runtimeEnvYAML", "rayStartParams"),
    }
)
"""What no decision reads, and where people put anything."""
_LABELS = frozenset({"annotations", "labels", "matchLabels", "nodeLabels", "nodeSelector"})
"""Fields that hold entries by names of people's own."""
_STATUS = frozenset({"startTime", "phase", "state", "replicas", "jobStatus"})


def redacted(obj: Object, *, status: bool = False) -> dict[str, Any]:
    """The object as it may leave the cluster. Of its status only what says how far it is, unless `status` is asked
    for."""
    names = frozenset(_referred(obj))
    made: dict[str, Any] = {}
    for name, value in obj.items():
        if name == "metadata":
            made[name] = _metadata(value)
        elif name == "status" and not status:
            made[name] = _status(value)
        else:
            made[name] = _walked(value, names)
    return made


def scrubbed(text: str) -> str:
    """Words without what may be a secret among them."""
    return _without_values(_SPACED, _without_values(_ASSIGNED, _without_tokens(text)))


def _without_values(pattern: re.Pattern[str], text: str) -> str:
    """The text without the values of names like a secret's. In any other value there may be one again."""
    pieces: list[str] = []
    done = 0
    while found := pattern.search(text, done):
        start, end = found.span("value")
        pieces.append(text[done:start])
        done = start
        if _is_secret(found["name"]):
            quote = text[start] if text[start] in "\"'" else ""
            pieces.append(f"{quote}{REDACTED}{quote}")
            done = end
    return "".join([*pieces, text[done:]])


def _without_tokens(text: str) -> str:
    for looks in _LOOKS:
        text = looks.sub(REDACTED, text)
    return text


def _metadata(value: object) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(value, Mapping):
        return value
    kept = ("name", "generateName", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "ownerReferences")
    made = {key: value[key] for key in kept if key in value}
    for field in ("labels", "annotations"):
        entries = value.get(field)
        if isinstance(entries, Mapping):
            made[field] = {key: _entry(str(key), one, field) for key, one in entries.items()}
            # The whole manifest stands in it once more.
            made[field].pop("kubectl.kubernetes.io/last-applied-configuration", None)
        elif entries is not None:
            made[field] = entries
    return made


def _entry(key: str, value: object, field: str) -> object:
    """Labels may be matched by a policy; of annotations, those that are read count."""
    if not isinstance(value, str):
        return value
    if field != "annotations" or key.startswith(PREFIX) or key in _read_annotations():
        return _without_tokens(value)
    return REDACTED


@cache
def _read_annotations() -> frozenset[str]:
    named = set(queue_keys())
    for entry in workloads().entries:
        if entry.groups is not None:
            named.update((*entry.groups.annotations, entry.groups.total))
    return frozenset(named)


def _status(value: object) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(value, Mapping):
        return value
    made: dict[str, Any] = {key: one for key, one in value.items() if key in _STATUS and isinstance(one, str | int)}
    state = value.get("state")
    if isinstance(state, Mapping) and isinstance(state.get("phase"), str):
        made["state"] = {"phase": state["phase"]}
    conditions = value.get("conditions")
    if isinstance(conditions, list):
        made["conditions"] = [_condition(one) for one in conditions if isinstance(one, Mapping)]
    return made


def _condition(value: Mapping[str, Any]) -> dict[str, Any]:
    """What the scheduler says of a pod is its own; others put in whatever went wrong."""
    kept = {key: value[key] for key in ("type", "status") if key in value}
    if value.get("type") == "PodScheduled":
        kept |= {key: scrubbed(str(value[key])) for key in ("reason", "message") if key in value}
    return kept


def _walked(value: object, names: frozenset[str], field: str = "") -> Any:  # noqa: ANN401 - JSON
    match value:
        case str():
            if field and field not in _FIELDS_CALLED_SO and _is_secret(field):
                return REDACTED
            return scrubbed(value)
        case {"name": str(name), "value": str(said), **others}:
            walked = {key: _field(str(key), one, names) for key, one in others.items() if key not in _DROPPED}
            return {**walked, "name": name, "value": _variable(name, said, names)}
        case Mapping():
            if field == "metadata":
                return _metadata(value)
            if field in _LABELS:
                return {key: _entry(str(key), one, field) for key, one in value.items()}
            return {key: _field(str(key), one, names) for key, one in value.items() if key not in _DROPPED}
        case list():
            if field in ("command", "args") and all(isinstance(one, str) for one in value):
                return list(_words(value))
            return [_walked(one, names, field) for one in value]
    return value


def _field(key: str, value: object, names: frozenset[str]) -> Any:  # noqa: ANN401 - JSON
    if key == "volumes" and isinstance(value, list):
        return [_volume(one) for one in value]
    return _walked(value, names, key)


def _volume(value: object) -> object:
    """Its name and, where files of it may be read, the ConfigMap; drivers of storage take passwords as attributes."""
    if not isinstance(value, Mapping):
        return value
    kept = {key: value[key] for key in ("name", "configMap") if key in value}
    return kept if "configMap" in kept else {**kept, "emptyDir": {}}


def _words(words: list[str]) -> Iterator[str]:
    """A command line. What follows a flag with a secret's name goes, and so does what is assigned to one."""
    hides = False
    for word in words:
        if hides and not word.startswith("-"):
            hides = False
            yield REDACTED
            continue
        named = _FLAG.fullmatch(word)
        hides = bool(named and named[1] and _is_secret(named[2]))
        yield word if named else scrubbed(word)


def _variable(name: str, value: str, names: frozenset[str]) -> str:
    """The value of a variable that is read; of one that the command line refers to only what cannot be a secret."""
    if name in _read_variables():
        return scrubbed(value)
    kept = name in names and not _NAMED.search(name) and _HARMLESS.fullmatch(value)
    return value if kept else REDACTED


@cache
def _read_variables() -> frozenset[str]:
    known = launchers()
    parsers = [*known.launcher_settings.values(), *known.trainers.parsers.values()]
    return frozenset().union(
        known.environment_names,
        known.rendezvous_names,
        known.strategy_variables,
        *(parser.variables for parser in parsers),
    )


@cache
def _is_secret(name: str) -> bool:
    """Whether it is called like a secret, and is no flag that is read for what it says of a run."""
    return bool(_NAMED.search(name)) and name.lstrip("-").replace("-", "_") not in _read_flags()


@cache
def _read_flags() -> frozenset[str]:
    known = launchers()
    parsers = [*known.launcher_settings.values(), *known.trainers.parsers.values(), *known.formats.values()]
    flags = {*known.flags, *known.counts, *known.strategies}
    flags |= {flag for of in (known.flags_of, known.counts_of) for named in of.values() for flag in named}
    for parser in parsers:
        flags |= {*parser.says, *parser.config_files, *parser.batch, *parser.counts, *parser.training, *parser.implies}
    return frozenset(flag.lstrip("-").rstrip("=").replace("-", "_") for flag in flags)


def _referred(value: object) -> Iterator[str]:
    """The variables that strings of this object refer to."""
    match value:
        case str():
            yield from _REFERRED.findall(value)
        case Mapping():
            for one in value.values():
                yield from _referred(one)
        case list():
            for one in value:
                yield from _referred(one)
