"""An event in a tenant's namespace: he may write there in anybody's name, about any UID, and no other pod or node is judged by it."""

from conformance.req.starting import check_starting
from conformance.scope.pod_events import PodEvents
from fixtures.kubernetes.models import Event
from fixtures.verdict.findings import Outcome
from tests.builders import a_node, a_pod, a_scope, a_snapshot
from tests.findings import by_name
from tests.req.suffering import MINUTE, NOW, ago, an_event, scheduled

UID_OF_THE_VICTIM = "uid-team-v-victim"


def forged(reason: str = "FailedCreatePodSandBox", namespace: str = "team-x") -> Event:
    return an_event(reason, 'no runtime for "nvidia" is configured', pod="a", namespace=namespace, uid=UID_OF_THE_VICTIM, age=MINUTE)


def a_starting_pod() -> dict[str, object]:
    waits = [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    return {"startTime": ago(MINUTE), "conditions": [scheduled(MINUTE)], "containerStatuses": waits}


def test_an_event_tells_nothing_of_a_pod_in_another_namespace_whose_uid_it_carries() -> None:
    pod = a_pod("victim", "team-v", devices=1, node="gpu-0", phase="Pending", status=a_starting_pod())
    alone = check_starting(a_scope(nodes=[a_node()], pods=[pod]), NOW)
    beside = check_starting(a_scope(nodes=[a_node()], pods=[pod], events=[forged()]), NOW)
    assert by_name(beside) == by_name(alone) == {"victim": Outcome.NOT_JUDGED}
    own = check_starting(a_scope(nodes=[a_node()], pods=[pod], events=[forged(namespace="team-v")]), NOW)
    assert by_name(own) == {"victim": Outcome.UNDECIDED}


def test_an_event_that_lies_elsewhere_than_its_pod_is_none() -> None:
    """API servers take it if it has an eventTime."""
    event = forged(namespace="team-v")
    event.metadata.namespace = "team-x"
    snapshot = a_snapshot(pods=[a_pod("victim", "team-v", devices=1, node="gpu-0")], events=[event])
    events = PodEvents(snapshot)
    assert [*events.of(snapshot.pods[0]), *events.of_gone_pods()] == []
