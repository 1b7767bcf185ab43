"""INV-03: what the caller may do, asked of the API server itself (SelfSubjectAccessReview, authorization.k8s.io/v1)."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from conformance.requirement import Asks, Form, Needs
from fixtures.cluster.access import Review, Right, ask_rights, right_of
from fixtures.cluster.kinds import KINDS, kubectl_name
from fixtures.model.dra.slices import CLAIMS, SLICES, TEMPLATES
from fixtures.snapshot.custom_kinds import DEFINITIONS
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Subject

_SOURCE = "SelfSubjectAccessReview"


def rights(needs: Needs, snapshot: Snapshot) -> list[Right]:
    """Every right that the selected requirements need, once. Kinds that the cluster does not serve need none."""
    found: dict[Right, list[str]] = {}
    wanted = [(right_of("list", key), ids) for key, ids in needs.reads.items()]
    wanted += [(right_of(verb, key), ids) for text, ids in needs.writes.items() for verb, _, key in [text.partition(" ")]]
    for right, ids in wanted:
        if _served(right, snapshot):
            found.setdefault(right, []).extend(ids)
    return [msgspec.structs.replace(right, needed_by=tuple(dict.fromkeys(ids))) for right, ids in sorted(found.items())]


def reviews(asks: Asks, wanted: Sequence[Right]) -> list[Review]:
    """What the API server says of each right."""
    known = {str(right): right for right in wanted}
    form = Form(
        dict[str, tuple[bool | None, str]],
        keep=lambda found: {str(one.right): (one.allowed, one.reason) for one in found},
        give=lambda kept: [Review(right=known[name], allowed=kept[name][0], reason=kept[name][1]) for name in known if name in kept],
    )
    return asks(_SOURCE, lambda cluster: list(ask_rights(cluster, wanted)), form)


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
