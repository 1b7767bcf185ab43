"""Requests that both API servers are asked: pods, devices and gangs, valid and invalid, drawn by hypothesis, alike for a seed."""

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.simulator.fidelity.drawing import Json
from tests.simulator.fidelity.parts import BODIES, PARTS

LEAST = 12
"""Requests drawn at a time: hypothesis begins with the simplest, which is the same for every seed."""

OPEN, BASELINE, RESTRICTED, ADMIN = "open", "baseline", "restricted", "admin"
NAMESPACES: dict[str, dict[str, str]] = {
    OPEN: {},
    BASELINE: {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"},
    RESTRICTED: {"pod-security.kubernetes.io/enforce": "restricted"},
    ADMIN: {"resource.kubernetes.io/admin-access": "true"},
}
_NAMESPACED = {"resourceClaim", "claimTemplate", "podGroup"}
_OF_PODS = (BASELINE, OPEN, RESTRICTED)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One object to create, as a dry run. ``namespace`` is empty for kinds of the cluster."""

    kind: str
    namespace: str
    body: Json
    key: str = "pods"


def pod(parts: dict[str, Json]) -> Json:
    """A pod with one container, and what was drawn of each kind laid over it."""
    metadata: Json = {"name": "probe", **parts.pop("metadata", {})}
    spec: Json = {"containers": [{"name": "main", "image": "registry.example/main:1"}], "automountServiceAccountToken": False}
    for drawn in parts.values():
        spec |= drawn
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def _pods(draw: st.DrawFn, kind: str) -> Request:
    body = pod({kind: draw(PARTS[kind])})
    namespaces = {"security": _OF_PODS, "standards": [BASELINE, RESTRICTED]}.get(kind, [OPEN])
    return Request(kind=kind, namespace=draw(st.sampled_from(namespaces)), body=body)


@st.composite
def _mixed(draw: st.DrawFn) -> Request:
    """Two or three kinds in one pod: order and number of causes."""
    kinds = draw(st.lists(st.sampled_from(sorted(PARTS)), min_size=2, max_size=3, unique=True))
    body = pod({kind: draw(PARTS[kind]) for kind in kinds})
    return Request(kind="mixed", namespace=draw(st.sampled_from(_OF_PODS)), body=body)


@st.composite
def _others(draw: st.DrawFn, kind: str) -> Request:
    plural, bodies = BODIES[kind]
    namespace = draw(st.sampled_from([OPEN, OPEN, ADMIN])) if kind in _NAMESPACED else ""
    body = draw(bodies)
    return Request(kind=kind, namespace=namespace, body=body, key=f"{body['apiVersion'].partition('/')[0]}/{plural}")


def requests(count: int, first: int = 1) -> list[Request]:
    """At least ``count`` different requests, about as many of each kind as there are, for the seed ``first``."""
    kinds = [*sorted(PARTS), "mixed", *sorted(BODIES)]
    found: dict[bytes, Request] = {}
    turn = 0
    while len(found) < count:  # kinds with few values repeat themselves: what is missing is drawn again from all
        missing = max((count - len(found)) // len(kinds), LEAST)
        for number, kind in enumerate(kinds):
            for request in _drawn(kind, missing, (first * 1000 + number) * 100 + turn):
                found.setdefault(msgspec.json.encode(request, order="deterministic"), request)
        turn += 1
    return list(found.values())


def _drawn(kind: str, count: int, number: int) -> list[Request]:
    strategy = _mixed() if kind == "mixed" else _others(kind) if kind in BODIES else _pods(kind)
    found: list[Request] = []

    @seed(number)
    @settings(max_examples=count, database=None, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(request: Request) -> None:
        found.append(request)

    collect()
    return found
