"""Asks two API servers the same and counts in what they agree."""

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.localcluster.install.release import version_key
from fixtures.simulator.admission.plugins import chain
from tests.served import served
from tests.simulator.fidelity.allocation import Allocated
from tests.simulator.fidelity.binding import Compared, as_views
from tests.simulator.fidelity.comparing import BINDING, Difference, View, difference, view
from tests.simulator.fidelity.generating import NAMESPACES, Request, requests
from tests.simulator.fidelity.known import WORDED_SINCE, older_reason, reason_of


class Comparison(msgspec.Struct, kw_only=True):
    """What was compared: numbers by kind of request, and every difference."""

    version: str
    compared: Counter[str]
    differences: list[Difference]
    asked: list[Request] = []
    views: list[View] = []
    """What the real server answered to each of ``asked``."""

    @property
    def unexplained(self) -> list[Difference]:
        """Differences in what binds that no rule explains."""
        return [one for one in self.differences if one.aspect in BINDING and not one.known]

    def document(self) -> dict[str, Any]:
        """``out/fidelity.json``: agreement on what binds; ``known`` of a difference says why it is one that changes no verdict."""
        binding = [one for one in self.differences if one.aspect in BINDING]
        missed = Counter(one.kind for one in binding)
        return {
            "kubernetesVersion": self.version,
            "compared": self.compared.total(),
            "agreed": self.compared.total() - len(binding),
            "byKind": {kind: {"compared": number, "agreed": number - missed[kind]} for kind, number in sorted(self.compared.items())},
            "differences": [msgspec.to_builtins(one) for one in binding],
        }


def compare_servers(plane: ControlPlane, count: int, first: int = 1) -> Comparison:
    """Ask a control plane, which need not be new, and a simulated server."""
    real = Cluster.from_kubeconfig(plane.kubeconfig)
    with (
        tempfile.TemporaryDirectory(prefix="gpu-conformance-fidelity-") as folder,
        served(Path(folder), admissions=chain(), native_gangs=True) as (simulated, _),
    ):
        for cluster in (real, simulated):
            prepare(cluster)
        asked = [one for one in requests(count, first) if one.key == "pods" or version_key(plane.version)[:2] >= WORDED_SINCE]
        found = compare(asked, real, simulated, plane.version)
        add_discovery(found, real, simulated)
        return found


def compare(asked: Iterable[Request], real: Cluster, simulated: Cluster, version: str) -> Comparison:
    """Ask both each request."""
    result = Comparison(version=version, compared=Counter(), differences=[])
    for request in asked:
        result.compared[request.kind] += 1
        one, other = (view(ask(request, cluster)) for cluster in (real, simulated))
        result.asked.append(request)
        result.views.append(one)
        if aspect := difference(one, other):
            result.differences.append(
                Difference(
                    kind=request.kind,
                    aspect=aspect,
                    namespace=request.namespace,
                    body=request.body,
                    real=one,
                    simulated=other,
                    known=reason_of(request.body, one, other, version),
                )
            )
    return result


def add_binding(result: Comparison, compared: Iterable[Compared]) -> None:
    """Count pods that were really created, as kind ``binding``: where they went and what was said of those that went nowhere."""
    for one in compared:
        result.compared["binding"] += 1
        real, simulated = as_views(one)
        if aspect := difference(real, simulated):
            namespace = one.pod["metadata"]["namespace"]
            result.differences.append(
                Difference(
                    kind="binding",
                    aspect=aspect,
                    namespace=namespace,
                    body=one.pod,
                    real=real,
                    simulated=simulated,
                    known=older_reason(one.pod, real, simulated, result.version),
                )
            )


def add_allocation(result: Comparison, compared: Iterable[Allocated]) -> None:
    """Count claims that were really created, as kind ``allocation``: which devices and amounts they got, or why they got none."""
    for one in compared:
        result.compared["allocation"] += 1
        if aspect := difference(one.real, one.simulated):
            result.differences.append(
                Difference(kind="allocation", aspect=aspect, namespace="", body=one.claim, real=one.real, simulated=one.simulated, known="")
            )


def add_discovery(result: Comparison, real: Cluster, simulated: Cluster) -> None:
    """Count the kinds that the simulated server announces, as kind ``discovery``: the real one must announce all that it announces.

    It may announce fewer verbs (no ``deletecollection``): what it does not announce it answers with 405.
    """
    there, here = announced(real), announced(simulated)
    for place, stated in here.items():
        result.compared["discovery"] += 1
        known = there.get(place, {})
        known = {**known, "verbs": [verb for verb in known.get("verbs", ()) if verb in stated["verbs"]]}
        if stated != known:
            one, other = (
                View(status=200, reason=str(verbs), causes=[], violations="", warnings=[], message="", object={})
                for verbs in (known, stated)
            )
            body: dict[str, Any] = {"metadata": {"name": place}, "spec": {}}
            reason = older_reason(body, one, other, result.version)
            result.differences.append(
                Difference(kind="discovery", aspect="reason", namespace="", body=body, real=one, simulated=other, known=reason)
            )


def announced(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Path of each kind, in the preferred version of its group → kind, scope, verbs, short names and categories. No subresources."""
    groups = [one["preferredVersion"]["groupVersion"] for one in cluster.request("GET", "/apis").json()["groups"]]
    return {
        f"{path}/{one['name']}": {
            **{name: one.get(name) for name in ("kind", "singularName", "namespaced")},
            **{name: sorted(one.get(name) or ()) for name in ("verbs", "shortNames", "categories")},
        }
        for path in ("/api/v1", *(f"/apis/{group}" for group in groups))
        for one in cluster.request("GET", path).json()["resources"]
        if "/" not in one["name"]
    }


def prepare(cluster: Cluster) -> None:
    """Make the namespaces that requests name, with the ServiceAccount that pods get."""
    for name, labels in NAMESPACES.items():
        cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        cluster.create("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, namespace=name)


def ask(request: Request, cluster: Cluster) -> Answer:
    """The answer, a 5xx too: a server that fails on a request is compared like one that refuses it."""
    try:
        return cluster.create(request.key, request.body, namespace=request.namespace, dry_run=True)
    except ApiTrouble as trouble:
        status, _, message = trouble.message.partition(": ")[2].partition(" ")
        document = {"kind": "Status", "reason": trouble.code, "message": message}
        return Answer(status=int(status) if status.isdigit() else 599, body=msgspec.json.encode(document))
