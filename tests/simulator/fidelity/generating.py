"""Requests that both API servers are asked: pods, devices and gangs, valid and invalid, drawn by hypothesis, alike for a seed."""

from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.simulator.fidelity import devices, gangs, parts

Json = dict[str, Any]

LEAST = 12
"""Requests drawn at a time: hypothesis begins with the simplest, which is the same for every seed."""

OPEN, BASELINE, RESTRICTED = "open", "baseline", "restricted"
NAMESPACES: dict[str, dict[str, str]] = {
    OPEN: {},
    BASELINE: {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"},
    RESTRICTED: {"pod-security.kubernetes.io/enforce": "restricted"},
    devices.ADMIN: {"resource.kubernetes.io/admin-access": "true"},
}
BODIES = {**devices.BODIES, **gangs.BODIES}
_NAMESPACED = {*devices.NAMESPACED, *gangs.BODIES}
_OF_PODS = (BASELINE, OPEN, RESTRICTED)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One object to create, as a dry run. ``namespace`` is empty for kinds of the cluster."""

    kind: str
    namespace: str
    body: Json
    key: str = "pods"


def pod(spec: Json, metadata: Json | None = None) -> Json:
    """A pod with one container, ``spec`` and ``metadata`` laid over it."""
    base: Json = {"containers": [{"name": "main", "image": "registry.example/main:1"}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", **(metadata or {})}, "spec": {**base, **spec}}


@st.composite
def _pods(draw: st.DrawFn, kind: str) -> Request:
    body = pod(*draw(parts.PARTS[kind]))
    namespaces = {"security": _OF_PODS, "standards": [BASELINE, RESTRICTED]}.get(kind, [OPEN])
    return Request(kind=kind, namespace=draw(st.sampled_from(namespaces)), body=body)


@st.composite
def _mixed(draw: st.DrawFn) -> Request:
    """Two or three kinds in one pod: order and number of causes."""
    spec: Json = {}
    metadata: Json = {}
    for kind in draw(st.lists(st.sampled_from(sorted(parts.PARTS)), min_size=2, max_size=3, unique=True)):
        more, meta = draw(parts.PARTS[kind])
        spec |= more
        metadata |= meta
    return Request(kind="mixed", namespace=draw(st.sampled_from(_OF_PODS)), body=pod(spec, metadata))


@st.composite
def _others(draw: st.DrawFn, kind: str) -> Request:
    plural, bodies = BODIES[kind]
    namespace = draw(st.sampled_from([OPEN, OPEN, devices.ADMIN])) if kind in _NAMESPACED else ""
    body = draw(bodies)
    return Request(kind=kind, namespace=namespace, body=body, key=f"{body['apiVersion'].partition('/')[0]}/{plural}")


def requests(count: int, first: int = 1) -> list[Request]:
    """At least ``count`` different requests, about as many of each kind as there are, for the seed ``first``."""
    kinds = [*sorted(parts.PARTS), "mixed", *sorted(BODIES)]
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
