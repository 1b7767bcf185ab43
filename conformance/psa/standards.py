"""PSA-02: device pods and templates of tenants against the Pod Security Standards, field by field."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from conformance.common_findings import unread
from conformance.psa.host_paths import by_host
from conformance.psa.namespaces import required_level
from fixtures.kubernetes.models import Json, PodSpec
from fixtures.kubernetes.podsecurity import LATEST, Level, Violation, evaluate
from fixtures.kubernetes.podsecurity.registry import checks
from fixtures.kubernetes.podsecurity.standards import NEWEST_MINOR
from fixtures.kubernetes.untyped import mapping
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_templates import templates
from fixtures.model.demand.template import Template, demand_of
from fixtures.model.platform.kubernetes_version import server_minor
from fixtures.text.globs import matches
from fixtures.verdict.findings import About, Finding, Outcome, allowed, undecided

IPC_LOCK = "IPC_LOCK"
MAX_VIOLATIONS_SHOWN = 6
_NEVER_JUDGED = frozenset({"image", "env", "envFrom", "volumeMounts", "resources", "restartPolicy"})


def check_standards(scope: Scope) -> Iterator[Finding]:
    """PSA-02: every device pod and device template of a tenant satisfies the tenant's level."""
    minor = server_minor(scope)
    known: dict[bytes, list[Violation]] = {}
    for template in templates(scope):
        if template.trouble:
            if not template.namespace or scope.is_tenant(template.namespace):
                yield unread(template)
        elif scope.is_tenant(template.namespace):
            demand = demand_of(scope, template)
            if demand.devices or demand.unknown:
                finding = _judge(scope, template, minor, known)
                if not demand.devices and finding.outcome is Outcome.BAD:
                    why = f"whether it asks for a device is not known: {demand.unknown}; if it does, {finding.message}"
                    finding = undecided(template.place, message=why[:600], source=template.path)
                yield finding


def _judge(scope: Scope, template: Template, minor: int | None, known: dict[bytes, list[Violation]]) -> Finding:
    """What is written in a part of a pod stands, so it may violate baseline, which only forbids. What it lacks a controller may add."""
    level = required_level(scope, template.namespace)
    if template.partial:
        level = min(level, Level.BASELINE, key=lambda one: one.strictness)
    spec = as_json(template.spec)
    dropped = _without_ipc_lock(scope, template, spec)
    key = _judged_part(spec, template.annotations, level)
    violations = known.get(key)
    if violations is None:
        violations = known[key] = evaluate(spec, template.annotations, level, LATEST, server_minor=minor)
    shown = "; ".join(str(violation) for violation in violations[:MAX_VIOLATIONS_SHOWN])
    broken = f"it violates {level} ({', '.join(violation.reason for violation in violations)})"
    if template.partial:
        about = About(template.place, template.path, f"{level} at least", shown[:1500])
        if not violations:
            return about.not_judged("only a part of a pod, which a runtime or controller completes: its pods are judged when they run")
        message = f"{broken} whatever completes it{_hint(scope, template, shown)}"
        return about.bad(message[:600], cause="PodViolatesStandards")
    if violations and by_host(scope, template):
        return allowed(template.place, message="the policy lets it reach the fabric through the host", source="policy tenants.hostRdma")
    count = len(checks(level, NEWEST_MINOR if minor is None else min(minor, NEWEST_MINOR)))
    about = About(template.place, template.path, f"{level}: all {count} controls, containers judged: {len(template.containers)}")
    if violations:
        return about.bad(f"{broken}{_hint(scope, template, shown)}"[:600], cause="PodViolatesStandards", observed=shown[:1500])
    note = f"; {IPC_LOCK} of {dropped} left out as the policy allows" if dropped else ""
    return about.ok(f"no violation of {count} controls{note}")


def _judged_part(spec: Json, annotations: Mapping[str, str], level: Level) -> bytes:
    """What the standards can look at, as a key: replicas of one template differ in names and places only, and are evaluated once."""
    slim = {name: value for name, value in spec.items() if name not in ("nodeName", "tolerations", "affinity")}
    for part in ("initContainers", "containers", "ephemeralContainers"):
        slim[part] = [{name: value for name, value in item.items() if name not in _NEVER_JUDGED} for item in spec.get(part) or ()]
    token_name, token_keys = "kube-api-access-", {"name", "projected"}  # the only volume whose name differs between replicas
    slim["volumes"] = [
        volume
        for volume in spec.get("volumes") or ()
        if not (str(volume.get("name")).startswith(token_name) and volume.keys() == token_keys)
    ]
    profiles = {name: value for name, value in annotations.items() if "apparmor" in name or "seccomp" in name}
    return msgspec.json.encode([level, profiles, slim])


def _hint(scope: Scope, template: Template, shown: str) -> str:
    if f'"{IPC_LOCK}"' not in shown:
        return ""
    if not matches(template.namespace, scope.policy.tenants.ipc_lock):
        return f"; {IPC_LOCK} needs the tenant to be named in the policy's tenants.ipcLock"
    return f"; {IPC_LOCK} is for pods that ask for an RDMA resource, which this one does not"


def _without_ipc_lock(scope: Scope, template: Template, spec: Json) -> str:
    """Drop IPC_LOCK from what an RDMA pod of a named tenant adds; names of its containers that had it.

    RDMA pins memory, which IPC_LOCK allows; the capability violates even baseline (docs/facts/pod-security.md#pods-with-devices).
    """
    amounts = (one.resources for one in template.containers)
    asked = {name for one in amounts for name in (*(one.limits or ()), *(one.requests or ()))}
    if not matches(template.namespace, scope.policy.tenants.ipc_lock) or not any(map(scope.is_rdma, asked)):
        return ""
    names = []
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            security = mapping(container.get("securityContext"))
            capabilities = mapping(security.get("capabilities"))
            added = capabilities.get("add")
            if isinstance(added, list) and IPC_LOCK in added:
                kept = {**capabilities, "add": [name for name in added if name != IPC_LOCK]}
                container["securityContext"] = {**security, "capabilities": kept}
                names.append(str(container.get("name")))
    return ", ".join(names)


def as_json(spec: PodSpec) -> Json:
    """A pod spec as the Pod Security evaluator takes it. A copy: changing it changes nothing else."""
    value: Any = msgspec.to_builtins(spec)
    return value if isinstance(value, dict) else {}
