"""INV-03: what the caller may do, asked of the API server itself (SelfSubjectAccessReview, authorization.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec

from conformance.requirement import Needs
from fixtures.cluster import access
from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.kinds import KINDS, kubectl_name
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.dra.slices import CLAIMS, SLICES, TEMPLATES
from fixtures.snapshot.custom_kinds import DEFINITIONS
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Subject

_SOURCE = "SelfSubjectAccessReview"
ASKED_AT_ONCE = 8
"""Reviews in flight: far from the API server, one after the other would take longer than all lists."""


class Right(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One verb on one resource, cluster-wide. ``subresource`` is empty for the resource itself."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    needed_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        resource = f"{self.group}/{self.resource}" if self.group else self.resource
        return f"{self.verb} {resource}" + (f"/{self.subresource}" if self.subresource else "")

    def review(self) -> Json:
        """The SelfSubjectAccessReview that asks for it. No namespace means: in all of them."""
        return access.review(self.verb, self.group, self.resource, self.subresource)


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A right and what the API server answered. ``allowed`` is None when it gave no answer, ``reason`` says why."""

    right: Right
    allowed: bool | None
    reason: str = ""


def rights(needs: Needs, snapshot: Snapshot) -> list[Right]:
    """Every right that the selected requirements need, once. Kinds that the cluster does not serve need none."""
    found: dict[Right, list[str]] = {}
    wanted = [(_right("list", key), ids) for key, ids in needs.reads.items()]
    wanted += [(_right(verb, key), ids) for text, ids in needs.writes.items() for verb, _, key in [text.partition(" ")]]
    for right, ids in wanted:
        if _served(right, snapshot):
            found.setdefault(right, []).extend(ids)
    return [msgspec.structs.replace(right, needed_by=tuple(dict.fromkeys(ids))) for right, ids in sorted(found.items())]


def check_custom_kinds(snapshot: Snapshot, needs: Needs) -> Iterator[Finding]:
    """One finding per custom kind that may hold pods and that the account was refused: what is in it is not judged, and no more.

    No role can name kinds that somebody may install, so this right is none that a requirement needs.
    """
    needed = ", ".join(needs.reads.get(DEFINITIONS, ()))
    for listing in snapshot.custom:
        if listing.trouble == "Forbidden":
            message = f"the caller may not list {kubectl_name(listing.key)}, so {needed} do not judge the pod templates in it"
            yield not_judged(Subject("right", f"list {listing.key}"), message=message, source="list")


def _served(right: Right, snapshot: Snapshot) -> bool:
    """Whether the cluster serves what the right is about. A kind that nobody looked for counts as served: better one question too many."""
    key = f"{right.group}/{right.resource}" if right.group else right.resource
    if key in (TEMPLATES, CLAIMS) and right.verb != "list" and not snapshot.listing(SLICES).items:
        return False  # probes claim devices only where a driver publishes some
    if not snapshot.listing(key).served:
        return False
    return key not in KINDS or not snapshot.versions or key in snapshot.versions


def _right(verb: str, key: str) -> Right:
    """``pods``, ``apps/daemonsets``, ``pods/log`` or ``group/plural/subresource``."""
    head, _, tail = key.rpartition("/")
    core_subresource = head and "/" not in head and "." not in head and key not in KINDS and head in KINDS
    if core_subresource or head.count("/") == 1:
        key, subresource = head, tail
    else:
        subresource = ""
    group, _, resource = key.rpartition("/")
    return Right(verb=verb, group=group, resource=resource, subresource=subresource)


def ask_rights(cluster: Cluster, wanted: Iterable[Right]) -> Iterator[Review]:
    """Ask the API server about each right, several at a time. Reviews create nothing."""
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        yield from pool.map(lambda right: _ask(cluster, right), wanted)


def _ask(cluster: Cluster, right: Right) -> Review:
    try:
        return read_review(right, cluster.request("POST", access.PATH, body=right.review()))
    except ApiTrouble as trouble:
        return Review(right=right, allowed=None, reason=trouble.message)


def read_review(right: Right, answer: Answer) -> Review:
    """What an answer to a review says."""
    if not answer.ok:
        return Review(right=right, allowed=None, reason=f"{answer.status} {answer.message}")
    try:
        status = answer.json().get("status")
    except ApiTrouble as trouble:
        return Review(right=right, allowed=None, reason=trouble.message)
    if not isinstance(status, dict) or not isinstance(status.get("allowed"), bool):
        return Review(right=right, allowed=None, reason="the answer has no status.allowed")
    reason = str(status.get("evaluationError") or status.get("reason") or "")
    return Review(right=right, allowed=status["allowed"], reason=reason[:300])


def check_rights(reviews: Iterable[Review]) -> Iterator[Finding]:
    """One finding per right. A missing one names the requirements that cannot be judged without it.

    It is no fault of the cluster's: what the caller may not see is undecided, and never failed.
    """
    for review in reviews:
        right = review.right
        subject = Subject("right", str(right))
        needed = ", ".join(right.needed_by)
        about = About(subject, _SOURCE)
        if review.allowed:
            yield about.ok("allowed", expected="allowed")
        elif review.allowed is None:
            yield about.undecided(
                f"the API server did not say whether this is allowed ({review.reason}); {needed} need it", cause="ApiTrouble"
            )
        else:
            why = f" ({review.reason})" if review.reason else ""
            yield about.undecided(f"the caller may not {right}{why}, so {needed} cannot be judged", cause="RightMissing")
