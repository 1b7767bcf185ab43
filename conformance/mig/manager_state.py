"""MIG-01: the state that the MIG manager reports, and since when.

Facts: docs/facts/mig.md#mig-manager, docs/facts/labels.md#operator-labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conformance.mig.mig_nodes import CONFIG, STATE
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.nodes.field_writes import label, last_write
from fixtures.model.platform.agents import DEPLOY, paused_agents
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text.ages import duration
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding

CHANGING = ("pending", "rebooting")
PAUSED = "paused-for-mig-change"
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
        paused = paused_agents(node, PAUSED)
        if not config and not paused:
            continue
        observed = f"{config or 'no mig.config'}: {state or 'no state'}" + (f", paused: {', '.join(paused)}" if paused else "")
        about = About(subject(node), _SOURCE, f"success within {limit:g} min, no agent left paused", observed)
        if state in CHANGING and scope.snapshot.offline and node.name not in scope.snapshot.managed_fields:
            message = f"{observed}, and nothing tells since when: the snapshot was taken without --show-managed-fields"
            yield about.undecided(message, cause="AgeUnknown")
        elif state in CHANGING:
            yield _under_way(about, now, since.get(node.name), limit)
        elif state == "failed":
            message = f"the MIG manager failed to apply {config!r}: the devices keep their old geometry and jobs wait for the new one"
            yield about.bad(message, cause="LayoutChangeFailed")
        elif paused:
            message = f"{PAUSED} is left behind on {', '.join(paused)}: these agents stay away until somebody resets the label"
            yield about.bad(message, cause="AgentsLeftPaused", source=f"labels {DEPLOY}*")
        elif state == "success":
            yield about.ok()
        elif not state and labels.get("nvidia.com/mig.capable") != "true":
            message = "its devices cannot be cut, so no MIG manager reports on them"
            yield about.not_judged(message, source="label nvidia.com/mig.capable")
        else:
            why = f"its state {state!r} is not one that the MIG manager writes" if state else "no MIG manager has reported on it"
            yield about.bad(f"{config!r} is requested and {why}: whether it is applied is not known", cause="LayoutStateUnknown")


def _under_way(about: About, now: float, since: float | None, limit: float) -> Finding:
    if since is None:
        why = "since when is not known: the node's managedFields have no entry of the program that wrote the state"
        return about.undecided(f"{about.observed}, and {why}", cause="AgeUnknown")
    age, source = now - since, "metadata.managedFields"
    observed = f"{about.observed} for {duration(age)}"
    if age <= limit * 60:
        return about.undecided(f"{observed}: the change is still under way", cause=CHANGE_UNDER_WAY, source=source)
    message = (
        f"the change has been under way for at least {duration(age)} (policy: {limit:g} min): "
        "it is stuck, usually because a pod still holds a device; until it ends, the node offers none"
    )
    return about.bad(message, cause="LayoutChangeStuck", observed=observed, source=source)
