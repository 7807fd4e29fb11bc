"""How jobs and pods ended, told by what their objects say."""

from datetime import UTC, datetime

import pytest

from tests.unit.evidence.observed import PYTORCH, Json, ended_container, pod
from webhook.catalog.terminations import terminations
from webhook.evidence.endings import read_end, read_rank, says_out_of_memory
from webhook.model.run import Ending

AT = datetime(2026, 11, 30, 10, tzinfo=UTC).timestamp()

LAST_WORDS = {
    "PyTorch": [
        PYTORCH,
        "RuntimeError: CUDA out of memory. Tried to allocate 264.00 MiB (GPU 0; 2.00 GiB total capacity; 788.51 MiB",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity",
        "RuntimeError: CUDA error: out of memory",
    ],
    "TensorFlow": [
        "OOM when allocating tensor with shape[8,9] and type float on /job:localhost/task:0/device:GPU:0 by GPU_0_bfc",
    ],
    "JAX": [
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 74061 bytes.",
        "Execution of replica 0 failed: Resource exhausted: Out of memory while trying to allocate 5520758552 bytes.",
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 20029400304 bytes.",
    ],
    "CUDA": ["failed to allocate 2.2KiB (2304 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"],
    "NCCL": [
        "ng30903:3063028:3066152 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'",
        "host:1:2 [0] transport/p2p.cc:204 NCCL WARN Cuda failure 2 'out of memory'",
    ],
}

OTHER_WORDS = [
    "",
    "MemoryError: Unable to allocate 96.0 GiB for an array",
    "OOM when allocating tensor with shape[1] and type float on /job:localhost/device:CPU:0 by allocator cpu",
    "grpc RESOURCE_EXHAUSTED: Received message larger than max (5000000 vs. 4194304)",
    "NCCL WARN Cuda failure 'invalid resource handle'",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.",
    "NCCL watchdog thread terminated with exception: CUDA error: unspecified launch failure",
]


@pytest.mark.parametrize(("framework", "words"), [(name, one) for name, ones in LAST_WORDS.items() for one in ones])
def test_a_device_that_ran_out_is_told_by_the_last_words_of_a_framework(framework: str, words: str) -> None:
    assert terminations().framework_out_of_memory(f"Traceback:\n  {words}\nmore") == framework


@pytest.mark.parametrize("words", OTHER_WORDS)
def test_other_last_words_are_no_device_that_ran_out(words: str) -> None:
    assert terminations().framework_out_of_memory(words) == ""


def test_a_pod_whose_device_ran_out_says_where_and_when() -> None:
    rank = read_rank(pod(ended_container()))
    assert rank is not None
    assert (rank.out_of_memory_at, rank.ending, rank.node) == (AT, Ending.BADLY, "node-a")
    assert rank.owner == "job"


def test_a_container_that_was_started_again_still_says_it() -> None:
    found = read_rank(pod(ended_container(state="lastState"), phase="Running"))
    assert found is not None
    assert (found.out_of_memory_at, found.ending, found.ended_at) == (AT, Ending.GOES_ON, None)


@pytest.mark.parametrize(
    ("containers", "status"),
    [
        ([ended_container(code=137, reason="OOMKilled")], {}),
        ([ended_container(code=1, reason="OOMKilled")], {}),
        ([ended_container(code=137)], {}),
        ([ended_container(code=143)], {}),
        ([ended_container(code=0, reason="Completed")], {}),
        ([ended_container()], {"reason": "Evicted"}),
        ([ended_container()], {"reason": "NodeLost"}),
        ([ended_container()], {"reason": "DeadlineExceeded"}),
        ([ended_container()], {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
        ([ended_container(message="")], {}),
        ([], {}),
    ],
)
def test_hosts_evictions_preemptions_lost_nodes_and_deadlines_are_no_devices(
    containers: list[Json], status: Json
) -> None:
    rank = read_rank(pod(*containers, **status))
    assert rank is not None
    assert rank.out_of_memory_at is None


def test_a_pod_without_devices_is_no_rank() -> None:
    assert read_rank(pod(gpus=0)) is None


@pytest.mark.parametrize("broken", [{}, {"spec": 1}, {"metadata": None, "spec": {"resourceClaims": [1]}}])
def test_what_is_no_pod_is_no_rank(broken: Json) -> None:
    assert read_rank(broken) is None


CONDITION = {"status": "True", "lastTransitionTime": "2026-11-30T10:00:00Z"}


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        ({"conditions": [{"type": "Complete", **CONDITION}]}, Ending.WELL),
        ({"conditions": [{"type": "SuccessCriteriaMet", **CONDITION}, {"type": "Complete", **CONDITION}]}, Ending.WELL),
        ({"conditions": [{"type": "Succeeded", **CONDITION}]}, Ending.WELL),
        ({"conditions": [{"type": "Completed", **CONDITION}]}, Ending.WELL),
        ({"conditions": [{"type": "Failed", **CONDITION}]}, Ending.BADLY),
        ({"conditions": [{"type": "Succeeded", **CONDITION}, {"type": "Failed", **CONDITION}]}, Ending.BADLY),
        ({"jobStatus": "SUCCEEDED", "endTime": "2026-11-30T10:00:00Z"}, Ending.WELL),
        ({"jobStatus": "STOPPED", "endTime": "2026-11-30T10:00:00Z"}, Ending.BADLY),
        ({"state": {"phase": "Completed", "lastTransitionTime": "2026-11-30T10:00:00Z"}}, Ending.WELL),
        ({"state": {"phase": "Aborted", "lastTransitionTime": "2026-11-30T10:00:00Z"}}, Ending.BADLY),
        (
            {"completionTime": "2026-11-30T10:00:00Z", "conditions": [{"type": "Complete", "status": "True"}]},
            Ending.WELL,
        ),
    ],
)
def test_each_kind_says_in_its_own_words_that_it_is_over(status: Json, ending: Ending) -> None:
    assert read_end({"status": status}) == (ending, AT)


@pytest.mark.parametrize(
    "status",
    [{}, {"conditions": [{"type": "Failed", "status": "False"}]}, {"phase": "Running"}, {"jobStatus": "RUNNING"}, 1],
)
def test_what_says_nothing_of_the_kind_goes_on(status: object) -> None:
    assert read_end({"status": status}) == (Ending.GOES_ON, None)


def test_a_job_may_quote_the_program() -> None:
    assert says_out_of_memory({"status": {"jobStatus": "FAILED", "message": f"Job entrypoint failed: {PYTORCH}"}})
    assert says_out_of_memory({"status": {"conditions": [{"type": "Failed", "status": "True", "message": PYTORCH}]}})
    assert not says_out_of_memory({"status": {"message": "Job entrypoint failed"}})
