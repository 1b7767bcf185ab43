from datetime import UTC, datetime

import pytest

from conformance.mig.managers import check_managers
from fixtures.kubernetes.models import Json, Node
from tests.adv.built import NOW, verdict
from tests.builders import a_node, a_scope

STATE = "nvidia.com/mig.config.state"


def node(state: str = "success", config: str = "all-1g.10gb", **labels: str) -> Node:
    own = {"nvidia.com/mig.capable": "true", "nvidia.com/mig.config": config, STATE: state}
    return a_node(labels=own | {f"nvidia.com/{key.replace('__', '.').replace('_', '-')}": value for key, value in labels.items()})


def managed(label: str, time: object) -> Json:
    return {"manager": "nvidia-mig-manager", "time": time, "fieldsV1": {"f:metadata": {"f:labels": {f"f:{label}": {}}}}}


@pytest.mark.parametrize(
    ("subject", "minutes", "wanted"),
    [
        (node(), None, "passed"),
        (node("failed"), None, "failed"),
        (node("pending"), 120, "failed"),
        (node("rebooting"), 120, "failed"),
        (node("pending"), 5, "inconclusive"),
        (node("pending"), None, "inconclusive"),
        (node("done"), None, "failed"),
        (node(""), None, "failed"),
        (node("", mig__capable="false"), None, "not_applicable"),
        (node(gpu__deploy__device_plugin="paused-for-mig-change"), None, "failed"),
        (node("", "", gpu__deploy__dcgm="paused-for-mig-change"), None, "failed"),
        (a_node(), None, "not_applicable"),
    ],
)
def test_state(subject: Node, minutes: int | None, wanted: str) -> None:
    written = [] if minutes is None else [managed(STATE, datetime.fromtimestamp(NOW - minutes * 60, UTC).isoformat())]
    assert verdict(check_managers(a_scope(nodes=[subject]), NOW, {subject.name: written})) == wanted


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([managed("nvidia.com/gpu.present", "2026-11-20T11:00:00Z"), managed(STATE, "2026-11-20T09:00:00Z")], "at least 3 h"),
        ([managed(STATE, "soon")], "no entry of the program"),
        (None, "no entry of the program"),
    ],
)
def test_the_age_is_that_of_the_writer_of_the_state(fields: object, words: str) -> None:
    (finding,) = check_managers(a_scope(nodes=[node("pending")]), NOW, {"gpu-0": fields})
    assert words in finding.message
