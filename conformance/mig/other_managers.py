"""MIG-01, for programs beside the MIG manager that cut devices as a label asks for: vGPU's and AMD's.

Facts: docs/facts/mig.md#other-managers.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from conformance.mig.partitions import PROFILE, unapplied
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.arithmetic import AMD_PARTITION
from fixtures.model.nodes.field_writes import label, last_write
from fixtures.model.platform.agents import DEPLOY, paused_agents
from fixtures.model.since import said
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text.ages import ask_again, duration
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding
from fixtures.verdict.subjects import Subject


class _Manager(msgspec.Struct, frozen=True, kw_only=True):
    """A program that cuts devices. ``paused`` is what it writes into labels of agents meanwhile.

    ``retry_minutes``: how long it may go on, by its own design, and also after it has said that it failed.
    """

    name: str
    config: str
    state: str
    failed: str
    changing: str
    paused: str = ""
    retry_minutes: int = 0


_MANAGERS = (
    _Manager(
        name="the vGPU device manager",
        config="nvidia.com/vgpu.config",
        state="nvidia.com/vgpu.config.state",
        failed="failed",
        changing="pending",
        paused="paused-for-vgpu-change",
    ),
    _Manager(
        name="AMD's device config manager",
        config=PROFILE,
        state="dcm.amd.com/gpu-config-profile-state",
        failed="failure",
        changing="in-progress",
        retry_minutes=30,
    ),
)


def unsettled(scope: Scope) -> list[Node]:
    """Nodes on which one of these managers is at work or may try again: since when tells whether it takes too long."""
    return [
        node
        for node in scope.accelerator_nodes
        if any(node.metadata.label.get(one.state, "") in _ageing(one) for one in _MANAGERS if one.state in node.metadata.label)
    ]


def _ageing(manager: _Manager) -> tuple[str, ...]:
    return (manager.changing, manager.failed) if manager.retry_minutes else (manager.changing,)


def check_others(scope: Scope, now: float, fields: FieldsByNode) -> Iterator[Finding]:
    """One finding per node and manager that was asked for something or that tells a state. ``now`` in Unix seconds."""
    for node in scope.accelerator_nodes:
        for manager in _MANAGERS:
            labels = node.metadata.label
            if labels.get(manager.config) or labels.get(manager.state) or _paused(node, manager):
                yield _judge(scope, node, manager, now, fields.get(node.name))


def _paused(node: Node, manager: _Manager) -> list[str]:
    return paused_agents(node, manager.paused) if manager.paused else []


def _judge(scope: Scope, node: Node, manager: _Manager, now: float, fields: object) -> Finding:
    place, source = Subject("Node", f"{node.name} {manager.config}"), f"label {manager.state}"
    config, state = (node.metadata.label.get(key, "") for key in (manager.config, manager.state))
    paused, limit = _paused(node, manager), max(scope.policy.advertisement.mig_pending_minutes, manager.retry_minutes)
    wanted = said(config, 80) if config else "its default"
    observed = f"{wanted}: {said(state, 40) or 'no state'}" + (f", paused: {', '.join(paused)}" if paused else "")
    expected = f"success within {limit:g} min, no agent left paused"
    about = About(place, source, expected, observed)
    write = last_write(fields, label(manager.state))
    age = now - write.at if write else None
    if state in _ageing(manager) and age is not None and age <= limit * 60:
        return about.undecided(f"{observed} for {duration(age)}: {ask_again(age, limit * 60)}", cause=CHANGE_UNDER_WAY)
    if state == manager.failed:
        message = f"{manager.name} failed to apply {wanted}: the devices keep what they had, and jobs wait for what was asked for"
        return about.bad(message, cause="LayoutChangeFailed")
    if state == manager.changing:
        if age is None:
            return about.undecided(f"{observed}, and since when is not known", cause="AgeUnknown")
        message = f"{manager.name} has been at work for at least {duration(age)} (limit: {limit:g} min): it is stuck"
        return about.bad(message, cause="LayoutChangeStuck", observed=f"{observed} for {duration(age)}")
    if paused:
        message = f"{manager.paused} is left behind on {', '.join(paused)}: these agents stay away until somebody resets the labels"
        return about.bad(message, cause="AgentsLeftPaused", source=f"labels {DEPLOY}*")
    if state == "success" and manager.config == PROFILE and config and (problem := unapplied(scope, node, config)):
        message = f"the state says that {wanted} is applied, but {problem}: jobs find other devices than they ask for"
        source = f"label {manager.state}, capacity, label {AMD_PARTITION}"
        return about.bad(message, cause="LayoutNotApplied", expected=f"the partitions of {wanted}", source=source)
    if state == "success":
        return about.ok()
    why = "what its state means is not known" if state else f"{manager.name} has said nothing about it, and whether it runs is not known"
    return about.undecided(f"{observed}: {why}", cause="LayoutStateUnknown")
