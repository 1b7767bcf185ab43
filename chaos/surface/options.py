"""The options of ``pytest chaos --chaos``, and the pytest options that experiments refuse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from conformance.plugin.options import OptionParser, refuse_empty

CHAOS = Path(__file__).resolve().parents[1]
SCENARIO = "resilience"
"""The nodes of a local control plane for experiments: agents and remediation that put things back."""
_OPTIONS = ("max-level", "cluster", "experiment", "target", "confirm", "recover", "folder")
_DESTINATIONS = {f"chaos_{name.replace('-', '_')}": f"--chaos-{name}" for name in _OPTIONS}


class ChaosOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run of experiments, decoded."""

    max_level: int | None = None
    clusters: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    node: str = ""
    confirm: str = ""
    recover: bool = False
    folder: str = ""


def add_options(parser: OptionParser) -> None:
    """Register the options."""
    group = parser.getgroup("gpu-conformance-chaos", "GPU cluster chaos experiments")
    group.addoption("--chaos", action="store_true", help="select chaos experiments: they change the cluster, and put it back")
    group.addoption("--chaos-max-level", metavar="N", type=int, default=None, help="0 simulated, 1 agents (default) … 4 destructive")
    group.addoption("--chaos-cluster", metavar="UID", action="append", default=[], help="UID of a cluster that experiments may change")
    only = "run only these; default: all up to the level"
    group.addoption("--chaos-experiment", metavar="ID[,ID...]", action="append", default=[], help=only)
    group.addoption("--chaos-target", metavar="NODE", help="the node to act on; default: the plan chooses")
    group.addoption("--chaos-confirm", metavar="NAME", help="the cluster's name, typed, for level 4 and to confirm --chaos-recover")
    group.addoption("--chaos-folder", metavar="DIR", help="folder with your own experiments; default: the suite's")
    group.addoption("--chaos-recover", action="store_true", help="first undo what an earlier run has left, once you confirm the plan")


def read_options(config: pytest.Config) -> ChaosOptions | None:
    """The options, checked; None without ``--chaos``. Raises :class:`pytest.UsageError` with one line; nothing was touched."""
    option = config.option
    refuse_empty(config, (name for name in _DESTINATIONS if name not in ("chaos_max_level", "chaos_recover")))
    named = _names_chaos(config)
    if not option.chaos:
        given = [flag for name, flag in _DESTINATIONS.items() if getattr(option, name) not in (None, [], "", False)]
        if given:
            raise pytest.UsageError(f"{given[0]} needs --chaos")
        if named:
            raise pytest.UsageError(
                "chaos experiments change a cluster: they run with --chaos only (first see 'gpu-conformance chaos plan')"
            )
        return None
    if not named:
        raise pytest.UsageError("--chaos selects experiments of the folder chaos: `pytest chaos --chaos`")
    _refuse_others(config)
    if option.chaos_max_level is not None and not 0 <= option.chaos_max_level <= 4:
        raise pytest.UsageError(f"--chaos-max-level {option.chaos_max_level}: expected 0 to 4")
    return ChaosOptions(
        max_level=option.chaos_max_level,
        clusters=tuple(option.chaos_cluster),
        experiments=split_ids(option.chaos_experiment),
        node=option.chaos_target or "",
        confirm=option.chaos_confirm or "",
        recover=option.chaos_recover,
        folder=str(config.invocation_params.dir / option.chaos_folder) if option.chaos_folder else "",
    )


def split_ids(texts: Sequence[str]) -> tuple[str, ...]:
    """Ids of a repeatable option whose values may hold several, with commas."""
    return tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",") if part.strip()))


def _names_chaos(config: pytest.Config) -> bool:
    paths = (config.invocation_params.dir / str(argument).partition("::")[0] for argument in config.args)
    return any(path.resolve().is_relative_to(CHAOS) for path in paths)


def _refuse_others(config: pytest.Config) -> None:
    """Parallel workers, reruns and a timeout without teardown: each would hide or break the undoing."""
    option = config.option
    if hasattr(config, "workerinput") or getattr(option, "tx", None) or getattr(option, "numprocesses", None):
        raise pytest.UsageError("chaos experiments run one after the other: leave out -n (and --tx)")
    if getattr(option, "reruns", None) or getattr(option, "force_flaky", None) or (getattr(option, "count", None) or 1) != 1:
        raise pytest.UsageError("chaos experiments are never rerun: a second run hides what the first one left behind; leave out --reruns")
    if config.pluginmanager.hasplugin("timeout") and _timeout_method(config) == "thread":
        raise pytest.UsageError("pytest-timeout's thread method ends the process without undoing: use --timeout-method=signal")
    if option.read_only or option.access not in (None, "workload", "hardware"):
        raise pytest.UsageError("--chaos contradicts --read-only and --access: experiments change the cluster")
    if option.snapshot:
        raise pytest.UsageError("--chaos contradicts --snapshot: saved objects cannot be broken")


def _timeout_method(config: pytest.Config) -> str:
    """The method of pytest-timeout, if it has a time to watch."""
    seconds = getattr(config.option, "timeout", None) or config.getini("timeout")
    if not seconds or float(seconds) <= 0:
        return ""
    return str(getattr(config.option, "timeout_method", None) or config.getini("timeout_method") or "signal")
