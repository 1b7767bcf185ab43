"""Which devices claims get: whole and shared ones, on a real control plane and on the simulated one, each with its scheduler."""

import random
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.simulator.admission.plugins import chain
from tests.served import served
from tests.simulator.fidelity.binding import SECONDS, Outcome, made, node, outcome_of, prepared, scheduling
from tests.simulator.fidelity.comparing import View

Json = dict[str, Any]

NAMESPACE = "allocation"
NODE = node("dra")
CLAIMS = "resource.k8s.io/resourceclaims"
PER_ROUND = 7

_TYPES = ("whole", "half", "half", "small", "small", "any")
_AMOUNTS = (None, None, "1Gi", "1500Mi", "10Gi", "39Gi", "50Gi", "0")


class Allocated(msgspec.Struct, frozen=True):
    """A claim, and what became of it on the real and on the simulated cluster."""

    claim: Json
    real: View
    simulated: View


def slices(driver: str, draw: random.Random) -> list[Json]:
    """Whole GPUs of three types, and two that claims share: one by a range, one without."""
    types = [kind for kind, count in (("whole", 2), ("half", 4), ("small", 7)) for _ in range(count)]
    whole = [{"name": f"gpu-{number}-{kind}", "attributes": {"example.com/type": {"string": kind}}} for number, kind in enumerate(types)]
    draw.shuffle(whole)
    bounds = {"default": "4Gi", "validRange": {"min": "2Gi", "step": "2Gi", "max": "40Gi"}}
    shared = [
        {
            "name": f"shared-{name}",
            "attributes": {"example.com/type": {"string": "shared"}},
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "48Gi", **({"requestPolicy": policy} if policy else {})}},
        }
        for name, policy in (("range", bounds), ("free", None))
    ]
    pool = {"name": "dra", "generation": 1, "resourceSliceCount": 2}
    return [
        _object("ResourceSlice", f"{driver}-{part}", driver=driver, nodeName="dra", pool=pool, devices=devices)
        for part, devices in (("a", whole), ("b", shared))
    ]


def claims(driver: str, draw: random.Random) -> list[Json]:
    """Claims that come one after the other and stay: whatever fits at first does not in the end."""
    found = []
    for number in range(PER_ROUND):
        requests = [_request(f"r{index}", driver, draw) for index in range(draw.choice((1, 1, 2)))]
        found.append(_object("ResourceClaim", f"{driver}-{number}", devices={"requests": requests}))
    return found


def _request(name: str, driver: str, draw: random.Random) -> Json:
    if draw.random() < 0.4:
        amount = draw.choice(_AMOUNTS)
        exactly: Json = {"count": draw.choice((1, 1, 2)), "selectors": _selectors("shared")}
        capacity = {"capacity": {"requests": {"memory": amount}}} if amount else {}
        return {"name": name, "exactly": {"deviceClassName": driver, **exactly, **capacity}}
    kind = draw.choice(_TYPES)
    return {"name": name, "exactly": {"deviceClassName": driver, "count": draw.choice((1, 1, 2, 3)), "selectors": _selectors(kind)}}


def _selectors(kind: str) -> list[Json]:
    return [{"cel": {"expression": f"device.attributes['example.com'].type == '{kind}'"}}] if kind != "any" else []


def _object(kind: str, name: str, **spec: Any) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def compare_allocation(plane: ControlPlane, rounds: int, first: int = 1) -> list[Allocated]:
    """Ask both, round by round, each with a driver of its own."""
    real = allocations(Cluster.from_kubeconfig(plane.kubeconfig), rounds, first)
    with (
        tempfile.TemporaryDirectory(prefix="gpu-conformance-allocation-") as folder,
        served(Path(folder), admissions=chain()) as (other, _),
    ):
        simulated = allocations(other, rounds, first, simulated=True)
    return [Allocated(claim, one, two) for (claim, one), (_, two) in zip(real, simulated, strict=True)]


def allocations(cluster: Cluster, rounds: int, first: int, *, simulated: bool = False) -> list[tuple[Json, View]]:
    """Every claim and what became of it. No pod is left: a scheduler would try those that wait again with each node to come."""
    asked: list[Json] = []
    with prepared(cluster, NAMESPACE, [NODE]):
        for number in range(rounds):
            draw, driver = random.Random(first * 1000 + number), f"r{number}.example.com"
            selector = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
            made(cluster.create("resource.k8s.io/deviceclasses", _object("DeviceClass", driver, selectors=selector)))
            for item in slices(driver, draw):
                made(cluster.create("resource.k8s.io/resourceslices", item))
            asked += claims(driver, draw)
        with scheduling(cluster.server, claims=True) if simulated else nullcontext():
            found = [(claim, _ask(cluster, claim)) for claim in asked]
        for claim in asked:
            cluster.delete("pods", claim["metadata"]["name"], NAMESPACE, grace_seconds=0)
    return found


def _ask(cluster: Cluster, claim: Json) -> View:
    """Create the claim and a pod that uses it, and wait for what the scheduler does or says."""
    name = claim["metadata"]["name"]
    made(cluster.create(CLAIMS, claim, namespace=NAMESPACE))
    container = {"name": "main", "image": "i:1", "resources": {"claims": [{"name": "devices"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "devices", "resourceClaimName": name}]}
    with Observation(cluster, "pods", NAMESPACE) as seen:
        made(cluster.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE))
        for objects in seen.until(time.monotonic() + SECONDS):
            if outcome := outcome_of(objects.get(f"{NAMESPACE}/{name}")):
                return _view(outcome, made(cluster.get(CLAIMS, name, namespace=NAMESPACE)))
    raise AssertionError(f"the scheduler said nothing of {name}: {claim['spec']}")


def _view(outcome: Outcome, claim: Json) -> View:
    results = ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", [])
    given = [(f"{one['request']} {one['device']} shared={bool(one.get('shareID'))}", str(one.get("consumedCapacity"))) for one in results]
    why = "" if outcome.node else str(outcome.reasons)  # what it holds of preemption depends on when the pod was tried last
    return View(status=201 if outcome.node else 409, reason=why, causes=sorted(given), violations="", warnings=[], message=why, object={})
