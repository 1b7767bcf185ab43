"""Options of pytest and of its plugins that chaos experiments cannot stand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.surface import options, plugin


class Config:
    """As much of pytest's configuration as the options look at."""

    def __init__(self, *plugins: str, ini: dict[str, str] | None = None, **option: Any) -> None:
        given: dict[str, Any] = {"chaos_max_level": None, "chaos_cluster": [], "chaos_experiment": [], "chaos_target": None}
        given |= {"stop_if": [], "steady_if": [], "detect_if": [], "each": None, "each_count": None, "resume": None}
        given |= {"chaos_confirm": None, "chaos_recover": False, "chaos_folder": None, "read_only": False, "access": None, "snapshot": None}
        self.option = SimpleNamespace(**{**given, "chaos": True, **option})
        self.args = [str(options.CHAOS)]
        self.invocation_params = SimpleNamespace(dir=Path("/"))
        self.pluginmanager = SimpleNamespace(hasplugin=lambda name: name in plugins)
        self.stash: dict[Any, Any] = {}
        self._ini = ini or {}

    def getini(self, name: str) -> str:
        return self._ini.get(name, "")


def read(config: Config) -> Any:
    return options.read_options(config)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (Config(reruns=2), "never rerun"),
        (Config(force_flaky=True), "never rerun"),
        (Config(count=3), "never rerun"),
        (Config("timeout", timeout="60", timeout_method="thread"), "use --timeout-method=signal"),
        (
            Config("timeout", timeout=None, timeout_method=None, ini={"timeout": "60", "timeout_method": "thread"}),
            "--timeout-method=signal",
        ),
        (Config(tx=["popen"]), "one after the other"),
        (Config(numprocesses=1), "one after the other"),
        (Config(access="read"), "contradicts"),
        (Config(access="dry-run"), "contradicts"),
        (Config(each="", chaos_target="gpu-1"), "leave one of them out"),
        (Config(each_count=0), "at least 1"),
    ],
    ids=["reruns", "flaky", "repeat", "timeout option", "timeout ini", "tx", "n", "read", "dry-run", "one and each", "each of none"],
)
def test_what_hides_or_breaks_undoing_is_refused(config: Config, says: str) -> None:
    with pytest.raises(pytest.UsageError, match=says):
        read(config)


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(reruns=0, count=1, numprocesses=0, tx=[]),
        Config("timeout", timeout="60", timeout_method="signal"),
        Config("timeout", timeout="0", timeout_method="thread"),
        Config(access="workload"),
    ],
    ids=["none", "zeros", "timeout by signal", "no timeout", "workload"],
)
def test_what_does_neither_is_let_be(config: Config) -> None:
    assert read(config).experiments == ()


def test_an_xdist_worker_is_refused_too() -> None:
    config = Config()
    config.workerinput = {}  # type: ignore[attr-defined]
    with pytest.raises(pytest.UsageError, match="one after the other"):
        read(config)


def test_ids_may_be_given_together_or_apart() -> None:
    assert read(Config(chaos_experiment=["A1, A2,", "A2"])).experiments == ("A1", "A2")


def test_without_chaos_the_experiments_are_not_collected() -> None:
    config = Config()
    assert plugin.pytest_ignore_collect(plugin.SUITE_FILE, config) is True  # type: ignore[arg-type]
    assert plugin.pytest_ignore_collect(Path(__file__), config) is None  # type: ignore[arg-type]
    config.stash[plugin.LOADED] = True
    assert plugin.pytest_ignore_collect(plugin.SUITE_FILE, config) is None  # type: ignore[arg-type]
