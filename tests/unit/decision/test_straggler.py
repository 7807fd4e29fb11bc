"""What ranks on two models cost one another."""

import pytest

from controlplane.nodes import A100_80GB, H100, RTX_5090, RTX_PRO_6000
from tests.samples import ask, job, nodes, pod, pytorchjob
from webhook.decision.straggler import straggler
from webhook.model.fleet import Model
from webhook.model.request import Stage
from webhook.model.verdict import Verdict

SLOW = Model("slow", "slow", "NVIDIA", None, bf16_tflops=200, bandwidth_gbps=1800)
FAST = Model("fast", "fast", "NVIDIA", None, bf16_tflops=500, bandwidth_gbps=2000)
UNKNOWN = Model("unknown", "unknown", "NVIDIA", None, bf16_tflops=100)


def test_the_fast_ranks_wait_what_the_slow_ones_take_longer_by_compute_and_by_bandwidth() -> None:
    found = straggler({FAST: 96_000, SLOW: 32_000})
    assert found is not None
    assert (found.slow, found.fast, found.most_by_compute) == (SLOW, FAST, True)
    assert (found.least_percent, found.most_percent) == pytest.approx((10, 60))
    assert found.unused_mib == 64_000


def test_which_figure_gives_the_most_depends_on_the_models() -> None:
    wide = Model("wide", "wide", "NVIDIA", None, bf16_tflops=210, bandwidth_gbps=3600)
    found = straggler({SLOW: 32_000, wide: 32_000})
    assert found is not None
    assert (found.most_by_compute, round(found.least_percent), round(found.most_percent)) == (False, 5, 50)


def test_nobody_waits_by_the_figure_in_which_the_slow_card_is_ahead() -> None:
    ahead = Model("ahead", "ahead", "NVIDIA", None, bf16_tflops=100, bandwidth_gbps=4000)
    found = straggler({ahead: 32_000, FAST: 32_000})
    assert found is not None
    assert (found.slow, found.least_percent, found.most_percent) == (ahead, 0, 80)


def test_of_several_models_the_two_are_told_that_are_farthest_apart() -> None:
    middle = Model("middle", "middle", "NVIDIA", None, bf16_tflops=400, bandwidth_gbps=1900)
    found = straggler({FAST: 96_000, middle: 24_000, SLOW: 32_000, UNKNOWN: 16_000})
    assert found is not None
    assert (found.slow, found.fast) == (SLOW, FAST)
    # Memory is known of all of them.
    assert found.unused_mib == 80_000


def test_without_both_figures_of_two_models_nothing_is_told() -> None:
    assert straggler({FAST: 96_000, UNKNOWN: 16_000}) is None
    assert straggler({FAST: 96_000}) is None


def test_it_is_told_wherever_the_pool_of_a_coupled_job_is_mixed() -> None:
    pinned = ask(pytorchjob(memory_per_device="44Gi"))
    unpinned = ask(pytorchjob(memory_per_device="44Gi"), stage=Stage.VALIDATE)
    assert (pinned.verdict, unpinned.verdict) == (Verdict.PIN, Verdict.DENY)
    assert pinned.decision.straggler is not None
    assert unpinned.decision.straggler == pinned.decision.straggler
    assert (pinned.decision.straggler.slow.product, pinned.decision.straggler.fast.product) == (
        RTX_5090.product,
        RTX_PRO_6000.product,
    )
    assert ask(pytorchjob(), nodes((H100, 2, 8))).decision.straggler is None


def test_it_is_not_told_where_ranks_do_not_wait_for_one_another() -> None:
    one_node = ask(job(pod(gpus=8), pods=1), nodes((H100, 1, 8), (A100_80GB, 1, 8)))
    independent = ask(job(pod(gpus=1, command=["python", "trial.py"]), indexed=False, pods=8))
    assert (one_node.decision.straggler, independent.decision.straggler) == (None, None)
