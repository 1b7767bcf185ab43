"""No command changes a cluster before its plan was shown, the cluster was allowed by its UID, and somebody said yes."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.cli.confirming import Consent, NotConfirmed, add_options, confirm, consent_of
from conformance.policy.policy_file import PolicyError
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from tests.served import served
from tests.troubles import Trouble

UID = "11111111-2222-4333-8444-555555555555"
KUBE_SYSTEM: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": UID}}
PLAN = ["delete namespaces one", "delete \x1b[2Jtwo"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with served(tmp_path, [KUBE_SYSTEM]) as (cluster, _):
        yield cluster


@pytest.mark.parametrize("allowed", [(), ("served",), (UID[:-1],), ("",)], ids=["none", "context", "beginning", "empty"])
def test_a_cluster_is_allowed_by_its_uid_alone(cluster: Cluster, capsys: pytest.CaptureFixture[str], allowed: tuple[str, ...]) -> None:
    with pytest.raises(NotConfirmed, match=f"expected --chaos-cluster {UID}, or this UID in the policy"):
        confirm(cluster, PLAN, Consent(allowed=allowed, yes=True), ask=lambda _: UID)
    told = capsys.readouterr().out
    assert "delete namespaces one" in told
    assert UID in told
    assert "\x1b" not in told


@pytest.mark.parametrize(("typed", "goes_on"), [("served", True), (f" {UID}\n", True), ("yes", False), ("y", False), ("", False)])
def test_a_person_types_which_cluster_it_is(cluster: Cluster, typed: str, goes_on: bool) -> None:
    asked = []

    def ask(question: str) -> str:
        asked.append(question)
        return typed

    if goes_on:
        confirm(cluster, PLAN, Consent(allowed=(UID,)), ask=ask)
    else:
        with pytest.raises(NotConfirmed, match="nothing was touched"):
            confirm(cluster, PLAN, Consent(allowed=(UID,)), ask=ask)
    assert len(asked) == 1


def test_a_plan_that_changes_nothing_needs_nobody(cluster: Cluster) -> None:
    confirm(cluster, [], Consent())
    assert cluster.requests().count == 0


def test_a_cluster_that_does_not_say_which_it_is_is_not_touched(tmp_path: Path) -> None:
    refused = Trouble("list", "namespaces", 403)
    with served(tmp_path, [KUBE_SYSTEM], troubles=[refused]) as (cluster, _), pytest.raises(ApiTrouble):
        confirm(cluster, PLAN, Consent(allowed=("", UID), yes=True))


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(words)


def test_the_policy_and_the_options_allow_together(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("chaos: {clusters: [one]}")
    found = consent_of(options("--policy", str(policy), "--chaos-cluster", "two", "--yes"))
    assert found == Consent(allowed=("one", "two"), yes=True)
    assert consent_of(options()) == Consent()
    policy.write_text("chaos: {cluster: [one]}")
    with pytest.raises(PolicyError):
        consent_of(options("--policy", str(policy)))
