"""Marks of a cluster: what kubelets, clouds, drivers and administrators write, and no tenant can.

They choose the presets of a platform (:mod:`conformance.policy.platforms`) and prove that a product is installed, whose usual namespace
is then the platform's (:mod:`conformance.policy.default_namespaces`).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property

import msgspec

from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.snapshot.state import Snapshot
from fixtures.text.sentences import natural

SLICES = "resource.k8s.io/resourceslices"
_PROVISIONER = "pv.kubernetes.io/provisioned-by"


class Marks(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Any one of these is enough. Globs, over ``key=value`` for labels."""

    node_labels: tuple[str, ...] = ()
    node_annotations: tuple[str, ...] = ()  # keys
    capacity: tuple[str, ...] = ()  # resource names
    provider_ids: tuple[str, ...] = ()
    kubelet_versions: tuple[str, ...] = ()
    os_images: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_resources: tuple[str, ...] = ()  # as kubectl names them: ``clusterpolicies.nvidia.com``
    drivers: tuple[str, ...] = ()  # of ResourceSlices
    provisioners: tuple[str, ...] = ()  # of PersistentVolumes

    @property
    def of_nodes(self) -> dict[str, Sequence[str]]:
        """Those that nodes show, by the word for each."""
        return {
            "label": self.node_labels,
            "annotation": self.node_annotations,
            "capacity": self.capacity,
            "providerID": self.provider_ids,
            "kubelet version": self.kubelet_versions,
            "OS image": self.os_images,
        }


class Shown(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a cluster shows that may be a mark. None is what was not read, or not wholly: nothing is known to be absent there.

    ``groups`` is what is known of the API groups served, and ``resources`` all that is served, by kubectl's names (``*.GROUP``: what
    that group serves is not known).
    """

    nodes: Sequence[Node] | None = None
    drivers: frozenset[str] | None = None
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] | None = None
    provisioners: frozenset[str] | None = None

    @classmethod
    def by(cls, snapshot: Snapshot) -> Shown:
        """What a snapshot shows."""
        nodes, slices, volumes = snapshot.listing("nodes"), snapshot.listing(SLICES), snapshot.listing("persistentvolumes")
        return cls(
            nodes=nodes.items if nodes.collected and not nodes.trouble else None,
            drivers=drivers_of(slices.objects) if slices.collected and not slices.trouble else None,
            groups=snapshot.groups,
            resources=snapshot.resources,
            provisioners=frozenset(volume.metadata.annotation.get(_PROVISIONER, "") for volume in volumes.items)
            if volumes.collected and not volumes.trouble
            else None,
        )

    def reasons(self, marks: Marks) -> Iterator[str]:
        """A clause for each mark that is there."""
        for group in sorted(self.groups):
            if _matches(group, marks.api_groups):
                yield f"the API group {group[:100]} is served"
        for name in sorted(self.resources or ()) if marks.api_resources else ():
            if _matches(name, marks.api_resources):
                yield f"{name[:150]} is served"
        for driver in sorted(self.drivers or ()):
            if _matches(driver, marks.drivers):
                yield f"DRA driver {driver[:100]} publishes devices"
        for name in sorted(self.provisioners or ()):
            if _matches(name, marks.provisioners):
                yield f"{name[:100]} has provisioned volumes"
        globs = marks.of_nodes
        for what, text, node in self._words if any(globs.values()) else ():
            if globs[what] and _matches(text, globs[what]):
                yield f"{what} {text[:150]} of node {node[:100]}"

    def may_hide(self, marks: Marks) -> bool:
        """Whether something was not read that could be one of the marks."""
        if (marks.api_groups or marks.api_resources) and self.resources is None:
            return True
        if any(f"*.{name.partition('.')[2]}" in (self.resources or ()) for name in marks.api_resources):
            return True
        return bool(
            (marks.drivers and self.drivers is None)
            or (marks.provisioners and self.provisioners is None)
            or (any(marks.of_nodes.values()) and self.nodes is None)
        )

    @cached_property
    def _words(self) -> list[tuple[str, str, str]]:
        """What nodes show, each text once with the first node that has it: ``(kind of text, text, node)``. Pools have much in common."""
        first: dict[tuple[str, str], str] = {}
        for node in sorted(self.nodes or (), key=lambda node: natural(node.name)):
            info = node.status.node_info
            for what, texts in (
                ("label", [f"{key}={value}" for key, value in sorted(node.metadata.label.items())]),
                ("annotation", sorted(node.metadata.annotation)),
                ("capacity", sorted(node.status.capacity)),
                ("providerID", [node.spec.provider_id]),
                ("kubelet version", [info.kubelet_version]),
                ("OS image", [info.os_image]),
            ):
                for text in texts:
                    first.setdefault((what, text), node.name)
        return [(what, text, name) for (what, text), name in first.items()]


def drivers_of(slices: Iterable[Json]) -> frozenset[str]:
    """DRA drivers that publish ResourceSlices."""
    return frozenset(text_of(mapping(item.get("spec")).get("driver")) for item in slices)


def _matches(text: str, globs: Iterable[str]) -> bool:
    return _pattern(tuple(globs)).match(text) is not None


@cache
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    """One pattern for all globs of a mark: they meet every label of every node."""
    return re.compile("|".join(map(fnmatch.translate, globs)) if globs else r"(?!)")
