"""Everything of a cluster that is followed while we serve."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from webhook.catalog.queues import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from webhook.cluster.contact import Connect
from webhook.cluster.fleet import LiveFleet
from webhook.cluster.namespaces import NamespaceFollower
from webhook.cluster.policies import LivePolicies
from webhook.cluster.profiles import ProfileFollower
from webhook.cluster.queues import QueueFollower
from webhook.cluster.referred import ReferredFollower, WholeFollower
from webhook.cluster.reflector import Follower, Reflector, Source
from webhook.cluster.world import Worlds
from webhook.fleet.growth import autoscaler_growth, node_pool_growth
from webhook.model.request import Kind, Object
from webhook.policy.load import Loaded
from webhook.policy.settle import NO_FILES, Standing

T = TypeVar("T")

# Nodes and pods are large objects: a page of them holds up requests while it is decoded, and takes thrice its size.
_NODES = Source("nodes", page=100)
_PODS = Source("pods", selector="status.phase!=Succeeded,status.phase!=Failed", page=100)
_SLICES = Source("resourceslices", "resource.k8s.io", optional=True)
_CLAIMS = Source("resourceclaims", "resource.k8s.io", optional=True)
_NAMESPACES = Source("namespaces")
_ACCELERATORS = Source("accelerators", "samestep.dev", optional=True)
# Each is checked whole, which takes a tenth of a millisecond.
_PROFILES = Source("trainingprofiles", "samestep.dev", page=100, optional=True)
_OWN = {
    "TrainingPolicy": Source("trainingpolicies", "samestep.dev", optional=True),
    "AcceleratorPool": Source("acceleratorpools", "samestep.dev", optional=True),
    "TrainingPolicyException": Source("trainingpolicyexceptions", "samestep.dev", optional=True),
}

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
    """Starts and stops with kopf. `connect` gives a client with fresh credentials. `files` are policies that count
    beside those of the cluster, `tell` hears how these stand."""

    def __init__(
        self,
        connect: Connect,
        worlds: Worlds,
        files: Loaded = NO_FILES,
        tell: Callable[[tuple[Standing, ...]], None] = lambda _: None,
    ) -> None:
        self._live = LiveFleet(worlds, lambda name: self._nodes.read_again(name))
        self.policies = LivePolicies(worlds, self._live.rule, self._live.extend, kinds=_OWN, files=files, tell=tell)
        worlds.wait_for_rules()

        def into(source: Source, follower: Follower[T]) -> Reflector[T]:
            return Reflector(connect, source, follower, worlds.trouble)

        def growing(source: Source, growth: Callable[[list[Object]], str]) -> Reflector[Object]:
            return into(source, WholeFollower(lambda objects: worlds.grow(source.plural, growth(objects))))

        self._nodes = into(_NODES, self._live.nodes)
        self._referred = {
            Kind(one.group, "", kind): into(one, ReferredFollower(worlds, one.plural)) for kind, one in REFERRED.items()
        }
        queues = {one.plural: into(one, QueueFollower(worlds, one.plural)) for one in _QUEUES}
        self._looked_up = {
            **self._referred,
            LOCAL_QUEUE: queues["localqueues"],
            CLUSTER_QUEUE: queues["clusterqueues"],
            RESOURCE_FLAVOR: queues["resourceflavors"],
        }
        self._own = {kind: into(one, self.policies.followers[kind]) for kind, one in _OWN.items()}
        self._reflectors: tuple[Reflector[Any], ...] = (
            self._nodes,
            into(_PODS, self._live.pods),
            into(_CLAIMS, self._live.claims),
            into(_SLICES, self._live.slices),
            into(_NAMESPACES, NamespaceFollower(worlds)),
            into(_ACCELERATORS, self.policies.accelerators),
            into(_PROFILES, ProfileFollower(worlds)),
            *self._own.values(),
            *self._referred.values(),
            *(growing(source, growth) for source, growth in _GROWTH),
            *queues.values(),
        )

    def start(self) -> None:
        """Begins to follow, from where it stopped where that is still possible; does nothing where it follows
        already."""
        self._live.start()
        self.policies.start()
        for reflector in self._reflectors:
            reflector.start()

    def path_of(self, kind: Kind) -> str:
        """The path of the collection of a kind that jobs refer to (no version said); empty where none is served."""
        reflector = self._looked_up.get(kind)
        return reflector.path if reflector else ""

    def path_of_own(self, kind: str) -> str:
        """The path of the collection of a kind of ours; empty where none is served."""
        return self._own[kind].path

    async def stop(self) -> None:
        """Leaves the world as it is."""
        reflectors = (reflector.stop() for reflector in self._reflectors)
        await asyncio.gather(*reflectors, self.policies.stop(), self._live.stop())
