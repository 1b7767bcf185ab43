"""Differences between the real API server and the simulated one that are known, each with why it changes no verdict."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fixtures.localcluster.install.release import version_key
from tests.simulator.fidelity.comparing import View

Json = dict[str, Any]
Rule = Callable[[Json, View, View], bool]

RULES: Mapping[str, Rule] = {
    "fields that nothing in the simulated cluster acts on: it refuses them with 501, and no requirement or experiment sends them": (
        lambda _body, _real, simulated: simulated.status == 501
    ),
    "fields that are forbidden in Windows pods: no requirement judges Windows nodes": (
        lambda body, real, _: "windows" in real.message or "hostProcess" in real.message or "windowsOptions" in str(body)
    ),
    "defaults of a resource without a name: every request that has such a resource is refused on both sides": (
        lambda body, real, _: real.status == 422 and "resources.limits[]" in real.message
    ),
    "warnings on ports and variables that are named twice, and on selectors that match nothing: no requirement reads them": (
        lambda _body, real, simulated: (
            real.status == simulated.status
            and real.message == simulated.message
            and real.causes == simulated.causes
            and not any("PodSecurity" in text for text in set(real.warnings) ^ set(simulated.warnings))
        )
    ),
    "which of two bad claims with one name is reported as the duplicate, and how often: the pod is refused on both sides": (
        lambda body, real, simulated: real.status == simulated.status == 422 and "resourceClaims" in body["spec"]
    ),
    "a claim's second bad source or a volume without a valid source: the pod is refused on both sides, with the same first cause": (
        lambda body, real, simulated: real.status == simulated.status == 422 and "volumes" in body["spec"]
    ),
    "fields that are new in 1.36, on a 1.35 server: the suite sets them only where discovery shows the API that they belong to": (
        lambda body, real, _: (
            real.status == 400 and 'unknown field "spec.schedulingGroup"' in real.message and "schedulingGroup" in body["spec"]
        )
    ),
}

WORDED_SINCE = (1, 37)
"""The minor that the simulated cluster answers as."""


def _worded_otherwise(_body: Json, real: View, simulated: View) -> bool:
    """The same causes but for repetitions, for the index of an owner and for where ``shareProcessNamespace`` is said to stand."""
    return real.status == simulated.status == 422 and _places(real) == _places(simulated)


def _places(answer: View) -> set[str]:
    fields = {re.sub(r"ownerReferences\[\d+\]", "ownerReferences", field) for _, field in answer.causes}
    return {field.replace("securityContext.shareProcess", "shareProcess") for field in fields}


OLDER: Mapping[str, Rule] = {
    "causes that an API server before 1.37 repeats or names with another path: the pod is refused on both sides for the same fields": (
        _worded_otherwise
    ),
    "DeviceTaintRules in a version that is new in 1.37: the suite reads them in the version that discovery shows": (
        lambda body, _real, simulated: (
            str(body["metadata"].get("name")).endswith("/devicetaintrules") and "DeviceTaintRule" in simulated.reason
        )
    ),
    "words about claims that a scheduler before 1.37 puts before those about preemption: requirements read both": (
        lambda _body, real, simulated: (
            real.status == simulated.status
            and real.causes == simulated.causes
            and real.reason.replace("no new claims to deallocate, ", "") == simulated.reason
        )
    ),
}
"""Rules for servers of the minors before 1.37 only."""


def reason_of(body: Json, real: View, simulated: View, version: str) -> str:
    """Why a difference from a server of that version is known; empty when it is not."""
    return _first(RULES, body, real, simulated) or older_reason(body, real, simulated, version)


def older_reason(body: Json, real: View, simulated: View, version: str) -> str:
    """The same of what only minors before 1.37 do."""
    return _first(OLDER, body, real, simulated) if version_key(version)[:2] < WORDED_SINCE else ""


def _first(rules: Mapping[str, Rule], body: Json, real: View, simulated: View) -> str:
    return next((reason for reason, applies in rules.items() if applies(body, real, simulated)), "")


def page() -> str:
    """``docs/fidelity.md``."""
    rows = [f"- {what[:1].upper()}{what[1:]}: {why}." for what, _, why in (reason.partition(": ") for reason in (*RULES, *OLDER))]
    head = Path(__file__).with_suffix(".head.md").read_text(encoding="utf-8")
    return f"{head}\n{chr(10).join(rows)}\n"
