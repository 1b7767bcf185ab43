"""Counts the bound pods of gangs after every event, by ``spec.nodeName``: conditions and phases go stale.

A scheduler that knows no claims binds pods without the devices that they claim. Facts: docs/facts/gangs.md#claims-of-gangs,
docs/facts/dra.md#extended-resources-by-claim.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from conformance.gang.adapters.base import Gang
from conformance.gang.judging import Attempt
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.times import unix
from fixtures.model.dra.held_claims import HeldClaim, claims_of, held_claim
from fixtures.model.dra.slices import CLAIMS
from fixtures.probes.pods import decode_pod
from fixtures.probes.workspace import Workspace


def claims_there(workspace: Workspace) -> dict[str, HeldClaim]:
    """ResourceClaims of the run's namespace, by name. Raises :class:`ApiTrouble`."""
    return {claim.place.name: claim for claim in map(held_claim, workspace.cluster.each(CLAIMS, workspace.namespace()))}


def without_devices(pods: Iterable[Json], claims: Mapping[str, HeldClaim]) -> list[str]:
    """Names of bound pods that lack a claim which is allocated and reserved for them."""

    def served(pod: Pod) -> bool:
        found = [claims.get(name) for name in claims_of(pod)]
        own = pod.metadata.uid
        return bool(found) and all(one and one.allocated and any(user.uid == own for user in one.consumers) for one in found)

    return sorted(pod.name for pod in map(decode_pod, pods) if not served(pod))


Counts = tuple[int, ...]
MAX_STEPS_SHOWN = 12


class BoundWatch:
    """Counts of bound members per gang, over time. One observation serves a whole probe, so that no bind is missed between steps."""

    def __init__(self, observation: Observation, namespace: str, gangs: Sequence[Gang]) -> None:
        self._observation = observation
        self._gangs = gangs
        self._members = [{f"{namespace}/{name}" for name in gang.names} for gang in gangs]
        self._began = time.monotonic()
        self.history: list[tuple[float, Counts]] = []
        self.most: Counts = (0,) * len(gangs)

    def until(self, seconds: float, stop: Callable[[Counts], bool]) -> bool:
        """Watch until ``stop`` says yes to the counts; False when ``seconds`` passed. Every change is remembered."""
        return any(stop(self.see(objects)) for objects in self._observation.until(time.monotonic() + seconds))

    def see(self, objects: Mapping[str, Json]) -> Counts:
        """Count the members among objects of the observation."""
        counts = tuple(sum(is_bound(objects[key]) for key in members & objects.keys()) for members in self._members)
        if not self.history or self.history[-1][1] != counts:
            self.history.append((time.monotonic() - self._began, counts))
        self.most = tuple(max(pair) for pair in zip(self.most, counts, strict=True))
        return counts

    @property
    def now(self) -> Counts:
        """The counts as of the last event."""
        return self.see(self._observation.objects)

    def bound(self) -> list[Json]:
        """The pods of the gangs that are bound as of the last event."""
        objects = self._observation.objects
        return [pod for members in self._members for key in sorted(members & objects.keys()) if is_bound(pod := objects[key])]

    def attempt(self) -> Attempt:
        """What became of the one gang that is watched, as of the last event. Members that are missing may have been bound in a gap."""
        objects, (members,), (gang,) = self._observation.objects, self._members, self._gangs
        conditions = [decode_pod(objects[key]).condition("PodScheduled") for key in members & objects.keys()]
        times = [unix(one.last_transition_time) if one is not None and one.status == "True" else None for one in conditions]
        known = [moment for moment in times if moment is not None]
        return Attempt(
            size=gang.size,
            bound=self.now[0],
            most=self.most[0],
            seconds=time.monotonic() - self._began,
            spread=max(known) - min(known) if known and len(known) == len(times) else None,
            trace=self.text,
            missing=len(members - objects.keys()),
        )

    @property
    def text(self) -> str:
        """Counts over time: ``0 s: 0+0, 0.2 s: 2+0``."""
        shown = self.history[:MAX_STEPS_SHOWN]
        steps = ", ".join(f"{seconds:.1f} s: {'+'.join(str(count) for count in counts)}" for seconds, counts in shown)
        return steps + (" …" if len(self.history) > len(shown) else "")


def is_bound(pod: Json) -> bool:
    """Whether a pod of a watch has its node."""
    return bool(decode_pod(pod).node_name)
