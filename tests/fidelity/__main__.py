"""Ask the real API server and the simulated one the same: ``python -m tests.fidelity [COUNT] [SEED]``."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from fixtures.cluster import Answer, Cluster
from fixtures.localcluster.controlplane import ControlPlane
from fixtures.simulator.admission import chain
from fixtures.trouble import ApiTrouble
from tests.fidelity.comparing import ASPECTS, BINDING, Difference, apart, difference, view
from tests.fidelity.generating import NAMESPACES, Request, requests
from tests.served import served

SHOWN = 12


def main(count: int, first: int) -> int:
    """Compare, print agreement and the first differences of each aspect."""
    found, compared = [], Counter[str]()
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-fidelity-") as folder, ControlPlane.start() as plane:
        real = Cluster.from_kubeconfig(plane.kubeconfig)
        with served(Path(folder), admissions=chain()) as (simulated, _):
            prepare(real)
            prepare(simulated)
            for request in requests(count, first):
                compared[request.kind] += 1
                if answer := compare(request, real, simulated):
                    found.append(answer)
    report(compared, found)
    return 1 if any(one.aspect in BINDING for one in found) else 0


def prepare(cluster: Cluster) -> None:
    """Make the namespaces that requests name, with the ServiceAccount that pods get."""
    for name, labels in NAMESPACES.items():
        cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        cluster.create("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, namespace=name)


def compare(request: Request, real: Cluster, simulated: Cluster) -> Difference | None:
    """Ask both; None when they agree in everything."""
    answers = [view(ask(request, cluster)) for cluster in (real, simulated)]
    aspect = difference(*answers)
    if not aspect:
        return None
    one, other = (getattr(answer, aspect) if aspect == "object" else answer for answer in answers)
    return Difference(kind=request.kind, aspect=aspect, namespace=request.namespace, body=request.body, real=one, simulated=other)


def ask(request: Request, cluster: Cluster) -> Answer:
    """The answer, a 5xx too: a server that fails on a request is compared like one that refuses it."""
    try:
        return cluster.create(request.key, request.body, namespace=request.namespace, dry_run=True)
    except ApiTrouble as trouble:
        status, _, message = trouble.message.partition(": ")[2].partition(" ")
        document = {"kind": "Status", "reason": trouble.code, "message": message}
        return Answer(status=int(status) if status.isdigit() else 599, body=msgspec.json.encode(document))


def report(compared: Counter[str], found: list[Difference]) -> None:
    """Print agreement per kind, and the first differences per aspect."""
    by_kind = Counter((one.kind, one.aspect) for one in found)
    for kind, number in sorted(compared.items()):
        aspects = {aspect: by_kind[kind, aspect] for aspect in ASPECTS if by_kind[kind, aspect]}
        binding = sum(number for aspect, number in aspects.items() if aspect in BINDING)
        print(f"{kind:12} {number - binding}/{number} agree on what binds; differences: {aspects or 'none'}")
    for aspect in ASPECTS:
        seen: Counter[str] = Counter()
        for one in (one for one in found if one.aspect == aspect):
            key = shape(one)
            seen[key] += 1
            if seen[key] == 1 and len(seen) <= SHOWN:
                print(f"\n--- {aspect} ({one.kind}, namespace {one.namespace})\n{one.body['metadata']} {one.body['spec']}")
                if aspect == "object":
                    print("\n".join(apart(one.real, one.simulated)[:6]))
                else:
                    print(f"real:      {one.real.status} {one.real.reason} {one.real.message[:600]} {one.real.warnings}")
                    print(
                        f"simulated: {one.simulated.status} {one.simulated.reason} {one.simulated.message[:600]} {one.simulated.warnings}"
                    )
        if seen:
            print(f"=== {aspect}: {seen.total()} differences of {len(seen)} shapes")


def shape(one: Difference) -> str:
    """Groups differences: the causes or fields that one side has and the other lacks."""
    if one.aspect == "object":
        return " ".join(line.partition(":")[0] for line in apart(one.real, one.simulated)[:3])
    real, simulated = set(one.real.causes), set(one.simulated.causes)
    return f"{one.real.status} {one.simulated.status} {sorted(real - simulated)[:2]} {sorted(simulated - real)[:2]}"


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, int(sys.argv[2]) if len(sys.argv) > 2 else 1))
