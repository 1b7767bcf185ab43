"""FENCE-12: a node that came back from a quarantine was validated before it took work again, or since."""

from __future__ import annotations

from collections.abc import Iterator

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.nodes.chosen import is_returning
from fixtures.model.nodes.holds import STATE_LABEL
from fixtures.model.nodes.returns import Quarantine, last_quarantine, validations
from fixtures.text.sentences import duration
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable

_SOURCE = "metadata of the node, its conditions, validator pods on it"


def check_validated(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node that shows a quarantine."""
    found = [(node, quarantine) for node in scope.accelerator_nodes if (quarantine := last_quarantine(node)) is not None]
    if not found:
        raise NotApplicable("NoQuarantine", "no accelerator node shows that it was in quarantine")
    for node, quarantine in found:
        yield _validated(scope, node, quarantine)


def _validated(scope: Scope, node: Node, quarantine: Quarantine) -> Finding:
    about = About(subject(node), _SOURCE, "a validation that is newer than the quarantine")
    state = node.metadata.label.get(STATE_LABEL, "")
    if is_returning(scope, node):
        return about.not_judged("it is not back in service: this run is to say whether it may be")
    if away := scope.why_not_judged(node) or (f"label {STATE_LABEL}={state}" if state else ""):
        return about.not_judged(f"it is not back in service: {away}")
    last = max(validations(scope, node), key=lambda one: one.at, default=None)
    now, shown = scope.snapshot.taken_at, f"it was in quarantine ({quarantine.words})"
    if last is None:
        return about.bad(f"{shown}, and nothing shows that it was validated", cause="ReturnedWithoutValidation", observed="no validation")
    observed = f"{last.words}, {duration(max(now - last.at, 0.0))} ago"
    began, ended = quarantine.began.latest, quarantine.ended.latest
    if last.at >= min((at for at in (began, ended) if at is not None), default=float("inf")):
        return about.ok(observed)
    if began is None:
        return about.undecided(f"{shown}; {observed}: nothing says whether that is older than the quarantine's begin")
    message = f"{shown}, and its last validation is older: {observed}"
    return about.bad(message, cause="ReturnedWithoutValidation", observed=observed)
