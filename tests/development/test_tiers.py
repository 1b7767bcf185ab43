import sys

import pytest

from tests.development.check import ROOT
from tests.development.reach import reached
from tests.development.tiers import Done, Step, cost, run, steps
from tests.tables import each_row

EVERY = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}


QUANTITY, CLAIMS, COMMANDS = "tests/simulator/admission/test_quantity.py", "tests/core/test_claims.py", "tests/cli/test_commands.py"


@pytest.mark.parametrize(
    ("changed", "reaches", "spares"),
    [
        ("conformance/outputs/nccl_log.py", {"tests/outputs/test_nccl.py", COMMANDS}, {CLAIMS}),
        pytest.param(
            "fixtures/verdict/record.py", {"tests/core/test_waivers.py", "tests/reports/test_diff.py"}, set(), marks=pytest.mark.test_all
        ),
        pytest.param(
            "conformance/fence/test_fence.py",
            {"tests/endtoend/test_runs.py", "tests/incidents/test_incidents.py"},
            {CLAIMS},
            marks=pytest.mark.test_all,
        ),
        pytest.param("tests/builders.py", {"tests/fence/test_checks.py", COMMANDS}, {QUANTITY}, marks=pytest.mark.test_all),
        pytest.param("tests/simulator/api/conftest.py", {"tests/simulator/api/test_reading.py"}, {QUANTITY}, marks=pytest.mark.test_all),
        pytest.param(CLAIMS, {CLAIMS}, {QUANTITY}, marks=pytest.mark.test_all),
    ],
)
def test_a_change_reaches_what_imports_it_and_what_may_start_or_read_it(changed: str, reaches: set[str], spares: set[str]) -> None:
    found = set(reached(ROOT, [changed]) or EVERY)
    assert reaches <= found
    assert not spares & found
    assert found <= EVERY


@pytest.mark.test_all
@pytest.mark.parametrize("changed", ["conformance/fence/fence.yaml", "README.md", "tests/conftest.py", "conformance/deleted.py"])
def test_what_the_graph_does_not_know_reaches_everything(changed: str) -> None:
    assert reached(ROOT, ["tests/core/test_claims.py", changed]) is None


@pytest.mark.test_all
def test_no_change_reaches_nothing() -> None:
    assert reached(ROOT, []) == []


def test_the_tiers_share_no_test_and_leave_none_out() -> None:
    *shared, node, long = steps("test-all", ["-x"])
    assert shared == steps("test", ["-x"])
    assert [step.name for step in shared] == ["lint", "conformance", "tests"]
    commands = [list(step.command) for step in (shared[-1], node, long)]
    assert [command[command.index("-m", 3) + 1] for command in commands] == ["not test_all", "real_node", "test_all and not real_node"]


def test_a_step_costs_what_all_its_processes_used(capfd: pytest.CaptureFixture[str]) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); sys.exit(3)"
    done = run(Step("burn", [sys.executable, "-c", parent]))
    assert (done.name, done.status, done.cpu >= 0.3) == ("burn", 3, True)


LINT, JUDGED, TESTS = Done("lint", 0, 10), Done("conformance", 0, 4), Done("tests", 1, 86)


@each_row
def test_the_cost_is_in_runs_of_the_suite_where_one_has_passed(tier: str, done: list[Done], words: str) -> None:
    assert cost(tier, done) == f"make {tier}: {words}"
