"""The options of ``pytest chaos --chaos``, and the pytest options that experiments refuse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.plugin.options import OptionParser, refuse_empty

CHAOS = Path(__file__).resolve().parents[1]
SCENARIO = "resilience"
"""The nodes of a local control plane for experiments: agents and remediation that put things back."""
_OPTIONS = ("max-level", "cluster", "experiment", "target", "confirm", "recover", "folder")
_DESTINATIONS = {
    **{f"chaos_{name.replace('-', '_')}": f"--chaos-{name}" for name in _OPTIONS},
    "stop_if": "--stop-if",
    "steady_if": "--steady-if",
    "detect_if": "--detect-if",
    "each": "--each",
    "each_count": "--each-count",
    "resume": "--resume",
}


class ChaosOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run of experiments, decoded."""

    max_level: int | None = None
    clusters: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    node: str = ""
    confirm: str = ""
    recover: bool = False
    folder: str = ""
    stop_if: tuple[str, ...] = ()
    steady_if: tuple[str, ...] = ()
    detect_if: tuple[str, ...] = ()
    each: str | None = None
    each_count: int | None = None
    resume: str = ""

    @property
    def per_node(self) -> bool:
        """Whether each node of a pool has its turn."""
        return self.each is not None or self.each_count is not None


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
    add_conditions(group.addoption)
    add_pool(group.addoption)
    again = "leave out what the run in this report folder has passed on this cluster"
    group.addoption("--resume", metavar="DIR", help=again)
    group.addoption("--chaos-recover", action="store_true", help="first undo what an earlier run has left, once you confirm the plan")


def add_conditions(add: Callable[..., object]) -> None:
    """Register the options for conditions of the user's, which ``plan`` has too."""
    form = "[not] http URL, promql URL QUERY, or command PROGRAM…; repeatable"
    add("--stop-if", metavar="CONDITION", action="append", default=[], help=f"end the experiment at once when it holds: {form}")
    add("--steady-if", metavar="CONDITION", action="append", default=[], help=f"part of every steady state: {form}")
    add("--detect-if", metavar="CONDITION", action="append", default=[], help=f"has to show the fault, as an alert does: {form}")


def add_pool(add: Callable[..., object]) -> None:
    """Register the options for a pool of nodes, which ``plan`` has too."""
    add("--each", metavar="LABEL=VALUE", nargs="?", const="", help="act on each GPU node with the label in turn; default: on all of them")
    add("--each-count", metavar="N", type=int, help="act on the first N of these nodes")


def read_options(config: pytest.Config) -> ChaosOptions | None:
    """The options, checked; None without ``--chaos``. Raises :class:`pytest.UsageError` with one line; nothing was touched."""
    option = config.option
    unlike = ("chaos_max_level", "chaos_recover", "each", "each_count")
    refuse_empty(config, (name for name in _DESTINATIONS if name not in unlike))
    named = _names_chaos(config)
    if not option.chaos:
        given = [flag for name, flag in _DESTINATIONS.items() if getattr(option, name) not in (None, [], False)]
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
    folder = config.invocation_params.dir
    return msgspec.structs.replace(
        chosen_options(option),
        recover=option.chaos_recover,
        resume=str(folder / option.resume) if option.resume else "",
        folder=str(folder / option.chaos_folder) if option.chaos_folder else "",
    )


def chosen_options(option: Any) -> ChaosOptions:
    """What pytest and ``plan`` were given alike. Raises :class:`pytest.UsageError` for a level or a pool of nodes that cannot be."""
    if option.chaos_max_level is not None and not 0 <= option.chaos_max_level <= 4:
        raise pytest.UsageError(f"--chaos-max-level {option.chaos_max_level}: expected 0 to 4")
    if option.each_count is not None and option.each_count < 1:
        raise pytest.UsageError(f"--each-count {option.each_count}: expected at least 1")
    if option.chaos_target and (option.each is not None or option.each_count is not None):
        raise pytest.UsageError("--chaos-target names one node, and --each acts on several: leave one of them out")
    return ChaosOptions(
        max_level=option.chaos_max_level,
        clusters=tuple(option.chaos_cluster),
        experiments=tuple(dict.fromkeys(part.strip() for text in option.chaos_experiment for part in text.split(",") if part.strip())),
        node=option.chaos_target or "",
        confirm=option.chaos_confirm or "",
        stop_if=tuple(option.stop_if),
        steady_if=tuple(option.steady_if),
        detect_if=tuple(option.detect_if),
        each=option.each,
        each_count=option.each_count,
    )


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
