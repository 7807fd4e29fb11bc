from collections.abc import Iterable, Mapping
from importlib.resources import files

import pytest
import yaml
from pydantic import ValidationError

from webhook.catalog.flags import Means
from webhook.catalog.launchers import launchers, read_launchers
from webhook.model.job import Remedy
from webhook.sizing.training import Attention, Checkpointing, Loss, Method, Offload, Optimizer, Parallel, Precision

FILE = """
wrappers: [{programs: [env], takes: [-u]}]
launchers: [{name: run, programs: [run], others: 1, nodes: [--n-nodes], spelling: Both, source: a test}]
rendezvous: {nodes: [N], perNode: [P], total: [T], address: [A], local: [localhost], source: a test}
trainers: [{name: one, microBatch: [--size], accumulation: [--steps], source: a test}]
environment: {microBatch: [MICRO], uncertain: [SIZE], accumulation: [STEPS], globalBatch: [ALL], source: a test}
"""


def test_launchers_are_found_by_program_and_by_module() -> None:
    known = launchers()
    assert known.programs["torchrun"] is known.modules["torch.distributed.run"]
    assert known.programs["accelerate"].subcommand == "launch"
    assert "train.py" not in known.programs


def test_a_parser_that_takes_both_spellings_has_both() -> None:
    torchrun = launchers().programs["torchrun"]
    assert torchrun.means["--nproc-per-node"] is torchrun.means["--nproc_per_node"] is Means.PER_NODE
    assert launchers().flags["--micro-batch-size"].means is Means.MICRO_BATCH
    assert "--micro_batch_size" not in launchers().flags


def test_how_many_values_an_option_has_is_known() -> None:
    torchrun, mpirun = launchers().programs["torchrun"], launchers().programs["mpirun"]
    assert (torchrun.values["--standalone"], torchrun.values["--nnodes"], torchrun.others) == (0, 1, 1)
    assert (mpirun.values["--mca"], mpirun.values["-x"], mpirun.others) == (2, 1, 0)


def test_flags_of_one_program_go_before_all_others() -> None:
    known = launchers()
    assert known.flags["batch_size="].certain is False
    assert known.flags_of["tune run"]["batch_size="].certain is True
    assert "--per_device_train_batch_size" in known.flags_of["tune run"]


def test_accumulation_is_spelled_as_the_trainer_does() -> None:
    known = launchers()
    assert known.flags["--per_device_train_batch_size"].accumulation_flag == "--gradient_accumulation_steps"
    assert known.flags["--batch-size"].accumulation_flag == ""


def test_every_entry_names_its_source() -> None:
    text = files("webhook.catalog").joinpath("launchers.yaml").read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    entries = [*content["launchers"], *content["trainers"], content["rendezvous"], content["environment"]]
    configs = yaml.safe_load(files("webhook.catalog").joinpath("configs.yaml").read_text(encoding="utf-8"))
    assert all(entry["source"] for entry in [*entries, *content["strategies"], *configs])


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("others: 1", "others: 2", "others"),
        ("others: 1", "others: 1, switchs: [x]", "switchs"),
        ("microBatch: [--size]", "microBatch: []", "microBatch"),
        ("takes: [-u]", "takes: -u", "takes"),
    ],
)
def test_a_bad_entry_is_named(before: str, after: str, named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        read_launchers(FILE.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("nodes: [--n-nodes]", "nodes: [--n-nodes], total: [--n_nodes]", "--n_nodes|--n-nodes"),
        ("programs: [env]", "programs: [env, env]", "env"),
        ("accumulation: [--steps]", "accumulation: [--size]", "--size"),
    ],
)
def test_what_two_entries_claim_is_named(before: str, after: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read_launchers(FILE.replace(before, after))


def test_a_trainer_is_known_by_flags_that_no_other_family_has() -> None:
    trainers = launchers().trainers
    assert trainers.known_by["--fsdp"] == "Hugging Face Trainer"
    assert trainers.families[trainers.known_by["--finetuning_type"]] == "Hugging Face Trainer"
    shared = "trainers: [{name: two, microBatch: [--two], knownBy: [--size], source: a test}, "
    with pytest.raises(ValueError, match="--size: two is not known by it, one has it too"):
        read_launchers(FILE.replace("trainers: [", shared))


def test_a_family_has_the_flags_of_the_one_that_it_extends() -> None:
    parsers = launchers().trainers.parsers
    base, special = parsers["Hugging Face Trainer"], parsers["LLaMA-Factory"]
    assert base.says.items() <= special.says.items()
    assert "--finetuning-type" in special.says
    assert "--per_device_train_batch_size" in special.training
    with pytest.raises(ValueError, match="one: there is no 'two' to extend"):
        read_launchers(FILE.replace("name: one", "name: one, extends: two"))


def test_what_a_remedy_writes_is_read_by_the_same_parser() -> None:
    known = launchers()
    parsers = [*known.trainers.parsers.values(), *known.launcher_settings.values(), *known.formats.values()]
    says = {
        Remedy.RECOMPUTE: {"full", "selective"},
        Remedy.SHARD: {"zero1", "zero2", "zero3", "fsdp", ""},
        Remedy.ADAPTERS: {"lora"},
    }
    seen = set()
    for parser in parsers:
        for remedy, turns in parser.remedies.items():
            first = turns[0]
            table = parser.says[first.flags[0]]
            assert not isinstance(table, str)
            for word in (one for words in first.words.values() for one in words):
                written = [table[known_as] for one in word.split() or ["true"] if (known_as := _as_in(table, one))]
                assert {one[1] if one else "" for one in written} & says[remedy], (parser.name, first.flags[0], word)
                seen.add((parser.name, remedy))
    assert {remedy for _, remedy in seen} == set(Remedy)
    assert known.trainers.parsers["LLaMA-Factory"].remedies[Remedy.SHARD]


def _as_in(table: Mapping[str, object], word: str) -> str:
    return word if word in table else word.casefold()


def test_a_remedy_that_nobody_knows_is_named() -> None:
    with pytest.raises(ValidationError, match="remedies"):
        read_launchers(FILE.replace("name: one", "name: one, remedies: {pray: {--size: {a: b}}}"))


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("method", Method),
        ("optimizer", Optimizer),
        ("checkpointing", Checkpointing),
        ("attention", Attention),
        ("offload", Offload),
        ("loss", Loss),
        ("precision", [*Precision, "bf16", "fp16", "any"]),
        ("parallel", [*Parallel, "hybrid", "elsewhere"]),
    ],
)
def test_every_value_of_a_setting_is_one_that_the_estimate_knows(setting: str, values: Iterable[str]) -> None:
    known = launchers()
    parsers = [*known.trainers.parsers.values(), *known.launcher_settings.values(), *known.formats.values()]
    assigned = [
        one for parser in parsers for says in parser.says.values() if not isinstance(says, str) for one in says.values()
    ]
    assigned += [one for parser in parsers for one in parser.config_files.values()]
    implied = [*(parser.implies for parser in parsers), *known.trainers.defaults.values()]
    implied += [also for _, also in known.trainers.started_by.values()]
    found = {value for name, value in (one for one in assigned if one) if name == setting}
    found |= {one[setting] for one in implied if setting in one}
    assert found
    assert found <= set(values)


def test_what_a_file_holds_is_a_format_or_the_trainers_own_flags() -> None:
    known = launchers()
    assert known.holds["--deepspeed_config"] == "DeepSpeed"
    assert "--config" not in known.holds
    assert known.launcher_settings["accelerate launch"].holds["--config_file"] == "accelerate"
    configs = "[{name: form, sharedBatch: [all], settings: {a.b: {x: method=full}}, source: a test}]"
    read = read_launchers(FILE.replace("name: one", "name: one, holds: {--file: form, --own: Flags}"), configs)
    assert (read.holds, read.formats["form"].says["a.b"]) == ({"--file": "form"}, {"x": ("method", "full")})
    assert read.formats["form"].batch["all"].shared
    with pytest.raises(ValueError, match="--file: there is no format 'other'"):
        read_launchers(FILE.replace("name: one", "name: one, holds: {--file: other}"), configs)
    twice = "trainers: [{name: two, holds: {--file: other}, source: a test}, "
    both = FILE.replace("name: one", "name: one, holds: {--file: form}").replace("trainers: [", twice)
    with pytest.raises(ValueError, match="--file: holds 'form' and 'other'"):
        read_launchers(both, configs.replace("[{", "[{name: other, source: a test}, {"))


def test_flags_that_need_another_beside_them_count_for_nobody_else() -> None:
    known = launchers()
    assert known.flags["--batch-size"].by_launcher
    assert known.flags_where["--imgsz"]["--batch-size"].shared
    assert known.flags_of["yolo"]["batch="].shared
    assert "batch=" not in known.flags


def test_a_strategy_is_meant_by_a_value_or_the_beginning_of_one() -> None:
    (lightning, *_) = launchers().strategies["--trainer.strategy"]
    assert [value for value in ("fsdp", "deepspeed_stage_3", "auto", "") if lightning.is_meant_by(value)] == [
        "fsdp",
        "deepspeed_stage_3",
    ]
    (size, *_) = launchers().strategies["--tensor-model-parallel-size"]
    assert [value for value in ("8", "1", "false", "") if size.is_meant_by(value)] == ["8"]
