"""Any JSON gets an answer, never an exception."""

import copy
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from tests.unit.intake.jobs import JOB, PYTORCH_JOB, Json, annotated, container, edits_of, job, pytorch_job
from webhook.answer.wording import own_sentence
from webhook.intake.read import Outside, read_job
from webhook.model.job import Edit, TrainingJob, writes
from webhook.model.policy import Language
from webhook.model.request import Kind, User

CONTROLLER = User("system:serviceaccount:x:y")
KINDS = st.sampled_from([JOB, PYTORCH_JOB, Kind("example.com", "v1", "Trainer")])

SCRIPT = """set -e; ARGS=(--a 1 --per_device_train_batch_size "$B")
export B=${SIZE:-8} && bash -c "torchrun --nnodes=$N $(cat x) t.py ${ARGS[@]}" <<EOF
it's unread
EOF
cd /w && cat > ds.json <<-EOF
	{"train_micro_batch_size_per_gpu": ${SIZE:-8}}
	EOF
echo '{' >> ds.json; cp ds.json b.json | tee c.json; deepspeed x.py --deepspeed ds.json --config b.json
exec env X=1 torchrun --nnodes 2 t.py "${ARGS[@]}" "$@" # done"""

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["$(A)", "1e9999", "\ud800", "\0", "-c", "sh", "torchrun", "env", "--nnodes", "8", SCRIPT, 10**500]
    )
)
ANY = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CONTAINER = container(
    "bash",
    "-ec",
    SCRIPT,
    gpus="8",
    args=["--per_device_train_batch_size=$(SIZE)", "--gradient_accumulation_steps", "2"],
    env=[{"name": "SIZE", "value": "8"}, {"name": "WORLD_SIZE", "valueFrom": {}}, {"name": "B", "value": "$(SIZE)"}],
)
PLACED = {
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a"}],
    "affinity": {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}
    },
    "initContainers": [container("x"), {**container("y"), "restartPolicy": "Always"}],
    "overhead": {"cpu": "1"},
    "resources": {"limits": {"cpu": "9"}},
}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}


def whole(kind: Kind) -> dict[str, Any]:
    source = (
        job(copy.deepcopy(CONTAINER), pods=4) if kind == JOB else pytorch_job(CONTAINER, workers=4, nprocPerNode="8")
    )
    source = annotated(source, memory_fixed="2Gi", memory_per_sample="1Mi", micro_batch="8", pinned="{}")
    source["metadata"]["ownerReferences"] = [dict(OWNER)]
    source["status"] = {"startTime": "x", "conditions": [{}]}
    templates = (
        [source["spec"]["template"]]
        if kind == JOB
        else [role["template"] for role in source["spec"]["pytorchReplicaSpecs"].values()]
    )
    for one in templates:
        one["spec"].update(copy.deepcopy(PLACED))
    return source


def places(value: Json, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, child in children for place in places(child, (*at, key)))]


def answered(source: Json, kind: Kind) -> TrainingJob | Outside:
    before = copy.deepcopy(source)
    found = read_job(source, kind=kind, namespace="team-a", user=CONTROLLER)
    assert isinstance(found, TrainingJob | Outside)
    for finding in found.findings:
        for language in Language:
            f"{finding.where} {own_sentence(finding, language)}".encode()
    if isinstance(found, TrainingJob):
        assert all(0 <= role.gang <= role.pods for role in found.roles)
        for edit in edits_of(found):
            if edit is not None and edit.path is not None:
                check(edit, source)
    assert repr(source) == repr(before)
    return found


def check(edit: Edit, source: Json) -> None:
    """What is to be replaced is there, and whole strings come out."""
    for one in (edit, *edit.also):
        assert one.path is not None
        *parents, last = one.path
        value = source
        for key in parents:
            value = value[key]
        if one.inserts:
            assert isinstance(value, list)
            assert isinstance(last, int)
            assert last <= len(value)
        elif one.in_string:
            assert one.prefix[: len(one.prefix) - one.added] + one.old + one.suffix == value[last]
    assert writes([(edit, 3)])


@given(ANY, KINDS)
@settings(max_examples=300, deadline=None)
def test_any_json_at_all_gets_an_answer(source: Json, kind: Kind) -> None:
    answered(source, kind)


@given(st.data(), st.sampled_from([JOB, PYTORCH_JOB]))
@settings(max_examples=600, deadline=None)
def test_a_job_with_any_part_replaced_by_any_json_gets_an_answer(data: st.DataObject, kind: Kind) -> None:
    source: Json = whole(kind)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(source)))
        replacement = data.draw(ANY)
        if not place:
            source = replacement
            break
        parent = source
        for key in place[:-1]:
            parent = parent[key]
        parent[place[-1]] = replacement
    answered(source, kind)


@given(st.text(alphabet=st.sampled_from("ab=$(){}[]'\"\\`;&|<># \n\t-@:8\x0b\u00a0\r")), st.sampled_from(["-c", "-lc"]))
@settings(max_examples=1000, deadline=None)
def test_any_script_gets_an_answer(script: str, option: str) -> None:
    answered(job(container("bash", option, script, args=["a", "b"])), JOB)


@given(
    st.lists(
        st.sampled_from(
            [
                "B=8",
                "A=$B",
                "A+=' x'",
                "A=(x $B)",
                "export B",
                "\n",
                ";",
                "&&",
                "||",
                "|",
                "if",
                "then",
                "fi",
                "for",
                "in",
                "do",
                "done",
                "case",
                "esac",
                "{",
                "}",
                "(",
                ")",
                "torchrun",
                "t.py",
                "$A",
                '"$@"',
                '"${A[@]}"',
                "${B:-4}",
                "$(x)",
                "<<E",
                "E",
                "<<-'E'",
                "> a",
                ">> a",
                "cat",
                "cat a",
                "echo",
                "tee a",
                "cp a b",
                "cd b",
                "bash a",
                "{'a': 1}",
                "deepspeed --deepspeed_config a",
                "bash -c '",
                "'",
                "--per_device_train_batch_size",
                "--nnodes=2",
                "#",
                "env",
                "\\\n",
            ]
        )
    )
)
@settings(max_examples=1000, deadline=None)
def test_any_row_of_shell_words_gets_an_answer(words: list[str]) -> None:
    answered(job(container("bash", "-c", " ".join(words), args=["a", "--per_device_train_batch_size", "4"])), JOB)


def test_the_whole_job_that_is_mutated_can_be_read() -> None:
    for kind in (JOB, PYTORCH_JOB):
        found = answered(whole(kind), kind)
        assert isinstance(found, TrainingJob)
        assert found.batch.micro is not None
