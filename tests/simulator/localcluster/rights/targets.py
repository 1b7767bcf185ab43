"""Clusters whose authorizer can be told to refuse the suite one right: real Kubernetes, and the embedded cluster."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from conformance.probes.server_metrics import PATH
from deploy.rights import Right
from fixtures.cluster.access import right_of
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Json
from fixtures.localcluster.control_plane.account import ROLES, grant, shipped, suite_kubeconfig
from fixtures.localcluster.control_plane.components import AUDIT_LOG
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.simulator.config.defects import SUITE_USER, policy_of
from fixtures.simulator.config.scenario import parse_simulate
from fixtures.simulator.process.serve import new_tokens, write_kubeconfig
from fixtures.simulator.simulated_cluster import SimulatedCluster
from tests.simulator.localcluster.rights.roles import objects_of_role, rights_of_role, text_of

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
EFFECT_SECONDS = 180.0
OWN_GROUPS = frozenset({"authorization.k8s.io"})
"""Groups that everybody who is logged in may ask (system:basic-user)."""

EXTRA = ("nvidia.com/gpuclusters", "trainer.kubeflow.org/trainjobs", "serving.kserve.io/inferenceservices")
"""Kinds that the suite reads where they exist, and that no scenario defines: they are defined in all of them here."""

NOT_EMBEDDED = {"scheduling.k8s.io/podgroups": "needed only where the scheduler forms gangs itself, which the embedded one does not"}

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"


class Asked(msgspec.Struct, frozen=True):
    """One request of the suite as the authorizer saw it."""

    right: Right
    allowed: bool


class Target(Protocol):
    """A running scenario and its authorizer."""

    kubeconfig: Path
    policy: Json

    def give(self, role: str, rights: frozenset[Right]) -> None:
        """Let the suite's account have exactly these rights. Returns once that is in effect."""
        ...

    def asked(self) -> list[Asked]:
        """Requests since the last call."""
        ...


class LocalTarget:
    """A scenario on real Kubernetes. What was asked comes from the API server's audit log."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.kubeconfig = cluster.kubeconfig
        self.policy = cluster.policy
        self._plane = cluster.plane
        self._log = cluster.plane.folder / AUDIT_LOG
        self._read = 0
        self._role = ""
        for key in EXTRA:
            _require(Cluster.from_kubeconfig(cluster.admin_kubeconfig).create(DEFINITIONS, definition(key)).ok, key)

    def give(self, role: str, rights: frozenset[Right]) -> None:
        """Write the role and wait until the authorizer of the API server answers by it."""
        if role != self._role:
            for other in ROLES:
                unbind(self._plane, other)
            suite_kubeconfig(self._plane, role)
            self._role = role
        grant(self._plane, objects_of_role(role, rights))
        suite = Cluster.from_kubeconfig(self.kubeconfig)
        deadline = time.monotonic() + EFFECT_SECONDS
        waiting = rights_of_role("full") | rights_of_role("read-only")
        while waiting := frozenset(right for right in waiting if allowed(suite, right) is not (right in rights)):
            _require(time.monotonic() < deadline, f"the role is in effect ({text_of(min(waiting))} is not)")
        self.asked()

    def asked(self) -> list[Asked]:
        """Requests since the last call."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            data = log.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._read += len(complete)
        return [found for line in complete.splitlines() if (found := asked_in(line)) is not None]

    def restore(self) -> None:
        """Leave the cluster as it was."""
        self.give("full", rights_of_role("full"))
        admin = Cluster.from_kubeconfig(self._plane.kubeconfig)
        for key in EXTRA:
            _require(admin.delete(DEFINITIONS, definition(key)["metadata"]["name"]).ok, key)


class EmbeddedTarget:
    """A scenario on the embedded cluster, in a thread of this process. Its authorizer is the role itself."""

    def __init__(self, kubeconfig: Path, policy: Json, authorizer: "RoleAuthorizer") -> None:
        self.kubeconfig = kubeconfig
        self.policy = policy
        self._authorizer = authorizer

    def give(self, role: str, rights: frozenset[Right]) -> None:
        """In effect at once."""
        self._authorizer.rights = rights
        self.asked()

    def asked(self) -> list[Asked]:
        """Requests since the last call."""
        asked, self._authorizer.asked = self._authorizer.asked, []
        return asked


class RoleAuthorizer:
    """Allows the suite's user exactly a set of rights, and writes down what it asked for."""

    def __init__(self) -> None:
        self.rights: frozenset[Right] = frozenset()
        self.asked: list[Asked] = []
        self._reviewing: set[object] = set()

    def allowed(self, user: str, verb: str, group: str, resource: str, subresource: str, namespace: str, name: str) -> bool:
        """Whether the role allows it. The question inside an access review is no request: it follows the review's own in the same task."""
        task = asyncio.current_task()
        if user != SUITE_USER:
            return True
        if group in OWN_GROUPS:
            self._reviewing.add(task)
            return True
        right = (group, f"{resource}/{subresource}" if subresource else resource, verb)
        if task in self._reviewing:
            self._reviewing.remove(task)
        else:
            self.asked.append(Asked(right, right in self.rights))
        return right in self.rights


@contextmanager
def local(scenario: str, folder: Path) -> Iterator[LocalTarget]:
    """A scenario on a local control plane. Raises BinariesMissing and what else keeps one from starting."""
    with LocalCluster.start(None, scenario, folder) as cluster:
        yield LocalTarget(cluster)


@contextmanager
def shared(cluster: LocalCluster) -> Iterator[LocalTarget]:
    """A scenario on a local control plane that others look at too."""
    target = LocalTarget(cluster)
    try:
        yield target
    finally:
        target.restore()


@contextmanager
def embedded(scenario: str, folder: Path) -> Iterator[EmbeddedTarget]:
    """A scenario on the embedded cluster."""
    (loaded, defects), tokens, authorizer = parse_simulate(scenario), new_tokens(), RoleAuthorizer()
    loaded = msgspec.structs.replace(loaded, objects=[*loaded.objects, *(definition(key) for key in EXTRA)])
    cluster = SimulatedCluster(loaded, defects, tokens=tokens)
    cluster._rights = authorizer  # type: ignore[assignment]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    url = asyncio.run_coroutine_threadsafe(cluster.start(), loop).result(30)
    try:
        path = folder / f"{scenario}.kubeconfig"
        write_kubeconfig(path, url, tokens)
        yield EmbeddedTarget(path, policy_of(loaded, defects), authorizer)
    finally:
        asyncio.run_coroutine_threadsafe(cluster.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def unbind(plane: ControlPlane, role: str) -> None:
    """Take a role of ``deploy/`` from the suite's account; one that it does not have is no trouble."""
    name = next(item["metadata"]["name"] for item in shipped(role) if item["kind"] == "ClusterRoleBinding")
    answer = Cluster.from_kubeconfig(plane.kubeconfig).delete("rbac.authorization.k8s.io/clusterrolebindings", name)
    assert answer.ok or answer.status == 404, f"ClusterRoleBinding {name}: {answer.status} {answer.message}"


def allowed(cluster: Cluster, right: Right) -> bool:
    """What the API server says about a right of the caller."""
    group, resource, verb = right
    answer = cluster.request("POST", REVIEWS, body=right_of(verb, f"{group}/{resource}".lstrip("/") if group else resource).review())
    _require(answer.ok, f"an answer to a SelfSubjectAccessReview: {answer.message}")
    return bool(answer.json()["status"]["allowed"])


def asked_in(line: bytes) -> Asked | None:
    """The request of a line of the audit log; None for one about no resource, or one that everybody may ask."""
    event = msgspec.json.decode(line)
    reference = event.get("objectRef") or {}
    if event.get("requestURI") == PATH:
        reference = {"resource": PATH}
    group, plural = reference.get("apiGroup", ""), reference.get("resource", "")
    if not plural or group in OWN_GROUPS:
        return None
    subresource = reference.get("subresource", "")
    right = (group, f"{plural}/{subresource}" if subresource else plural, event["verb"])
    return Asked(right, (event.get("annotations") or {}).get("authorization.k8s.io/decision") == "allow")


def definition(key: str) -> Json:
    """A CustomResourceDefinition of a kind that the suite knows."""
    kind = KINDS[key]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": kind.versions[0], "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural, "singular": kind.kind.lower()}
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {"group": kind.group, "names": names, "scope": scope, "versions": [version]},
    }


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise RuntimeError(f"the proof of rights needs: {what}")
