"""PSA-01: what tenant namespaces enforce, and what a level lets through at a pinned version: one pod for each control is evaluated there.

Facts: docs/facts/pod-security.md#versions.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from fixtures.kubernetes.models import Json, Namespace
from fixtures.kubernetes.podsecurity import LATEST, Level, LevelVersion, evaluate, policy_of
from fixtures.kubernetes.podsecurity.registry import BASELINE, RESTRICTED
from fixtures.model.cluster import Scope, subject
from fixtures.model.platform.kubernetes_version import server_minor
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.text.yaml_text import packaged
from fixtures.verdict.findings import About, Finding, allowed, not_judged

PREFIX = "pod-security.kubernetes.io/"
SOURCE = f"labels {PREFIX}*"
DEFAULT = "default"


def check_enforcement(scope: Scope) -> Iterator[Finding]:
    """PSA-01: every tenant namespace enforces the policy's level or a stricter one."""
    used = {pod.namespace for pod in scope.snapshot.pods}
    for namespace in scope.snapshot.namespaces:
        if not scope.is_tenant(namespace.name):
            continue
        if namespace.name == DEFAULT and DEFAULT not in used and DEFAULT not in scope.policy.tenants.namespaces:
            message = "every cluster has this namespace; it holds no pod and the policy does not name it"
            yield not_judged(subject(namespace), message=message, source="pods")
        else:
            yield _judge(scope, namespace)


def _judge(scope: Scope, namespace: Namespace) -> Finding:
    about, labels = About(subject(namespace), SOURCE), namespace.metadata.label
    if namespace.metadata.deletion_timestamp:
        return about.not_judged("the namespace is being deleted and takes no new pods", source="metadata.deletionTimestamp")
    required, tenants = required_level(scope, namespace.name), scope.policy.tenants
    effective, errors = policy_of(labels)
    enforced = effective.enforce.level
    shown = [f"{key.removeprefix(PREFIX)}={value}" for key, value in sorted(labels.items()) if key.startswith(PREFIX)]
    observed = ", ".join(shown)[:300] or "no Pod Security label"
    if required is Level.PRIVILEGED:
        return about.ok(observed, expected="nothing: the policy asks for privileged, which forbids nothing")
    about = About(subject(namespace), SOURCE, f"{PREFIX}enforce={required} or stricter", observed)
    cause = "PodSecurityTooWeak" if required is Level.RESTRICTED else "BaselineNotEnforced"  # the command of the first says restricted
    weaker, advice = enforced.strictness < required.strictness, scope.platform.advice(namespace.name)
    if wrong := [error for error in errors if error.label == f"{PREFIX}enforce"]:
        message = f"enforce={wrong[0].value!r} is no level ({wrong[0].detail}), so the API server enforces another level than was meant"
        return about.bad(message, cause=cause)
    if enforced is Level.PRIVILEGED and matches(namespace.name, tenants.ipc_lock):
        message = f"the policy lets its RDMA pods add IPC_LOCK, which only privileged admits; PSA-02 holds its device pods to {required}"
        return allowed(about.subject, message=message, source="policy tenants.ipcLock")
    if weaker and matches(namespace.name, tenants.host_rdma):
        message = "the policy lets its device pods use the host's network and be privileged; PSA-05 holds them to whole nodes"
        return allowed(about.subject, message=message, source="policy tenants.hostRdma")
    if enforced is Level.PRIVILEGED and scope.platform.openshift:
        message = "OpenShift admits its pods by SecurityContextConstraints, which are not read; PSA-02 judges its device pods"
        return about.not_judged(message)
    if f"{PREFIX}enforce" not in labels:
        message = "no enforce label, so the API server's default applies (privileged unless its configuration says otherwise)"
        return about.bad(message + advice, cause=cause)
    if weaker:
        message = f"it enforces {enforced} where the policy asks {required}, so pods beyond {required} are admitted"
        return about.bad(message + advice, cause=cause)
    gap = let_through(required, effective.enforce, server_minor(scope))
    if gap.old:
        older = listed(gap.old, 8)
        message = f"{effective.enforce} admits pods that {required} refuses today ({older}): a pinned version keeps its old rules"
        return about.bad(message, cause=cause)
    hints = _advice(labels, [error.label for error in errors], gap.new)
    return msgspec.structs.replace(about.ok(), message="; ".join(hints))


def _advice(labels: dict[str, str], wrong: list[str], newer: Sequence[str]) -> Iterator[str]:
    """The SHOULD part: it is said, and fails nothing."""
    version = labels.get(f"{PREFIX}enforce-version", LATEST)
    if version == LATEST or f"{PREFIX}enforce-version" in wrong:
        yield "enforce-version should be pinned (v1.NN): with latest, an upgrade of the control plane may refuse other pods"
    if newer:
        yield f"{version} does not know yet: {listed(newer)}; pin a newer version when its workloads are ready"
    missing = [mode for mode in ("warn", "audit") if f"{PREFIX}{mode}" not in labels]
    if missing:
        yield f"{' and '.join(missing)} should be set too, so that refusals are seen before they happen"
    invalid = [label.removeprefix(PREFIX) for label in wrong if label != f"{PREFIX}enforce-version"]
    if invalid:
        yield f"{', '.join(invalid)} has a value that the API server ignores"


def required_level(scope: Scope, namespace: str) -> Level:
    """The level the policy asks of a tenant."""
    tenants = scope.policy.tenants
    return Level(tenants.pod_security_exceptions.get(namespace, tenants.pod_security))


STABLE = 25
"""Pod Security admission became stable with this minor. A control that came later is advice: pinning keeps it out on purpose."""

_COMPLIANT: Mapping[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_POD: Mapping[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def _violating(fields: Mapping[str, Json]) -> Json:
    """A pod that the level restricted admits, but for what is given."""
    security = {**_COMPLIANT, **fields.get("secured", {})}
    container = {"name": "c", "securityContext": security, **fields.get("container", {})}
    return {"containers": [container], "securityContext": {**_POD, **fields.get("security", {})}, **fields.get("pod", {})}


_FIELDS = packaged(Path(__file__).with_suffix(".yaml"), dict[str, dict[str, dict[str, Any]]])
VIOLATING: Mapping[str, Json] = {control: _violating(fields) for control, fields in _FIELDS.items()}
"""A pod for each control, by the control's id, that violates it at the newest version and is within the level otherwise."""


class LetThrough(msgspec.Struct, frozen=True):
    """Reasons for which a level refuses pods today, and that another one does not know: ``old`` as stable as the level, ``new`` later."""

    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def let_through(required: Level, enforced: LevelVersion, server_minor: int | None) -> LetThrough:
    """What a required level refuses at the server's own version and an enforced one at its pinned version does not."""
    found: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for check in (*BASELINE, *RESTRICTED):
        pod = VIOLATING[check.id]
        today = [one for one in evaluate(pod, {}, required, LATEST, server_minor=server_minor) if one.check_id == check.id]
        if today and not evaluate(pod, {}, enforced.level, enforced.version, server_minor=server_minor):
            found[check.since <= STABLE][today[0].reason] = None
    return LetThrough(tuple(found[True]), tuple(found[False]))
