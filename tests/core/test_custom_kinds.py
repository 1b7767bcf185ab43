"""Custom kinds that may hold pods: how they are found, what is kept of their objects, and where that ends."""

from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.kinds import WORKLOAD_KEYS
from fixtures.kubernetes.models import Json
from fixtures.snapshot.collect import collect
from fixtures.snapshot.custom_kinds import DEFINITIONS, TOO_MANY, custom_kinds
from fixtures.snapshot.state import Snapshot
from fixtures.text import limits
from tests.served import served
from tests.tables import each_row
from tests.troubles import Trouble

KEYS = [*WORKLOAD_KEYS, DEFINITIONS]
POD: Json = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATES: Json = {"properties": {"spec": {"properties": {"containers": {"type": "array"}}}}}
NETWORK: Json = {"properties": {"spec": {"properties": {"cidr": {"type": "string"}}}}}


def a_definition(
    plural: str = "mxjobs", group: str = "kubeflow.org", kind: str = "MXJob", schema: Json | None = TEMPLATES, **spec: Any
) -> Json:
    version = {"name": "v1", "served": True, "storage": True} | ({"schema": {"openAPIV3Schema": schema}} if schema else {})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": {"kind": kind, "plural": plural}, "scope": "Namespaced", "versions": [version], **spec},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }


def an_object(name: str = "train", kind: str = "MXJob", group: str = "kubeflow.org", spec: Any = None) -> Json:
    return {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": POD}} if spec is None else spec,
        "status": {"large": "x"},
    }


def found(*definitions: Json) -> list[str]:
    return [kind.key for kind in custom_kinds(definitions, {})]


# -- which kinds


@each_row
def test_a_kind_may_hold_pods_by_its_schema(schema: Json | None) -> None:
    assert found(a_definition(schema=schema)) == ["kubeflow.org/mxjobs"]


@pytest.mark.parametrize(
    "definition",
    [
        a_definition(schema=NETWORK),
        a_definition(schema={"properties": {"limits": {}}}),
        a_definition(scope="Cluster"),
        a_definition("pytorchjobs", kind="PyTorchJob"),
        a_definition(versions=[{"name": "v1", "served": False, "schema": {"openAPIV3Schema": TEMPLATES}}]),
        {**a_definition(), "metadata": {"name": "mxjobs.kubeflow.org", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {**a_definition(), "metadata": {"name": "others.kubeflow.org"}},
        a_definition("../../api/v1/secrets"),
        a_definition(group="kubeflow.org/v1/namespaces/x"),
        a_definition(names={"kind": "T F", "plural": "mxjobs"}),
        {"metadata": None, "spec": 7},
    ],
    ids=["another matter", "limits alone", "cluster", "known", "not served", "going", "other name", "path", "group", "kind", "wild"],
)
def test_other_definitions_are_left_alone(definition: Json) -> None:
    assert found(definition) == []


# -- a live cluster


def live(
    tmp_path: Path, objects: list[Json], troubles: list[Trouble] | None = None, keys: list[str] = KEYS
) -> tuple[Snapshot, dict[str, int]]:
    with served(tmp_path, objects, troubles or ()) as (cluster, _):
        snapshot = collect(cluster, keys, version="v1.36.3")
        return snapshot, dict(cluster.requests().by_verb_and_resource)


def test_objects_of_a_kind_that_may_hold_pods_are_kept_without_the_rest(tmp_path: Path) -> None:
    objects = [a_definition(), a_definition("nets", "example.com", "Net", NETWORK), an_object(), an_object("empty", spec={"replicas": 3})]
    snapshot, requests = live(tmp_path, [*objects, an_object("n", "Net", "example.com", {"cidr": "10.0.0.0/8"})])
    [listing] = snapshot.custom
    assert (listing.key, listing.kind, listing.trouble) == ("kubeflow.org/mxjobs", "MXJob", "")
    assert listing.objects == [{"metadata": {"name": "train", "namespace": "default"}, "spec": {"template": {"spec": POD}}}]
    assert requests["list kubeflow.org/mxjobs"] == 1
    assert "list example.com/nets" not in requests
    assert snapshot.unknown == []


def test_custom_kinds_travel_to_workers(tmp_path: Path) -> None:
    snapshot, _ = live(tmp_path, [a_definition(), an_object()])
    snapshot.save(tmp_path / "state")
    assert Snapshot.load(tmp_path / "state").custom == snapshot.custom


def test_a_refused_kind_is_trouble_of_its_own(tmp_path: Path) -> None:
    snapshot, _ = live(tmp_path, [a_definition(), an_object()], [Trouble("list", "kubeflow.org/mxjobs", 403, 9)])
    [listing] = snapshot.custom
    assert listing.trouble == "Forbidden"
    assert snapshot.items("batch/jobs") == []


def test_kinds_and_objects_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CUSTOM_KINDS", 1)
    monkeypatch.setattr(limits, "CUSTOM_OBJECTS", 1)
    objects = [a_definition(), a_definition("things", "zebra.com", "Thing"), an_object("a"), an_object("b")]
    snapshot, requests = live(tmp_path, objects)
    assert {listing.key: listing.trouble for listing in snapshot.custom} == {
        "kubeflow.org/mxjobs": "TooLarge",
        "zebra.com/things": TOO_MANY,
    }
    assert "list zebra.com/things" not in requests
