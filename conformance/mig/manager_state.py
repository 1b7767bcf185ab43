"""MIG-01: the state that the MIG manager reports, and since when.

Facts: docs/facts/mig.md#mig-manager, docs/facts/labels.md#operator-labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conformance.mig.mig_nodes import CONFIG, STATE
from conformance.scope.scope import Scope, subject
from fixtures.kubernetes.labels import keys_with
from fixtures.kubernetes.models import Node
from fixtures.model.nodes.field_writes import label, last_write
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text.ages import duration
from fixtures.verdict.findings import CHANGE_UNDER_WAY, Finding, bad, not_judged, ok, undecided

CHANGING = ("pending", "rebooting")
PAUSED = "paused-for-mig-change"
_DEPLOY = "nvidia.com/gpu.deploy."
_SOURCE = f"label {STATE}"


def changing(scope: Scope) -> list[Node]:
    """Nodes whose MIG manager says that it is at work."""
    return [node for node in scope.accelerator_nodes if node.metadata.label.get(STATE) in CHANGING]


def since_of(fields: FieldsByNode) -> dict[str, float]:
    """When the state label of each node was last written at the latest, by its managedFields."""
    writes = {name: last_write(entries, label(STATE)) for name, entries in fields.items()}
    return {name: write.at for name, write in writes.items() if write is not None}


def check_state(scope: Scope, now: float, since: Mapping[str, float]) -> Iterator[Finding]:
    """One finding per node with ``mig.config``. ``now`` and ``since`` (last write of the state, by node) are Unix seconds."""
    limit = scope.policy.advertisement.mig_pending_minutes
    for node in scope.accelerator_nodes:
        labels = node.metadata.label
        config, state = labels.get(CONFIG, ""), labels.get(STATE, "")
        paused = sorted(key.removeprefix(_DEPLOY) for key in keys_with(labels, _DEPLOY) if labels[key] == PAUSED)
        if not config and not paused:
            continue
        observed = f"{config or 'no mig.config'}: {state or 'no state'}" + (f", paused: {', '.join(paused)}" if paused else "")
        expected = f"success within {limit:g} min, no agent left paused"
        if state in CHANGING:
            if scope.snapshot.offline and node.name not in scope.snapshot.managed_fields:
                message = f"{observed}, and nothing tells since when: the snapshot was taken without --show-managed-fields"
                yield undecided(subject(node), cause="AgeUnknown", message=message, source=_SOURCE)
            else:
                yield _under_way(node, observed, expected, now, since.get(node.name), limit)
        elif state == "failed":
            message = f"the MIG manager failed to apply {config!r}: the devices keep their old geometry and jobs wait for the new one"
            yield bad(subject(node), cause="LayoutChangeFailed", observed=observed, expected=expected, source=_SOURCE, message=message)
        elif paused:
            message = f"{PAUSED} is left behind on {', '.join(paused)}: these agents stay away until somebody resets the label"
            yield bad(
                subject(node), cause="AgentsLeftPaused", observed=observed, expected=expected, source=f"labels {_DEPLOY}*", message=message
            )
        elif state == "success":
            yield ok(subject(node), observed=observed, expected=expected, source=_SOURCE)
        elif not state and labels.get("nvidia.com/mig.capable") != "true":
            yield not_judged(
                subject(node), message="its devices cannot be cut, so no MIG manager reports on them", source="label nvidia.com/mig.capable"
            )
        else:
            why = f"its state {state!r} is not one that the MIG manager writes" if state else "no MIG manager has reported on it"
            yield bad(
                subject(node),
                cause="LayoutStateUnknown",
                observed=observed,
                expected=expected,
                source=_SOURCE,
                message=f"{config!r} is requested and {why}: whether it is applied is not known",
            )


def _under_way(node: Node, observed: str, expected: str, now: float, since: float | None, limit: float) -> Finding:
    if since is None:
        message = f"{observed}, and since when is not known: the node's managedFields have no entry of the program that wrote the state"
        return undecided(subject(node), cause="AgeUnknown", message=message, source=_SOURCE)
    age = now - since
    if age <= limit * 60:
        return undecided(
            subject(node),
            cause=CHANGE_UNDER_WAY,
            message=f"{observed} for {duration(age)}: the change is still under way",
            source="metadata.managedFields",
        )
    message = (
        f"the change has been under way for at least {duration(age)} (policy: {limit:g} min): "
        "it is stuck, usually because a pod still holds a device; until it ends, the node offers none"
    )
    return bad(
        subject(node),
        cause="LayoutChangeStuck",
        observed=f"{observed} for {duration(age)}",
        expected=expected,
        source="metadata.managedFields",
        message=message,
    )
