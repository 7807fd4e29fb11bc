import time

import pytest

from webhook.catalog.launchers import launchers
from webhook.catalog.volatile import flag_name, is_among, steady, volatile


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("/out/550e8400-e29b-41d4-a716-446655440000/logs", "/out/~/logs"),
        ("llama-2026-11-30", "llama-~"),
        ("llama_20261130-145209", "llama_~"),
        ("2026-11-30T14:52:09.123Z", "~"),
        ("/logs/2026_11_30_14h52m09", "/logs/~"),
        ("at-14:52:09", "at-~"),
        ("exp-1796050329", "exp-~"),
        ("exp-1796050329123", "exp-~"),
        ("/ckpt/3f2a9c1/model", "/ckpt/~/model"),
        ("d41d8cd98f00b204e9800998ecf8427e", "~"),
        ("10.0.12.7:29500", "~"),
        ("tcp://10.0.12.7", "tcp://~"),
        ("ddp-master-0.ddp.team-a.svc:29500", "~"),
        ("https://ann:secret@tracker.example/x", "https://~tracker.example/x"),
        ("/home/ann/models/llama", "/home/~/models/llama"),
        ("/mnt/scratch/bob.lee/data", "/mnt/scratch/~/data"),
        ("/ckpt/run-12/checkpoint-1500", "/ckpt/~/~"),
        ("/ckpt/iter_0001000", "/ckpt/~"),
        ("/tmp/tmp8x_y2k1a/model", "/tmp/~/model"),
        ("/home/ann/2026-11-30/configs/2026-11-30.yaml", "/home/~/~/configs/2026-11-30.yaml"),
    ],
)
def test_what_differs_between_two_submissions_is_taken_out(text: str, without: str) -> None:
    assert steady(text) == without


@pytest.mark.parametrize(
    "text",
    [
        "",
        "meta-llama/Llama-3.1-8B",
        "Qwen/Qwen2.5-72B-Instruct",
        "mistralai/Mixtral-8x22B-v0.1",
        "2e-5",
        "4096",
        "1:4",
        "16:32",
        "configs/run-12.yaml",
        "train_2026-11-30.py",
        "facade",
        "8.9.1",
        "12345678",
        "20261399",
        "full_shard auto_wrap",
        "/data/imagenet",
        "hf://org/model-7b",
        "rerun-12x",
        "step-by-step",
    ],
)
def test_what_may_tell_trainings_apart_stays(text: str) -> None:
    assert steady(text) == text


def test_nothing_that_says_what_is_trained_or_how_is_among() -> None:
    known = launchers()
    parsers = [*known.trainers.parsers.values(), *known.launcher_settings.values(), *known.formats.values()]
    settings = {flag for one in parsers for flag in (*one.says, *one.config_files, *one.holds)}
    batch = {flag for table in (known.flags, *known.flags_of.values(), *known.flags_where.values()) for flag in table}
    strategies = set(known.strategies)
    counts = {flag for table in (known.counts, *known.counts_of.values()) for flag in table}
    names = volatile().flags | volatile().switches
    told = {flag for flag in settings | batch | strategies | counts if is_among(flag_name(flag.rstrip("=:")), names)}
    assert told == set()


def test_a_flag_is_known_however_it_is_spelled() -> None:
    spelled = {flag_name(one) for one in ("--output_dir", "--output-dir", "output_dir", "+output_dir", "-output-dir")}
    assert spelled == {"output-dir"}
    assert (flag_name("-H"), flag_name("-o")) == ("-H", "-o")
    assert is_among("trainer.default-root-dir", volatile().flags)
    assert not is_among("trainer.seed.path", volatile().flags)


@pytest.mark.parametrize(
    "piece", ["0", "a", "a1", "20", "0a-", "1.", "a.", "/home/", "/tmp/tmp", "run-1", "://", "2026-11-", "-"]
)
def test_the_time_that_a_word_takes_grows_with_its_length_and_no_faster(piece: str) -> None:
    text = (piece * 2048)[:2048]
    steady(text)
    before = time.process_time()
    for _ in range(5):
        steady(text)
    assert (time.process_time() - before) / 5 < 0.05
