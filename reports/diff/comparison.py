"""The comparison of a run with its baseline, as its record keeps it."""

from __future__ import annotations

from fixtures.verdict.record import ComparedChange, Comparison, Report
from reports.diff import experiments
from reports.diff.runs import Bucket, Change, Difference
from reports.safe_text import one_line

MAX_CHANGES_KEPT = 500

_EXPERIMENTS = list(experiments.Bucket)


def comparison(baseline: Report, difference: Difference) -> Comparison:
    """What the record of the later run says of the earlier one. Changes are kept most urgent first."""
    by_bucket: dict[str, list[ComparedChange]] = {bucket.value: [_kept(one) for one in difference.of(bucket)] for bucket in Bucket}
    for change in sorted(difference.experiments, key=lambda one: _EXPERIMENTS.index(one.bucket)):
        by_bucket.setdefault(change.bucket.value, []).append(_kept(change))
    changes = [change for found in by_bucket.values() for change in found]
    return Comparison(
        run=baseline.run.id,
        started_at=baseline.run.started_at,
        cluster_uid=baseline.target.cluster_uid,
        kubernetes_version=baseline.target.kubernetes_version,
        counts={bucket: len(found) for bucket, found in by_bucket.items() if found},
        changes=changes[:MAX_CHANGES_KEPT],
        changes_omitted=max(len(changes) - MAX_CHANGES_KEPT, 0),
    )


def _kept(one: Change | experiments.Change) -> ComparedChange:
    name, subject = (one.requirement, one.subject) if isinstance(one, Change) else (one.experiment, "")
    return ComparedChange(
        bucket=one.bucket.value,
        requirement=name,
        subject=subject,
        old=one.old,
        new=one.new,
        message=one_line(one.message, 400),
        gating=one.gating,
    )
