"""One replica of several, by a Lease on a real API server."""

import asyncio
import time
from pathlib import Path

from controlplane.rig import ControlPlane
from webhook.cluster.access import Access
from webhook.cluster.lease import Lease

COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/samestep-system/leases"


def test_one_holds_it_gives_it_back_and_loses_it_by_silence(control_plane: ControlPlane, account: Path) -> None:
    gained: list[str] = []

    def one(identity: str) -> Lease:
        connect = Access(account).client
        return Lease(connect, "samestep-system", identity, lambda: gained.append(identity), holds_s=2, renew_s=0.3)

    async def holds(lease: Lease, within_s: float) -> float:
        started = time.monotonic()
        async with asyncio.timeout(within_s):
            while not lease.held:  # noqa: ASYNC110 (as simple as can be)
                await asyncio.sleep(0.02)
        return time.monotonic() - started

    async def take_turns() -> None:
        first, second, third = one("first"), one("second"), one("third")
        first.start()
        await holds(first, 10)
        second.start()
        await asyncio.sleep(3)  # longer than it lasts without being renewed
        assert (first.held, second.held) == (True, False)

        await first.stop()
        assert not first.held
        await holds(second, 1.5)

        third.start()
        await asyncio.sleep(1)
        assert second._task is not None
        second._task.cancel()  # as a process that is gone without a word
        taken_after_s = await holds(third, 10)
        assert 1 < taken_after_s < 4
        assert not second.held
        await third.stop()

    control_plane.api.delete(COLLECTION)
    asyncio.run(take_turns())
    assert gained == ["first", "second", "third"]
    assert control_plane.api.get(f"{COLLECTION}/samestep")["spec"]["leaseTransitions"] >= 1


def test_who_may_not_have_it_goes_on_without_it(control_plane: ControlPlane) -> None:
    async def tries() -> bool:
        lease = Lease(Access(control_plane.kubeconfig_for("nobody")).client, "samestep-system", "nobody", renew_s=0.1)
        lease.start()
        await asyncio.sleep(0.5)
        held = lease.held
        await lease.stop()
        return held

    assert not asyncio.run(tries())
