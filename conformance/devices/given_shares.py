"""Shares of devices that a scheduler gives: amounts that nodes offer under names of its own.

No kubelet hands such a share out: the scheduler writes into an annotation of the pod, in its own domain, which devices it gave and how
much of each. Whoever writes ``spec.nodeName`` by hand holds the amount, as the kubelet counts it, and was given no device. Anybody may
write an annotation, so the annotation alone is nothing: the pod asks for the amount, and no annotation gives more than was asked for, or
all of them together more than the node has.

Facts: docs/facts/scheduler-amounts.md#shares-with-an-annotation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from conformance.devices.resource_words import names_share
from conformance.scope.scope import Scope, matches
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Node, Pod
from fixtures.text.json_text import NotJson, decode
from fixtures.text.sentences import listed

_LONGEST = 16_384
"""Characters of JSON that are read of the annotations of a pod. A record has about 200 for each device."""

_LEAST = 64
"""What an annotation counts at least, however short it is."""

_MOST_VALUES = 1_024
"""Values in an annotation that are looked through. A record has about ten for each device."""


def is_share(scope: Scope, name: str) -> bool:
    """Whether a name is a device's or a share's by its words, and some node offers it or a scheduler is known to count it."""
    policy = scope.policy
    if not names_share(name) or scope.is_rdma(name) or matches(name, policy.accelerators.no_devices):
        return False
    return (knows_nodes(scope) and name in scope.capacity_names) or matches(name, policy.requests.scheduler_amounts)


def knows_nodes(scope: Scope) -> bool:
    """Whether nodes were read, which offer the shares."""
    listing = scope.snapshot.listing("nodes")
    return listing.collected and not listing.trouble


def doubt_of_shares(scope: Scope, pod: Pod, node: Node, asked: Collection[str]) -> str:
    """Why it is not known whether a scheduler gave a pod the shares that it asks for, as a clause; empty where nothing speaks against it.

    ``asked`` are names of shares that the pod asks for. Where no pod has an annotation about them, a device plugin may hand them out.
    """
    given, held = scope.cached_for(pod, _given), scope.extended_amounts(pod)
    domains, written = {domain_of(name) for name in asked}, {domain_of(name) for name in given}
    for domain, key in sorted(scope.cached(_writing).items()):
        if domain in domains - written:
            return f"annotation {key} of other pods says which devices they were given, and it has none"
    for name, amount in sorted(given.items()):
        if 0 < held.get(name, 0) < amount:
            return f"an annotation says that it was given {amount} of {name}, and it asks for {held[name]}"
    if over := [name for name in scope.cached_for(node, _overfull) if domain_of(name) in written]:
        return f"annotations of pods give more of {listed(over)} than {node.name} has, so not every pod has its share"
    return ""


def _given(scope: Scope, pod: Pod) -> dict[str, Fraction]:
    """What annotations of a pod say that it was given of the domains it asks of, by resource."""
    found: dict[str, Fraction] = {}
    for _, name, amount in scope.cached_for(pod, _written):
        found[name] = found.get(name, Fraction(0)) + amount
    return found


def _writing(scope: Scope) -> dict[str, str]:
    """The domains of resources that annotations of bound pods give shares of, each with such an annotation's key."""
    found: dict[str, str] = {}
    for pods in scope.snapshot.pods_by_node.values():
        for pod in pods:
            for key, name, _ in scope.cached_for(pod, _written):
                found.setdefault(domain_of(name), key)
    return found


def _overfull(scope: Scope, node: Node) -> list[str]:
    """Names of which annotations of a node's pods give more than the node has."""
    total: dict[str, Fraction] = {}
    for pod in scope.snapshot.pods_by_node.get(node.name, ()):
        for name, amount in scope.cached_for(pod, _given).items():
            total[name] = total.get(name, Fraction(0)) + amount
    return sorted(name for name, amount in total.items() if name in node.status.allocatable and amount > _offered(node, name))


def _offered(node: Node, name: str) -> Fraction:
    try:
        return quantity.parse(node.status.allocatable[name])
    except quantity.QuantityError:
        return Fraction(0)


def _written(scope: Scope, pod: Pod) -> list[tuple[str, str, Fraction]]:
    """Key, resource and amount of what annotations in a domain of the pod's own shares say, in JSON of any shape."""
    domains = {domain_of(name) for name, amount in scope.extended_amounts(pod).items() if amount and names_share(name)}
    read = parts_in(pod.metadata.annotation, domains)
    return [(key, name, amount) for key, own, parts in read for part in parts or () for name, amount in amounts_in(part, own)]


def own_domains(key: str, domains: Iterable[str]) -> set[str]:
    """Of these domains, those in which a key is: its own, or one that its own is part of."""
    own = domain_of(key)
    return {domain for domain in domains if own == domain or own.endswith(f".{domain}")}


def parts_in(annotations: Mapping[str, str], domains: Collection[str]) -> Iterator[tuple[str, set[str], list[Mapping[str, Any]] | None]]:
    """Annotations in these domains, sorted: key, its domains, and every mapping in its text, however deep; none in text that is no JSON.

    None, and nothing after it, for one that looks like JSON and cannot be read, or is more than is read of one pod: a tenant decides
    how much he writes.
    """
    left = _LONGEST
    for key in sorted(key for key in annotations if own_domains(key, domains)) if domains else ():
        text = annotations[key]
        parts: list[Mapping[str, Any]] | None = []
        if text.lstrip().startswith(("{", "[")):
            left -= max(len(text), _LEAST)
            parts = _mappings_in(text) if left >= 0 else None
        yield key, own_domains(key, domains), parts
        if parts is None:
            return


def _mappings_in(text: str) -> list[Mapping[str, Any]] | None:
    try:
        rest = [decode(text)]
    except NotJson:
        return None
    for part in rest:  # grows while it is read
        rest += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if len(rest) > _MOST_VALUES:
            return None
    return [part for part in rest if isinstance(part, dict)]


def amounts_in(part: Mapping[str, Any], domains: Collection[str]) -> Iterator[tuple[str, Fraction]]:
    """The amounts of shares that a mapping gives under names of these domains."""
    for name, value in part.items():
        if domain_of(name) in domains and names_share(name) and isinstance(value, str | int):
            try:
                amount = quantity.parse(value)
            except quantity.QuantityError:
                continue
            if amount > 0:
                yield name, amount


def domain_of(name: str) -> str:
    """What is before the slash of a resource's or an annotation's name."""
    domain, slash, _ = name.partition("/")
    return domain if slash else ""
