from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.evidence import NotApplicable
from fixtures.snapshot_files import SnapshotError, load_files

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0"}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}, "spec": {"containers": [{"name": "c"}]}}


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_single_object_a_list_and_documents_are_read(tmp_path: Path) -> None:
    write(tmp_path / "nodes.json", {"apiVersion": "v1", "kind": "List", "items": [NODE]})
    write(tmp_path / "pods.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n")
    snapshot = load_files(tmp_path)
    assert [node.name for node in snapshot.nodes] == ["gpu-0"]
    assert [pod.name for pod in snapshot.pods] == ["a", "b"]


def test_a_typed_list_gives_its_items_their_kind(tmp_path: Path) -> None:
    items = [{key: value for key, value in POD.items() if key not in ("kind", "apiVersion")}]
    snapshot = load_files(write(tmp_path / "pods.json", {"apiVersion": "v1", "kind": "PodList", "items": items}))
    assert snapshot.pods[0].namespace == "team-a"


def test_the_same_object_in_two_files_counts_once(tmp_path: Path) -> None:
    write(tmp_path / "a.json", NODE)
    write(tmp_path / "b.json", NODE)
    assert len(load_files(tmp_path).nodes) == 1


def test_a_terminal_prompt_before_the_yaml_is_no_trouble(tmp_path: Path) -> None:
    path = write(tmp_path / "n.yaml", "$ kubectl get node gpu-0 -o yaml\napiVersion: v1\nkind: Node\nmetadata: {name: gpu-0}\n")
    assert load_files(path).nodes[0].name == "gpu-0"


def test_a_kind_that_the_files_do_not_hold_is_not_an_empty_list(tmp_path: Path) -> None:
    snapshot = load_files(write(tmp_path / "n.json", NODE))
    with pytest.raises(NotApplicable) as caught:
        _ = snapshot.pods
    assert caught.value.code == "NotInSnapshot"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("just text", "not a Kubernetes object"),
        ("{", "neither JSON nor YAML"),
        ('{"kind": "Pod"}', "kind or apiVersion is missing"),
        ("", "no Kubernetes object"),
        ('{"apiVersion": "example.com/v1", "kind": "Toaster", "metadata": {}}', "none of the kinds the suite judges (found: Toaster)"),
    ],
)
def test_what_is_not_kubernetes_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        load_files(write(tmp_path / "x.yaml", text))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_binary_missing_and_empty_places_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"\x00\xff\xfe")
    with pytest.raises(SnapshotError, match=r"not text|neither"):
        load_files(tmp_path / "x.json")
    with pytest.raises(SnapshotError, match="no such file"):
        load_files(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SnapshotError, match=r"no \.json"):
        load_files(tmp_path / "empty")
