"""Devices that annotations give to a pod: a scheduler's record of them, and variables that a container takes from annotation or label.

Where nodes offer shares under a scheduler's own names, its agent sets the variable of every container by the record in the pod's
annotation, and asks for nothing else. Anybody may write the annotation. So it is right on a pod only that asks for what it says.

Facts: docs/facts/scheduler-amounts.md#shares-with-an-annotation.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from conformance.psa.environments import DEVICES, HARMLESS
from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import held_by
from fixtures.model.demand.template import Template, demand_of
from fixtures.model.devices.names import names_share, of_amount
from fixtures.model.devices.shares import amounts_in, domain_of, doubt_of_shares, is_share, knows_nodes, own_domains, parts_in
from fixtures.text.globs import matches
from fixtures.text.sentences import listed

_FIELD = re.compile(r"metadata\.(annotations|labels)\['(.*)'\]")
_IDENTITY = re.compile(r"minor|index|idx|id|uuid|device", re.IGNORECASE)
"""Keys under which an entry says which device it is."""

_MOST_DEVICES = 128
"""Devices of a record that are looked at. No node has as many."""


class _Record(msgspec.Struct, frozen=True):
    """What an annotation says of given devices: for each, every name that it has there. ``vague``: one has no name or no amount."""

    key: str
    devices: list[frozenset[str]]
    vague: bool
    readable: bool = True


class GivenDevices:
    """What a pod, or the pods of a template, may take by annotation."""

    def __init__(self, scope: Scope, template: Template) -> None:
        self._scope, self._template, self._demand = scope, template, demand_of(scope, template)
        self._records = scope.cached_for(template.pod, _records_of) if template.pod else _records(scope, template.annotations)
        self._taken = [taken for taken in _fields_taken(template) if self._value(*taken[2:]) not in HARMLESS]
        pod = template.pod
        amounts = scope.extended_amounts(pod) if pod else held_by(template.spec, lambda name: "/" in name or scope.is_device(name))
        self._amounts = {name: amount for name, amount in amounts.items() if amount}
        self.shares = sorted(name for name, amount in amounts.items() if amount and is_share(scope, name))
        self._devices = sum(amount for name, amount in amounts.items() if scope.is_device(name))
        self._unlisted = sorted(name for name, amount in amounts.items() if amount and self._may_be_device(name))

    def beyond_request(self) -> Iterator[str]:
        """Each record of devices that the pod does not ask for, in words."""
        for record in self._records if knows_nodes(self._scope) and not self._demand.unknown and not self._template.partial else ():
            count, asked = len(record.devices), self._devices
            if self._asks_share(record.key) or self._unlisted or not record.readable:
                continue
            if not self._demand.devices:
                yield f"annotation {record.key} says that a scheduler gave it a device, and it asks for none"
            elif count > asked > 0:
                yield f"annotation {record.key} says that a scheduler gave it {count} devices, and it asks for {asked}"

    def doubt(self) -> str:
        """Why it is not known whether a scheduler gave what the pod takes by record or by variable, as a clause; or empty."""
        if shared := self._named_twice():
            return shared
        keys = [key for _, _, kind, key in self._taken if not self._of_plugin(kind, key)]  # each may be given: others are bypasses
        if not keys and not self._records:
            return ""
        for record in self._records:
            if not record.readable:
                return f"annotation {record.key}, in which a scheduler may write what it gave, is too long or too deep to be read"
            if record.vague:
                return f"annotation {record.key} does not say for every device which one it is and how much of it was given"
        if self._records and not self._asks():
            unlisted = f"it asks for {listed(self._unlisted)}" if self._unlisted else ""
            why = self._demand.unknown or unlisted or ("it asks by a claim" if self._demand.devices else "another part completes it")
            what = f"annotation {self._records[0].key} says that a scheduler gave it a device, and whether it asks for one is not known"
            return f"{what}: {why if knows_nodes(self._scope) else 'nodes were not read'}"
        pod = self._template.pod
        if pod is None:
            return ""  # its pods are judged one by one
        node = self._scope.snapshot.node_by_name.get(pod.node_name) if knows_nodes(self._scope) else None
        if node is None:
            return f"its annotations say which devices a scheduler gave it, and its node {pod.node_name or '(none)'} is not known"
        if keys and not any(own_domains(record.key, self._domains(keys[0])) for record in self._records):
            return f"annotation {keys[0]} names devices, and no annotation says how much of them a scheduler gave"
        return (doubt_of_shares(self._scope, pod, node, self.shares) if self.shares else "") or self._disputed(pod)

    def not_given(self) -> Iterator[str]:
        """Each variable that names, by annotation or label, a device that no scheduler gave, in words."""
        for container, name, kind, key in self._taken:
            if words := self._beyond_record(kind, key):
                yield f"container {container} takes {name}={self._value(kind, key)[:100]} from {kind} {key[:200]}{words}"

    def _of_plugin(self, kind: str, key: str) -> bool:
        """Whether an annotation has the name of a resource that the pod asks for: there its device plugin writes which ones it gave."""
        return kind == "annotation" and key in self._amounts

    def _named_twice(self) -> str:
        """That another pod of the node has the same device in the annotation of its device plugin, as a clause; or empty."""
        pod = self._template.pod
        for key in {key for _, _, kind, key in self._taken if self._of_plugin(kind, key)} if pod is not None else ():
            mine = _names(self._value("annotation", key))
            for other in self._scope.snapshot.pods_by_node.get(pod.node_name, ()) if pod is not None and pod.node_name else ():
                if other is not pod and (both := mine & _names(other.metadata.annotation.get(key, ""))):
                    return f"annotation {key} names {min(both)[:100]}, and so does that of {other.namespace}/{other.name}"
        return ""

    def _beyond_record(self, kind: str, key: str) -> str:
        if self._of_plugin(kind, key):
            named, asked = _names(self._value(kind, key)), self._amounts[key]
            return f", which names {len(named)} devices, and it asks for {asked}" if "all" in named or len(named) > asked else ""
        if self._template.pod is None or kind != "annotation" or not self._may_be_given(key):
            return ", which no scheduler wrote"
        devices, own = {device.strip() for device in self._value(kind, key).split(",")}, self._domains(key)
        given = [device for record in self._records if own_domains(record.key, own) for device in record.devices]
        known = frozenset[str]().union(*given)
        beyond = bool(devices - known) if known else "all" in devices or 0 < len(given) < len(devices)
        return ", and its scheduler's record names others" if beyond else ""

    def _value(self, kind: str, key: str) -> str:
        return (self._template.labels if kind == "label" else self._template.annotations).get(key, "").strip()

    def _domains(self, key: str) -> set[str]:
        return own_domains(key, _domains(self._scope))

    def _asks_share(self, key: str) -> bool:
        return bool(own_domains(key, map(domain_of, self.shares)))

    def _asks(self) -> bool:
        return all(self._asks_share(record.key) or 0 < self._devices >= len(record.devices) for record in self._records)

    def _may_be_device(self, name: str) -> bool:
        """Whether a name that the policy does not call a device's may be one that a scheduler gives, and that nobody made up."""
        scope = self._scope
        if scope.is_device(name) or scope.is_rdma(name) or matches(name, scope.policy.accelerators.no_devices):
            return False
        offered = knows_nodes(scope) and name in scope.capacity_names
        return names_share(name) and (offered or domain_of(name) in _domains(scope))

    def _may_be_given(self, key: str) -> bool:
        """Whether a scheduler may write an annotation with this key to a pod that asks for what this one does."""
        return self._asks_share(key) or (self._demand.devices and bool(self._domains(key)))

    def _disputed(self, pod: Pod) -> str:
        """That another pod's record names the same device, where one of the two asks for whole ones; or empty."""
        holders = self._scope.cached(_holders)
        for record in self._records:
            for name in sorted(name for device in record.devices for name in device):
                pods = holders.get((pod.node_name, record.key, name), [])
                if len(pods) > 1 and not all(shares for _, shares in pods):
                    return f"annotations of {listed([who for who, _ in pods])} name device {name}, and one of them asks for a whole one"
        return ""


def _names(value: str) -> set[str]:
    """Devices that a variable names, with commas between them."""
    return {one.strip() for one in value.split(",")} - HARMLESS


def takes_field(entry: Mapping[str, Any]) -> bool:
    """Whether a variable is taken from an annotation or a label of the pod."""
    return bool(_field(entry.get("valueFrom"))[0])


def _fields_taken(template: Template) -> Iterator[tuple[str, str, str, str]]:
    """Variables that choose devices and are taken from annotation or label: container, variable, ``annotation`` or ``label``, key."""
    for container in template.containers:
        for entry in container.env or ():
            if entry.get("name") in DEVICES and takes_field(entry):
                yield container.name, str(entry["name"]), *_field(entry["valueFrom"])


def _field(source: object) -> tuple[str, str]:
    """``annotation`` or ``label``, and its key; both empty for another source."""
    found = _FIELD.fullmatch(text_of(mapping(source, "fieldRef").get("fieldPath")))
    return (found[1].removesuffix("s"), found[2]) if found else ("", "")


def _domains(scope: Scope) -> frozenset[str]:
    return scope.cached(_find_domains)


def _find_domains(scope: Scope) -> frozenset[str]:
    """Domains of the shares that nodes offer beside a device plugin's names; where nodes were not read, of those that are usual."""
    names = scope.capacity_names if knows_nodes(scope) else scope.policy.requests.scheduler_amounts
    return frozenset(domain_of(name) for name in names if is_share(scope, name) and (of_amount(name) or not scope.is_device(name)))


def _records_of(scope: Scope, pod: Pod) -> list[_Record]:
    return _records(scope, pod.metadata.annotation)


def _records(scope: Scope, annotations: Mapping[str, str]) -> list[_Record]:
    """The records of given devices in the annotations of a pod."""
    read = parts_in(annotations, _domains(scope))
    return [record for key, own, parts in read if (record := _record(key, parts, own))]


def _record(key: str, parts: Sequence[Mapping[str, Any]] | None, domains: Collection[str]) -> _Record | None:
    """A list of devices (``{"gpu": [{"minor": 0, ...}]}``), or amounts of shares without one; None for an annotation of other things."""
    lists = [(name, value) for part in parts or () for name, value in part.items() if isinstance(value, list)]
    entries = [entry for name, value in lists if names_share(name) for entry in mappings(value)]
    if parts is None or len(entries) > _MOST_DEVICES:
        return _Record(key, [], vague=True, readable=False)
    if not entries:
        return _Record(key, [], vague=False) if any(any(amounts_in(part, domains)) for part in parts) else None
    devices = [frozenset(text_of(value) for name, value in entry.items() if _IDENTITY.fullmatch(name)) - {""} for entry in entries]
    amounts = [any(any(amounts_in(part, domains)) for part in (entry, *mappings([*entry.values()]))) for entry in entries]
    return _Record(key, devices, vague=not all(devices) or not all(amounts))


def _holders(scope: Scope) -> dict[tuple[str, str, str], list[tuple[str, bool]]]:
    """Pods that ask for a device or a share and have a record, each with whether it asks for shares: by node, annotation and device."""
    found: dict[tuple[str, str, str], list[tuple[str, bool]]] = {}
    domains = _domains(scope)
    for node, pods in scope.snapshot.pods_by_node.items():
        for pod in pods:
            shares = any(amount and domain_of(name) in domains for name, amount in scope.extended_amounts(pod).items())
            records = scope.cached_for(pod, _records_of) if shares or scope.device_demand_of(pod).devices else ()
            for record in records:
                for name in frozenset[str]().union(*record.devices):
                    found.setdefault((node, record.key, name), []).append((f"{pod.namespace}/{pod.name}", shares))
    return found
