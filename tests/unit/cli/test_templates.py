"""What somebody meant to fill in first is told as that, with the tool; what programs expand is left alone."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.samples import Json, job, pod
from webhook.cli.documents import Document, Unreadable, parse_documents


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "input.yaml"


def read(file: Path, *objects: Json | str) -> list[Document | Unreadable]:
    file.write_text("---\n".join(one if isinstance(one, str) else yaml.safe_dump(one) for one in objects))
    return list(parse_documents(file))


def fault(file: Path, obj: Json | str) -> str:
    (one,) = read(file, obj)
    assert isinstance(one, Unreadable), one
    return f"{one.field}: {one.message}" if one.field else one.message


def container(**fields: Any) -> Json:  # noqa: ANN401 - fields of a container
    obj = job(pod())
    obj["spec"]["template"]["spec"]["containers"][0].update(fields)
    return obj


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("metadata:\n  name: {{ .Release.Name }}-x\n", "Helm"),
        ("{{- if .Values.train.enabled }}\nkind: Job\n{{- end }}\n", "Helm"),
        ('metadata:\n  labels: {{- include "x.labels" . | nindent 4 }}\n', "Helm"),
        ("metadata:\n  {{- range .jobs }}\n  name: a\n", "Helm (or another Go template)"),
        ("{% if gpu %}\nkind: Job\n{% endif %}\n", "Jinja"),
        ("spec:\n  replicas: {{inputs.parameters.n}}\n", "Argo Workflows"),
    ],
)
def test_text_that_is_no_yaml_is_told_with_the_tool_it_is_for(file: Path, text: str, tool: str) -> None:
    said = fault(file, text)
    assert said.startswith("line ")
    assert f"(a template that was not rendered ({tool}): " in said


@pytest.mark.parametrize("text", ["{{ ", "{{", "{{ a", "{{" + " " * 500, "$(", "${", "{{inputs.", "{%"])
def test_a_text_of_nothing_but_braces_is_looked_at_in_time(file: Path, text: str) -> None:
    began = time.process_time()
    (one,) = read(file, f"a: [{text * (200_000 // len(text))}\n")
    assert isinstance(one, Unreadable)
    assert time.process_time() - began < 5


def test_braces_elsewhere_are_not_blamed_for_a_slip(file: Path) -> None:
    said = fault(file, 'args: ["{{ bos }}"]\na: 1\nb: 2\nc: [\n')
    assert "template" not in said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"image": "{{ .Values.image }}"},
            'image: "{{ .Values.image }}" is a placeholder of a template that was not rendered (Helm): run `helm',
        ),
        (
            {"image": "train:{{ tag }}"},
            'image: "train:{{ tag }}" is a placeholder of a template that was not rendered: ',
        ),
        ({"image": "train:${TAG}"}, "(envsubst): run `envsubst` and check what it prints"),
        ({"image": "train:${TAG:-latest}"}, "(envsubst)"),
        ({"image": "$IMAGE"}, "(envsubst)"),
        ({"image": "$(IMAGE)"}, "(Kustomize): run `kubectl kustomize` and check what it prints"),
        ({"args": ["--lr={{ .Values.lr }}"]}, 'args[0]: "--lr={{ .Values.lr }}" is a placeholder'),
        ({"args": ["--lr={{inputs.parameters.lr}}"]}, "(Argo Workflows): it is filled in when the workflow runs"),
        (
            {"resources": {"limits": {"nvidia.com/gpu": "${GPUS}"}}},
            'limits[nvidia.com/gpu]: "${GPUS}" is a placeholder',
        ),
    ],
)
def test_a_placeholder_in_valid_yaml_is_told_with_its_field(file: Path, fields: Json, said: str) -> None:
    assert said in fault(file, container(**fields))


@pytest.mark.parametrize(("field", "value"), [("parallelism", "$N"), ("parallelism", "{{ n }}"), ("suspend", "${X}")])
def test_a_value_that_is_nothing_but_a_placeholder_is_one_wherever_it_stands(
    file: Path, field: str, value: str
) -> None:
    obj = job(pod())
    obj["spec"][field] = value
    assert fault(file, obj).startswith(f'spec.{field}: "{value}" is a placeholder')


@pytest.mark.parametrize(
    "fields",
    [
        {"args": ["--rank=$(RANK)", "${WORLD_SIZE}", "$HOME/x"], "env": [{"name": "A", "value": "$(B)"}]},
        {"command": ["sh", "-c", "for f in ${FILES}; do echo $f; done"]},
        {"args": ["--chat-template", "{% for m in messages %}{{ m.content }}{% endfor %}"]},
        {"command": ["docker", "ps", "--format", "{{ .Names }}"]},
        {"volumeMounts": [{"name": "x", "mountPath": "/x", "subPathExpr": "$(POD_NAME)"}]},
    ],
)
def test_what_the_kubelet_a_shell_or_a_program_expands_is_left_alone(file: Path, fields: Json) -> None:
    (one,) = read(file, container(**fields))
    assert isinstance(one, Document)


def test_annotations_belong_to_other_tools(file: Path) -> None:
    obj = job(pod())
    obj["metadata"]["annotations"] = {"vault.hashicorp.com/agent-inject-template-x": "{{- with .Values.x }}"}
    (one,) = read(file, obj)
    assert isinstance(one, Document)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("argoproj.io/v1alpha1", "Workflow"), ("kubeflow.org/v1beta1", "Experiment"), ("v1", "ConfigMap")],
)
def test_kinds_that_fill_in_placeholders_themselves_are_read(file: Path, api_version: str, kind: str) -> None:
    obj = {"apiVersion": api_version, "kind": kind, "spec": {"image": "{{workflow.parameters.image}}"}}
    (one,) = read(file, obj)
    assert isinstance(one, Document)


def test_a_kustomization_is_told_as_one(file: Path) -> None:
    obj = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["job.yaml"]}
    assert fault(file, obj).startswith("a kustomization, not what it makes: run `kubectl kustomize`")


def test_one_that_was_not_rendered_does_not_hide_the_next(file: Path) -> None:
    first, second = read(file, container(image="${IMAGE}"), container(image="train:1"))
    assert isinstance(first, Unreadable)
    assert isinstance(second, Document)


def test_items_of_a_list_are_looked_at_one_by_one(file: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [container(image="train:1"), container(image="$IMAGE")]}
    first, second = read(file, listed)
    assert isinstance(first, Document)
    assert isinstance(second, Unreadable)
    assert second.source == "input.yaml#0.items[1]"
