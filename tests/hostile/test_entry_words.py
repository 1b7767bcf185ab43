"""What people confirm shows what an undo would create or set, whoever wrote the ledger."""

from pathlib import Path
from typing import Any

import pytest

from chaos.ledger.residue import Reason, entry_words, residue_of
from chaos.model.ledger_lines import Entry
from chaos.surface.cli import main
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, ledger, world


def service(**spec: Any) -> dict[str, Any]:
    meta = {"name": "evil", "namespace": "gpu-operator"}
    saved = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": 443}], **spec}}
    return {"key": "services", "namespace": "gpu-operator", "name": "evil", "uid": "u", "saved": saved}


def entry(tmp_path: Path, undo: str, args: dict[str, Any]) -> Entry:
    return ledger(tmp_path, experiment="A5").draft(undo, args)


NODE = {
    "name": "gpu-1",
    "uid": "another",
    "ready": True,
    "wait_seconds": 1,
    "saved": {
        "metadata": {"labels": {"team": "a"}, "annotations": {}},
        "spec": {"taints": [{"key": "evil", "value": "x", "effect": "NoExecute"}], "unschedulable": True},
    },
}


def test_the_confirmed_plan_says_what_would_be_created_or_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with world(tmp_path) as (cluster, _):
        ledger(tmp_path / "run", cluster, experiment="A5").arm("object.present", service(selector={"app": "shop"}, clusterIP="None"))
        ledger(tmp_path / "run", cluster, experiment="N9").arm("node.exists", NODE)
        words = ["chaos", "recover", "--kubeconfig", str(tmp_path / "kubeconfig"), "--folder", str(tmp_path / "run")]
        assert main([*words, "--chaos-cluster", KUBE_SYSTEM]) == 4
        shown = capsys.readouterr().out
        assert 'spec.clusterIP: "None", spec.ports[0].port: 443, spec.selector.app: "shop"' in shown
        assert 'spec.taints[0].effect: "NoExecute", spec.taints[0].key: "evil"' in shown
        assert 'spec.unschedulable: true, metadata.labels.team: "a"' in shown


def test_they_are_plain_and_bounded_and_what_acts_comes_first(tmp_path: Path) -> None:
    args = service(externalName='x", spec.type: "ClusterIP\x1b[2J')
    args["saved"]["metadata"]["annotations"] = {f"\x1b[2J{number}, spec.type": "a" * 9_000 for number in range(900)}
    text = entry_words(entry(tmp_path, "object.present", args))
    assert text.isprintable()
    assert len(text) < 2_500
    assert "more characters in the ledger" in text
    assert '"x\\", spec.type' in text, "no text passes for another value"
    assert text.index("spec.externalName") < text.index("metadata.annotations")


@pytest.mark.parametrize("saved", [None, "text", [], {}, {"spec": None}, {"spec": [[{"a": {}}]]}, {"": {"": ""}}])
def test_an_entry_may_save_anything(tmp_path: Path, saved: Any) -> None:
    assert entry_words(entry(tmp_path, "object.present", {**service(), "saved": saved})).isprintable()


@pytest.mark.parametrize(("reason", "told"), [(Reason.OUTSIDE, False), (Reason.UNPROVEN, False), (Reason.NOT_UNDONE, True)])
def test_no_command_is_told_of_an_entry_that_is_refused(tmp_path: Path, reason: Reason, told: bool) -> None:
    left = residue_of(entry(tmp_path, "object.present", service()), reason, "why")
    assert ("by hand" in str(left)) is told
