from datetime import UTC, datetime

from conformance.mig.managers import check_managers
from fixtures.kubernetes.models import Json, Node
from tests.adv.built import NOW, verdict
from tests.builders import a_node, a_scope
from tests.tables import each_row

STATE = "nvidia.com/mig.config.state"


def node(state: str = "success", config: str = "all-1g.10gb", **labels: str) -> Node:
    own = {"nvidia.com/mig.capable": "true", "nvidia.com/mig.config": config, STATE: state}
    return a_node(labels=own | {f"nvidia.com/{key.replace('__', '.').replace('_', '-')}": value for key, value in labels.items()})


def managed(label: str, time: object) -> Json:
    return {"manager": "nvidia-mig-manager", "time": time, "fieldsV1": {"f:metadata": {"f:labels": {f"f:{label}": {}}}}}


@each_row
def test_state(subject: Node, minutes: int | None, wanted: str) -> None:
    written = [] if minutes is None else [managed(STATE, datetime.fromtimestamp(NOW - minutes * 60, UTC).isoformat())]
    assert verdict(check_managers(a_scope(nodes=[subject]), NOW, {subject.name: written})) == wanted


@each_row
def test_the_age_is_that_of_the_writer_of_the_state(fields: object, words: str) -> None:
    (finding,) = check_managers(a_scope(nodes=[node("pending")]), NOW, {"gpu-0": fields})
    assert words in finding.message
