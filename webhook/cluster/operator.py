"""kopf's operator: it finds out which kinds there are, selects the handler of a request, and has the cluster
followed."""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import kopf

from webhook.catalog.workloads import workloads
from webhook.cluster.access import Access, AccessError, reason
from webhook.cluster.following import Following
from webhook.cluster.handlers import STAGES, Handler
from webhook.cluster.tasks import waited
from webhook.model.request import Stage
from webhook.model.workload import Workloads

_log = logging.getLogger(__name__)
_AGAIN_S = 10.0


async def run_operator(
    *,
    access: Access,
    handlers: Mapping[str, Handler],
    following: Following,
    server: kopf.WebhookServerProtocol,
    stop: asyncio.Event,
    take_signals: Callable[[], None],
    kinds: Workloads | None = None,
) -> None:
    """Runs kopf until `stop` is set, again and again where it ends by itself.

    kopf ends on a 401 or on an error event in its watch of CRDs, which an API server in trouble sends to all replicas
    at once. The server goes on with the handlers that it has. `take_signals` is called after each start: kopf takes
    SIGINT and SIGTERM to itself, and would end before the server has drained.
    """
    registry = admission_registry(handlers, kinds)
    _add_activities(registry, access, following)
    while not stop.is_set():
        tasks = await kopf.spawn_tasks(
            registry=registry,
            settings=_settings(server),
            memories=NoMemories(),  # type: ignore[arg-type] # all that kopf asks of it here
            standalone=True,
            # kopf would make one of the name of our user, and in a container there is none to the number.
            identity="samestep",  # type: ignore[arg-type] # a NewType of str that it does not export
            clusterwide=True,
            stop_flag=stop,
        )
        take_signals()
        try:
            await kopf.run_tasks(tasks, ignored=_Strangers(tasks))
        except Exception as error:  # noqa: BLE001 (kopf has logged it in full)
            _log.warning("kopf ended and starts again: %s", reason(error))
        await waited(stop, _AGAIN_S * random.uniform(0.5, 1.0))  # noqa: S311 (not for secrets)


def admission_registry(handlers: Mapping[str, Handler], kinds: Workloads | None = None) -> kopf.OperatorRegistry:
    """Every handler, for every one of these kinds (those of the catalog where None)."""
    registry = kopf.OperatorRegistry()
    plurals = defaultdict(set)
    for kind in (kinds or workloads()).reviewed:
        plurals[kind.group].add(kind.plural)
    for handler_id, handler in handlers.items():
        decorate = kopf.on.mutate if STAGES[handler_id] is Stage.MUTATE else kopf.on.validate
        for group, names in plurals.items():
            # With a group of its own each, since kopf would else scan every group, and end if one cannot be reached.
            decorate(_one_of(names), group=group, id=handler_id, registry=registry)(handler)
    return registry


def _add_activities(registry: kopf.OperatorRegistry, access: Access, following: Following) -> None:
    @kopf.on.login(registry=registry, id="login")
    async def login(**_: object) -> kopf.ConnectionInfo:
        try:
            return await access.for_kopf()
        except AccessError as error:
            raise kopf.PermanentError(str(error)) from error

    @kopf.on.startup(registry=registry, id="follow")
    async def follow(**_: object) -> None:
        following.start()

    @kopf.on.cleanup(registry=registry, id="unfollow")
    async def unfollow(**_: object) -> None:
        await following.stop()


def _one_of(plurals: Collection[str]) -> Callable[[kopf.Resource], bool]:
    # A callable matches every served version; a name only the preferred one.
    return lambda resource: resource.plural in plurals


def _settings(server: kopf.WebhookServerProtocol) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.admission.server = server
    settings.admission.managed = None
    settings.posting.enabled = False
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 60
    # kopf would kill the process ten minutes after it has ended without our stop flag.
    settings.process.ultimate_exiting_timeout = None
    return settings


class NoMemories:
    """kopf would remember 924 bytes for every object that is ever updated, for ever."""

    async def recall_memo(self, *_: object, memobase: object = None, **__: object) -> object:
        return memobase

    def iter_all_daemon_memories(self) -> Iterator[Any]:
        return iter(())


class _Strangers(Collection["asyncio.Task[Any]"]):
    """Every task but kopf's own: it would else cancel, at its end, all that began after it, our connections too."""

    def __init__(self, own: Collection["asyncio.Task[Any]"]) -> None:
        self._own = own

    def __contains__(self, task: object) -> bool:
        return task not in self._own

    def __iter__(self) -> Iterator["asyncio.Task[Any]"]:
        return (task for task in asyncio.all_tasks() if task in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
