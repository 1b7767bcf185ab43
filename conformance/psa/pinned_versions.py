"""What a level lets through at a pinned version: one pod for each control is evaluated at that version. Pure.

Facts: docs/facts/pod-security.md#versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from fixtures.kubernetes.podsecurity import LATEST, Level, LevelVersion, evaluate
from fixtures.kubernetes.podsecurity.registry import BASELINE, RESTRICTED

STABLE = 25
"""Pod Security admission became stable with this minor. A control that came later is advice: pinning keeps it out on purpose."""

_COMPLIANT: Mapping[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_POD: Mapping[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def _pod(container: Mapping[str, Any] | None = None, security: Mapping[str, Any] | None = None, **spec: Any) -> Mapping[str, Any]:
    """A pod that the level restricted admits, but for what is given."""
    body = {"name": "c", "securityContext": _COMPLIANT, **(container or {})}
    return {"containers": [body], "securityContext": {**_POD, **(security or {})}, **spec}


def _secured(**security: Any) -> Mapping[str, Any]:
    return _pod({"securityContext": {**_COMPLIANT, **security}})


VIOLATING: Mapping[str, Mapping[str, Any]] = {
    "appArmorProfile": _secured(appArmorProfile={"type": "Unconfined"}),
    "capabilities_baseline": _secured(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
    "hostNamespaces": _pod(hostPID=True),
    "hostPathVolumes": _pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    "hostPorts": _pod({"ports": [{"containerPort": 80, "hostPort": 80}]}),
    "hostProbesAndHostLifecycle": _pod({"livenessProbe": {"httpGet": {"host": "10.0.0.1", "port": 80}}}),
    "privileged": _secured(privileged=True),
    "procMount": _secured(procMount="Unmasked"),
    "seLinuxOptions": _secured(seLinuxOptions={"type": "spc_t"}),
    "seccompProfile_baseline": _secured(seccompProfile={"type": "Unconfined"}),
    "sysctls": _pod(security={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
    "windowsHostProcess": _secured(windowsOptions={"hostProcess": True}),
    "allowPrivilegeEscalation": _secured(allowPrivilegeEscalation=True),
    "capabilities_restricted": _secured(capabilities={}),
    "procMount_restricted": _pod({"securityContext": {**_COMPLIANT, "procMount": "Unmasked"}}, hostUsers=False),
    "restrictedVolumes": _pod(volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
    "runAsNonRoot": _pod(security={"runAsNonRoot": None}),
    "runAsUser": _pod(security={"runAsUser": 0}),
    "seccompProfile_restricted": _pod(security={"seccompProfile": None}),
}
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
