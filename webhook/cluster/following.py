"""Everything of a cluster that is followed while we serve."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from webhook.cluster.fleet import LiveFleet
from webhook.cluster.queues import QueueFollower
from webhook.cluster.referred import ReferredFollower, WholeFollower
from webhook.cluster.reflector import Connect, Follower, Reflector, Source
from webhook.cluster.world import Worlds
from webhook.fleet.growth import autoscaler_growth, node_pool_growth
from webhook.model.request import Kind, Object

T = TypeVar("T")

# Pods are large objects: a page of as many as there are of nodes would hold up requests while it is decoded.
_NODES = Source("nodes")
_PODS = Source("pods", selector="status.phase!=Succeeded,status.phase!=Failed", page=100)
_SLICES = Source("resourceslices", "resource.k8s.io", optional=True)
_CLAIMS = Source("resourceclaims", "resource.k8s.io", optional=True)
_ACCELERATORS = Source("accelerators", "samestep.dev", optional=True)

REFERRED = {
    "TrainingRuntime": Source("trainingruntimes", "trainer.kubeflow.org", optional=True),
    "ClusterTrainingRuntime": Source("clustertrainingruntimes", "trainer.kubeflow.org", optional=True),
    "ResourceClaimTemplate": Source("resourceclaimtemplates", "resource.k8s.io", optional=True),
    "CustomResourceDefinition": Source(
        "customresourcedefinitions",
        "apiextensions.k8s.io",
        "v1",
        # What the template patches of a TrainJob are called differs by version.
        selector="metadata.name=trainjobs.trainer.kubeflow.org",
    ),
}
"""The kinds that jobs refer to, by name of the kind."""

_QUEUES = (
    *(
        Source(one, "kueue.x-k8s.io", optional=True)
        for one in ("resourceflavors", "clusterqueues", "localqueues", "cohorts")
    ),
    Source("queues", "scheduling.volcano.sh", optional=True),
)

# An AcceleratorPool with capacity.max above what exists will be one more of these.
_GROWTH = (
    (Source("nodepools", "karpenter.sh", optional=True), node_pool_growth),
    (
        Source("configmaps", namespace="kube-system", selector="metadata.name=cluster-autoscaler-status"),
        autoscaler_growth,
    ),
)


class Following:
    """Starts and stops with kopf. `connect` gives a client with fresh credentials."""

    def __init__(self, connect: Connect, worlds: Worlds) -> None:
        self._live = LiveFleet(worlds, lambda name: self._nodes.read_again(name))

        def into(source: Source, follower: Follower[T]) -> Reflector[T]:
            return Reflector(connect, source, follower, worlds.trouble)

        def growing(source: Source, growth: Callable[[list[Object]], str]) -> Reflector[Object]:
            return into(source, WholeFollower(lambda objects: worlds.grow(source.plural, growth(objects))))

        self._nodes = into(_NODES, self._live.nodes)
        self._referred = {
            Kind(one.group, "", kind): into(one, ReferredFollower(worlds, one.plural)) for kind, one in REFERRED.items()
        }
        self._reflectors: tuple[Reflector[Any], ...] = (
            self._nodes,
            into(_PODS, self._live.pods),
            into(_CLAIMS, self._live.claims),
            into(_SLICES, self._live.slices),
            into(_ACCELERATORS, WholeFollower(self._live.extend)),
            *self._referred.values(),
            *(growing(source, growth) for source, growth in _GROWTH),
            *(into(source, QueueFollower(worlds, source.plural)) for source in _QUEUES),
        )

    def start(self) -> None:
        """Begins to follow, from where it stopped where that is still possible; does nothing where it follows
        already."""
        self._live.start()
        for reflector in self._reflectors:
            reflector.start()

    def path_of(self, kind: Kind) -> str:
        """The path of the collection of a kind that jobs refer to (no version said); empty where none is served."""
        reflector = self._referred.get(kind)
        return reflector.path if reflector else ""

    async def stop(self) -> None:
        """Leaves the world as it is."""
        await asyncio.gather(*(reflector.stop() for reflector in self._reflectors), self._live.stop())
