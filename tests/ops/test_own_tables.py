"""Tables that a user brings: what is read of them is bounded, and no requirement breaks on what the schema lets through."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.cli.main import main
from conformance.net.figures import figure_of
from conformance.net.two_nodes import FabricRun
from conformance.ops.versions import check_floors
from conformance.upg.checks import check_support
from fixtures.kubernetes.models import Condition
from fixtures.model.devices import mig_geometry, xid_catalogue
from fixtures.model.devices.xid_catalogue import catalogue
from fixtures.model.nodes import health
from fixtures.model.nodes.health import read_condition, wrong_status
from fixtures.model.platform import versions
from fixtures.policy.model import Network
from fixtures.tables.dated import Dated, TablesError, choose
from fixtures.tables.rows import ALL, FLOORS
from fixtures.text import yaml_text
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_scope
from tests.net.test_figures import a_measured_run

EXAMPLES = int(os.environ.get("TABLE_EXAMPLES", "60"))
WORDS = st.sampled_from(
    ["containerd", "driver", "H100", "1g.10gb", "7g.80gb+me", "1.7.8", "46 79", "1-5", "fault", "*", "[", "Gpu??*", "True", "board"]
)
SCALARS = st.one_of(
    WORDS, st.text(max_size=8), st.integers(-5, 2_000_000), st.booleans(), st.none(), st.floats(allow_nan=False), st.dates().map(str)
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=5)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Dated[Any], dict[str, Any]]:
    """A table of the suite with one to three values changed, anywhere."""
    one = draw(st.sampled_from(ALL))
    document = msgspec.to_builtins(one.table)
    for row in draw(st.lists(st.sampled_from(document["rows"]), min_size=1, max_size=3)):
        row[draw(st.sampled_from([*row, "more"]) if draw(st.integers(0, 9)) == 0 else st.sampled_from([*row]))] = draw(VALUES)
    return one, document


@contextlib.contextmanager
def use(folder: Path) -> Iterator[None]:
    """Let tables count as in a process that began with them."""
    before = {one: (one.table, one.own, one.path) for one in ALL}
    caches = (versions.of_images, mig_geometry.of_pci, mig_geometry._words_of_models, xid_catalogue.catalogue, health._known)
    for one in ALL:
        del one.table
    for answers in caches:
        answers.cache_clear()
    try:
        choose(folder, ALL)
        yield
    finally:
        for one, (table, own, path) in before.items():
            one.table, one.own, one.path = table, own, path
        for answers in caches:
            answers.cache_clear()


@cache
def measured_run() -> FabricRun:
    return a_measured_run()


def ask_everything() -> None:
    node = a_node(labels={"nvidia.com/cuda.driver-version.full": "580.95.05"})
    node.status.node_info.container_runtime_version = "containerd://1.7.8"
    scope = a_scope(nodes=[node])
    for check in (check_floors, check_support):
        with contextlib.suppress(NotApplicable):
            list(check(scope))
    catalogue()
    for kind in ("GpuMemWatch", "Drained", "KernelReady", "x"):
        read_condition(Condition(type=kind, status="True"), node)
        wrong_status(kind)
    for product in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A30"):
        geometry = mig_geometry.geometry_of(product)
        for profile in geometry.maxima if geometry else ():
            mig_geometry.fits_devices(product, 2, {profile: 3})
        for config in ("all-balanced", "all-1g.10gb"):
            mig_geometry.config_layout(product, config)
    figure_of(measured_run(), Network(), first=True)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_a_table_is_refused_in_one_line_or_every_question_has_an_answer(
    tmp_path_factory: pytest.TempPathFactory, table: tuple[Dated[Any], Any]
) -> None:
    one, document = table
    folder = tmp_path_factory.mktemp("tables")
    (folder / f"{one.name}.yaml").write_text(json.dumps(document))
    refused = ""
    try:
        with use(folder):
            ask_everything()
    except TablesError as error:
        refused = str(error)
    assert "\n" not in refused
    assert len(refused) < 400


HEAD = "date: 2026-10\nabout: Ours.\nsources: [https://example.com]\nrows:\n"
ROW = "  - {part: containerd, fault: ours, fixed: [99.0.0], source: https://example.com}\n"
PROFILE = "  - {name: X, slices: 7, models: {X: []}, maxima: {5g.10gb: 1}}\n"
ALIASES = "a: &a [x, x]\n" + "".join(f"{n}: &{n} [{', '.join([f'*{p}'] * 40)}]\n" for p, n in zip("abcde", "bcdef", strict=True))
REFUSED: dict[str, tuple[str, str, str]] = {
    "an unknown key": ("version_floors.yaml", f"{HEAD}{ROW}more: 1\n", "unknown field `more`"),
    "an unknown key of a row": ("version_floors.yaml", HEAD + ROW.replace("fault", "faults"), "faults"),
    "a part that nobody looks for": ("version_floors.yaml", HEAD + ROW.replace("containerd", "runc"), "part runc has no images"),
    "no month": ("version_floors.yaml", HEAD.replace("2026-10", "2026-13") + ROW, "date"),
    "a name that is near": ("version_floor.yaml", HEAD + ROW, "did you mean version_floors.yaml"),
    "a key twice": ("version_floors.yaml", f"{HEAD}{ROW}about: Again.\n", "twice"),
    "a large file": ("version_floors.yaml", HEAD + ROW * 20_000, "larger than"),
    "aliases without end": ("version_floors.yaml", ALIASES, "aliases"),
    "codes without end": ("xid_actions.yaml", f"{HEAD}  - {{action: A, class: info, codes: 0-99999}}\n", "codes 0-99999"),
    "a profile that no card has": ("mig_profiles.yaml", HEAD + PROFILE, "5g.10gb"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_cannot_be_used_is_a_usage_error(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, text, words = REFUSED[case]
    (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["tables", "--tables", str(tmp_path)])
    assert ended.value.code == 4
    assert words in capsys.readouterr().err


def test_an_empty_folder_and_none_are_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(TablesError):
            choose(folder, ALL)


def test_a_run_judges_by_own_tables_and_its_report_names_them(tmp_path: Path) -> None:
    own = tmp_path / "tables"
    own.mkdir()
    (own / "version_floors.yaml").write_text(HEAD + ROW)
    command = [sys.executable, "-m", "pytest", "conformance/ops", "--simulate", "healthy", "--only", "OPS-11", "--tables", str(own)]
    ran = subprocess.run([*command, "--report-dir", str(tmp_path / "out")], capture_output=True, text=True, check=False)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (ran.returncode, report["results"][0]["verdict"]) == (1, "failed"), ran.stdout
    used = {one["name"]: one for one in report["run"]["tables"]}
    assert used["version_floors"]["date"] == "2026-10"
    assert len(used["version_floors"]["own"]) == 64
    words = f"tables of {FLOORS.table.date}; your own: version_floors of 2026-10"
    assert words in ran.stdout
    assert words in (tmp_path / "out" / "report.html").read_text()
    assert subprocess.run([*command[:-1], str(tmp_path)], capture_output=True, check=False).returncode == 4


def test_the_suites_tables_are_read_as_a_users_would_be() -> None:
    for one in ALL:
        assert one.read(Path(yaml_text.__file__).parents[1] / "tables" / f"{one.name}.yaml") == one.table
