"""Presets: what is usual on a platform, added to the policy's defaults below what the owner wrote.

The cluster's own marks choose them: what kubelets, clouds and administrators write, and no tenant. Names of namespaces and pods choose
none, for whoever may create those chooses their names. Why: docs/decisions/presets-by-marks.md.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from conformance.policy.model import Section
from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.snapshot.state import Snapshot
from fixtures.text import typed

FOLDER = Path(__file__).with_name("presets")
NONE = "none"
"""Named instead of a preset: none is applied, whatever the cluster's marks say."""

ORDER = (
    "gpu-operator",
    "dra",
    "gb200",
    "amd",
    "intel",
    "neuron",
    "tpu",
    "eks",
    "eks-auto",
    "gke",
    "aks",
    "oke",
    "coreweave",
    "openshift",
    "talos",
    "k3s",
    "rke2",
    "hami",
    "kai",
    "runai",
    "slinky",
)
"""In this order presets lie on each other: devices, clouds, distributions, schedulers."""

_SLICES = "resource.k8s.io/resourceslices"


class PresetError(Exception):
    """No such preset. One line."""


class Marks(Section, frozen=True, kw_only=True):
    """What chooses a preset: any one of these is enough. Globs, over ``key=value`` for labels."""

    node_labels: tuple[str, ...] = ()
    node_annotations: tuple[str, ...] = ()  # keys
    capacity: tuple[str, ...] = ()  # resource names
    provider_ids: tuple[str, ...] = ()
    kubelet_versions: tuple[str, ...] = ()
    os_images: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()  # of ResourceSlices


class Preset(Section, frozen=True, kw_only=True):
    """One file of ``presets/``. ``policy`` is a fragment of a policy, whose lists extend with a leading ``+``."""

    title: str
    marks: Marks
    policy: dict[str, Any] = msgspec.field(default_factory=dict)
    name: str = ""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A preset that is applied, and a clause that says why."""

    name: str
    why: str

    @property
    def policy(self) -> Json:
        """Its fragment."""
        return presets()[self.name].policy


@cache
def presets() -> dict[str, Preset]:
    """Every preset by name, in their order."""
    return {name: _read(name) for name in ORDER}


def _read(name: str) -> Preset:
    document = yaml.load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return typed.convert({**document, "name": name}, Preset)


def named(names: Iterable[str], by: str) -> list[Chosen]:
    """Presets that the owner names; ``by`` says where. Raises :class:`PresetError`."""
    wanted = set(names)
    for name in sorted(wanted - {*ORDER, NONE}):
        near = difflib.get_close_matches(name, (*ORDER, NONE), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(ORDER)}, {NONE}"
        raise PresetError(f"{by}: no preset {name!r}; {hint}")
    if NONE in wanted and len(wanted) > 1:
        raise PresetError(f"{by}: {NONE!r} leaves no room for other presets")
    return [Chosen(name=name, why=f"named by {by}") for name in ORDER if name in wanted]


def chosen_by_marks(snapshot: Snapshot) -> list[Chosen]:
    """Presets whose marks the cluster has, with the first mark that was found. What was not read has no marks."""
    words = _words(sorted(snapshot.listing("nodes").items, key=lambda node: node.name))
    drivers = {text_of(mapping(item.get("spec")).get("driver")) for item in snapshot.listing(_SLICES).objects}
    found = []
    for name, preset in presets().items():
        if why := next(_reasons(preset.marks, words, snapshot.groups, drivers), ""):
            found.append(Chosen(name=name, why=why))
    return found


def _reasons(marks: Marks, words: Iterable[tuple[str, str, str]], groups: Iterable[str], drivers: Iterable[str]) -> Iterator[str]:
    for group in sorted(groups):
        if _matches(group, marks.api_groups):
            yield f"the API group {group[:100]} is served"
    for driver in sorted(drivers):
        if _matches(driver, marks.drivers):
            yield f"DRA driver {driver[:100]} publishes devices"
    globs = _node_globs(marks)
    for what, text, node in words:
        if globs[what] and _matches(text, globs[what]):
            yield f"{what} {text[:150]} of node {node[:100]}"


def _words(nodes: Iterable[Node]) -> list[tuple[str, str, str]]:
    """What nodes show, each text once with the first node that has it: ``(kind of text, text, node)``. Nodes of a pool have the same."""
    first: dict[tuple[str, str], str] = {}
    for node in nodes:
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


def _node_globs(marks: Marks) -> dict[str, Sequence[str]]:
    return {
        "label": marks.node_labels,
        "annotation": marks.node_annotations,
        "capacity": marks.capacity,
        "providerID": marks.provider_ids,
        "kubelet version": marks.kubelet_versions,
        "OS image": marks.os_images,
    }


def _matches(text: str, globs: Iterable[str]) -> bool:
    return _pattern(tuple(globs)).match(text) is not None


@cache
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    """One pattern for all globs of a preset's mark: they meet every label of every node."""
    return re.compile("|".join(map(fnmatch.translate, globs)) if globs else r"(?!)")
