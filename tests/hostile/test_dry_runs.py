"""A dry-run that something on the way turns into a creation proves nothing, and what it made does not stay."""

from pathlib import Path

import pytest

from conformance.dra.selector_probe import ask_selectors
from conformance.dynamic_resources.device_classes import DeviceClass
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Inconclusive
from tests.hostile.faults import effects
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.served import served
from tests.troubles import Trouble

RUN = "20261121-100000-test"
CLAIMS = "resource.k8s.io/resourceclaims"
TENANT: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}
DEFAULT: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
POD: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def in_earnest() -> list[Fault]:
    return [Fault(name="in earnest", verb="create", effect=effects.done_in_earnest, times=ALWAYS)]


def test_what_a_dry_run_created_is_removed_and_proves_nothing(tmp_path: Path) -> None:
    with served(tmp_path, [TENANT]) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", in_earnest()):
        workspace = Workspace(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, folder=tmp_path)
        with pytest.raises(Inconclusive, match="pods tenant/p was created although a dry-run was asked for"):
            workspace.ask("pods", POD, "tenant")
        assert cluster.get("pods", "p", "tenant").ok
        workspace.close()
        assert workspace.residue == []
        assert cluster.get("pods", "p", "tenant").status == 404


def test_what_a_dry_run_created_and_what_stays_is_residue(tmp_path: Path) -> None:
    refused = Trouble("delete", "pods", 403, 99)
    with served(tmp_path, [TENANT], troubles=[refused]), through(tmp_path / "kubeconfig", tmp_path / "proxied", in_earnest()):
        workspace = Workspace(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, folder=tmp_path)
        with pytest.raises(Inconclusive):
            workspace.ask("pods", POD, "tenant")
        workspace.close()
        assert [line.startswith("pods tenant/p: ") for line in workspace.residue] == [True]


def test_a_claim_that_was_only_asked_for_does_not_stay(tmp_path: Path) -> None:
    with served(tmp_path, [DEFAULT]) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", in_earnest()):
        workspace = Workspace(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, folder=tmp_path)
        known = DeviceClass(name="gpu", expressions=('device.driver == "gpu"',), drivers=())
        assert "was created although a dry-run was asked for" in ask_selectors(workspace, known).words
        workspace.close()
        assert workspace.residue == []
        assert cluster.request("GET", cluster.path(CLAIMS, "default")).json()["items"] == []


def test_a_dry_run_is_answered_without_a_version(tmp_path: Path) -> None:
    with served(tmp_path, [TENANT]) as (cluster, _):
        workspace = Workspace(cluster, RUN, folder=tmp_path)
        assert workspace.ask("pods", POD, "tenant").ok
        workspace.close()
        assert cluster.get("pods", "p", "tenant").status == 404
