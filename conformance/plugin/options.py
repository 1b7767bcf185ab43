"""The suite's pytest options. A wrong one is reported in one line, with exit code 4."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from conformance.catalogue import Catalogue, CatalogueError
from conformance.requirement import Requirement
from fixtures.localcluster.interface import DEFAULT_MINOR
from fixtures.policy.policy_file import HIDDEN
from fixtures.tables.dated import TablesError, choose
from fixtures.tables.rows import ALL
from fixtures.text import yaml_text
from fixtures.verdict.coverage import OF_NO_NODE, beyond_access
from fixtures.verdict.findings import COMPARISON
from fixtures.verdict.record import Access, Level
from reports.terminal.actions import harmless

GROUP = "gpu-conformance"
TARGETS = "--kubeconfig FILE, --in-cluster, --snapshot PATH, --simulate SCENARIO, --local[=MINOR]"

SUITE = Path(__file__).resolve().parents[1]
OPTIONS = (
    "--import-mode=importlib",
    "--strict-markers",
    *("-p", "no:cacheprovider"),
    *("-p", "no:allure_pytest"),
    *("-p", "no:doctest"),
    *("-p", "no:unittest"),
    *("-p", "conformance.plugin.session"),
    *("-p", "conformance.plugin.hooks"),
    *("-p", "chaos.surface.plugin"),
    f"--rootdir={SUITE.parent}",
    *("-c", "/dev/null"),
)
"""What the settings of a checkout would say. The tests and the user's words follow."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run, decoded."""

    kubeconfig: str = ""
    context: str | None = None
    in_cluster: bool = False
    snapshot: str = ""
    simulate: str = ""
    local: str = ""
    local_bin: str = ""
    real_nodes: int = 0
    policy: str = ""
    access: Access = Access.WORKLOAD
    read_only: bool = False  # the option that gave the access
    level: Level = Level.SHOULD
    only: tuple[str, ...] = ()  # ids and areas of the catalogue; empty: all
    strict: bool = False
    require: tuple[str, ...] = ()
    min_judged: int | None = None
    max_inconclusive: int | None = None
    max_not_applicable: int | None = None
    waivers: str = ""
    baseline: str = ""
    accept_not_judged: tuple[str, ...] = ()  # globs of what the baseline judged and this run need not
    another_cluster: bool = False
    report_dir: str = ""
    history: str = ""  # a folder
    record_only: bool = False
    evidence: bool = False
    alluredir: str = ""
    clean_alluredir: bool = False
    every_node: bool = False
    if_any: bool = False
    nodes: tuple[str, ...] = ()  # names, and terms of a label selector, of the nodes that the run is about; empty: all
    platform: tuple[str, ...] = ()  # presets by name; empty: the cluster's marks choose
    tables: str = ""
    columns: int = 0  # of the output; 0: as wide as the terminal
    settle: float = 0.0  # seconds to wait for changes under way


class OptionGroup(Protocol):
    """A group of options under one heading."""

    def addoption(self, *names: str, **attributes: Any) -> None:
        """Register one option, as ``argparse`` takes it."""


class OptionParser(Protocol):
    """What options are registered with: pytest's parser, or one that only writes their help."""

    def getgroup(self, name: str, description: str = "") -> OptionGroup:
        """The group of that name."""


def add_options(parser: OptionParser) -> None:
    """Register the options. ``--strict`` is pytest's own flag, read here as "a SHOULD fails too".

    What takes a value is None where it was not given, so that an empty value can be told from none.
    """
    group = parser.getgroup(GROUP, "GPU cluster conformance")
    table = yaml_text.packaged(Path(__file__).with_name("options.yaml"), dict[str, dict[str, Any]])
    table["--access"]["choices"] = [str(access) for access in Access]
    words = table["--local"]["help"].replace("MINOR", DEFAULT_MINOR)
    table["--local"] |= {"nargs": "?", "const": DEFAULT_MINOR, "help": words}
    for name, attributes in table.items():
        group.addoption(name, **attributes)


class _Defaults:
    """A parser that only notes the options: which value each has where it was not given, and which take free text."""

    def __init__(self) -> None:
        self.found: dict[str, object] = {}
        self.texts: list[str] = []
        add_options(self)

    def getgroup(self, name: str, description: str = "") -> "_Defaults":
        del name, description
        return self

    def addoption(self, *names: str, **attributes: Any) -> None:
        self.texts += [names[-1].removeprefix("--").replace("-", "_")] if "metavar" in attributes else []
        self.found[names[-1]] = attributes.get("default", False if attributes.get("action") == "store_true" else None)


def refuse_unread(config: pytest.Config) -> None:
    """Nobody reads the options of a run that judges nothing. Raises :class:`pytest.UsageError` that names the first one given."""
    for flag, default in _Defaults().found.items():
        if getattr(config.option, flag.removeprefix("--").replace("-", "_"), default) != default:
            raise pytest.UsageError(f"{flag} is given, and no argument selects the suite: expected conformance, chaos or a path in them")


def refuse_empty(config: pytest.Config, names: Iterable[str]) -> None:
    """An empty value is a mistake of the caller's (``--kubeconfig "$UNSET"``). Raises :class:`pytest.UsageError` naming the option."""
    for name in names:
        value = getattr(config.option, name)
        for text in value if isinstance(value, list) else [value]:
            if text is not None and not str(text).strip(" \t\r\n,"):
                raise pytest.UsageError(f"--{name.replace('_', '-')} was given an empty value: expected one, or leave the option out")


def read_options(config: pytest.Config, catalogue: Catalogue) -> Options:
    """Decode and check the options. Raises :class:`pytest.UsageError` with one line."""
    option = config.option
    refuse_empty(config, _Defaults().texts)
    _check_target(config)
    access = Access(option.access) if option.access else Access.WORKLOAD
    if option.read_only:
        if option.access and access is not Access.READ:
            raise pytest.UsageError(f"--read-only contradicts --access {option.access}")
        access = Access.READ
    only, required = _split(option.only), _split(option.require)
    options = Options(
        kubeconfig=str(Path(option.kubeconfig).expanduser()) if option.kubeconfig else "",
        context=option.context,
        in_cluster=option.in_cluster,
        snapshot=option.snapshot or "",
        simulate=option.simulate or "",
        local=option.local or "",
        local_bin=str(Path(option.local_bin).expanduser().resolve()) if option.local_bin else "",
        real_nodes=_count("--real-nodes", option.real_nodes) or 0,
        policy=option.policy or "",
        access=access,
        read_only=option.read_only,
        level=Level.MUST if option.level == "must" else Level.SHOULD,
        only=tuple(name.upper() for name in only),
        strict=bool(config.getoption("strict", False)),
        require=required,
        min_judged=_count("--min-judged", option.min_judged),
        max_inconclusive=_count("--max-inconclusive", option.max_inconclusive),
        max_not_applicable=_count("--max-not-applicable", option.max_not_applicable),
        waivers=option.waivers or "",
        baseline=option.baseline or "",
        accept_not_judged=tuple(option.accept_not_judged),
        another_cluster=option.another_cluster,
        report_dir=option.report_dir or "",
        history=option.history or "",
        record_only=option.record_only,
        evidence=option.evidence,
        alluredir=option.alluredir or "",
        clean_alluredir=option.clean_alluredir,
        every_node=option.every_node,
        nodes=_split(option.nodes),
        if_any=option.if_any,
        platform=_split(option.platform),
        tables=_tables(option),
        columns=_count("--columns", option.columns, "columns") or 0,
        settle=float(_count("--settle", option.settle, "seconds") or 0),
    )
    if options.settle and options.snapshot:
        raise pytest.UsageError("--settle: a saved snapshot does not change; take another one later")
    if options.history and not Path(options.history).is_dir():
        raise pytest.UsageError(f"--history {options.history}: no such folder")
    if options.clean_alluredir and not options.alluredir:
        raise pytest.UsageError("--clean-alluredir needs --alluredir")
    if options.accept_not_judged and not options.baseline:
        raise pytest.UsageError("--accept-not-judged needs --baseline")
    if options.if_any and not options.nodes:
        raise pytest.UsageError("--if-any needs --nodes")
    if options.another_cluster and not options.baseline:
        raise pytest.UsageError("--another-cluster needs --baseline")
    _check_names(catalogue, options)
    return options


def _tables(option: Any) -> str:
    """The folder of ``--tables``, whose tables count from here on, in workers too; empty where the option was not given."""
    if not option.tables:
        return ""
    option.tables = str(Path(option.tables).expanduser().resolve())  # xdist hands the options on
    try:
        choose(Path(option.tables), ALL)
    except TablesError as error:
        raise pytest.UsageError(harmless(f"--tables: {error}")) from None
    return str(option.tables)


def judges(config: pytest.Config) -> bool:
    """Whether pytest runs the tests, and does not only list them or their fixtures."""
    option = config.option
    return not (option.collectonly or option.showfixtures or option.show_fixtures_per_test)


def _check_target(config: pytest.Config) -> None:
    """One target is named, or none where tests are not run."""
    option = config.option
    targets = [
        name
        for name, value in (
            ("--kubeconfig", option.kubeconfig),
            ("--in-cluster", option.in_cluster),
            ("--snapshot", option.snapshot),
            ("--local", option.local),
            ("--simulate", option.simulate and not option.local),  # beside --local it names the scenario of the nodes
        )
        if value
    ]
    if len(targets) > 1:
        raise pytest.UsageError(f"{' and '.join(targets)}: one target at a time")
    if option.context is not None and not option.kubeconfig:
        raise pytest.UsageError("--context needs --kubeconfig: no kubeconfig is taken from the environment")
    if option.local_bin and not option.local:
        raise pytest.UsageError("--local-bin needs --local")
    if option.real_nodes and not option.local:
        raise pytest.UsageError("--real-nodes needs --local")
    if not targets and judges(config):
        raise pytest.UsageError(f"no target is named: expected one of {TARGETS} (none is taken from the environment)")


def _check_names(catalogue: Catalogue, options: Options) -> None:
    """Every id and area is known, and nothing is both required and left out."""
    for flag, names, check in (("--only", options.only, catalogue.choose), ("--require", options.require, catalogue.get)):
        try:
            for name in names:
                check(name)
        except CatalogueError as error:
            raise pytest.UsageError(f"{flag}: {error}") from None
    for id_ in options.require:
        requirement = catalogue.get(id_)
        if option := left_out(requirement, options):
            raise pytest.UsageError(f"--require {id_}: {option} leaves it out")
        if why := _beyond(requirement, options):
            raise pytest.UsageError(f"--require {id_}: {why}")


def _beyond(requirement: Requirement, options: Options) -> str:
    """Why the access or the target of a run cannot judge a requirement; empty where it can."""
    if requirement.access.rank > options.access.rank:
        return f"it {beyond_access(requirement.access, options.access, read_only=options.read_only)}"
    if requirement.id == COMPARISON and not options.baseline:
        return "no --baseline was given"
    return "it asks the cluster, and --snapshot cannot answer" if options.snapshot and requirement.access is not Access.READ else ""


def left_out(requirement: Requirement, options: Options) -> str:
    """The option of the suite that leaves a requirement out, as it was given; empty when it is asked for."""
    if options.level is Level.MUST and requirement.level is not Level.MUST:
        return "--level must"
    if options.only and not {requirement.id, requirement.area} & set(options.only):
        return f"--only {','.join(options.only)}"
    return OF_NO_NODE if options.nodes and not requirement.of_nodes else ""


def _count(flag: str, text: str | None, unit: str = "requirements") -> int | None:
    """A whole number; None where the option was not given. Raises :class:`pytest.UsageError`."""
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise pytest.UsageError(f"{flag} {text[:40]}: expected a whole number of {unit}")
    return int(text)


def _split(texts: Iterable[str]) -> tuple[str, ...]:
    """The names of a repeatable option whose values may hold several, with commas; each once."""
    return tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",") if part.strip()))


_CONDITIONS = ("--stop-if", "--steady-if", "--detect-if")
"""Options whose values may hold a credential: an argument of a command, or the query of an address."""


def _without_conditions(arguments: Sequence[str]) -> list[str]:
    shown, before = [], ""
    for one in arguments:
        name, has_value, _ = one.partition("=")
        hidden = f"{name}={HIDDEN}" if has_value and name in _CONDITIONS else one
        shown.append(HIDDEN if before in _CONDITIONS else hidden)
        before = one
    return shown


def as_typed(arguments: Sequence[str]) -> list[str]:
    """The command that somebody typed, of the arguments that pytest was given, without the conditions of experiments."""
    arguments = _without_conditions(arguments)
    if tuple(arguments[: len(OPTIONS)]) != OPTIONS:
        return ["pytest", *arguments]
    folder, *rest = arguments[len(OPTIONS) :] or [""]
    words = rest[1:] if rest[:1] == ["--chaos"] else rest
    return ["gpu-conformance", "run", *rest] if folder == str(SUITE) else ["gpu-conformance", "chaos", "run", *words]
