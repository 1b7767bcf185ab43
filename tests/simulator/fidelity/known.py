"""Differences between the real API server and the simulated one that are known, each with why it changes no verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.simulator.fidelity.comparing import View

Json = dict[str, Any]
Rule = Callable[[Json, View, View], bool]

RULES: Mapping[str, Rule] = {
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


def reason_of(body: Json, real: View, simulated: View) -> str:
    """Why a difference is known; empty when it is not."""
    return next((reason for reason, applies in RULES.items() if applies(body, real, simulated)), "")


def page() -> str:
    """``docs/fidelity.md``."""
    rows = [f"- {what[:1].upper()}{what[1:]}: {why}." for what, _, why in (reason.partition(": ") for reason in RULES)]
    return f"{HEAD}\n{chr(10).join(rows)}\n"


HEAD = """# Where the simulated API server differs from a real one

`make fidelity` sends the same 2,000 or more requests that create a pod, valid and invalid, to a real API server (the local control
plane) and to the simulated one. It compares status code, reason, the causes' field paths, Pod Security violations and warnings.
It prints the agreement by kind of request and fails on a difference that is not in this list. `differences` in `out/fidelity.json` holds
every request that was answered differently, and the known reason if there is one. `LOCAL=1.35` takes the minor before.
[fidelity-verdicts.md](fidelity-verdicts.md) compares the suite's verdicts on both clusters.

Known differences, and why each changes no verdict (generated from `tests/simulator/fidelity/known.py`; a test keeps it up to date):
"""
