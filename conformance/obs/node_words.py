"""OBS-10: no node has a fault that the platform reports and nothing was done about.

Facts: docs/facts/device-health.md#node-conditions, docs/facts/device-health.md#health-labels.
"""

from collections.abc import Iterator

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.nodes.health import Health, Word, of, words_by_node
from fixtures.model.nodes.work import again, age_words, held_nodes, is_young, limit_of
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text.sentences import ask_again, duration, listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, not_judged
from fixtures.verdict.subjects import NotApplicable

_EXPECTED = "no condition and no label that reports a fault"


def check_node_words(scope: Scope, fields: FieldsByNode) -> Iterator[Finding]:
    """One finding per accelerator node, by everything that is said about its health.

    Raises :class:`NotApplicable` where nothing says anything: without conditions nobody watches the nodes.
    """
    reported = words_by_node(scope)
    if reported and not any(reported.values()):
        raise NotApplicable("NothingSaid", "no accelerator node has a condition or label about its health")
    held = held_nodes(scope, fields)
    for node in scope.accelerator_nodes:
        if reported[node.name]:
            yield _judge(scope, node, reported[node.name], bool(held.get(node.name)))
        else:
            yield not_judged(subject(node), message="no condition or label says anything about its health", source="node.status.conditions")


def _judge(scope: Scope, node: Node, words: list[Word], held: bool) -> Finding:
    place, source = subject(node), "node.status.conditions, node labels"
    about = About(place, source, _EXPECTED)
    out_of_service = held or not node.ready
    faults, unsure, notices = (of(words, health) for health in (Health.FAULT, Health.UNSURE, Health.NOTICE))
    if faults:
        oldest = min(faults, key=lambda word: word.since.latest if word.since.latest is not None else float("inf"))
        observed = listed([word.text for word in faults], 3)
        state = f"{oldest.text} {age_words(scope, oldest.since)}"
        if out_of_service and is_young(scope, oldest.since):
            message = f"{state}; the node is out of service for repair: {again(scope, oldest.since)}"
            return about.undecided(message, cause=CHANGE_UNDER_WAY)
        settle, age = scope.policy.nodes.quarantine_minutes * 60, oldest.since.age(scope.snapshot.taken_at)
        if not out_of_service and age is not None and age <= settle:
            return about.undecided(f"{state}: {ask_again(age, settle)}", cause=CHANGE_UNDER_WAY)
        what = "the node is out of service for too long" if out_of_service else "the node goes on taking device pods"
        return about.bad(
            f"{state}: {what}", cause="HeldTooLong" if held else "NodeNotReady" if out_of_service else "FaultInService", observed=observed
        )
    if unsure:
        return about.undecided(f"{unsure[0].text}: {unsure[0].reading.why or 'what it means is not known'}")
    if notices:
        state = f"{notices[0].text} {age_words(scope, notices[0].since)}"
        if notices[0].since.age(scope.snapshot.taken_at) is None or is_young(scope, notices[0].since):
            message = f"{state}: the node is about to be taken away; {again(scope, notices[0].since)}"
            return about.undecided(message, cause=CHANGE_UNDER_WAY)
        message = f"{state}: announced for more than {duration(limit_of(scope))}, and nothing has happened"
        return about.bad(message, cause="AnnouncedNotDone", observed=notices[0].text)
    of_devices = sum(word.reading.devices for word in words)
    observed = f"{len(words)} conditions and labels, {of_devices} of them about devices, none reports a fault"
    return about.ok(observed)
