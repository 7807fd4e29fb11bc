"""Configuration files: in here-documents, in the place of a value, and in ConfigMaps that a container mounts."""

import json
from typing import Any

import pytest

from tests.samples import pod, pytorchjob
from tests.unit.intake.jobs import JOB, Json, changed, container, edit_of, job, read, template
from webhook.answer.wording import own_sentence
from webhook.intake.batch import read_batch, sightings
from webhook.intake.commands import invocations
from webhook.intake.config_files import MOST_BYTES, Files, mounted_config_maps
from webhook.intake.environment import Environment
from webhook.intake.evidence import evidence
from webhook.intake.read import read_job
from webhook.intake.references import references
from webhook.intake.settings import read_told, trainers_told
from webhook.intake.words import Budget
from webhook.model.job import TrainingJob
from webhook.model.policy import Policy
from webhook.model.request import Kind, User
from webhook.model.surroundings import Reference

HF = ("--per_device_train_batch_size", "1", "--optim", "adamw_torch")
AT = ("spec", "containers", 0)
DEEPSPEED = {
    "train_micro_batch_size_per_gpu": 16,
    "gradient_accumulation_steps": 2,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
}
ACCELERATE = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 4
num_processes: 32
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_offload_params: true
  fsdp_activation_checkpointing: true
"""


class Seen:
    """What one container says, with these files in ConfigMaps: {name: {key: text}}, each mounted at /name."""

    def __init__(self, *command: str, maps: dict[str, dict[str, str]] | None = None, **fields: Json) -> None:
        maps = maps or {}
        volumes = [{"name": name, "configMap": {"name": name}} for name in maps]
        mounts = [{"name": name, "mountPath": f"/{name}"} for name in maps]
        one = {**container(*command), "volumeMounts": mounts, **fields.pop("container", {})}
        pod = template(one, **{"volumes": volumes, **fields})["spec"]
        surroundings = {
            Reference(Kind("", "", "ConfigMap"), "team-a", name): {"data": data} for name, data in maps.items()
        }
        budget = Budget()
        environment = Environment(one, AT, budget)
        files = Files.of(pod, one, namespace="team-a", budget=budget, surroundings=surroundings)
        programs = invocations(one, AT, environment, budget, files)
        self.told = read_told([told for _, told in trainers_told(programs, AT)])
        self.batch = read_batch(sightings(programs, environment, AT), None, lambda: self.told, devices=16)[0]
        self.evidence = evidence(programs, environment)
        self.faults = files.faults

    @property
    def settings(self) -> dict[str, str]:
        return {name: said.value for name, said in self.told.settings.items()} if self.told else {}

    @property
    def unread(self) -> list[str]:
        return [said.name for said in self.told.unread] if self.told else []

    @property
    def micro(self) -> int | None:
        return self.batch.micro.value if self.batch.micro else None


def test_a_deepspeed_file_tells_batch_sharding_offload_and_precision() -> None:
    maps = {"ds": {"z3.json": json.dumps(DEEPSPEED)}}
    seen = Seen(
        "deepspeed",
        "t.py",
        *HF,
        "--fsdp_config",
        "x",
        "--deepspeed",
        "/ds/z3.json",
        maps=maps,
    )
    assert seen.micro == 1  # as Hugging Face refuses a file that says otherwise than its flags
    assert seen.batch.accumulation is not None
    assert seen.batch.accumulation.value == 2
    wanted = {"parallel": "zero3", "offload": "optimizer", "precision": "mixed", "optimizer": "adamw"}
    assert wanted.items() <= seen.settings.items()
    assert seen.unread == ["--fsdp_config"]
    alone = Seen("deepspeed", "t.py", "--deepspeed", "/ds/z3.json", maps=maps).batch.micro
    assert alone is not None
    assert (alone.value, alone.name) == (16, "train_micro_batch_size_per_gpu")
    assert alone.field == "ConfigMap team-a/ds, z3.json"


def test_what_a_deepspeed_file_leaves_to_flags_is_theirs() -> None:
    auto = {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}
    seen = Seen("torchrun", "t.py", *HF, "--bf16", "--deepspeed", json.dumps(auto))
    assert seen.micro == 1
    assert (seen.settings["parallel"], seen.settings["precision"], seen.unread) == ("zero2", "bf16", [])


def test_a_global_batch_that_stands_alone_is_divided_by_the_data_parallel_size() -> None:
    config = {"train_batch_size": 512, "gradient_accumulation_steps": 4}
    seen = Seen("deepspeed", "t.py", "--deepspeed_config", json.dumps(config))
    micro = seen.batch.micro
    assert micro is not None
    assert (micro.value, micro.share_of, micro.name) == (8, 512, "train_batch_size")
    edit = micro.edit()
    assert edit is not None
    assert edit.path is None


def test_a_file_that_a_script_writes_is_read_and_changed_in_place() -> None:
    script = (
        'B=16\ncat > ds.json <<EOF\n{\n  "train_micro_batch_size_per_gpu": 32,\n'
        '  "gradient_accumulation_steps": $B\n}\nEOF\ndeepspeed t.py --deepspeed_config ds.json'
    )
    source = job(container("bash", "-c", script))
    batch = read(source).batch
    assert batch.micro is not None
    assert batch.accumulation is not None
    assert (batch.micro.value, batch.accumulation.value) == (32, 16)
    after = changed(source, (edit_of(batch.micro), 8), (batch.accumulation_edit(), 64))
    written = after["spec"]["template"]["spec"]["containers"][0]["command"][-1]
    assert written == script.replace("32,", "8,").replace("B=16", "B=64")


def test_a_value_in_the_place_of_a_file_is_changed_in_place() -> None:
    env = [{"name": "DS", "value": '{"train_micro_batch_size_per_gpu": 32}'}]
    source = job(container("deepspeed", "t.py", "--deepspeed_config=$(DS)", env=env))
    after = changed(source, (edit_of(read(source).batch.micro), 8))
    assert (
        after["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] == '{"train_micro_batch_size_per_gpu": 8}'
    )


DS = '{"train_micro_batch_size_per_gpu": 7}'


@pytest.mark.parametrize(
    ("script", "micro"),
    [
        (f"cat <<'EOF' > ds.json\n{DS}\nEOF\n@ ds.json", 7),
        (f"cat >ds.json <<-EOF\n\t{DS}\n\tEOF\n@ ./ds.json", 7),
        (f"cd /w && cat <<EOF | tee ds.json\n{DS}\nEOF\n@ /w/ds.json", 7),
        (f"tee /w/ds.json <<EOF >/dev/null\n{DS}\nEOF\ncd /w\n@ ds.json", 7),
        (f"echo '{DS}' > /tmp/ds.json; @ /tmp/ds.json", 7),
        (f"printf '%s' '{DS}' > ds.json; @ ds.json", 7),
        ("echo '{' > a; echo '\"train_micro_batch_size_per_gpu\": 7 }' >> a; @ a", 7),
        (f"echo '{DS}' > a && cp a /w/b.json && @ /w/b.json", 7),
        (f"echo '{DS}' > a && cat a > b; @ b", 7),
        (f"E=; $E > b; $E | tee c; echo '{DS}' > a; @ a", 7),
        (f"echo '{DS}' > a; sed -i s/7/9/ a; @ a", None),
        (f"if [ -n x ]; then echo '{DS}' > a; fi; @ a", None),
        (f"echo '{DS}' > a; [ -n x ] && echo > a; @ a", None),
        (f"echo '{DS}' > a; ./change > a; @ a", None),
        (f"echo '{DS}' > a; cd /w; @ a", None),
        (f"echo '{DS}' 2> a; @ a", None),
        ('cat <<EOF > a\n{"train_micro_batch_size_per_gpu": $(nproc)}\nEOF\n@ a', None),
        (f"bash <<'EOF'\necho '{DS}' > a\n@ a\nEOF", 7),
        (f"cat > run.sh <<'EOF'\n@ \"$1\"\nEOF\necho '{DS}' > a; bash run.sh a", 7),
        (f"cat > run.sh <<'EOF'\n@ a\nEOF\necho '{DS}' > a; chmod +x run.sh; ./run.sh", 7),
    ],
)
def test_files_of_a_script_are_followed_as_far_as_they_are_known(script: str, micro: int | None) -> None:
    assert Seen("bash", "-c", script.replace("@", "deepspeed t.py --deepspeed_config")).micro == micro


def test_a_script_in_a_config_map_is_read() -> None:
    scripts = {"train.sh": '#!/bin/bash\ntorchrun t.py --per_device_train_batch_size "$1"\n'}
    for command in (
        ("bash", "/scripts/train.sh", "8"),
        ("/scripts/train.sh", "8"),
        ("sh", "-c", "/scripts/train.sh 8"),
    ):
        assert Seen(*command, maps={"scripts": scripts}).micro == 8


def test_an_accelerate_file_tells_nodes_processes_and_sharding() -> None:
    files = {"c": {"fsdp.yaml": ACCELERATE}}
    seen = Seen("accelerate", "launch", "--config_file", "/c/fsdp.yaml", "t.py", *HF, maps=files)
    (launch,) = seen.evidence
    assert (launch.because, launch.spans(8)) == ("accelerate launch num_machines=4", True)
    wanted = {"parallel": "fsdp", "precision": "bf16", "offload": "all", "checkpointing": "full"}
    assert wanted.items() <= seen.settings.items()
    assert seen.unread == []


def test_a_flag_of_the_launcher_outranks_its_file() -> None:
    files = {"c": {"fsdp.yaml": ACCELERATE}}
    flags = (
        "--config_file=/c/fsdp.yaml",
        "--num_machines",
        "2",
        "--fsdp_offload_params",
        "false",
        "--mixed_precision",
        "fp16",
    )
    seen = Seen("accelerate", "launch", *flags, "t.py", *HF, maps=files)
    assert seen.evidence[0].because == "accelerate launch --num_machines=2"
    assert seen.settings["precision"] == "fp16"


def test_a_file_may_name_another() -> None:
    accelerate = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: /c/ds.json\n"
    files = {"c": {"a.yaml": accelerate, "ds.json": json.dumps(DEEPSPEED)}}
    seen = Seen("accelerate", "launch", "--config_file", "/c/a.yaml", "t.py", *HF, maps=files)
    assert (seen.settings["parallel"], seen.unread) == ("zero3", [])
    alone = Seen("accelerate", "launch", "--config_file", "/c/a.yaml", "t.py", maps=files)
    assert (alone.micro, alone.batch.accumulation and alone.batch.accumulation.value) == (16, 2)


OWN: dict[str, tuple[tuple[str, ...], str, int, dict[str, str]]] = {
    "axolotl": (
        ("axolotl", "train", "/c/f.yaml"),
        (
            "base_model: m/x-8b\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nsequence_len: 4096\n"
            "adapter: qlora\nload_in_4bit: true\nfsdp_config:\n  offload_params: true\n"
        ),
        2,
        {
            "model": "m/x-8b",
            "maxSeqLen": "4096",
            "method": "qlora",
            "quantized": "nf4",
            "parallel": "fsdp",
            "offload": "all",
        },
    ),
    "LLaMA-Factory": (
        ("llamafactory-cli", "train", "/c/f.yaml", "cutoff_len=1024"),
        (
            "model_name_or_path: m/x-8b\nstage: sft\nfinetuning_type: full\ncutoff_len: 2048\nbf16: true\n"
            "per_device_train_batch_size: 3\ndeepspeed: {zero_optimization: {stage: 3}}\n"
        ),
        3,
        {"model": "m/x-8b", "method": "full", "maxSeqLen": "1024", "precision": "bf16", "parallel": "zero3"},
    ),
    "torchtitan": (
        ("torchrun", "-m", "torchtitan.train", "--job.config_file", "/c/f.toml", "--training.seq_len", "8192"),
        (
            "[model]\nname = 'llama3'\n[training]\nlocal_batch_size = 5\nseq_len = 4096\n"
            "[parallelism]\ntensor_parallel_degree = 2\n[activation_checkpoint]\nmode = 'full'\n"
        ),
        5,
        {"model": "llama3", "seqLen": "8192", "tensorParallel": "2", "checkpointing": "full"},
    ),
    "torchtune": (
        ("tune", "run", "--nproc_per_node", "8", "full_finetune_distributed", "--config", "/c/f.yaml", "batch_size=6"),
        (
            "batch_size: 4\ngradient_accumulation_steps: 2\ndtype: bf16\nenable_activation_checkpointing: True\n"
            "model:\n  _component_: torchtune.models.x\ntokenizer:\n  max_seq_len: 512\n"
            "optimizer:\n  _component_: torch.optim.AdamW\n"
        ),
        6,
        {"precision": "pure", "checkpointing": "full", "maxSeqLen": "512", "optimizer": "adamw", "method": "full"},
    ),
    "litgpt": (
        ("litgpt", "finetune_lora", "m/x", "--config", "/c/f.yaml"),
        "precision: bf16-true\nlora_r: 16\ntrain:\n  micro_batch_size: 1\n  max_seq_length: 256\n",
        1,
        {"precision": "pure", "adapterRank": "16", "maxSeqLen": "256"},
    ),
    "NeMo": (
        ("python", "megatron_gpt_finetuning.py", "--config-name", "/c/f.yaml", "++model.micro_batch_size=9"),
        (
            "trainer:\n  precision: bf16\nmodel:\n  micro_batch_size: 1\n  tensor_model_parallel_size: 4\n"
            "  pipeline_model_parallel_size: 2\n"
        ),
        9,
        {"precision": "mixed", "tensorParallel": "4", "pipelineParallel": "2"},
    ),
    "a script that parses with Hugging Face": (
        ("accelerate", "launch", "sft.py", "--config", "/c/f.yaml"),
        (
            "model_name_or_path: m/x-8b\nper_device_train_batch_size: 4\nlearning_rate: 1e-5\noptim: adamw_torch\n"
            "gradient_checkpointing: true\n"
        ),
        4,
        {"model": "m/x-8b", "optimizer": "adamw", "checkpointing": "full"},
    ),
    "the same, as an argument": (
        ("accelerate", "launch", "sft.py", "/c/f.yaml", "--bf16"),
        "per_device_train_batch_size: 4\nlearning_rate: 1e-5\noptim: adamw_torch\n",
        4,
        {"precision": "bf16", "optimizer": "adamw"},
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_a_file_of_the_trainers_own_flags_is_read(name: str) -> None:
    command, text, micro, settings = OWN[name]
    seen = Seen(*command, maps={"c": {"f.yaml": text, "f.toml": text}})
    assert seen.told is not None
    assert seen.told.trains
    assert (seen.micro, seen.unread, seen.faults) == (micro, [], ())
    assert settings.items() <= seen.settings.items()


@pytest.mark.parametrize("name", OWN)
def test_a_file_that_is_named_and_not_in_view_stays_unread(name: str) -> None:
    command, *_ = OWN[name]
    told = Seen(*command).told
    assert told is None or told.unread


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("ds.json", '{"a": 1,\n "b" 2, "c"}', "line 2"),
        ("ds.json", '["a"]', "expected a map"),
        ("ds.yaml", "a: [1\nb: 2", "line 2"),
        ("ds.yaml", "a: 1\na: 2", 'key "a" comes twice'),
        ("ds.yaml", "{{ .Values.x }}: 1", "template"),
        ("ds.toml", "[a\nb = 1", "line 1"),
        ("ds.json", '{"a":' * 3000, ""),
        ("ds.yaml", "[" * 3000, "depth"),
        ("ds.toml", "a" + ".b" * 40 + " = 1", "parts"),
    ],
)
def test_a_malformed_file_is_told_with_its_place(name: str, text: str, place: str) -> None:
    seen = Seen("torchrun", "t.py", *HF, "--deepspeed", f"/c/{name}", maps={"c": {name: text}})
    (finding,) = seen.faults
    assert (finding.code, finding.where) == ("SST101", f"ConfigMap team-a/c, {name}")
    told = own_sentence(finding)
    assert told.startswith(f"/c/{name} (ConfigMap team-a/c, {name}) cannot be read: ")
    assert place in told
    assert (seen.settings["parallel"], seen.unread) == ("elsewhere", ["--deepspeed"])


@pytest.mark.parametrize(
    ("volume", "mount", "path", "there"),
    [
        ({"configMap": {"name": "c"}}, {"mountPath": "/m"}, "/m/ds.json", True),
        ({"configMap": {"name": "c"}}, {"mountPath": "/m/"}, "/m/../m/ds.json", True),
        ({"configMap": {"name": "c"}}, {"mountPath": "/m/x.json", "subPath": "ds.json"}, "/m/x.json", True),
        ({"configMap": {"name": "c"}}, {"mountPath": "/m/x.json", "subPath": "other.json"}, "/m/x.json", False),
        (
            {"configMap": {"name": "c", "items": [{"key": "ds.json", "path": "a/b.json"}]}},
            {"mountPath": "/m"},
            "/m/a/b.json",
            True,
        ),
        (
            {"configMap": {"name": "c", "items": [{"key": "x", "path": "ds.json"}]}},
            {"mountPath": "/m"},
            "/m/ds.json",
            False,
        ),
        (
            {"projected": {"sources": [{"secret": {}}, {"configMap": {"name": "c"}}]}},
            {"mountPath": "/m"},
            "/m/ds.json",
            True,
        ),
        ({"configMap": {"name": "other"}}, {"mountPath": "/m"}, "/m/ds.json", False),
        ({"secret": {"secretName": "c"}}, {"mountPath": "/m"}, "/m/ds.json", False),
        ({"configMap": 3}, {"mountPath": "/m"}, "/m/ds.json", False),
        ({"configMap": {"name": "c", "items": 3}}, {"mountPath": None}, "/m/ds.json", False),
    ],
)
def test_a_config_map_is_where_it_is_mounted(volume: Json, mount: Json, path: str, there: bool) -> None:
    seen = Seen(
        "deepspeed",
        "t.py",
        "--deepspeed_config",
        path,
        maps={"c": {"ds.json": DS}},
        container={"volumeMounts": [{"name": "v", **mount}]},
        volumes=[{"name": "v", **volume}],
    )
    assert (seen.micro == 7) is there


def test_a_relative_path_starts_in_the_working_directory() -> None:
    for directory, micro in (("/c", 7), ("/elsewhere", None)):
        seen = Seen(
            "deepspeed",
            "t.py",
            "--deepspeed_config=ds.json",
            maps={"c": {"ds.json": DS}},
            container={"workingDir": directory},
        )
        assert seen.micro == micro


def test_config_maps_beyond_the_bounds_are_not_read() -> None:
    many = {f"c{n}": {"ds.json": DS} for n in range(4)}
    read = [Seen("deepspeed", "t.py", "--deepspeed_config", f"/c{n}/ds.json", maps=many).micro for n in range(4)]
    assert read == [7, 7, 7, None]
    large = {"c": {"a": "x" * MOST_BYTES, "ds.json": DS}}
    assert Seen("deepspeed", "t.py", "--deepspeed_config", "/c/ds.json", maps=large).micro is None


def test_config_maps_that_device_containers_mount_are_listed() -> None:
    def mounting(name: str, gpus: object) -> dict[str, Any]:
        return {**container("x", gpus=gpus), "volumeMounts": [{"name": name, "mountPath": "/m"}]}

    sources = [{"configMap": {"name": "two"}}, {"configMap": {"name": "one"}}]
    volumes = [
        {"name": "a", "configMap": {"name": "one"}},
        {"name": "b", "projected": {"sources": sources}},
        {"name": "c", "configMap": {"name": "three"}},
    ]
    pod = template(mounting("a", 1), mounting("b", 1), mounting("c", None), volumes=volumes)["spec"]
    assert [one.name for one in mounted_config_maps(pod, "team-a")] == ["one", "two"]
    assert {(one.kind.kind, one.kind.version, one.namespace) for one in mounted_config_maps(pod, "team-a")} == {
        ("ConfigMap", "", "team-a")
    }
    helper = template(mounting("c", None), volumes=volumes)["spec"]
    assert [one.name for one in mounted_config_maps(helper, "team-a")] == ["three"]


@pytest.mark.parametrize(
    "pod",
    [{}, {"containers": 3}, {"containers": [3, {"volumeMounts": [3, {"name": []}]}], "volumes": [3, {"name": {}}]}],
)
def test_a_pod_of_any_shape_mounts_nothing(pod: Json) -> None:
    assert mounted_config_maps(pod, "team-a") == ()


def test_a_bomb_of_aliases_is_read_in_time() -> None:
    lines = [f"a{n}: &a{n} {{b: *a{n - 1} , c: *a{n - 1} , d: *a{n - 1} }}" for n in range(1, 40)]
    seen = Seen(
        "torchrun", "t.py", *HF, "--deepspeed", "/c/f.yaml", maps={"c": {"f.yaml": "\n".join(["a0: &a0 [x]", *lines])}}
    )
    assert seen.settings["parallel"] == "ddp"


def test_here_documents_of_a_job_are_read_without_any_surroundings() -> None:
    script = f"cat > ds.json <<EOF\n{DS}\nEOF\ndeepspeed t.py --deepspeed_config ds.json"
    micro = read(job(container("sh", "-c", script)), JOB).batch.micro
    assert micro is not None
    assert (micro.value, micro.field) == (7, "spec.template.spec.containers[0].command[2]")


def test_files_in_config_maps_are_read_where_policy_lets_them_and_not_where_it_does_not() -> None:
    spec = pod(
        gpus=8,
        command=["deepspeed", "train.py", "--deepspeed_config", "/etc/ds/ds.json"],
        volumes=[{"name": "ds", "configMap": {"name": "ds"}}],
    )
    spec["containers"][0]["volumeMounts"] = [{"name": "ds", "mountPath": "/etc/ds"}]
    obj = pytorchjob(spec)
    kind = Kind("kubeflow.org", "v1", "PyTorchJob")
    reference = Reference(Kind("", "", "ConfigMap"), "team-a", "ds")
    surroundings = {reference: {"data": {"ds.json": json.dumps(DEEPSPEED)}}}
    batches = []
    for allowed in (True, False):
        found = read_job(
            obj, kind=kind, namespace="team-a", user=User(), surroundings=surroundings, config_maps=allowed
        )
        assert isinstance(found, TrainingJob)
        batches.append(found.batch.micro.value if found.batch.micro else None)
    assert batches == [16, None]
    assert references(obj, kind, "team-a", Policy(config_maps=True)) == (reference,)
    assert references(obj, kind, "team-a", Policy()) == ()


def test_a_file_that_the_script_writes_and_nobody_can_parse_is_told() -> None:
    script = (
        'cat <<EOF > ds.json\n{"train_micro_batch_size_per_gpu": \nEOF\ndeepspeed train.py --deepspeed_config ds.json'
    )
    obj = pytorchjob(pod(gpus=8, command=["bash", "-c", script]))
    found = read_job(obj, kind=Kind("kubeflow.org", "v1", "PyTorchJob"), namespace="team-a", user=User())
    assert isinstance(found, TrainingJob)
    (fault,) = (one for one in found.findings if one.code == "SST101")
    assert "ds.json" in own_sentence(fault)
