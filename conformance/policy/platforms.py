"""Presets: what is usual on a platform, added to the policy's defaults below what the owner wrote.

The cluster's own marks choose them: what kubelets, clouds and administrators write, and no tenant. Names of namespaces and pods choose
none, for whoever may create those chooses their names. Why: docs/decisions/presets-by-marks.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from conformance.policy.marks import Marks, Shown
from conformance.policy.model import Section
from fixtures.kubernetes.models import Json
from fixtures.snapshot.state import Snapshot
from fixtures.text import typed, yaml_text

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


class PresetError(Exception):
    """No such preset. One line."""


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
    document = yaml_text.packaged(FOLDER / f"{name}.yaml", dict[str, Any])
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
    shown = Shown.by(snapshot)
    found = ((name, next(shown.reasons(preset.marks), "")) for name, preset in presets().items())
    return [Chosen(name=name, why=why) for name, why in found if why]
