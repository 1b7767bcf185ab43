"""Requests that both API servers are asked: valid and invalid pods, drawn by hypothesis, the same for every run of a seed."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fidelity import parts

Json = dict[str, Any]

OPEN, BASELINE, RESTRICTED = "open", "baseline", "restricted"
NAMESPACES: dict[str, dict[str, str]] = {
    OPEN: {},
    BASELINE: {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"},
    RESTRICTED: {"pod-security.kubernetes.io/enforce": "restricted"},
}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One object to create, as a dry run."""

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
    namespaces = {"security": sorted(NAMESPACES), "standards": [BASELINE, RESTRICTED]}.get(kind, [OPEN])
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
    return Request(kind="mixed", namespace=draw(st.sampled_from(sorted(NAMESPACES))), body=pod(spec, metadata))


def requests(count: int, first: int = 1) -> list[Request]:
    """About ``count`` different requests, in equal numbers of each kind, for the seed ``first``."""
    kinds = [*sorted(parts.PARTS), "mixed"]
    found: dict[bytes, Request] = {}
    for number, kind in enumerate(kinds):
        strategy = _mixed() if kind == "mixed" else _pods(kind)

        @seed(first * 1000 + number)
        @settings(
            max_examples=max(count // len(kinds), 1),
            database=None,
            phases=[Phase.generate],
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def collect(request: Request) -> None:
            found.setdefault(msgspec.json.encode(request, order="deterministic"), request)

        collect()
    return list(found.values())
