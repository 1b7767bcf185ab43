"""MIG-01: what the MIG manager says of its own work, and since when (facts 1.3, 1.7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from conformance.mig.slices import CONFIG, STATE
from conformance.scope import Scope, subject
from fixtures.cluster import Cluster
from fixtures.evidence import Finding, bad, not_judged, ok, undecided
from fixtures.models import Json, Node
from fixtures.trouble import ApiTrouble

CHANGING = ("pending", "rebooting")
PAUSED = "paused-for-mig-change"
_DEPLOY = "nvidia.com/gpu.deploy."
_SOURCE = f"label {STATE}"


def changing(scope: Scope) -> list[Node]:
    """Nodes whose MIG manager says that it is at work."""
    return [node for node in scope.accelerator_nodes if node.metadata.label.get(STATE) in CHANGING]


def saved_since(scope: Scope, nodes: list[Node]) -> dict[str, float]:
    """As :func:`ask_since`, of nodes whose managedFields a snapshot holds."""
    kept = scope.snapshot.managed_fields
    found = {node.name: written_at({"metadata": {"managedFields": kept.get(node.name)}}) for node in nodes}
    return {name: since for name, since in found.items() if since is not None}


def ask_since(cluster: Cluster, nodes: list[Node]) -> dict[str, float]:
    """When the state label of each node was last written at the latest, by managedFields. Reads those nodes one by one.

    A label has no time of its own. The managedFields entry that owns it has one: the manager's newest write, which is not
    earlier than that of the label. So what is counted from it is at most the label's true age.
    """
    found = {}
    for node in nodes:
        try:
            answer = cluster.get("nodes", node.name)
            since = written_at(answer.json()) if answer.ok else None
        except ApiTrouble:
            continue
        if since is not None:
            found[node.name] = since
    return found


def written_at(node: Json) -> float | None:
    """Unix seconds of the managedFields entry that owns the state label, or None."""
    metadata = _mapping(node.get("metadata"))
    entries = metadata.get("managedFields")
    times = []
    for entry in entries if isinstance(entries, list) else ():
        labels = _mapping(_mapping(_mapping(_mapping(entry).get("fieldsV1")).get("f:metadata")).get("f:labels"))
        if f"f:{STATE}" in labels:
            times.append(_seconds(_mapping(entry).get("time")))
    known = [time for time in times if time is not None]
    return max(known) if known else None


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _seconds(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def check_state(scope: Scope, now: float, since: Mapping[str, float]) -> Iterator[Finding]:
    """One finding per node with ``mig.config``. ``now`` and ``since`` (last write of the state, by node) are Unix seconds."""
    limit = scope.policy.advertisement.mig_pending_minutes
    for node in scope.accelerator_nodes:
        labels = node.metadata.label
        config, state = labels.get(CONFIG, ""), labels.get(STATE, "")
        paused = sorted(key.removeprefix(_DEPLOY) for key, value in labels.items() if key.startswith(_DEPLOY) and value == PAUSED)
        if not config and not paused:
            continue
        observed = f"{config or 'no mig.config'}: {state or 'no state'}" + (f", paused: {', '.join(paused)}" if paused else "")
        expected = f"success within {limit:g} minutes, no agent left paused"
        if state in CHANGING:
            if scope.snapshot.offline and node.name not in scope.snapshot.managed_fields:
                message = f"{observed}, and nothing tells since when: the snapshot was taken without --show-managed-fields"
                yield undecided(subject(node), message, _SOURCE)
            else:
                yield _under_way(node, observed, expected, now, since.get(node.name), limit)
        elif state == "failed":
            message = f"the MIG manager failed to apply {config!r}: the devices keep their old geometry and jobs wait for the new one"
            yield bad(subject(node), observed, expected, _SOURCE, message)
        elif paused:
            message = f"{PAUSED} is left behind on {', '.join(paused)}: these agents stay away until somebody resets the label"
            yield bad(subject(node), observed, expected, f"labels {_DEPLOY}*", message)
        elif state == "success":
            yield ok(subject(node), observed, expected, _SOURCE)
        elif not state and labels.get("nvidia.com/mig.capable") != "true":
            yield not_judged(subject(node), "its devices cannot be cut, so no MIG manager reports on them", "label nvidia.com/mig.capable")
        else:
            why = f"its state {state!r} is none that the MIG manager writes" if state else "no MIG manager has reported on it"
            yield bad(subject(node), observed, expected, _SOURCE, f"{config!r} is requested and {why}: nobody knows whether it is applied")


def _under_way(node: Node, observed: str, expected: str, now: float, since: float | None, limit: float) -> Finding:
    if since is None:
        message = f"{observed}, and nothing tells since when: managedFields of the node have no entry of the writer of the state"
        return undecided(subject(node), message, _SOURCE)
    minutes = (now - since) / 60
    if minutes <= limit:
        return undecided(subject(node), f"{observed} for {minutes:.0f} minutes: the change is still under way", "metadata.managedFields")
    message = (
        f"the change has been under way for at least {minutes:.0f} minutes (policy: {limit:g}): "
        "it is wedged, mostly by pods that still hold a device, and the node offers nothing meanwhile"
    )
    return bad(subject(node), f"{observed} for {minutes:.0f} minutes", expected, "metadata.managedFields", message)
