"""Whether two runs judged the same cluster, live or saved."""

from __future__ import annotations

from fixtures.verdict.record import Report, Target

ON_PURPOSE = "if that is on purpose, say --another-cluster"


def of_two(before: Report, after: Report) -> str:
    """Why one of two reports says nothing of any cluster, as a clause, or empty: its run ended at another one than it began with."""
    for which, report in (("earlier", before), ("later", after)):
        if report.other_cluster_uid:
            return f"the {which} run ended at another cluster than it began with: which of them its results are about is not known"
    return ""


def unlike(before: Target, after: Target) -> str:
    """Why nobody may take the targets of two runs for one cluster, as a clause, or empty.

    A cluster is the same one when it was judged live once and from a snapshot the other time.
    """
    if before.simulated != after.simulated:
        which = "earlier" if before.simulated else "later"
        return f"the {which} report is about a simulated cluster, and the other one is not"
    if before.cluster_uid == after.cluster_uid:
        return ""
    if before.cluster_uid and after.cluster_uid:
        return "the reports are about two clusters: the UIDs of their namespaces kube-system differ"
    which = "later" if before.cluster_uid else "earlier"
    return f"the {which} report does not say which cluster it is about: its run did not read the namespace kube-system"
