"""What Prometheus sees. Labels are bounded: never the name of a job, a namespace or a user."""

import time
from collections import Counter as Counts
from collections.abc import Iterator
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.answer.evidence import used
from webhook.cluster.keeper import Keeper
from webhook.cluster.observer import Tally
from webhook.cluster.policies import FILES, KINDS
from webhook.cluster.world import Worlds
from webhook.model.request import Stage
from webhook.model.verdict import Review, Verdict
from webhook.server.tls import ServingCertificate

# From a tenth of a millisecond to past the mutating webhook's timeout of 2 s.
_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_PARTS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_GIBIBYTES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Everything that is counted, in a registry of its own."""

    def __init__(self, worlds: Worlds, certificate: ServingCertificate, version: str) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        reviews = Counter("samestep_reviews", "Reviews answered.", ("stage", "verdict", "policy"), registry=registry)
        findings = Counter("samestep_findings", "Findings told.", ("stage", "code"), registry=registry)
        self._would_be = Counter(
            "samestep_would_be",
            "Reviews answered with something else than if every policy denied, by what that would have been.",
            ("stage", "verdict", "policy"),
            registry=registry,
        )
        self._exceptions = Counter(
            "samestep_exceptions_used",
            "Times that a TrainingPolicyException made a difference; code is empty for a job out of scope.",
            ("policy", "code"),
            registry=registry,
        )
        self._profiles = Counter(
            "samestep_profiles_used",
            "Reviews in which earlier runs had a part, by what they showed: fits, out (of memory), peak, slope.",
            ("fact",),
            registry=registry,
        )
        duration = Histogram(
            "samestep_review_duration_seconds",
            "From the head of an admission request to its answer.",
            ("stage",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._mixed_waits = Histogram(
            "samestep_mixed_job_wait_ratio",
            "Of jobs mixed on purpose: the most of a step that fast ranks wait for slow ones, as estimated.",
            ("policy",),
            buckets=_PARTS,
            registry=registry,
        )
        self._mixed_unused = Histogram(
            "samestep_mixed_job_unused_memory_bytes",
            "Of jobs mixed on purpose: what the GPU with the most memory has above the one with the least.",
            ("policy",),
            buckets=[gibibytes << 30 for gibibytes in _GIBIBYTES],
            registry=registry,
        )
        handler_runs = Counter(
            "samestep_handler_runs", "Times that an admission handler was run.", ("handler",), registry=registry
        )
        http_responses = Counter(
            "samestep_http_responses", "Answers to admission requests by HTTP status.", ("code",), registry=registry
        )
        self.events = Counter(
            "samestep_events",
            "Events by what became of them; There: it had been written before, by this replica or another.",
            ("outcome",),
            registry=registry,
        )
        self.ready = Gauge("samestep_ready", "Whether this replica is ready, as /readyz says.", registry=registry)
        told = "Whether this replica holds the Lease, and with it writes for all."
        self.leader = Gauge("samestep_leader", told, registry=registry)
        Info("samestep_build", "What is running.", registry=registry).info({"version": version})
        # With every request; to look up what is counted takes longer than to count it.
        self._reviews, self._findings = cache(reviews.labels), cache(findings.labels)
        self._duration = cache(duration.labels)
        self.handler_runs, self.http_responses = cache(handler_runs.labels), cache(http_responses.labels)
        self._state = _State(worlds, certificate)
        registry.register(self._state)

    def count(self, review: Review, duration_s: float) -> None:
        """One review, answered."""
        stage = review.request.stage.value
        self._reviews(stage, review.verdict.value, review.policy.name).inc()
        for finding in review.decision.findings:
            self._findings(stage, finding.code).inc()
        if review.would_be is not review.verdict:
            self._would_be.labels(stage, review.would_be.value, review.policy.name).inc()
        for use in review.exceptions:
            self._exceptions.labels(use.policy, use.code).inc()
        for fact in used(review):
            self._profiles.labels(fact).inc()
        self._duration(stage).observe(duration_s)
        if review.request.stage is Stage.MUTATE and not review.request.dry_run:
            self._count_mixed(review)

    def _count_mixed(self, review: Review) -> None:
        """A job that runs on several models although its ranks are coupled, where what that costs can be estimated."""
        on_purpose = any(finding.code == "SST306" for finding in review.decision.findings)
        estimate = review.decision.straggler
        if on_purpose and review.verdict is not Verdict.DENY and estimate is not None:
            self._mixed_waits.labels(review.policy.name).observe(estimate.most_percent / 100)
            self._mixed_unused.labels(review.policy.name).observe(estimate.unused_mib * (1 << 20))

    def keep(self, keeper: Keeper) -> None:
        """The webhook configurations are kept by this one."""
        self._state.keeper = keeper

    def show(self, tally: Tally) -> None:
        """What the observer of runs counts is shown as well."""
        self._registry.register(_Observed(tally))

    def text(self) -> bytes:
        """In the text format of Prometheus."""
        return generate_latest(self._registry)


class _Observed(Collector):
    """What was observed of runs, read off at the moment of the scrape."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterator[Metric]:
        told = "Questions to Prometheus about the devices of runs."
        yield _counted("samestep_observer_queries", told, "outcome", self._tally.queries)
        told = "Values of Prometheus that were not believed, or belong to no rank of the run that was asked for."
        yield _counted("samestep_observer_dropped_values", told, "reason", self._tally.dropped)
        told = "Runs observed: that ended well or badly, and times that a device of one ran out of memory."
        yield _counted("samestep_observer_runs", told, "ending", self._tally.runs)
        told = "TrainingProfiles written and deleted, and writes that failed."
        yield _counted("samestep_observer_writes", told, "outcome", self._tally.writes)
        told = "Jobs that were not looked at, because too many came at once."
        yield CounterMetricFamily("samestep_observer_left_out_jobs", told, value=self._tally.left_out)
        told = "TrainingProfiles that there are, by the most that they say, as of the last sweep."
        profiles = GaugeMetricFamily("samestep_training_profiles", told, labels=("state",))
        for state, count in self._tally.profiles.items():
            profiles.add_metric((state,), count)
        yield profiles


def _counted(name: str, told: str, label: str, counts: Counts[str]) -> CounterMetricFamily:
    found = CounterMetricFamily(name, told, labels=(label,))
    for value, count in counts.items():
        found.add_metric((value,), count)
    return found


class _State(Collector):
    """What is read off at the moment of the scrape."""

    def __init__(self, worlds: Worlds, certificate: ServingCertificate) -> None:
        self._worlds = worlds
        self._certificate = certificate
        self.keeper: Keeper | None = None

    def collect(self) -> Iterator[Metric]:
        nodes = GaugeMetricFamily("samestep_fleet_nodes", "Nodes with accelerators, by model.", labels=("model",))
        for model, count in self._nodes_by_model().items():
            nodes.add_metric((model,), count)
        yield nodes
        synced = "Whether a whole fleet has been seen, and the policies."
        yield GaugeMetricFamily("samestep_fleet_synced", synced, value=self._worlds.synced)
        age = self._worlds.age_s(time.time())
        if age is not None:
            told = "Since the fleet was last confirmed."
            yield GaugeMetricFamily("samestep_fleet_age_seconds", told, value=age)
        told = "TrainingPolicies in force; 0: the built-in default is."
        yield GaugeMetricFamily("samestep_policies", told, value=self._worlds.policies)
        told = "Times that policies, pools or exceptions came into force or changed."
        yield CounterMetricFamily("samestep_rule_changes", told, value=self._worlds.rule_changes)
        told = (
            "Objects of ours, and faults of policy files, that cannot be taken as they are; /readyz?verbose says why."
        )
        broken = GaugeMetricFamily("samestep_broken_objects", told, labels=("kind",))
        for kind in ("Accelerator", *KINDS, FILES):
            broken.add_metric((kind,), len(self._worlds.faults.get(kind, ())))
        yield broken
        told = "When the serving certificate expires."
        expires_at = self._certificate.expires_at
        yield GaugeMetricFamily("samestep_tls_certificate_expiry_timestamp_seconds", told, value=expires_at)
        authority_expires_at = self._certificate.authority_expires_at
        if authority_expires_at is not None:
            told = "When our own authority, which signs the serving certificate, expires."
            yield GaugeMetricFamily("samestep_tls_authority_expiry_timestamp_seconds", told, value=authority_expires_at)
        told = "Whether the certificate in place could not be loaded."
        failed = bool(self._certificate.problem)
        yield GaugeMetricFamily("samestep_tls_reload_failed", told, value=failed)
        if self.keeper is not None:
            yield from _kept(self.keeper)

    def _nodes_by_model(self) -> Counts[str]:
        tally: Counts[str] = Counts()
        if self._worlds.current is not None:
            for column in self._worlds.current.fleet.devices.values():
                tally.update({model.name: nodes.bit_count() for model, nodes in column.models.items()})
                tally["unknown"] += column.unknown.bit_count()
                tally["two models"] += column.two_models.bit_count()
                tally["shares"] += column.shares.bit_count()
        return tally


def _kept(keeper: Keeper) -> Iterator[Metric]:
    told = "Webhook configurations that are not there, so that no job is sent here."
    yield GaugeMetricFamily("samestep_webhook_configurations_missing", told, value=len(keeper.missing))
    told = "Times that a webhook configuration was put right: edited by somebody, or outdated."
    repairs = CounterMetricFamily("samestep_webhook_configuration_repairs", told, labels=("kind", "found"))
    for (kind, found), count in keeper.repairs.items():
        repairs.add_metric((kind, found), count)
    yield repairs
