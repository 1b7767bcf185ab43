"""What the exit code says of a cluster whose accelerator nodes were not all judged."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from fixtures.kubernetes.models import Node
from fixtures.verdict.record import Verdict
from tests.builders import NFD, a_cpu_node, a_node
from tests.endtoend.runs import run_suite

pytestmark = pytest.mark.test_all

DYNAMIC = ("ResourceSlice", "ResourceClaim", "DeviceClass", "DeviceTaintRule")


def saved(folder: Path, nodes: list[Node]) -> str:
    """The nodes as ``kubectl get -o json`` saves them, with no pods and nothing that is claimed."""
    items = [{"apiVersion": "v1", "kind": "Node", **msgspec.to_builtins(node)} for node in nodes]
    lists = {"Node": ("v1", items), "Pod": ("v1", [])} | {kind: ("resource.k8s.io/v1", []) for kind in DYNAMIC}
    for kind, (version, objects) in lists.items():
        text = json.dumps({"apiVersion": version, "kind": f"{kind}List", "items": objects})
        (folder / f"{kind}.json").write_text(text, encoding="utf-8")
    return str(folder)


HIDDEN = [a_cpu_node(name, labels={NFD: "true", "nvidia.com/gpu.deploy.operands": "false"}) for name in ("c", "d")]


@pytest.mark.parametrize(
    ("reached", "allow", "verdict", "code"),
    [
        (["a", "b"], False, Verdict.INCONCLUSIVE, 10),
        (["a", "b"], True, Verdict.WAIVED, 0),
        ([], True, Verdict.INCONCLUSIVE, 10),
    ],
)
def test_hidden_nodes_are_never_passed_over(tmp_path: Path, reached: list[str], allow: bool, verdict: Verdict, code: int) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"accelerators: {{allowNotJudged: {json.dumps(['*'] if allow else [])}}}\n", encoding="utf-8")
    (tmp_path / "saved").mkdir()
    snapshot = saved(tmp_path / "saved", [*(a_node(name) for name in reached), *HIDDEN])
    done = run_suite(tmp_path, "--snapshot", snapshot, "--only", "INV-02", "--policy", str(policy))
    result = done.result("INV-02")
    assert (result.verdict, result.judged, result.total, done.code) == (verdict, len(reached), len(reached) + 2, code), done.output
    assert "no probe ran" not in done.output
