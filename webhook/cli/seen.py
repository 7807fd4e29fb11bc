"""A whole cluster, with the jobs and pods that are there: as it is now, or as a dump of it has it."""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from webhook.cli.documents import Document, Unreadable, parse_all
from webhook.cli.live import Collection, asked, listed
from webhook.cli.options import files_from
from webhook.cli.surroundings import Offline
from webhook.cli.worlds import whole_world
from webhook.model.policy import Policy
from webhook.model.request import Object
from webhook.model.workload import Workloads
from webhook.model.world import World
from webhook.policy.common import common
from webhook.policy.kinds import kinds_of
from webhook.policy.load import Loaded
from webhook.policy.objects import key_of
from webhook.policy.settle import Settled, settle

if TYPE_CHECKING:
    from webhook.cluster.access import Client

Command = TypeVar("Command", bound=Callable[..., Any])

_NODES = "/api/v1/nodes"
_OWN_GROUP = "samestep.dev"
_OWN = ("trainingpolicies", "acceleratorpools", "trainingpolicyexceptions", "accelerators")
_LOOKED_UP = (
    ("", "nodes"),
    ("", "pods"),
    ("", "namespaces"),
    ("resource.k8s.io", "resourceslices"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("trainer.kubeflow.org", "trainingruntimes"),
    ("trainer.kubeflow.org", "clustertrainingruntimes"),
    ("kueue.x-k8s.io", "resourceflavors"),
    ("kueue.x-k8s.io", "clusterqueues"),
    ("kueue.x-k8s.io", "localqueues"),
    ("kueue.x-k8s.io", "cohorts"),
    ("scheduling.volcano.sh", "queues"),
    ("karpenter.sh", "nodepools"),
)
"""What decisions look up, by group and plural."""
_TELLING = (
    ("", "events"),
    ("kueue.x-k8s.io", "workloads"),
    ("scheduling.volcano.sh", "podgroups"),
    ("scheduling.x-k8s.io", "podgroups"),
)
"""What says why a job waits."""
_BY_NAME = (
    # What the template patches of a TrainJob are called differs by version.
    Collection(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        optional=True,
        name="trainjobs.trainer.kubeflow.org",
    ),
    Collection("/api/v1/namespaces/kube-system/configmaps", optional=True, name="cluster-autoscaler-status"),
)


class Served(NamedTuple):
    """A kind as the API server serves it, with all that kubectl calls it."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short: tuple[str, ...]

    @property
    def path(self) -> str:
        return f"{self._of_group}/{self.plural}"

    def path_in(self, namespace: str) -> str:
        return f"{self._of_group}/namespaces/{namespace}/{self.plural}"

    @property
    def _of_group(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def names(self) -> tuple[str, ...]:
        """Lower case, without and with the group."""
        bare = (self.plural, self.singular or self.kind.lower(), self.kind.lower(), *self.short)
        grouped = (f"{name}.{self.group}" for name in bare) if self.group else ()
        return tuple(dict.fromkeys((*bare, *grouped)))


@dataclass(frozen=True, slots=True)
class Seen:
    """`documents` are all objects that were found, `known` what of them makes the `world`. `served` are the kinds of
    job that the cluster has; of a dump, none is known. `problems` say what could not be read. `ours` are the policies,
    pools, exceptions and accelerators, of files too. `blind`: who asks may not see the nodes of the cluster."""

    documents: tuple[Document, ...]
    world: World
    known: Offline
    problems: tuple[Unreadable, ...] = ()
    served: tuple[Served, ...] = ()
    ours: tuple[Object, ...] = ()
    blind: bool = False

    def lacks_namespace(self, name: str) -> bool:
        """Whether namespaces are known, and this one is not among them."""
        names = {_name(one.object) for one in self.documents if _is(one, "Namespace")}
        return bool(names) and name not in names


def cluster_options(command: Command) -> Command:
    """`--kubeconfig` and `--context`."""
    context = click.option("--context", help="Which context of it.")
    path = click.Path(path_type=Path)
    kubeconfig = click.option("--kubeconfig", type=path, help="Which kubeconfig to use for a live cluster.")
    return kubeconfig(context(command))


def seen_in(files: Sequence[Path], fleets: Sequence[Path], policies: Path | None) -> Seen:
    """What files hold: those of `fleets` count as if they were among the others."""
    documents, problems = parse_all([*files, *fleets])
    return _seen(documents, problems, _files(policies), ())


def seen_live(kubeconfig: Path | None, context: str | None, policies: Path | None, *, told_of: str = "") -> Seen:
    """What a cluster holds now; a file of `policies` goes before an object of the same name. With what queues and
    controllers say of the jobs in the namespace `told_of`; who may see that namespace alone is told what of it can be
    said. Raises ClusterError."""
    files = _files(policies)

    async def look(client: "Client") -> tuple[list[Document], list[Unreadable], list[Served]]:
        found: list[Document] = []
        problems: list[Unreadable] = []
        discovery = _Discovery(client)

        async def take(one: Collection, within: str = "") -> None:
            items, fault = await listed(client, one), "may not be listed"
            if items is None:
                if within and (items := await listed(client, Collection(within, optional=True))) is not None:
                    fault = f"only those of namespace {told_of} may be listed"
                problems.append(Unreadable(one.path, fault))
            found.extend(Document(_place(item), item) for item in items or ())

        for plural in _OWN:
            if own := await discovery.find(_OWN_GROUP, plural):
                await take(Collection(own.path, optional=True))
        kinds = kinds_of(common(_settled(found, files).rules, Policy()))
        served = [one async for one in discovery.jobs(kinds)]
        looked_up = [one for group, plural in _LOOKED_UP if (one := await discovery.find(group, plural))]
        for path, one in {one.path: one for one in (*looked_up, *served)}.items():
            within = one.path_in(told_of) if told_of else ""
            await take(Collection(path, optional=bool(told_of) or path != _NODES), within)
        for group, plural in _TELLING if told_of else ():
            if one := await discovery.find(group, plural):
                items = await listed(client, Collection(one.path_in(told_of), optional=True))
                found.extend(Document(_place(item), item) for item in items or ())
        for named in _BY_NAME:
            found.extend(Document(_place(item), item) for item in await listed(client, named) or ())
        return found, problems, served

    found, problems, served = asked(kubeconfig, context, look)
    seen = _seen(found, problems, files, tuple(served))
    return replace(seen, blind=any(one.source == _NODES for one in problems))


def _files(policies: Path | None) -> Loaded:
    files = files_from(policies)
    if files.faults:
        click.echo("\n".join(map(str, files.faults)), err=True)
        click.get_current_context().exit(2)
    return files


def _seen(
    documents: Iterable[Document], problems: Iterable[Unreadable], files: Loaded, served: tuple[Served, ...]
) -> Seen:
    ours = [Document(str(one["metadata"]["name"]), dict(one)) for one in files.accelerators]
    names = {one.object["metadata"]["name"] for one in ours}
    found = [one for one in documents if not (_is(one, "Accelerator") and _name(one.object) in names)]
    settled = _settled(found, files)
    world, known = whole_world([*ours, *found], settled.rules)
    faults = [one for one in settled.standings if one.reason == "Invalid"]
    broken = [Unreadable(_place(dict(one.object)), one.message) for one in faults]
    of_files = {key: one.object for key, one in files.read.items()}
    of_cluster = [one.object for one in found if _is_ours(one) and key_of(one.object) not in of_files]
    whole = (*problems, *broken, *known.problems)
    return Seen((*ours, *found), world, known, whole, served, (*of_files.values(), *of_cluster))


def _settled(documents: Iterable[Document], files: Loaded) -> Settled:
    """The rules of the objects among these and of files, as a server has them."""
    own = [one.object for one in documents if _is_ours(one) and _name(one.object)]
    return settle(own, files, Settled(files.rules), time.time())


class _Discovery:
    """Which kinds there are, asked once for each group."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._versions: dict[str, list[str]] = {}
        self._resources: dict[tuple[str, str], dict[str, Any]] = {}

    async def find(self, group: str, plural: str, versions: Sequence[str] = ()) -> Served | None:
        """The kind of this plural in the first of these versions that is served; none named: in any."""
        there = await self._versions_of(group)
        for version in [one for one in versions if one in there] if versions else there:
            one = (await self._resources_of(group, version)).get(plural)
            if one is not None:
                short = tuple(one.get("shortNames") or ())
                return Served(group, version, one.get("kind", ""), plural, one.get("singularName", ""), short)
        return None

    async def jobs(self, kinds: Workloads) -> AsyncIterator[Served]:
        for entry in kinds.reviewed:
            if not entry.wraps and (one := await self.find(entry.group, entry.plural, entry.versions)):
                yield one._replace(kind=entry.kind)

    async def _versions_of(self, group: str) -> list[str]:
        if not group:
            return ["v1"]
        if group not in self._versions:
            told = await self._get(f"/apis/{group}")
            named = [one["version"] for one in told.get("versions", ())]
            preferred = told.get("preferredVersion", {}).get("version")
            self._versions[group] = sorted(named, key=lambda one: one != preferred)
        return self._versions[group]

    async def _resources_of(self, group: str, version: str) -> dict[str, Any]:
        if (group, version) not in self._resources:
            told = await self._get(f"/apis/{group}/{version}" if group else f"/api/{version}")
            self._resources[group, version] = {one["name"]: one for one in told.get("resources", ())}
        return self._resources[group, version]

    async def _get(self, path: str) -> dict[str, Any]:
        from webhook.cluster.access import StatusError

        try:
            found: dict[str, Any] = json.loads(await self._client.get(path))
        except StatusError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return {}
            raise
        return found


def _place(obj: dict[str, Any]) -> str:
    metadata = obj["metadata"]
    return f"{obj['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata.get('name'))))}"


def _is_ours(one: Document) -> bool:
    return bool(one.object["apiVersion"].startswith(f"{_OWN_GROUP}/"))


def _is(one: Document, kind: str) -> bool:
    return bool(one.object["kind"] == kind)


def _name(obj: dict[str, Any]) -> str:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
