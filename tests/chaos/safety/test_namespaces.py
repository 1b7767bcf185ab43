"""Namespaces of chaos: one that is there and somebody else's is neither changed nor used."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import namespaces
from chaos.activities.base import own_namespace
from fixtures.trouble import ApiTrouble
from tests.chaos.safety.world import RUN, acting, fetch, ledger, namespace, world

CANARIES = f"{namespaces.of_run(RUN)}-canaries"


@pytest.mark.parametrize(
    "labels",
    [{}, {"app.kubernetes.io/managed-by": "gpu-conformance"}, {"gpu-conformance.io/run": RUN}, {"gpu-conformance.io/run": "another"}],
    ids=str,
)
def test_the_runs_own_namespace_is_never_somebody_elses(tmp_path: Path, labels: dict[str, str]) -> None:
    name = namespaces.of_run(RUN)
    theirs = namespace(name)
    theirs["metadata"]["labels"] = {"team": "ml", **labels}
    with world(tmp_path, extra=[theirs]) as (cluster, _):
        before = fetch(cluster, "namespaces", name)
        with pytest.raises(ApiTrouble, match="left as it is"):
            namespaces.ensure_run(cluster, RUN)
        assert fetch(cluster, "namespaces", name) == before


def test_it_is_created_once_and_used_again(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _):
        assert namespaces.ensure_run(cluster, RUN) == namespaces.ensure_run(cluster, RUN)


def test_the_shared_namespace_of_an_administrator_keeps_its_labels(tmp_path: Path) -> None:
    theirs = namespace(namespaces.SHARED)
    theirs["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted", "team": "platform"}
    with world(tmp_path, extra=[theirs]) as (cluster, _):
        before = fetch(cluster, "namespaces", namespaces.SHARED)
        namespaces.ensure_shared(cluster)
        assert fetch(cluster, "namespaces", namespaces.SHARED) == before
        assert namespaces.remove_shared(cluster) is False


def test_workers_are_not_put_into_somebody_elses_namespace(tmp_path: Path) -> None:
    with world(tmp_path, extra=[namespace(CANARIES)]) as (cluster, _):
        with acting(tmp_path, cluster, ledger(tmp_path, cluster)).as_current(), pytest.raises(ApiTrouble, match="left as it is"):
            own_namespace()
