"""Which tests share a worker, and in which order they start, when several workers share a machine.

The tests of a file stay together, so that what they set up is set up once, but for files whose tests take seconds each. Some wait
most of their time (experiments, machines that restart), others compute: both are begun alternately, the longest of either first, and
the short ones between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

WAITING = (
    "upg/test_local_upgrade.py",
    "simulator/localcluster/test_chaos_local.py",
    "endtoend/test_readme.py",
    "hostile/test_real_api.py",
    "hostile/test_faults.py",
    "chaos/engine/test_api_lost.py",
    "chaos/selfcheck",
    "chaos/ledger/test_replay.py",
    "chaos/engine/test_recover.py",
    "chaos/experiments/test_others_at_work.py",
    "chaos/engine",
    "chaos/experiments/test_end_to_end.py",
    "hostile/test_kept_lists.py",
    "hostile/test_bounds.py",
    "endtoend/test_trouble.py",
    "hostile/test_false_absence.py",
    "hostile/test_old_events.py",
    "hostile/test_lookalike_targets.py",
    "simulator/programs/test_exec.py",
    "hostile/test_residue.py",
    "simulator/host",
    "chaos/surface",
    "chaos/safety",
    "chaos/ledger",
    "chaos",
)
COMPUTING = (
    "endtoend/test_matrix.py::test_healthy_scenarios_are_green",
    "simulator/localcluster/test_attached.py",
    "simulator/localcluster/test_gang_facts.py",
    "simulator/localcluster/test_exec.py",
    "simulator/localcluster/test_rights.py",
    "simulator/localcluster/test_matrix_local.py",
    "simulator/fidelity",
    "simulator/localcluster",
    "reports/test_html",
    "reports/test_merge_browser.py",
    "reports/test_allure_page.py",
    "delivery",
    "cli",
    "deploy",
    "development",
    "endtoend",
    "simulator/scenarios",
    "hostile",
    "core",
    "",
)
"""Folders, files and tests below ``tests``, in the order in which they start; the longest entry that fits a test counts.

Files of many seconds come first.
"""

SHORT = (
    "endtoend/test_matrix.py::test_a_defect_turns_exactly_its_requirements_red[req-pending",  # a pod has to pend for a while
    "endtoend/test_matrix.py::test_a_defect_turns_exactly_its_requirements_red",
)
"""The rows of the matrix compute for a second or two each. They are begun all along: there is always work for a processor that others
leave idle, and at the end no worker is without work while another has a long file to go through.
"""

APART = (
    "simulator/localcluster/test_matrix_local.py",
    "simulator/localcluster/test_rights.py",
    "simulator/localcluster/test_controlplane.py",
    "simulator/localcluster/test_gang_programs.py",
    "chaos/engine/test_api_lost.py",
    "chaos/selfcheck/test_selfcheck.py",
    "chaos/experiments/test_end_to_end.py",
    "cli/test_doctor.py",
    "endtoend/test_matrix.py",
    "endtoend/test_runs.py",
    "endtoend/test_rights.py",
    "endtoend/test_trouble.py",
    "simulator/host/test_remediation.py",
    "simulator/host/test_operators.py",
    "simulator/host/test_mig_manager.py",
)
"""Files whose tests take seconds each and share nothing that takes as long."""


WAITING_SHARE = 0.9
"""The part of the run in which tests that wait are begun: one begun at the end leaves the processors idle until it is done."""

LISTS = ((WAITING, WAITING_SHARE), (SHORT, 1.0), (COMPUTING, 1.0))
"""The first list that names a test counts."""


def arrange(items: list[pytest.Item]) -> None:
    """Mark what stays together, and order the items in place."""
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        units.setdefault(_unit(item), []).append(item)
    ranked: list[list[tuple[int, list[pytest.Item]]]] = [[] for _ in LISTS]
    for unit in units.values():
        test = unit[0].nodeid.removeprefix(f"{ROOT.name}/")
        number, rank = next((number, rank) for number, (order, _) in enumerate(LISTS) if (rank := _rank(test, order)) is not None)
        ranked[number].append((rank, unit))
    spread = ((_sorted(found), share) for found, (_, share) in zip(ranked, LISTS, strict=True))
    items[:] = [item for unit in _alternately(*spread) for item in unit]


def _unit(item: pytest.Item) -> str:
    """What it belongs to: its own mark, its file, or nothing but itself."""
    mark = item.get_closest_marker("xdist_group")
    if mark is not None:
        return str(mark.args[0])
    file = _file(item)
    if file in APART:
        return item.nodeid
    item.add_marker(pytest.mark.xdist_group(file))
    return file


def _file(item: pytest.Item) -> str:
    return item.path.relative_to(ROOT).as_posix()


def _rank(test: str, order: Sequence[str]) -> int | None:
    fitting = [(len(start), rank) for rank, start in enumerate(order) if test.startswith(start)]
    return max(fitting)[1] if fitting else None


def _sorted(ranked: Iterable[tuple[int, list[pytest.Item]]]) -> list[list[pytest.Item]]:
    return [unit for _, unit in sorted(ranked, key=lambda one: one[0])]


def _alternately(*lists: tuple[list[list[pytest.Item]], float]) -> list[list[pytest.Item]]:
    """The units of all lists, each list spread evenly over its share of the whole."""
    placed = [
        ((index + 0.5) / len(units) * share, number, unit)
        for number, (units, share) in enumerate(lists)
        for index, unit in enumerate(units)
    ]
    return [unit for _, _, unit in sorted(placed, key=lambda one: one[:2])]
