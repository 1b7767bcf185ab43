from fixtures.cluster.client import Answer
from fixtures.cluster.trouble import ApiTrouble
from fixtures.model.nodes.holds import SPEC_TAINTS, SPEC_UNSCHEDULABLE, label, last_write
from fixtures.snapshot.managed_fields import MOST_ASKED, fields_of
from tests.builders import a_node, a_snapshot
from tests.model.nodes.reported import DAY, HOUR, NOW, written


class Api:
    """A cluster that answers for single nodes, and is slow for one of them."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, key: str, name: str) -> Answer:
        self.asked.append(f"{key}/{name}")
        if name == "slow":
            raise ApiTrouble("Timeout", "no answer")
        return Answer(status=200, body=b'{"metadata": {"managedFields": []}}')


def test_the_newest_write_of_a_field_is_found_with_its_manager() -> None:
    fields = [
        *written(SPEC_TAINTS, "karpenter", 2 * DAY),
        *written(SPEC_TAINTS, "kubectl-taint", HOUR),
        *written(SPEC_UNSCHEDULABLE, "x", 1),
    ]
    found = last_write(fields, SPEC_TAINTS)
    assert found is not None
    assert (found.manager, found.at) == ("kubectl-taint", NOW - HOUR)
    assert last_write(fields, label("a")) is None


def test_what_the_snapshot_holds_is_not_asked_for_and_nothing_is_asked_twice() -> None:
    snapshot, api = a_snapshot(), Api()
    snapshot.managed_fields = {"kept": ["entry"]}
    nodes = [a_node(name) for name in ("kept", "asked", "slow")]
    found = fields_of(snapshot, nodes, lambda: api)  # type: ignore[arg-type, return-value]
    assert found == {"kept": ["entry"], "asked": []}
    fields_of(snapshot, nodes[:2], lambda: api)  # type: ignore[arg-type, return-value]
    assert api.asked == ["nodes/asked", "nodes/slow"]


def test_requests_do_not_grow_with_the_cluster() -> None:
    api = Api()
    fields_of(a_snapshot(), [a_node(f"n{number}") for number in range(500)], lambda: api)  # type: ignore[arg-type, return-value]
    assert len(api.asked) == MOST_ASKED
