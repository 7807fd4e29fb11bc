"""The custom resource definitions, as the control plane gets them."""

import json
from typing import get_args

import pytest

from controlplane.crds import CrdSet
from controlplane.rig import ControlPlane


def test_the_kinds_of_all_sets_are_served(control_plane: ControlPlane) -> None:
    control_plane.install_crds(*get_args(CrdSet))

    names = control_plane.kubectl("get", "crds", "-o", "jsonpath={.items[*].metadata.name}").stdout.split()
    assert names
    assert control_plane.kubectl("get", ",".join(names)).stdout == ""


@pytest.mark.parametrize(
    ("name", "field"),
    [("trainer-2.0", "podSpecOverrides"), ("trainer-2.1", "podTemplateOverrides"), ("trainer", "runtimePatches")],
)
def test_a_train_job_has_the_overrides_of_its_release(control_plane: ControlPlane, name: CrdSet, field: str) -> None:
    control_plane.install_crds(name)

    fields = trainjob_fields(control_plane)
    assert fields & {"podSpecOverrides", "podTemplateOverrides", "runtimePatches"} == {field}


def trainjob_fields(control_plane: ControlPlane) -> set[str]:
    found = json.loads(control_plane.kubectl("get", "crd", "trainjobs.trainer.kubeflow.org", "-o", "json").stdout)
    (version,) = found["spec"]["versions"]
    return set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


def test_one_of_two_definitions_of_a_kind_replaces_the_other_with_its_objects(
    control_plane: ControlPlane, namespace: str
) -> None:
    job = {"kind": "MPIJob", "metadata": {"name": "any", "namespace": namespace}, "spec": {"mpiReplicaSpecs": {}}}
    control_plane.install_crds("training-operator")
    control_plane.apply(job | {"apiVersion": "kubeflow.org/v1"})

    control_plane.install_crds("mpi-operator")

    assert control_plane.kubectl("get", "mpijobs", "-n", namespace, "-o", "name").stdout == ""
    control_plane.apply(job | {"apiVersion": "kubeflow.org/v2beta1"})
    control_plane.install_crds("mpi-operator")
    stored = control_plane.kubectl("get", "mpijobs", "-n", namespace, "-o", "name").stdout
    assert stored == "mpijob.kubeflow.org/any\n"
