"""What the cluster's owner allows: the policy's section ``chaos`` and the options of this run."""

from __future__ import annotations

import difflib

import msgspec

from chaos.model.levels import DEFAULT_MAX_LEVEL, Level
from chaos.observe.components import NAMES
from fixtures.policy.model import Chaos, Policy


class SettingsError(Exception):
    """A setting that cannot be: one line, said before anything is touched."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``allowed`` are UIDs of clusters, ``confirmed`` the cluster's name as somebody typed it for this run.

    ``named_nodes`` are nodes that somebody named for this run, and thereby meant.
    """

    policy: Chaos = Chaos()
    allowed: tuple[str, ...] = ()
    max_level: Level = Level.AGENTS
    injector_image: str
    canary_image: str
    confirmed: str = ""
    named_nodes: tuple[str, ...] = ()


def settings_of(
    policy: Policy,
    *,
    clusters: tuple[str, ...] = (),
    max_level: int | None = None,
    confirm: str = "",
    nodes: tuple[str, ...] = (),
) -> Settings:
    """Lay the options over the policy. Raises :class:`SettingsError`.

    Options add clusters, and lower the ceiling freely; a policy that names a ceiling is not exceeded by an option.
    """
    chaos = policy.chaos
    ceiling = next(level for level in (max_level, chaos.max_level, DEFAULT_MAX_LEVEL) if level is not None)
    if ceiling not in set(Level):
        raise SettingsError(
            f"--chaos-max-level {ceiling}: expected one of {', '.join(f'{level.value} ({level.words})' for level in Level)}"
        )
    for name, workload in chaos.components.items():
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(NAMES))}"
            raise SettingsError(f"policy chaos.components: unknown component {name!r}; {hint}")
        if len([part for part in workload.split("/") if part]) != 2:
            raise SettingsError(f"policy chaos.components.{name}: expected 'namespace/name' of its workload, not {workload!r}")
    if chaos.max_level is not None and ceiling > chaos.max_level:
        raise SettingsError(f"--chaos-max-level {ceiling}: the policy allows level {chaos.max_level} at most (chaos.maxLevel)")
    return Settings(
        policy=chaos,
        allowed=(*chaos.clusters, *clusters),
        max_level=Level(ceiling),
        injector_image=chaos.injector_image,
        canary_image=chaos.canary_image or policy.probes.image,
        confirmed=confirm,
        named_nodes=nodes,
    )
