"""ADV-04: what feature labels say, compared with each other, with capacity and with the clock."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adv import amd_labels
from conformance.adv.gfd_labels import TIMESTAMP, count_of, discovered, problems
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.arithmetic import amd_terms, gke_terms, label_terms
from fixtures.model.devices.node_view import view_of
from fixtures.model.devices.physical import number
from fixtures.model.devices.scheduler_amounts import split_of
from fixtures.verdict.findings import About, Finding

HOUR = 3600.0
_SOURCE = "node labels of gpu-feature-discovery"
_EXPECTED = "complete, well-formed labels that agree with each other and with capacity"


def check_labels(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per accelerator node. ``now`` is Unix seconds. Nodes without any label of discovery are not judged."""
    for node in scope.accelerator_nodes:
        labels = node.metadata.label
        if amd_labels.labelled(labels) and not discovered(labels):
            yield _amd(scope, node)
            continue
        about = About(subject(node), _SOURCE)
        if not discovered(labels):
            yield about.not_judged("GPU Feature Discovery wrote no labels here: clouds and other vendors do without")
            continue
        faults = [*problems(labels, view_of(scope, node)), *_against_capacity(scope, node)]
        if stale := _stale(scope, labels, now):
            faults.append(stale)
        count = count_of(labels)
        if faults:
            more = f" (and {len(faults) - 1} more: {'; '.join(faults[1:4])})" if len(faults) > 1 else ""
            message = f"{faults[0]}{more}: jobs and tools that rely on these labels are misled"
            yield about.bad(message, cause="FeatureLabelsWrong", observed=f"{count} labels; {faults[0]}", expected=_EXPECTED)
        elif scope.policy.advertisement.max_label_age_hours > 0 and TIMESTAMP not in labels:
            message = f"the policy limits the age of labels, and {TIMESTAMP} is absent (gfd.noTimestamp), so their age is unknown"
            yield about.undecided(message, cause="AgeUnknown")
        else:
            age = (
                ""
                if scope.policy.advertisement.max_label_age_hours
                else "; their age is not judged (policy advertisement.maxLabelAgeHours)"
            )
            yield about.ok(f"{count} labels agree", expected=f"{_EXPECTED}{age}")


def _amd(scope: Scope, node: Node) -> Finding:
    labels, source = node.metadata.label, "node labels of the AMD node labeller"
    faults = list(amd_labels.problems(labels))
    faults += [
        f"capacity of {term.resource} is {term.observed} and {term.problem}"
        for term in amd_terms(labels, scope.device_capacity(node), [])
        if term.problem
    ]
    count = amd_labels.count_of(labels)
    about = About(subject(node), source, _EXPECTED)
    if faults:
        message = f"{'; '.join(faults[:4])}: jobs and tools that rely on these labels are misled"
        return about.bad(message, cause="FeatureLabelsWrong", observed=f"{count} labels; {faults[0]}")
    return about.ok(f"{count} labels agree")


def _against_capacity(scope: Scope, node: Node) -> Iterator[str]:
    """Labels against what is advertised. A resource that is not advertised at all is ADV-01's and ADV-03's finding."""
    view = view_of(scope, node)
    if view.vgpu or split_of(node) or gke_terms(node.metadata.label, scope.device_capacity(node)):
        return
    for term in label_terms(view):
        if term.observed and not term.agrees:
            why = f": {term.problem}" if term.problem else f" ({term.source})"
            yield f"capacity of {term.resource} is {term.observed} and the labels give {term.formula}{why}"


def _stale(scope: Scope, labels: dict[str, str], now: float) -> str:
    limit = scope.policy.advertisement.max_label_age_hours
    written = number(labels.get(TIMESTAMP))
    if limit <= 0 or written is None:
        return ""
    hours = (now - written) / HOUR
    return f"{TIMESTAMP} is {hours:.1f} hours old, the policy allows {limit:g}" if hours > limit else ""
