"""The contract of a gang scheduler's adapter."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Protocol

import msgspec

from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.platform.deployments import Deployment, deployments
from fixtures.model.platform.namespaces import UNPROVEN, Workload, workload_names
from fixtures.probes.workspace import Workspace
from fixtures.text.sentences import so_far
from fixtures.verdict.subjects import Inconclusive

RELEASE_SECONDS = 60.0
GANG_LABEL = "gpu-conformance.io/gang"


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a gang scheduler is there and works. ``healthy`` is None when nothing shows it; ``reason`` is one clause.

    ``idle``: its API is served, which proves no scheduler, and nothing uses it. ``claimed``: only marks that a tenant can write say that
    it is there.
    """

    installed: bool
    idle: bool = False
    claimed: bool = False
    healthy: bool | None = None
    reason: str = ""
    source: str = ""


class Guarantee(StrEnum):
    """What a gang scheduler promises about a gang that does not fit."""

    PLACEMENT = "placement"  # no pod is bound unless all can be
    QUOTA = "quota"  # nothing is admitted beyond the quota; nodes are not looked at
    EVICTION = "eviction"  # admitted by quota; what does not become ready in time is taken back as a whole


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that run together or not at all. ``pods`` are plain: the adapter adds its marks."""

    name: str
    pods: tuple[Json, ...]
    by_dra: bool = False
    """Whether its devices come with claims, of which no node's capacity tells."""

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.pods)

    @property
    def names(self) -> list[str]:
        """Names of the members."""
        return [str(pod["metadata"]["name"]) for pod in self.pods]


class Adapter(Protocol):
    """One gang scheduler. ``name`` is the policy's word for it.

    :meth:`setup` prepares queues that admit ``quota`` units of ``resource`` on ``nodes``; :meth:`submit` creates a gang;
    :meth:`release` removes it and waits until its pods are gone; :meth:`teardown` removes what would keep the
    workspace from being cleared. Methods raise :class:`~fixtures.verdict.subjects.Inconclusive` when the API refuses them.
    """

    name: str

    def detect(self, scope: Scope) -> Availability:
        """Whether the scheduler is installed and works, from the snapshot alone."""
        ...

    def guarantee(self, scope: Scope, nodes: Sequence[Node] = (), *, claims: bool = False) -> tuple[Guarantee, str]:
        """What is promised about a gang that does not fit on ``nodes``, and why, as a clause. ``claims``: its devices are claims."""
        ...

    def setup(self, scope: Scope, workspace: Workspace, resource: str, quota: int, nodes: Sequence[Node] = ()) -> None:
        """Prepare queues of this run."""
        ...

    def submit(self, workspace: Workspace, *gangs: Gang) -> None:
        """Create gangs, their pods in turn, so that several compete. Pods carry the label :data:`GANG_LABEL`."""
        ...

    def release(self, workspace: Workspace, gang: Gang) -> None:
        """Remove the gang and wait until its pods are gone."""
        ...

    def teardown(self, workspace: Workspace) -> None:
        """Release every gang that is left. Never raises for the cluster's trouble: the workspace's clearing reports it."""
        ...


def controllers_health(scope: Scope, wanted: Mapping[str, str], namespace: str) -> Availability:
    """Whether the Deployments of a scheduler are available: ``wanted`` maps a role to a part of the Deployment's name.

    Found by name in namespaces of the platform, the usual one first. Not installed when there is none of them: the scheduler may run as
    a process of its own. Raises :class:`Inconclusive` when several could be the one.
    """
    every = deployments(scope)
    found: list[str] = []
    down: list[str] = []
    young: list[str] = []
    strangers: list[Workload] = []
    for role, part in wanted.items():
        named = [item for item in every if part in item.name]
        item = _decided(scope, named, part, namespace)
        if item is None:
            strangers += [one.workload for one in named]
            continue
        found.append(f"{role} {item.text}")
        if not item.works:
            since, limit = item.gone_since, scope.policy.operators.rollout_minutes * 60
            gone = scope.snapshot.taken_at - since if since is not None else limit
            age = so_far(gone, limit) if gone < limit else ""  # a roll-out may take as long
            (young if age else down).append(f"{role} {item.text}" + (f", {age}" if age else ""))
    source = f"Deployments {', '.join(wanted.values())}"
    if not found:
        unproven = f"; {workload_names(strangers)} are none of them: {UNPROVEN}" if strangers else ""
        return Availability(installed=False, reason=f"no Deployment of its controllers was found{unproven}", source=source)
    missing = len(wanted) - len(found)
    if down or missing:
        reason = "; ".join(down) or f"{missing} of {len(wanted)} controllers have no Deployment: {'; '.join(found)}"
        return Availability(installed=True, healthy=False, reason=reason, source=source)
    return Availability(installed=True, healthy=None if young else True, reason="; ".join(young or found), source=source)


def _decided(scope: Scope, named: list[Deployment], part: str, usual: str) -> Deployment | None:
    """The scheduler's Deployment, or None. Raises :class:`Inconclusive` when there are several."""
    proven = scope.platform.resolve(named, lambda item: item.workload)
    proven = [item for item in proven if item.namespace == usual] or proven
    proven = [item for item in proven if item.name == part] or proven
    if len(proven) > 1:
        message = f"{workload_names(item.workload for item in proven)} could both be {part}, and nothing tells which one is"
        raise Inconclusive("TwoCandidates", message)
    return proven[0] if proven else None


def in_turn(gangs: Iterable[Gang]) -> Iterator[tuple[Gang, Json]]:
    """First pods of all gangs, then the second ones, and so on: gangs that are created one after the other never compete."""
    for row in zip_longest(*([(gang, pod) for pod in gang.pods] for gang in gangs)):
        yield from (entry for entry in row if entry is not None)


def delete_pods(workspace: Workspace, uids: Mapping[str, str]) -> None:
    """Ask for the deletion of pods of the run's namespace (name → uid); one that is gone or replaced is no trouble."""
    namespace = workspace.namespace()
    for name, uid in uids.items():
        answer = workspace.cluster.delete("pods", name, namespace, uid=uid, grace_seconds=0)
        if not answer.ok and answer.status not in (404, 409):
            raise ApiTrouble(answer.reason, f"pod {name} of this run could not be deleted: {answer.status} {answer.message}")


def await_gone(workspace: Workspace, key: str, names: Iterable[str], deadline: float) -> bool:
    """Watch until none of the named objects of the run's namespace is left; False at the deadline (monotonic seconds)."""
    namespace = workspace.namespace()
    wanted = {f"{namespace}/{name}" for name in names}
    with Observation(workspace.cluster, key, namespace) as observation:
        return any(not wanted & objects.keys() for objects in observation.until(deadline))
