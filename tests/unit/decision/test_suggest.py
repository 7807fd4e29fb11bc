"""Ways out of a denial: which there are, in which order, and that each is a change that lets the job in."""

from copy import deepcopy
from dataclasses import replace

import jsonpatch
import pytest

from controlplane.nodes import H100, RTX_5090, RTX_PRO_6000
from tests.samples import Json, ask, fleet, job, nodes, pod, products, pytorchjob, worker
from tests.unit.intake.runtimes import in_view, node, override, patch, runtime, train_job
from webhook.answer.document import document
from webhook.answer.message import message, suggested
from webhook.decision.suggest import suggest
from webhook.model.job import PatchShape, Wishes
from webhook.model.policy import Policy
from webhook.model.request import Object
from webhook.model.verdict import Review, Verdict

PRODUCT = "nvidia.com/gpu.product"
SMALL = nodes((RTX_5090, 2, 4))
HF = ("--model_name_or_path=meta-llama/Llama-3.1-8B", "--bf16=True", "--max_seq_length=4096", "--optim=adamw_torch")
SHARDED = ("--fsdp", "full_shard auto_wrap")
RECOMPUTES = "--gradient_checkpointing=True"


def hugging_face(
    *flags: str, launcher: tuple[str, ...] = ("torchrun", "train.py"), gpus: int = 2, **given: int
) -> Json:
    return pytorchjob(pod(gpus=gpus, command=(*launcher, *HF, "--save_strategy=no", *flags)), **given)  # type: ignore[arg-type]


def kinds(outcome: Review) -> list[str]:
    return [one.kind for one in outcome.suggestions]


def told(outcome: Review) -> list[str]:
    """The suggestions as people read them."""
    return [suggested(one, outcome) for one in outcome.suggestions]


def after(outcome: Review, kind: str) -> Json:
    """The object as it is with the suggestion of this kind."""
    (one,) = (one for one in outcome.suggestions if one.kind == kind)
    changed: Json = jsonpatch.apply_patch(deepcopy(outcome.request.object), list(one.operations))
    return changed


def command(obj: Json) -> list[str]:
    found: list[str] = worker(obj)["containers"][0]["command"]
    return found


def test_the_example_of_the_design_as_an_estimate_has_its_three_ways_out_in_its_order() -> None:
    flags = ("--per_device_train_batch_size", "256", *SHARDED, RECOMPUTES)
    outcome = ask(hugging_face(*flags, workers=8), nodes((RTX_5090, 2, 8), (RTX_PRO_6000, 2, 4)))
    assert kinds(outcome) == ["batch", "replicas_half", "measured"]
    assert told(outcome)[1:] == [
        "replicas: 4 (8 GPUs, half the global batch), on RTX-PRO-6000-Blackwell-Server",
        'if you measured less: annotation samestep.dev/memory-per-device: "29Gi", on RTX-5090',
    ]


def test_recompute_is_turned_on_where_it_was_turned_off() -> None:
    flags = ("--per_device_train_batch_size=16", "--gradient_checkpointing", "False", *SHARDED)
    outcome = ask(hugging_face(*flags), SMALL)
    assert kinds(outcome) == ["batch", "recompute", "measured"]
    assert told(outcome)[1] == "--gradient_checkpointing True (activations computed again), on RTX-5090"
    changed = command(after(outcome, "recompute"))
    assert changed[changed.index("--gradient_checkpointing") + 1] == "True"


def test_with_recompute_the_batch_has_to_become_less_small() -> None:
    flags = (*SHARDED, "--attn_implementation=flash_attention_2", "--use_liger_kernel=True", "--block_size=1024")
    outcome = ask(hugging_face("--per_device_train_batch_size=256", *flags), nodes((RTX_PRO_6000, 2, 4)))
    assert kinds(outcome) == ["batch", "recompute_batch", "measured"]
    alone, together = (command(after(outcome, kind)) for kind in ("batch", "recompute_batch"))
    assert {"--per_device_train_batch_size=4", "--gradient_accumulation_steps=64"} <= set(alone)
    assert {"--per_device_train_batch_size=32", "--gradient_accumulation_steps=8"} <= set(together)
    assert together[-1] == "--gradient_checkpointing=True"


def test_recompute_of_torchtitan_is_the_least_that_fits() -> None:
    flags = ("--model.name=llama3", "--model.flavor=8B", "--training.seq_len=8192", "--activation_checkpoint.mode=none")
    spec = pod(command=("torchrun", "-m", "torchtitan.train", *flags, "--training.local_batch_size=1"))
    outcome = ask(pytorchjob(spec), SMALL)
    assert "recompute" in kinds(outcome)
    assert "--activation_checkpoint.mode=selective" in command(after(outcome, "recompute"))


def test_a_job_that_does_not_shard_is_told_the_flag_that_does() -> None:
    outcome = ask(hugging_face("--per_device_train_batch_size=4"), SMALL)
    assert kinds(outcome) == ["shard", "measured"]
    assert told(outcome)[0].startswith('--fsdp "full_shard auto_wrap" (ranks share')
    assert command(after(outcome, "shard"))[-1] == "--fsdp=full_shard auto_wrap"
    item = document(outcome, "job.yaml")["suggestions"][0]
    assert item["field"] == "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command[8]"
    assert item["value"] == "--fsdp=full_shard auto_wrap"


@pytest.mark.parametrize("script", ["set -e\n{line} # it runs\necho done", 'exec bash -c "{line}"', "{line}; sleep 1"])
def test_in_a_script_a_flag_is_put_behind_the_others_whatever_quotes_are_around(script: str) -> None:
    line = " ".join(("torchrun train.py", *HF, "--per_device_train_batch_size 4"))
    outcome = ask(pytorchjob(pod(command=("bash", "-c", script.format(line=line)))), SMALL)
    assert kinds(outcome) == ["shard", "measured"]
    whole = f"{line} --fsdp full_shard\\ auto_wrap"
    assert command(after(outcome, "shard"))[2] == script.format(line=whole)


def test_every_role_that_trains_gets_the_flag() -> None:
    obj = hugging_face("--per_device_train_batch_size=4", workers=3)
    roles = obj["spec"]["pytorchReplicaSpecs"]
    roles["Master"] = {"replicas": 1, "template": deepcopy(roles["Worker"]["template"])}
    changed = after(ask(obj, SMALL), "shard")["spec"]["pytorchReplicaSpecs"]
    assert changed["Master"]["template"] == changed["Worker"]["template"] != roles["Worker"]["template"]


@pytest.mark.parametrize(
    ("launcher", "flags", "change"),
    [
        (
            ("accelerate", "launch", "--use_deepspeed", "--zero_stage", "1", "--mixed_precision=bf16", "train.py"),
            (),
            "--zero_stage 2",
        ),
        (
            ("torchrun", "train.py"),
            ("--deepspeed", '{"zero_optimization": {"stage": 1}, "bf16": {"enabled": true}}'),
            "zero_optimization.stage: 2",
        ),
        (("torchrun", "train.py"), ("--fsdp", "no_shard"), "--fsdp shard_grad_op"),
    ],
)
def test_what_shards_already_shards_further_by_the_least_that_fits(
    launcher: tuple[str, ...], flags: tuple[str, ...], change: str
) -> None:
    outcome = ask(hugging_face("--per_device_train_batch_size=1", *flags, launcher=launcher), SMALL)
    assert kinds(outcome)[0] == "shard"
    assert told(outcome)[0].startswith(f"{change} (ranks share")


def test_a_trainer_that_something_else_tells_how_to_share_is_not_told_twice() -> None:
    launcher = ("accelerate", "launch", "--multi_gpu", "--mixed_precision=bf16", "train.py")
    outcome = ask(hugging_face("--per_device_train_batch_size=1", launcher=launcher), SMALL)
    assert outcome.verdict is Verdict.DENY
    assert kinds(outcome) == ["measured"]


LLAMA_FACTORY = ("llamafactory-cli", "train", "--stage=sft", "--bf16=true", "--cutoff_len=2048", "--optim=adamw_torch")


@pytest.mark.parametrize(
    ("words", "there"),
    [
        ((*LLAMA_FACTORY, HF[0], "--finetuning_type", "full", "--per_device_train_batch_size=1"), "lora"),
        (("trl", "sft", *HF, *SHARDED, "--per_device_train_batch_size=64", RECOMPUTES), "--use_peft=True"),
        (
            ("torchrun", "sft.py", *HF, "--fsdp=no_shard", "--use_peft=False", "--per_device_train_batch_size=1"),
            "--use_peft=True",
        ),
    ],
)
def test_adapters_are_suggested_last_of_all_where_the_trainer_has_a_flag_for_them(
    words: tuple[str, ...], there: str
) -> None:
    outcome = ask(pytorchjob(pod(command=words, gpus=1), workers=2), SMALL)
    assert kinds(outcome)[-1] == "adapters", kinds(outcome)
    assert there in command(after(outcome, "adapters"))


def test_a_script_of_which_nobody_knows_whether_it_takes_adapters_is_not_told_to() -> None:
    assert "adapters" not in kinds(ask(hugging_face("--per_device_train_batch_size=1", *SHARDED, gpus=1), SMALL))


def test_where_memory_is_declared_nothing_that_the_trainer_is_told_helps() -> None:
    obj = hugging_face("--gradient_checkpointing=False", "--fsdp=no_shard")
    obj["metadata"]["annotations"] = {"samestep.dev/memory-per-device": "44Gi"}
    outcome = ask(obj, SMALL)
    assert (outcome.verdict, kinds(outcome)) == (Verdict.DENY, [])


def test_the_same_devices_in_other_pods_with_all_that_counts_them() -> None:
    spec = pod(gpus=3, command=("torchrun", "--nnodes=4", "--nproc_per_node=3", "train.py"))
    spec["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": "3", "cpu": "4"}
    outcome = ask(job(spec, pods=4), nodes((RTX_5090, 3, 4)))
    assert kinds(outcome) == ["devices", "replicas"]
    assert told(outcome)[0] == (
        "parallelism: 3, completions: 3, --nnodes 3, nvidia.com/gpu: 4, --nproc_per_node 4 (still 12 GPUs), on RTX-5090"
    )
    changed = after(outcome, "devices")["spec"]
    (container,) = changed["template"]["spec"]["containers"]
    assert (changed["parallelism"], changed["completions"]) == (3, 3)
    assert container["command"] == ["torchrun", "--nnodes=3", "--nproc_per_node=4", "train.py"]
    assert container["resources"] == {
        "limits": {"nvidia.com/gpu": 4},
        "requests": {"nvidia.com/gpu": "4", "cpu": "4"},
    }


def test_a_count_of_all_processes_stays_where_the_devices_do() -> None:
    words = ("accelerate", "launch", "--num_machines=4", "--num_processes=12", "train.py")
    outcome = ask(job(pod(gpus=3, command=words), pods=4), nodes((RTX_5090, 3, 4)))
    assert "--num_processes=12" in command(after(outcome, "devices"))
    assert "--num_machines=3" in command(after(outcome, "devices"))


@pytest.mark.parametrize(
    "words",
    [
        ("torchrun", "--nnodes=4", "--nproc_per_node=1", "train.py"),
        ("torchrun", "--nnodes=4", "--nproc_per_node=$(N)", "train.py"),
    ],
)
def test_pods_are_not_cut_otherwise_where_processes_are_not_as_many_as_devices(words: tuple[str, ...]) -> None:
    assert kinds(ask(job(pod(gpus=3, command=words), pods=4), nodes((RTX_5090, 3, 4)))) == ["replicas"]


def test_a_master_and_its_workers_are_cut_alike() -> None:
    obj = pytorchjob(pod(gpus=3, command=("torchrun", "train.py")), workers=3)
    roles = obj["spec"]["pytorchReplicaSpecs"]
    roles["Master"] = {"replicas": 1, "template": deepcopy(roles["Worker"]["template"])}
    outcome = ask(obj, nodes((RTX_5090, 3, 4)))
    changed = after(outcome, "devices")["spec"]["pytorchReplicaSpecs"]
    assert [changed[name]["replicas"] for name in ("Master", "Worker")] == [1, 2]
    assert {
        one["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for one in changed.values()
    } == {4}


def test_ranks_that_share_may_be_more() -> None:
    flags = ("--per_device_train_batch_size=1", *SHARDED, RECOMPUTES)
    outcome = ask(hugging_face(*flags, workers=2, gpus=1), nodes((RTX_5090, 2, 8)))
    assert kinds(outcome) == ["more", "measured"]
    assert told(outcome)[0] == "replicas: 4 (4 GPUs to share among, 200 % of the global batch), on RTX-5090"


def test_a_pod_that_is_alone_may_have_more_devices() -> None:
    flags = (*HF, "--per_device_train_batch_size=1", *SHARDED, RECOMPUTES)
    spec = pod(gpus=2, command=("torchrun", "--standalone", "--nproc_per_node=2", "train.py", *flags))
    outcome = ask(job(spec, pods=1), nodes((RTX_5090, 2, 8)))
    assert kinds(outcome) == ["more", "measured"]
    assert told(outcome)[0].startswith("nvidia.com/gpu: 4, --nproc_per_node 4 (4 GPUs to share among")


def test_ranks_that_do_not_share_gain_nothing_from_more() -> None:
    outcome = ask(
        hugging_face("--per_device_train_batch_size=1", "--fsdp=no_shard", workers=1), nodes((RTX_5090, 9, 8))
    )
    assert outcome.verdict is Verdict.DENY
    assert "more" not in kinds(outcome)


def required(*terms: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def among(*values: str) -> Json:
    return {"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": list(values)}]}


def test_another_model_is_named_in_every_term_that_names_one() -> None:
    zone = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    terms = (among(RTX_5090.product), {"matchExpressions": [zone, *among(RTX_5090.product)["matchExpressions"]]})
    known = [
        one | {"metadata": one["metadata"] | {"labels": one["metadata"]["labels"] | {"kubernetes.io/os": "linux"}}}
        for one in nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 2, 4), (H100, 2, 4))
    ]
    outcome = ask(pytorchjob(pod(affinity=required(*terms)), memory_per_device="44Gi"), known)
    assert kinds(outcome) == ["model_affinity"]
    assert told(outcome) == [f"node affinity {PRODUCT}: {RTX_PRO_6000.product}"]
    assert products(ask(after(outcome, "model_affinity"), known)) == [RTX_PRO_6000.product]


@pytest.mark.parametrize("shape", PatchShape)
@pytest.mark.parametrize("by_affinity", [False, True])
def test_a_train_job_that_names_a_model_in_its_patches_may_name_another(shape: PatchShape, by_affinity: bool) -> None:
    wish = (
        {"affinity": required(among(RTX_5090.product))}
        if by_affinity
        else {"nodeSelector": {PRODUCT: RTX_5090.product}}
    )
    entries = {
        PatchShape.POD_SPEC_OVERRIDES: {"targetJobs": [{"name": "node"}], **wish},
        PatchShape.POD_TEMPLATE_OVERRIDES: override(wish, "node"),
        PatchShape.RUNTIME_PATCHES: patch("team.example/gpu", node=wish),
    }
    obj = train_job(annotations={"samestep.dev/memory-per-device": "44Gi"}, **{shape.value: [entries[shape]]})
    seen = in_view(runtime(node(gpus=4), nodes=2), shape=shape)
    outcome = ask(obj, surroundings=seen)
    assert kinds(outcome) == ["model_affinity" if by_affinity else "model"]
    assert RTX_PRO_6000.product in str(after(outcome, kinds(outcome)[0])["spec"][shape.value])


def test_a_model_that_the_runtime_names_is_not_the_jobs_to_change() -> None:
    pinned = node(gpus=4)
    pinned["template"]["spec"]["template"]["spec"]["nodeSelector"] = {PRODUCT: RTX_5090.product}
    obj = train_job(annotations={"samestep.dev/memory-per-device": "44Gi"})
    outcome = ask(obj, surroundings=in_view(runtime(pinned, nodes=2)))
    assert (outcome.verdict, kinds(outcome)) == (Verdict.DENY, [])


def test_only_models_that_have_the_memory_are_tried() -> None:
    spec = pod(nodeSelector={PRODUCT: RTX_5090.product})
    known = nodes((RTX_5090, 2, 4), (H100, 2, 4), (replace(RTX_5090, product="NVIDIA-Small"), 2, 4))
    outcome = ask(pytorchjob(spec, memory_per_device="44Gi"), known)
    assert told(outcome) == [f"nodeSelector {PRODUCT}: {H100.product}"]


MANY = hugging_face(
    "--per_device_train_batch_size=64", "--gradient_checkpointing", "False", "--fsdp", "no_shard", "--use_peft=False"
)


@pytest.mark.parametrize("turned", [False, True])
def test_at_most_three_of_different_kinds_whatever_the_order_of_nodes(turned: bool) -> None:
    known = nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 1, 4), (H100, 1, 4))
    outcome = ask(MANY, known[::-1] if turned else known)
    assert outcome.verdict is Verdict.DENY
    assert outcome.suggestions == ask(MANY, known).suggestions
    assert len({kind.partition("_")[0] for kind in kinds(outcome)}) == len(outcome.suggestions) == 3
    assert len(message(outcome)) < 1500


def test_a_model_that_is_wished_for_may_be_another() -> None:
    known = fleet(nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 2, 4), (H100, 2, 4)))
    obj = pytorchjob(memory_per_device="44Gi", model="RTX-5090")
    outcome = ask(obj, known)
    assert outcome.job is not None
    wishing = replace(outcome, job=replace(outcome.job, wishes=Wishes(model="RTX-5090")))
    (one,) = suggest(wishing, known, lambda changed: ask(dict(changed), known))
    assert suggested(one, outcome) == "annotation samestep.dev/model: RTX-PRO-6000-Blackwell-Server"
    changed: Json = jsonpatch.apply_patch(deepcopy(obj), list(one.operations))
    assert changed["metadata"]["annotations"]["samestep.dev/model"] == "RTX-PRO-6000-Blackwell-Server"


def test_a_denial_is_decided_again_no_more_than_so_often() -> None:
    known = nodes(*((replace(RTX_5090, product=f"NVIDIA-Made-Up-{index}"), 2, 4) for index in range(40)))
    outcome = ask(MANY, known)
    tried = 0

    def again(changed: Object) -> Review:
        nonlocal tried
        tried += 1
        assert changed != MANY
        return outcome

    assert suggest(outcome, fleet(known), again) == ()
    assert 3 < tried <= 16


def test_what_is_admitted_because_less_is_known_of_it_is_no_way_out() -> None:
    outcome = ask(hugging_face("--per_device_train_batch_size=4"), SMALL)
    unknown = ask(pytorchjob(), SMALL)
    assert unknown.verdict is Verdict.ADMIT
    assert suggest(outcome, fleet(SMALL), lambda _: unknown) == ()


def test_several_models_on_purpose_are_offered_where_policy_lets_the_reason_count_and_nowhere_else() -> None:
    there = nodes((RTX_5090, 1, 4), (RTX_PRO_6000, 1, 4))
    two = pytorchjob(pod(gpus=4, command=("torchrun", "--nnodes=2", "train.py")), workers=2, memory_per_device="20Gi")
    assert "mixed" not in kinds(ask(two, there))
    allowing = Policy(allow_mixed=True)
    outcome = ask(two, there, policy=allowing)
    assert outcome.verdict is Verdict.DENY
    assert told(outcome)[-1] == (
        'annotation samestep.dev/allow-mixed: "<your reason>" (ranks on several models, at the pace of the slowest), '
        "on RTX-5090 + RTX-PRO-6000-Blackwell-Server"
    )
    assert ask(after(outcome, "mixed"), there, policy=allowing).verdict is Verdict.ADMIT
    # Memory that the smaller model has not is no question of models.
    large = pytorchjob(pod(gpus=4, command=("torchrun", "train.py")), workers=2, memory_per_device="60Gi")
    assert "mixed" not in kinds(ask(large, there, policy=allowing))


def test_to_be_left_alone_is_offered_where_policy_lets_that_count_alone_and_the_job_would_run() -> None:
    there = nodes((RTX_5090, 1, 4), (RTX_PRO_6000, 1, 4))

    def job(workers: int, memory: str) -> Json:
        command = ("torchrun", f"--nnodes={workers}", "train.py")
        return pytorchjob(pod(gpus=4, command=command), workers=workers, memory_per_device=memory)

    ignoring = Policy(ignore=True)
    outcome = ask(job(2, "20Gi"), there, policy=ignoring)
    assert told(outcome)[-1] == (
        'annotation samestep.dev/ignore: "<your reason>" (unchecked; ranks on several models, at the pace of the '
        "slowest), on RTX-5090 + RTX-PRO-6000-Blackwell-Server"
    )
    again = ask(after(outcome, "left_alone"), there, policy=ignoring)
    assert (again.verdict, again.because) == (Verdict.ADMIT, "out of scope: samestep.dev/ignore: <your reason>")
    # The other opt-out looks at memory and room all the same.
    assert "left_alone" not in kinds(ask(job(2, "20Gi"), there))
    assert kinds(ask(job(2, "20Gi"), there, policy=replace(ignoring, allow_mixed=True)))[-1] == "mixed"
    # Admitted, it would run out of memory, or wait for ever.
    for hopeless in (job(2, "60Gi"), job(3, "20Gi")):
        denied = ask(hopeless, there, policy=ignoring)
        assert denied.verdict is Verdict.DENY
        assert "left_alone" not in kinds(denied)
