"""What a run says of a built cluster: by a saved snapshot of it, with every requirement that reads."""

from collections.abc import Iterable

from fixtures.cluster.kinds import BUILT_IN, KINDS
from fixtures.kubernetes.models import Json
from fixtures.policy.model import Policy
from fixtures.snapshot.state import Listing, Snapshot
from fixtures.verdict.record import Result, Verdict
from tests.judging import judge
from tests.requirements_offline import snapshot_of

NOT_GREEN = (Verdict.FAILED, Verdict.WARNED, Verdict.INCONCLUSIVE, Verdict.ERROR)


def snapshot_as_served(objects: Iterable[Json]) -> Snapshot:
    """The snapshot of a cluster that serves Kubernetes' own kinds and those of which it has a definition or an object."""
    snapshot = snapshot_of(objects)
    listings = []
    for key in KINDS:
        listing = snapshot.listing(key)
        group = KINDS[key].group
        own = key in BUILT_IN or group == "resource.k8s.io" or group in snapshot.groups
        listings.append(listing if own or listing.items else Listing(key=key, served=False))
    return Snapshot(
        [*listings, *snapshot.custom],
        taken_at=snapshot.taken_at,
        version="v1.34.2",
        offline=True,
        managed_fields=snapshot.managed_fields,
        failed_pod_fields=snapshot.failed_pod_fields,
        groups=snapshot.groups,
        resources=snapshot.resources,
    )


def not_green(snapshot: Snapshot, policy: Policy) -> dict[str, Result]:
    """Requirements that do not pass, by id. One that has nothing to judge is not among them."""
    return {id_: result for id_, result in judge(snapshot, policy).items() if result.verdict in NOT_GREEN}
