import pytest

from tests.unit.intake.jobs import PYTORCH_JOB, Json, annotated, changed, container, edit_of, job, pytorch_job, read
from webhook.model.job import Batch

HF = "--per_device_train_batch_size"
STEPS = "--gradient_accumulation_steps"


def batch(*command: str, **fields: Json) -> Batch:
    return read(job(container(*command, **fields))).batch


@pytest.mark.parametrize(
    ("command", "value", "certain"),
    [
        (("torchrun", "t.py", HF, "8"), 8, True),
        (("torchrun", "t.py", f"{HF}=8"), 8, True),
        (("torchrun", "t.py", "--per-device-train-batch-size=8"), 8, True),
        (("python", "-u", "run.py", "--per_gpu_train_batch_size", "4"), 4, True),
        (("deepspeed", "t.py", "--train_micro_batch_size_per_gpu", "2"), 2, True),
        (("torchrun", "pretrain_gpt.py", "--micro-batch-size", "4", "--global-batch-size", "512"), 4, True),
        (("torchrun", "-m", "torchtitan.train", "--training.local_batch_size", "3"), 3, True),
        (("litgpt", "pretrain", "x", "--train.micro_batch_size=6"), 6, True),
        (("python", "megatron_gpt.py", "model.micro_batch_size=2"), 2, True),
        (("python", "megatron_gpt.py", "++model.micro_batch_size=2"), 2, True),
        (("tune", "run", "--nproc_per_node", "8", "full_finetune_distributed", "batch_size=2"), 2, True),
        (("axolotl", "train", "c.yml", "--micro-batch-size", "7"), 7, True),
        (("python", "-m", "axolotl.cli.train", "c.yml", "--micro_batch_size=7"), 7, True),
        (("python", "t.py", "--batch-size", "32"), 32, False),
        (("python", "t.py", "--batch_size=32"), 32, False),
        (("python", "t.py", "--batch", "32"), 32, False),
        (("python", "t.py", "batch_size=32"), 32, False),
        (("python", "t.py", "--batch-size", "32", HF, "8", "--batch-size", "64"), 8, True),
        (("torchrun", "t.py", HF, "8", f"{HF}=16"), 16, True),
        (("torchrun", "t.py", HF, "0016"), 16, True),
        (("/opt/conda/bin/python3.11", "-W", "ignore", "-m", "torch.distributed.run", "t.py", HF, "9"), 9, True),
        (
            (
                "env",
                "-u",
                "X",
                "A=1",
                "nohup",
                "timeout",
                "-k",
                "5",
                "3600",
                "nice",
                "-n",
                "5",
                "torchrun",
                "t.py",
                HF,
                "9",
            ),
            9,
            True,
        ),
        (("conda", "run", "-n", "ml", "python", "t.py", HF, "9"), 9, True),
    ],
)
def test_flags_are_read_as_their_parsers_take_them(command: tuple[str, ...], value: int, certain: bool) -> None:
    micro = batch(*command).micro
    assert micro is not None
    assert (micro.value, micro.certain) == (value, certain)


@pytest.mark.parametrize(
    "command",
    [
        ("torchrun", "t.py", HF, "auto"),
        ("torchrun", "t.py", HF, "8", HF, "auto"),
        ("torchrun", "t.py", HF, "0"),
        ("torchrun", "t.py", HF, "-8"),
        ("torchrun", "t.py", HF, "1e9999"),
        ("torchrun", "t.py", HF, "2147483649"),
        ("torchrun", "t.py", HF, "9" * 5000),
        ("torchrun", "t.py", HF, "٣"),
        ("torchrun", "t.py", f"{HF}="),
        ("torchrun", "t.py", HF),
        ("torchrun", "t.py", "--Per_Device_Train_Batch_Size", "8"),
        ("python", "t.py", "--micro_batch_size", "8"),
        ("torchrun", HF, "8"),
        ("python", "-c", "print(1)"),
        ("bash", "train.sh"),
        (),
    ],
)
def test_what_is_no_positive_number_of_a_known_flag_is_not_a_reading(command: tuple[str, ...]) -> None:
    assert batch(*command) == Batch()


def test_where_it_was_read_is_told() -> None:
    micro = batch("torchrun", "t.py", args=[HF, "8"]).micro
    assert micro is not None
    assert (micro.field, micro.name) == ("spec.template.spec.containers[0].args[1]", HF)


def test_a_reference_to_the_environment_is_changed_where_its_value_stands() -> None:
    env = [{"name": "SIZE", "value": "32"}, {"name": "FLAG", "value": "x=$(SIZE)"}]
    source = job(container("torchrun", "t.py", f"{HF}=$(SIZE)", "$$(SIZE)", "$(NONE)", env=env))
    micro = read(source).batch.micro
    assert micro is not None
    edit = micro.edit()
    assert edit is not None
    assert (micro.value, micro.field) == (32, "spec.template.spec.containers[0].env[0].value")
    assert (edit.flag, edit.sign) == ("SIZE", "=")
    after = changed(source, (edit, 16), (read(source).batch.accumulation_edit(), 2))
    assert after["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] == "16"
    assert after["spec"]["template"]["spec"]["containers"][0]["command"] == [
        "torchrun",
        "t.py",
        f"{HF}=$(SIZE)",
        f"{STEPS}=2",
        "$$(SIZE)",
        "$(NONE)",
    ]


def test_a_reference_whose_value_comes_from_elsewhere_is_not_read() -> None:
    env = [{"name": "SIZE", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]
    assert batch("torchrun", "t.py", f"{HF}=$(SIZE)", env=env).micro is None
    assert batch("sh", "-c", f"torchrun t.py {HF} $SIZE", env=env).micro is None


@pytest.mark.parametrize(
    ("name", "certain"), [("PER_DEVICE_TRAIN_BATCH_SIZE", True), ("MICRO_BATCH_SIZE", True), ("BATCH_SIZE", False)]
)
def test_variables_whose_name_says_so_are_read_where_no_flag_is(name: str, certain: bool) -> None:
    env = [{"name": name, "value": "12"}, {"name": "GRADIENT_ACCUMULATION_STEPS", "value": "4"}]
    found = batch("python", "t.py", env=env)
    assert found.micro is not None
    assert found.accumulation is not None
    assert (found.micro.value, found.micro.certain, found.accumulation.value) == (12, certain, 4)
    flagged = batch("python", "t.py", HF, "3", env=env).micro
    assert flagged is not None
    assert flagged.value == 3


def test_variables_are_read_where_the_image_has_the_command() -> None:
    found = batch(env=[{"name": "MICRO_BATCH_SIZE", "value": "12"}]).micro
    assert found is not None
    assert found.value == 12


SCRIPTS = [
    (f"torchrun t.py {HF} 32", f"torchrun t.py {HF} 16 {STEPS} 2"),
    (f"torchrun t.py {HF}=32 --lr 1", f"torchrun t.py {HF}=16 {STEPS} 2 --lr 1"),
    (
        f"set -euo pipefail\ncd /w && torchrun t.py \\\n  {HF} 32 \\\n  --lr 1 | tee log; echo done",
        f"set -euo pipefail\ncd /w && torchrun t.py \\\n  {HF} 16 {STEPS} 2 \\\n  --lr 1 | tee log; echo done",
    ),
    (
        f"# torchrun t.py {HF} 64\nexec torchrun t.py {HF} '32' # {HF} 1",
        f"# torchrun t.py {HF} 64\nexec torchrun t.py {HF} '16' {STEPS} 2 # {HF} 1",
    ),
    (
        f'export B=32\ntorchrun t.py {HF} "${{B}}" >log 2>&1',
        f'export B=16\ntorchrun t.py {HF} "${{B}}" {STEPS} 2 >log 2>&1',
    ),
    (f"torchrun t.py {HF} ${{B:-32}}", f"torchrun t.py {HF} ${{B:-16}} {STEPS} 2"),
    (
        f"ARGS='--lr 1 {HF} 32'\nARGS+=' --x'\ntorchrun t.py $ARGS --y",
        f"ARGS='--lr 1 {HF} 16'\nARGS+=' {STEPS} 2 --x'\ntorchrun t.py $ARGS --y",
    ),
    (
        f'A=(--lr 1 {HF} 32\n  --x)\nA+=(--y)\ntorchrun t.py "${{A[@]}}"',
        f'A=(--lr 1 {HF} 16 {STEPS} 2\n  --x)\nA+=(--y)\ntorchrun t.py "${{A[@]}}"',
    ),
    (f"bash -c 'torchrun t.py {HF} 32'", f"bash -c 'torchrun t.py {HF} 16 {STEPS} 2'"),
    (f'bash -lc "torchrun t.py {HF} \\"32\\" --z"', f'bash -lc "torchrun t.py {HF} \\"16\\" {STEPS} 2 --z"'),
    (
        f"cat > x <<EOF\ntorchrun t.py {HF} 64\nEOF\ntorchrun t.py {HF} 32",
        f"cat > x <<EOF\ntorchrun t.py {HF} 64\nEOF\ntorchrun t.py {HF} 16 {STEPS} 2",
    ),
    (
        f"N=$(nproc); M=`ls {HF} 1`; torchrun --nproc-per-node=$N t.py {HF} 32",
        f"N=$(nproc); M=`ls {HF} 1`; torchrun --nproc-per-node=$N t.py {HF} 16 {STEPS} 2",
    ),
    (f"if [ -n x ]; then\n  torchrun t.py {HF} 32\nfi", f"if [ -n x ]; then\n  torchrun t.py {HF} 16 {STEPS} 2\nfi"),
    (f"X=1 env Y=2 time torchrun $EXTRA t.py {HF} 32", f"X=1 env Y=2 time torchrun $EXTRA t.py {HF} 16 {STEPS} 2"),
]


@pytest.mark.parametrize(("before", "after"), SCRIPTS)
def test_a_shell_script_is_read_and_changed_in_place(before: str, after: str) -> None:
    source = job(container("bash", "-euo", "pipefail", "-c", before))
    found = read(source).batch
    assert found.micro is not None
    assert (found.micro.value, found.micro.certain, found.accumulation_flag) == (32, True, STEPS)
    result = changed(source, (found.micro.edit(), 16), (found.accumulation_edit(), 2))
    assert result["spec"]["template"]["spec"]["containers"][0]["command"][-1] == after
    again = read(result).batch
    assert again.micro is not None
    assert again.accumulation is not None
    assert (again.micro.value, again.accumulation.value) == (16, 2)


@pytest.mark.parametrize(
    "script",
    [
        f"torchrun t.py {HF} $(cat size)",
        f"torchrun t.py {HF} $((4 * 8))",
        f"torchrun t.py {HF} ${{SIZE%x}}",
        f"torchrun t.py {HF} $SIZE",
        f"echo torchrun t.py > x; cat <<'EOF' | sh\ntorchrun t.py {HF} 8\nEOF",
        f'torchrun t.py "{HF} 8',
        f"B=8\nif true; then B=16; fi\ntorchrun t.py {HF} $B",
        f"for B in 8 16; do torchrun t.py {HF} $B; done",
        f"[ -z $X ] && B=8\ntorchrun t.py {HF} $B",
        f"false || B=8\ntorchrun t.py {HF} $B",
        f"torchrun t.py '{HF}' '8 9'",
        f"# torchrun t.py {HF} 8",
    ],
)
def test_what_a_script_computes_or_only_may_do_is_left_unread(script: str) -> None:
    assert batch("sh", "-c", script).micro is None


def test_arguments_behind_a_script_are_its_positional_parameters() -> None:
    source = job(container("bash", "-c", 'torchrun t.py "$@"', args=["bash", HF, "32"]))
    found = read(source).batch
    after = changed(source, (edit_of(found.micro), 8), (found.accumulation_edit(), 4))
    (trainer,) = after["spec"]["template"]["spec"]["containers"]
    assert trainer["command"][-1] == f'torchrun t.py "$@" {STEPS} 4'
    assert trainer["args"] == ["bash", HF, "8"]


def test_what_a_launcher_starts_counts_before_what_prepares_for_it() -> None:
    script = f"python prepare.py --batch-size 1000 && torchrun t.py {HF} 8"
    micro = batch("sh", "-c", script).micro
    assert micro is not None
    assert micro.value == 8


def test_accumulation_that_is_there_is_changed_in_place() -> None:
    source = job(container("torchrun", "t.py", HF, "32", f"{STEPS}=4"))
    found = read(source).batch
    assert found.accumulation is not None
    assert (found.accumulation.value, found.accumulation.edit()) == (4, found.accumulation_edit())
    after = changed(source, (edit_of(found.micro), 16), (found.accumulation_edit(), 8))
    assert after["spec"]["template"]["spec"]["containers"][0]["command"] == ["torchrun", "t.py", HF, "16", f"{STEPS}=8"]


def test_accumulation_is_not_offered_where_nobody_knows_its_flag() -> None:
    found = batch("python", "t.py", "--batch-size", "32")
    assert (found.accumulation_flag, found.accumulation_edit()) == ("", None)


def test_a_global_batch_that_the_trainer_keeps_is_read() -> None:
    total = batch("torchrun", "pretrain_gpt.py", "--micro-batch-size", "4", "--global-batch-size", "512").total
    assert total is not None
    assert total.value == 512


def test_key_value_flags_are_changed_and_put_in_as_such() -> None:
    source = job(container("tune", "run", "full_finetune_distributed", "batch_size=32", "x=1"))
    found = read(source).batch
    after = changed(source, (edit_of(found.micro), 16), (found.accumulation_edit(), 2))
    assert after["spec"]["template"]["spec"]["containers"][0]["command"] == [
        "tune",
        "run",
        "full_finetune_distributed",
        "batch_size=16",
        "gradient_accumulation_steps=2",
        "x=1",
    ]


def test_a_change_reaches_every_role_and_container() -> None:
    source = pytorch_job(container("torchrun", "t.py", HF, "64"), container("torchrun", "t.py", f"{HF}=64"), workers=3)
    found = read(source, PYTORCH_JOB)
    assert found.findings == ()
    after = changed(source, (edit_of(found.batch.micro), 32), (found.batch.accumulation_edit(), 2))
    for specs in after["spec"]["pytorchReplicaSpecs"].values():
        first, second = specs["template"]["spec"]["containers"]
        assert first["command"] == ["torchrun", "t.py", HF, "32", f"{STEPS}=2"]
        assert second["command"] == ["torchrun", "t.py", f"{HF}=32", f"{STEPS}=2"]


def test_of_containers_that_differ_the_largest_counts_and_it_is_told() -> None:
    source = pytorch_job(container("torchrun", "t.py", HF, "8"))
    source["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"][3] = "16"
    found = read(source, PYTORCH_JOB)
    where = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command[3]"
    assert found.batch.micro is not None
    assert (found.batch.micro.value, found.batch.micro.field) == (16, where)
    (finding,) = found.findings
    assert (finding.code, finding.where, finding.facts["told"]) == ("SST103", where, "16, 8")


def test_a_number_put_together_from_two_cannot_be_changed_by_a_patch() -> None:
    split = [{"name": "A", "value": "1"}, {"name": "B", "value": "6"}]
    micro = batch("torchrun", "t.py", HF, "$(A)$(B)", env=split).micro
    assert micro is not None
    edit = micro.edit()
    assert edit is not None
    assert (micro.value, edit.path) == (16, None)


def test_what_is_declared_changes_together_with_what_the_program_is_told() -> None:
    source = annotated(job(container("torchrun", "t.py", HF, "64")), micro_batch="64")
    found = read(source).batch
    after = changed(source, (edit_of(found.declared), 32))
    assert after["metadata"]["annotations"]["samestep.dev/micro-batch"] == "32"
    assert after["spec"]["template"]["spec"]["containers"][0]["command"][-1] == "32"


def test_a_declaration_that_contradicts_the_flag_is_told() -> None:
    (finding,) = read(annotated(job(container("torchrun", "t.py", HF, "64")), micro_batch="32")).findings
    assert (finding.code, finding.facts["first"], finding.facts["second"]) == ("SST103", 32, 64)


def test_only_containers_with_devices_are_read() -> None:
    sidecar = container("python", "t.py", "--batch-size", "500", gpus=None)
    micro = read(job(sidecar, container("torchrun", "t.py", HF, "8"))).batch.micro
    assert micro is not None
    assert micro.value == 8


def test_what_is_declared_is_not_changed_alone_where_no_patch_reaches_the_flag() -> None:
    split = [{"name": "A", "value": "1"}, {"name": "B", "value": "6"}]
    source = annotated(job(container("torchrun", "t.py", HF, "$(A)$(B)", env=split)), micro_batch="16")
    declared = edit_of(read(source).batch.declared)
    assert declared is not None
    assert (declared.path, declared.also) == (None, ())
