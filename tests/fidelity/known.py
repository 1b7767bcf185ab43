"""Differences between the real API server and the simulated one that are known, each with why it changes no verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.fidelity.comparing import View

Json = dict[str, Any]
Rule = Callable[[Json, View, View], bool]

_EMPTY_NUMBERS = ("quantities must match the regular expression", "unable to parse quantity's suffix")


def _causes(view: View, text: str) -> bool:
    return any(text in field for _, field in view.causes)


def _warnings_of_refused(_body: Json, real: View, simulated: View) -> bool:
    return real.status == simulated.status == 403 and real.message == simulated.message and set(simulated.warnings) < set(real.warnings)


RULES: Mapping[str, Rule] = {
    "the simulated cluster has no ServiceAccount admission: probes use the default account, which every real namespace has": (
        lambda body, real, _: "error looking up service account" in real.message and "serviceAccountName" in body["spec"]
    ),
    "a quantity of a sign or suffix without digits is zero to the real parser: no requirement sends one": (
        lambda _body, _real, simulated: simulated.status == 400 and any(text in simulated.message for text in _EMPTY_NUMBERS)
    ),
    "fields that a Windows pod may not have: no requirement judges Windows nodes": (
        lambda body, real, _: "windows" in real.message or "hostProcess" in real.message or "windowsOptions" in str(body)
    ),
    "paths and words of metadata.ownerReferences, finalizers and annotations: probes set none that are wrong": (
        lambda _body, real, simulated: any(
            _causes(view, text)
            for view in (real, simulated)
            for text in ("metadata.ownerReferences", "metadata.finalizers", "metadata.annotations")
        )
    ),
    "defaults of a resource without a name": (lambda body, real, _: real.status == 422 and "resources.limits[]" in real.message),
    "a seccomp annotation beside a seccomp field: the annotation means nothing since 1.27": (
        lambda _body, real, _simulated: "seccomp profile in annotation and field must match" in real.message
    ),
    "a warning beside a refusal: the refusal is what is judged": _warnings_of_refused,
    "warnings on ports and variables that are named twice, and on selectors that match nothing: no requirement reads them": (
        lambda _body, real, simulated: (
            real.status == simulated.status
            and real.message == simulated.message
            and not any("PodSecurity" in text for text in set(real.warnings) ^ set(simulated.warnings))
        )
    ),
    "which of two bad claims of one name is called the duplicate": (
        lambda body, real, simulated: real.status == simulated.status == 422 and "resourceClaims" in body["spec"]
    ),
    "a claim's second bad source or a volume without a valid source: the first cause is the same": (
        lambda body, real, simulated: real.status == simulated.status == 422 and "volumes" in body["spec"]
    ),
}


def reason_of(body: Json, real: View, simulated: View) -> str:
    """Why a difference is known; empty when it is not."""
    return next((reason for reason, applies in RULES.items() if applies(body, real, simulated)), "")
