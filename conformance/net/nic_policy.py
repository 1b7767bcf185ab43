"""The NicClusterPolicy: its state, and the resources that its own configuration promises.

Facts: docs/facts/rdma.md#network-operator, docs/facts/rdma.md#resources.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from conformance.common_findings import reconciling
from conformance.net.reading import name_of, text
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope
from fixtures.text import json_text
from fixtures.text.json_text import NotJson
from fixtures.verdict.findings import CHANGE_UNDER_WAY, Finding, Outcome, bad, not_judged, ok, undecided
from fixtures.verdict.subjects import Subject

KEY = "mellanox.com/nicclusterpolicies"
SINGLETON = "nic-cluster-policy"
GOOD_STATES = ("ready", "ignore")
"""``ignore``: the state is not asked for in the spec."""

_PLUGINS = (("rdmaSharedDevicePlugin", "configList", "rdma"), ("sriovDevicePlugin", "resourceList", "nvidia.com"))
"""Field of the spec, list in its config, prefix where an entry names none (docs/facts/rdma.md#resources)."""


class Promised(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that a device plugin of the policy is to advertise. ``source`` is the field that says so."""

    resource: str
    source: str


class Promises(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy's configuration promises. ``troubles`` are configurations that no plugin can read: (field, sentence)."""

    resources: tuple[Promised, ...] = ()
    troubles: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The resource names, each once."""
        return tuple(dict.fromkeys(item.resource for item in self.resources))


def subject_of(policy: Json) -> Subject:
    """The subject of a finding about a NicClusterPolicy."""
    return Subject("NicClusterPolicy", name_of(policy)[0])


def check_nic_cluster_policy(scope: Scope) -> Iterator[Finding]:
    """NET-01: the policy that counts is ready, and so is every state it applied."""
    for policy in scope.snapshot.objects(KEY):
        subject = subject_of(policy)
        status = mapping(policy, "status")
        state = text(status.get("state"))
        if subject.name != SINGLETON:
            message = f"the operator ignores every NicClusterPolicy but {SINGLETON} (state {state or 'not reported'})"
            yield not_judged(subject, message=message, source="metadata.name")
            continue
        findings = [_policy_state(subject, state, text(status.get("reason")))]
        findings += [_applied_state(subject, applied) for applied in mappings(status.get("appliedStates"))]
        doing = reconciling(scope, policy)
        for one in findings:
            waits = doing and one.outcome is Outcome.BAD
            yield undecided(one.subject, cause=CHANGE_UNDER_WAY, message=f"{one.message}; {doing}", source=one.source) if waits else one


def _policy_state(subject: Subject, state: str, reason: str) -> Finding:
    source = "status.state"
    if state == "ready":
        return ok(subject, observed=state, expected="ready", source=source)
    why = f" ({reason})" if reason else ""
    message = f"the operator reports {state or 'no state'}{why}, so what it installs for the fabric cannot be relied on"
    return bad(subject, cause="OperatorObjectNotReady", observed=state or "no state", expected="ready", source=source, message=message)


def _applied_state(policy: Subject, applied: Json) -> Finding:
    name, state, message = text(applied.get("name")), text(applied.get("state")), text(applied.get("message"))
    subject = Subject("applied state", f"{policy.name}/{name or '?'}")
    source, expected = "status.appliedStates[].state", " or ".join(GOOD_STATES)
    if state in GOOD_STATES:
        return ok(subject, observed=state, expected=expected, source=source)
    why = f" ({message})" if message else ""
    return bad(
        subject,
        cause="OperatorObjectNotReady",
        observed=state or "no state",
        expected=expected,
        source=source,
        message=f"{name or 'a state'} is {state or 'not reported'}{why}: its agents do not work",
    )


def the_policy(scope: Scope) -> Json | None:
    """The NicClusterPolicy that the operator acts upon; None when there is none (or the kind is not served)."""
    listing = scope.snapshot.listing(KEY)
    if not listing.served or not listing.collected:
        return None
    return next((item for item in scope.snapshot.objects(KEY) if name_of(item)[0] == SINGLETON), None)


def promises(policy: Json | None) -> Promises:
    """Resources derived from the configuration in the policy, in order."""
    found: list[Promised] = []
    troubles: list[tuple[str, str]] = []
    for field, listed, prefix in _PLUGINS:
        plugin = mapping(policy, "spec", field)
        if not plugin:
            continue
        source = f"spec.{field}.config"
        config = _decoded(plugin.get("config"))
        if not isinstance(config, dict) or not isinstance(config.get(listed), list):
            troubles.append((source, f"{source} holds no list {listed}, so the plugin advertises nothing"))
            continue
        for entry in config[listed]:
            name = text(entry.get("resourceName"), 253) if isinstance(entry, dict) else ""
            if not name:
                troubles.append((source, f"an entry of {listed} in {source} names no resource"))
                continue
            found.append(Promised(resource=f"{text(entry.get('resourcePrefix'), 253) or prefix}/{name}", source=source))
    return Promises(resources=tuple(found), troubles=tuple(troubles))


def _decoded(config: Any) -> Any:
    """The configuration, which the policy holds as JSON text; None when it is no JSON."""
    if not isinstance(config, str):
        return None
    try:
        return json_text.decode(config)
    except NotJson:
        return None
