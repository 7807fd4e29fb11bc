"""Our own certificates and the webhook configurations, against an API server of a few lines with a clock of its own.

Whatever befalls the Secret, each pair that a replica begins to serve must be one that the API server accepts at that
moment: by its own clock, under what the webhook configurations trust.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tests.unit.cluster.api_server import ApiServer, Json, served, until
from webhook.catalog.workloads import workloads
from webhook.cluster.access import Access
from webhook.cluster.authority import Lives, issue, read_issued
from webhook.cluster.keeper import Keeper
from webhook.cluster.lease import Lease
from webhook.cluster.own_certificates import SECRET, OwnCertificates, hosts_of
from webhook.cluster.registration import webhook_configurations

NAMESPACE = "samestep-system"
START = datetime(2031, 3, 1, tzinfo=UTC)
EVERY_S = 0.02
LIVES = Lives()
SERVICE = {"service": {"name": "samestep", "namespace": NAMESPACE, "port": 443}}


class Cluster:
    """What the API server has, and what it would make of what we serve."""

    def __init__(self, api: ApiServer, kubeconfig: Path) -> None:
        self.api = api
        self.access = Access(kubeconfig)
        self.secrets = api.serve("/api/v1/secrets", "Secret")
        self.events = api.serve("/api/v1/events", "Event")
        self.leases = api.serve("/apis/coordination.k8s.io/v1/leases", "Lease")
        api.clock = START
        prefix = "/apis/admissionregistration.k8s.io/v1"
        self.configurations = []
        for one in webhook_configurations(SERVICE):
            self.configurations.append(api.serve(f"{prefix}/{one['kind'].lower()}s", one["kind"]))
            self.configurations[-1].put(one)

    @property
    def clock(self) -> datetime:
        assert self.api.clock is not None
        return self.api.clock

    def passes(self, time: timedelta) -> None:
        self.api.clock = self.clock + time

    @property
    def secret(self) -> Json | None:
        return self.secrets.objects.get(f"{NAMESPACE}/{SECRET}")

    @property
    def versions(self) -> list[int]:
        return [one.version for one in (self.secrets, *self.configurations)]

    def part(self, name: str) -> bytes:
        return base64.b64decode((self.secret or {}).get("data", {}).get(name, ""))

    def put(self, parts: Mapping[str, bytes | None]) -> None:
        """The Secret with these parts in place of those that it has; None takes one away."""
        data = dict(self.secret["data"]) if self.secret else {}
        for name, part in parts.items():
            data.pop(name, None)
            if part is not None:
                data[name] = base64.b64encode(part).decode()
        self.secrets.put({"metadata": {"name": SECRET, "namespace": NAMESPACE}, "data": data})

    @property
    def authorities(self) -> list[x509.Certificate]:
        """What every webhook trusts."""
        [trusted] = self._trusted()
        return trusted

    def accepts(self, cert_pem: bytes) -> bool:
        """Whether all webhooks can be called."""
        leaf = x509.load_pem_x509_certificate(cert_pem)
        return bool(self._trusted()) and all(trusted and self._is_valid(leaf, trusted) for trusted in self._trusted())

    def _trusted(self) -> list[list[x509.Certificate]]:
        """What webhooks trust, where it differs more than one."""
        bundles = {
            hook["clientConfig"].get("caBundle", "")
            for one in self.configurations
            for found in one.objects.values()
            for hook in found["webhooks"]
        }
        return [x509.load_pem_x509_certificates(base64.b64decode(one)) if one else [] for one in bundles]

    def _is_valid(self, leaf: x509.Certificate, trusted: list[x509.Certificate]) -> bool:
        verifier = PolicyBuilder().store(Store(trusted)).time(self.clock)
        try:
            verifier.build_server_verifier(x509.DNSName(f"samestep.{NAMESPACE}.svc")).verify(leaf, [])
        except VerificationError:
            return False
        return True


class Replica:
    """One of several. `accepted`: whether the API server would have taken what it began to serve, each time."""

    def __init__(self, cluster: Cluster, name: str, lives: Lives = LIVES) -> None:
        self.cluster = cluster
        self.pairs: list[tuple[bytes, bytes]] = []
        self.authority_expires_at = 0.0
        self.accepted: list[bool] = []
        self.troubles: dict[str, str] = {}
        self.rounds = 0
        connect = cluster.access.client
        self.lease = Lease(connect, NAMESPACE, name, lambda: self.own.look(), renew_s=EVERY_S)
        self.keeper = Keeper(NAMESPACE, workloads, name)
        self.own = OwnCertificates(
            connect, NAMESPACE, self.lease, self.keeper, self.serve, self.trouble, lives=lives, every_s=EVERY_S
        )

    def serve(self, cert_pem: bytes, key_pem: bytes, authority_expires_at: float) -> None:
        self.pairs.append((cert_pem, key_pem))
        self.authority_expires_at = authority_expires_at
        self.accepted.append(self.cluster.accepts(cert_pem))

    def trouble(self, about: str, problem: str) -> None:
        self.troubles[about] = problem
        self.rounds += about == "webhook configurations"

    @property
    def cert(self) -> bytes:
        return self.pairs[-1][0] if self.pairs else b""

    @property
    def works(self) -> bool:
        """Whether what it serves is what the Secret holds, and accepted."""
        return bool(self.pairs) and self.cert == self.cluster.part("tls.crt") and self.cluster.accepts(self.cert)

    async def settles(self) -> None:
        """It works, and nothing changes any more."""
        await until(lambda: self.works)
        seen = None
        while seen != (seen := self.cluster.versions):
            after = self.rounds + 2
            await until(lambda: self.rounds >= after)  # noqa: B023 (it is over before there is another)
        assert self.works


@asynccontextmanager
async def running(*replicas: Replica, leads: bool = True) -> AsyncIterator[None]:
    for one in replicas:
        if leads:
            one.lease.start()
        one.own.start()
    yield
    for one in replicas:
        await one.own.stop()
        await one.lease.stop()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with served(tmp_path) as (api, kubeconfig):
        yield Cluster(api, kubeconfig)


@pytest.fixture
async def settled(cluster: Cluster) -> AsyncIterator[Replica]:
    """A replica that leads and is trusted."""
    replica = Replica(cluster, "one")
    async with running(replica):
        await replica.settles()
        replica.accepted.clear()
        yield replica


async def test_the_first_to_come_makes_the_secret_and_the_webhooks_trust_it(cluster: Cluster) -> None:
    replica = Replica(cluster, "one")
    async with running(replica):
        await replica.settles()

    assert cluster.secret is not None
    assert cluster.secret["type"] == "kubernetes.io/tls"
    assert cluster.secret["metadata"]["labels"]["app.kubernetes.io/part-of"] == "samestep"
    assert sorted(cluster.secret["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert replica.authority_expires_at == (START + LIVES.authority).timestamp()
    assert not any(replica.troubles.values())
    assert len(replica.pairs) == 1


async def test_two_that_start_at_once_serve_the_same(cluster: Cluster) -> None:
    first, second = Replica(cluster, "first"), Replica(cluster, "second")
    cluster.api.delay_s = 0.05  # both have seen that there is none before either has made one
    async with running(first, second):
        await first.settles()
        await second.settles()
        writes = cluster.secrets.version

    assert first.cert == second.cert
    assert len(first.pairs) == len(second.pairs) == 1
    assert writes == 101


async def test_a_certificate_is_renewed_at_two_thirds_of_its_life_by_who_leads(
    cluster: Cluster, settled: Replica
) -> None:
    follower = Replica(cluster, "two")
    async with running(follower, leads=False):
        await follower.settles()
        before, bundle = settled.cert, cluster.part("ca.crt")
        cluster.passes(timedelta(days=19))
        await settled.settles()
        assert settled.cert == before
        cluster.passes(timedelta(days=2))
        await until(lambda: settled.cert != before)
        await follower.settles()

    assert follower.cert == settled.cert != before
    assert cluster.part("ca.crt") == bundle
    assert settled.accepted == [True]


async def test_who_does_not_lead_makes_a_secret_but_renews_none(cluster: Cluster) -> None:
    replica = Replica(cluster, "two")
    async with running(replica, leads=False):
        await until(lambda: replica.pairs)
        cluster.passes(timedelta(days=25))
        await asyncio.sleep(10 * EVERY_S)
        assert len(replica.pairs) == 1
        assert cluster.authorities == []


async def test_a_new_authority_is_trusted_before_it_signs_and_the_old_one_until_its_certificates_are_over(
    cluster: Cluster, settled: Replica
) -> None:
    """A year, two weeks at a time."""
    [first] = cluster.authorities
    trusted = []
    for _ in range(26):
        cluster.passes(timedelta(days=14))
        await settled.settles()
        trusted.append(len(cluster.authorities))
    assert all(settled.accepted)
    assert len(settled.accepted) >= 365 / 30
    assert first not in cluster.authorities
    # Two for as long as a certificate of the old one could be valid, and never more.
    assert trusted == [1] * trusted.index(2) + [2] * trusted.count(2) + [1] * trusted[::-1].index(2)
    assert 2 <= trusted.count(2) <= 3
    assert trusted.index(2) == 17  # 36 weeks are more than two thirds of a year


async def test_nothing_is_signed_by_an_authority_that_the_webhooks_do_not_trust_yet(
    cluster: Cluster, settled: Replica
) -> None:
    cluster.passes(LIVES.authority * 2 / 3 - timedelta(days=10))
    await settled.settles()
    settled.accepted.clear()
    before, [old] = settled.cert, cluster.authorities
    cluster.configurations[1].refuses_to_write = 403
    cluster.passes(timedelta(days=12))
    await until(lambda: "cannot be put right: 403" in settled.troubles["webhook configurations"])
    await asyncio.sleep(10 * EVERY_S)
    assert len(x509.load_pem_x509_certificates(cluster.part("ca.crt"))) == 2
    assert settled.cert == cluster.part("tls.crt") == before

    cluster.configurations[1].refuses_to_write = None
    await settled.settles()
    assert settled.cert != before
    assert old in cluster.authorities
    assert settled.accepted == [True, True]  # the authority that is told of, then the certificate
    assert settled.troubles["webhook configurations"] == ""


OTHER = issue(hosts_of(NAMESPACE), START, LIVES).parts
FAULTS: dict[str, dict[str, bytes | None]] = {
    "emptied": dict.fromkeys(OTHER),
    "no key": {"tls.key": None},
    "no authority": {"ca.crt": None},
    "no key of the authority": {"ca.key": None},
    "certificate no PEM": {"tls.crt": b"not a certificate"},
    "key no PEM": {"tls.key": b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"},
    "authority no PEM": {"ca.crt": b"\x00\xff"},
    "pair mismatched": {"tls.key": OTHER["tls.key"]},
    "certificate of another authority": {"tls.crt": OTHER["tls.crt"], "tls.key": OTHER["tls.key"]},
    "authority mismatched": {"ca.key": OTHER["ca.key"]},
    "certificate of the authority replaced": {"ca.crt": OTHER["ca.crt"]},
    "authority replaced": {"ca.crt": OTHER["ca.crt"], "ca.key": OTHER["ca.key"]},
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_secret_that_is_spoilt_is_mended_and_no_replica_serves_what_is_refused(
    cluster: Cluster, settled: Replica, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    follower = Replica(cluster, "two")
    async with running(follower, leads=False):
        await follower.settles()
        follower.accepted.clear()
        cluster.put(FAULTS[fault])
        await settled.settles()
        await follower.settles()

    assert read_issued({name: cluster.part(name) for name in OTHER}).pair == settled.pairs[-1]
    assert all(settled.accepted + follower.accepted)
    assert follower.cert == settled.cert
    assert f"Secret {SECRET} was made: " in caplog.text
    assert "PRIVATE" not in caplog.text
    assert "c2VjcmV0" not in caplog.text


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_replica_that_finds_a_spoilt_secret_at_its_start_makes_another(cluster: Cluster, fault: str) -> None:
    cluster.put(issue(hosts_of(NAMESPACE), START, LIVES).parts)
    cluster.put(FAULTS[fault])
    replica = Replica(cluster, "one")
    async with running(replica):
        await replica.settles()
    assert replica.works


async def test_a_secret_that_is_deleted_is_made_again_and_no_replica_serves_what_is_refused(
    cluster: Cluster, settled: Replica
) -> None:
    before, [old] = settled.cert, cluster.authorities
    follower = Replica(cluster, "two")
    async with running(follower, leads=False):
        await follower.settles()
        follower.accepted.clear()
        cluster.secrets.remove(SECRET, NAMESPACE)
        await until(lambda: cluster.secret and settled.cert != before)
        await settled.settles()
        await follower.settles()

    assert all(settled.accepted + follower.accepted)
    assert old in cluster.authorities
    assert len(cluster.authorities) == 2
    assert x509.load_pem_x509_certificates(cluster.part("ca.crt"))[0] != old


async def test_our_own_clock_does_not_matter(cluster: Cluster) -> None:
    """The one of this machine and the one of the API server are years apart in every test here; now the other way."""
    cluster.api.clock = datetime(2001, 1, 1, tzinfo=UTC)
    replica = Replica(cluster, "one")
    async with running(replica):
        await replica.settles()
    leaf = x509.load_pem_x509_certificate(replica.cert)
    assert leaf.not_valid_before_utc == cluster.clock - LIVES.backdated
    assert leaf.not_valid_after_utc == cluster.clock + LIVES.certificate


@pytest.mark.parametrize("jump", [timedelta(days=-400), timedelta(hours=-2), timedelta(days=31), timedelta(days=4000)])
async def test_a_clock_of_the_api_server_that_is_set_right_ends_in_certificates_for_the_right_time(
    cluster: Cluster, settled: Replica, jump: timedelta
) -> None:
    assert settled.works
    cluster.passes(jump)
    assert not settled.works
    await settled.settles()
    leaf = x509.load_pem_x509_certificate(settled.cert)
    assert leaf.not_valid_before_utc <= cluster.clock < leaf.not_valid_after_utc


async def test_an_api_server_whose_clock_is_half_an_hour_behind_accepts_what_is_new(
    cluster: Cluster, settled: Replica
) -> None:
    cluster.passes(timedelta(minutes=-30))
    assert cluster.accepts(settled.cert)


async def test_who_may_not_read_the_secret_serves_nothing_says_so_and_goes_on_trying(cluster: Cluster) -> None:
    cluster.secrets.refuses = 403
    replica = Replica(cluster, "one")
    async with running(replica):
        await until(lambda: f"Secret {SECRET}: 403" in replica.troubles.get("certificates", ""))
        assert not replica.pairs
        cluster.secrets.refuses = None
        await replica.settles()
    assert replica.troubles["certificates"] == ""


async def test_an_api_server_that_is_away_leaves_what_is_served(cluster: Cluster, settled: Replica) -> None:
    before = settled.cert
    for one in (cluster.secrets, *cluster.configurations):
        one.refuses = 503
    await until(lambda: settled.troubles.get("certificates"))
    assert settled.cert == before
    for one in (cluster.secrets, *cluster.configurations):
        one.refuses = None
    await settled.settles()
    assert settled.cert == before


async def test_without_webhook_configurations_certificates_are_made_and_renewed_all_the_same(cluster: Cluster) -> None:
    """They may be applied later, and are not ours to make."""
    for one in cluster.configurations:
        one.remove("samestep")
    replica = Replica(cluster, "one")
    async with running(replica):
        await until(lambda: replica.pairs)
        for _ in range(20):
            before = replica.cert
            cluster.passes(timedelta(days=21))
            await until(lambda before=before: replica.cert != before)  # type: ignore[misc]
        problem = replica.troubles["webhook configurations"]
        assert problem.startswith("there is no MutatingWebhookConfiguration and no ValidatingWebhookConfiguration")
        assert not any(one.objects for one in cluster.configurations)
        for one, configuration in zip(cluster.configurations, webhook_configurations(SERVICE), strict=True):
            one.put(configuration)
        await replica.settles()
    assert replica.troubles["webhook configurations"] == ""


async def test_what_is_written_stays_when_a_replica_stops(cluster: Cluster) -> None:
    replica = Replica(cluster, "one")
    async with running(replica):
        await replica.settles()
    before = deepcopy([cluster.secret, *(one.objects for one in cluster.configurations)])
    successor = Replica(cluster, "two")
    async with running(successor):
        await successor.settles()
    assert [cluster.secret, *(one.objects for one in cluster.configurations)] == before
    assert successor.cert == replica.cert
