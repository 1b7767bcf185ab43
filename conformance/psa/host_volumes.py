"""Paths of hosts that pods mount through PersistentVolumes, where no field of the pod shows them.

Facts: docs/facts/pod-security.md#volumes-of-hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import msgspec

from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import PersistentVolume, PersistentVolumeClaim
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.demand.template import Template
from fixtures.snapshot.state import Snapshot

VOLUMES: Final = "persistentvolumes"
CLAIMS: Final = "persistentvolumeclaims"


class HostVolume(msgspec.Struct, frozen=True):
    """A PersistentVolume that is a path of a host. ``how`` is a clause for one that its claim has not got yet."""

    name: str
    path: str
    how: str = ""


class HostVolumes:
    """PersistentVolumes of a snapshot by the claim that they are bound to."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @property
    def trouble(self) -> str:
        """Why they are not known although the cluster was asked, or empty."""
        listings = [self._snapshot.listing(key) for key in (VOLUMES, CLAIMS)]
        return next((f"{one.key} could not be listed: {one.message or one.trouble}" for one in listings if one.trouble), "")

    @property
    def lacking(self) -> str:
        """The key that a saved snapshot lacks, or empty."""
        return next((key for key in (VOLUMES, CLAIMS) if self._snapshot.lacks(key)), "")

    def behind(self, volume: Mapping[str, Any], template: Template) -> HostVolume | None:
        """The host's path behind a volume that is a claim, or None: no claim, not bound, or no path of a host."""
        claim = text_of(mapping(volume.get("persistentVolumeClaim")).get("claimName"))
        if not claim and template.live and "ephemeral" in volume:
            claim = f"{template.subject.name}-{volume.get('name')}"  # the claim that is made for a pod's own volume
        return self._by_claim.get((template.namespace, claim)) if claim else None

    @cached_property
    def _by_claim(self) -> dict[tuple[str, str], HostVolume]:
        paths: dict[str, HostVolume] = {}
        found: dict[tuple[str, str], HostVolume] = {}
        for item in self._snapshot.listing(VOLUMES).items:
            if path := _path(item):
                paths[item.metadata.name] = HostVolume(item.metadata.name, path)
                reference = mapping(item.spec.claim_ref)
                found[text_of(reference.get("namespace")), text_of(reference.get("name"))] = paths[item.metadata.name]
        for claim in self._snapshot.listing(CLAIMS).items:
            identity, bound = (claim.metadata.namespace, claim.metadata.name), claim.spec.volume_name
            if bound in paths:
                found[identity] = paths[bound]
            elif not bound and identity not in found and (next_one := self._best(claim)) in paths:
                found[identity] = msgspec.structs.replace(paths[next_one], how=", which its claim will get")
        return found

    def _best(self, claim: PersistentVolumeClaim) -> str:
        """The volume that a claim without one gets: the smallest of its class that is free and fits; empty where there is none."""
        fitting = [item for item in self._snapshot.listing(VOLUMES).items if not item.spec.claim_ref and _fits(item, claim)]
        return min(fitting, key=lambda item: (_storage(item.spec.capacity), item.metadata.name)).metadata.name if fitting else ""


def claims_volume(volume: Mapping[str, Any]) -> bool:
    """Whether a volume of a pod is a claim."""
    return "persistentVolumeClaim" in volume or "ephemeral" in volume


def _fits(item: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    wanted, labels = claim.spec, mapping(mapping(claim.spec.selector).get("matchLabels"))
    return (
        item.spec.storage_class_name == (wanted.storage_class_name or "")
        and set(wanted.access_modes or ()) <= set(item.spec.access_modes or ())
        and _storage(wanted.resources.requests) <= _storage(item.spec.capacity)
        and all(item.metadata.label.get(key) == value for key, value in labels.items())
    )


def _storage(amounts: Mapping[str, Any] | None) -> Fraction:
    try:
        return quantity.parse((amounts or {}).get("storage", 0))
    except quantity.QuantityError:
        return Fraction(0)


def _path(item: PersistentVolume) -> str:
    return text_of(mapping(item.spec.host_path).get("path")) or text_of(mapping(item.spec.local).get("path"))
