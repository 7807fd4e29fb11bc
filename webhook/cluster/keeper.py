"""Keeps our webhook configurations right: what makes them ours, and nothing that is the platform team's to decide.

Ours: which authority is trusted (`caBundle`), where we are, and what is sent here (rules, match conditions). Theirs:
what becomes of a job when we do not answer (`failurePolicy`, `timeoutSeconds`), in which namespaces, for which objects
and operations we are asked, and whether there is such a configuration at all. An entry may be parted into several, as
the overlay that fails closed does by the operation: `jobs.batch.check-update.samestep.dev` is a part of
`jobs.batch.check.samestep.dev`. Entries of other names are none of our business.
"""

import base64
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import orjson

from webhook.answer.events import LONGEST, Told
from webhook.answer.width import cut_bytes
from webhook.cluster.access import Client, StatusError, reason
from webhook.cluster.authority import Certificates, certificates_of
from webhook.cluster.events import event_on, path_of
from webhook.cluster.handlers import STAGES
from webhook.cluster.registration import webhook_configurations
from webhook.cluster.telling import Telling
from webhook.model.workload import Workloads

_log = logging.getLogger(__name__)
_COLLECTION = "/apis/admissionregistration.k8s.io/v1"
_PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_OURS = ("matchPolicy", "matchConditions", "sideEffects", "admissionReviewVersions", "reinvocationPolicy")
# What an entry that is added takes from its neighbour, where there is one.
_THEIRS = ("namespaceSelector", "objectSelector", "timeoutSeconds")

_NAME = re.compile(rf"(.+)\.({'|'.join(STAGES)})(?:-[a-z0-9-]+)?\.samestep\.dev")

Entry = dict[str, Any]


class Keeper:
    """Reads and writes the configurations of this name, and tells of edits in Events as `identity`. `kinds` gives those
    of which jobs are to be sent here; None while that is not known, and then nothing is written."""

    def __init__(
        self,
        namespace: str,
        kinds: Callable[[], Workloads | None],
        identity: str,
        *,
        name: str = "samestep",
    ) -> None:
        self.missing: tuple[str, ...] = ()
        """Kinds of configuration of which there is none."""
        # From 0 on, so that the first rise can be seen.
        self.repairs: Counter[tuple[str, str]] = Counter(
            {(kind, found): 0 for kind in _PLURALS for found in ("edited", "outdated")}
        )
        """How often each kind has been put right: `edited` where it had been right before, for the same kinds of job
        and the same authority, so that somebody has changed it; else `outdated`."""
        self._service = {"name": "samestep", "namespace": namespace}
        self._kinds = kinds
        self._identity = identity
        self._name = name
        self._found: dict[str, dict[str, Any]] = {}
        self._right: dict[str, list[Entry]] = {}
        self._tell = Telling(_log)

    @property
    def problem(self) -> str:
        """What keeps the API server from asking us, or us from seeing to it; empty where nothing does."""
        if self.missing:
            return f"there is no {' and no '.join(self.missing)} {self._name}: no job is sent here until it is applied"
        return self._tell.problem

    async def look(self, client: Client) -> None:
        """Sees what there is. Raises nothing; `problem` tells."""
        found, missing = {}, []
        try:
            for kind in _PLURALS:
                try:
                    found[kind] = orjson.loads(await client.get(self._path(kind)))
                except StatusError as error:
                    if error.status != HTTPStatus.NOT_FOUND:
                        raise
                    missing.append(kind)
        except Exception as error:  # noqa: BLE001 (whatever it is, certificates are seen to all the same)
            self._tell(f"the webhook configurations cannot be read: {reason(error)}")
            self._found, self.missing = {}, ()
            return
        self._tell("")
        self._found, self.missing = found, tuple(missing)

    def trusts(self, certificates: Certificates) -> bool:
        """Whether every entry of ours, as last seen, trusts all of these. Where there is none nobody has to."""
        entries = (entry for one in self._found.values() for entry in _entries(one) if _whole(entry))
        return all(set(certificates) <= set(_trusted(entry)) for entry in entries)

    @property
    def is_seen(self) -> bool:
        """Whether what there is could be read."""
        return bool(self._found or self.missing)

    async def keep(self, client: Client, bundle: bytes) -> None:
        """Writes what was not right when last looked at. Raises nothing; `problem` tells."""
        kinds = self._kinds()
        if kinds is None:
            return
        config = {"service": self._service, "caBundle": base64.b64encode(bundle).decode()}
        for wanted in webhook_configurations(config, kinds):
            found = self._found.get(wanted["kind"])
            if found is None:
                continue
            try:
                await self._keep_one(client, found, wanted["webhooks"])
            except Exception as error:  # noqa: BLE001 (the other is kept all the same)
                if not isinstance(error, StatusError) or error.status != HTTPStatus.CONFLICT:
                    self._tell(f"{wanted['kind']} {self._name} cannot be put right: {reason(error)}")

    async def _keep_one(self, client: Client, found: dict[str, Any], wanted: list[Entry]) -> None:
        kind = found["kind"]
        entries, fields = _merged(_entries(found), wanted)
        if fields:
            edited = self._right.get(kind) == wanted
            told = "; ".join(f"{name}: {', '.join(wrong)}" for name, wrong in fields.items())
            # The resourceVersion in it lets nobody else's change be lost.
            await client.send("PUT", self._path(kind), {**found, "webhooks": entries})
            self.repairs[kind, "edited" if edited else "outdated"] += 1
            level = logging.WARNING if edited else logging.INFO
            _log.log(level, "put right: %s %s, %s", kind, self._name, told)
            if edited:
                message = cut_bytes(f"put right: {told}", LONGEST)
                event = event_on(found, Told("EditUndone", warning=True, message=message), self._identity)
                with suppress(StatusError):  # it is told in the log
                    await client.send("POST", path_of(event), event)
        self._right[kind] = wanted

    def _path(self, kind: str) -> str:
        return f"{_COLLECTION}/{_PLURALS[kind]}/{self._name}"


def _merged(found: list[Entry], wanted: list[Entry]) -> tuple[list[Entry], dict[str, tuple[str, ...]]]:
    """The entries as they should be, in the order in which they are, and which fields of which were not."""
    by_name = {entry["name"]: entry for entry in wanted}
    entries: list[Entry] = []
    fields: dict[str, tuple[str, ...]] = {}
    for entry in found:
        name = _whole(entry)
        if name and name not in by_name:
            fields[entry["name"]] = ("is for no kind that can be read",)
            continue
        kept = _put_right(entry, by_name[name]) if name else entry
        wrong = tuple(sorted(field for field in kept if kept[field] != entry.get(field)))
        if wrong:
            fields[entry["name"]] = wrong
        entries.append(kept)
    neighbour = next((entry for entry in found if _whole(entry)), {})
    there = set(map(_whole, found))
    for entry in wanted:
        if entry["name"] not in there:
            fields[entry["name"]] = ("was not there",)
            entries.append(_beside(neighbour, entry))
    return entries, fields


def _entries(configuration: Mapping[str, Any]) -> list[Entry]:
    return configuration.get("webhooks") or []


def _whole(entry: Entry) -> str:
    """The name of the entry of ours that this one is, or is a part of; empty where it is nobody's here."""
    named = _NAME.fullmatch(str(entry["name"]))
    return f"{named[1]}.{named[2]}.samestep.dev" if named else ""


def _beside(neighbour: Entry, entry: Entry) -> Entry:
    taken = {field: neighbour[field] for field in _THEIRS if field in neighbour}
    config = _client_config(neighbour.get("clientConfig") or {}, entry["clientConfig"])
    return entry | taken | {"clientConfig": config}


def _put_right(entry: Entry, right: Entry) -> Entry:
    kept = entry | {field: right[field] for field in _OURS if field in right}
    config = _client_config(entry.get("clientConfig") or {}, right["clientConfig"])
    return kept | {"rules": _rules(entry.get("rules") or [], right["rules"]), "clientConfig": config}


def _rules(found: list[Mapping[str, Any]], right: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the operations that we are made for, the team may have fewer."""
    [rule] = right
    operations = found[0].get("operations") or [] if len(found) == 1 else []
    return [rule | {"operations": operations}] if set() < set(operations) < set(rule["operations"]) else right


def _client_config(found: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Whether we are reached by the Service, and by which port of it, or by an address of its own is the team's."""
    bundle, service = {"caBundle": right["caBundle"]}, right["service"]
    if url := found.get("url"):
        scheme, _, rest = str(url).partition("://")
        return {"url": f"{scheme}://{rest.partition('/')[0]}{service['path']}"} | bundle
    return {"service": (found.get("service") or {}) | service} | bundle


def _trusted(entry: Entry) -> Certificates:
    try:
        bundle = base64.b64decode((entry.get("clientConfig") or {}).get("caBundle") or "", validate=True)
    except ValueError:
        return ()
    return certificates_of(bundle)
