"""Seeded bugs: each must turn the experiments that are meant for it red."""

from pathlib import Path

import msgspec

from fixtures.simulator.config.scenario import Defect, bug_names, load_defect
from fixtures.verdict.record import Verdict
from tests.chaos.selfcheck.runs import RESILIENCE, run


class BugRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One bug and one experiment meant for it."""

    bug: str
    experiment: str
    verdict: str
    reasons: list[str]
    caught: bool
    output: str = ""


def seeded() -> list[Defect]:
    """Every seeded bug, by name."""
    return [load_defect(name) for name in bug_names()]


def scenario_of(id_: str, bugs: list[Defect]) -> str:
    """Where an experiment is run: the scenario of a bug that is meant for it, else the common one."""
    named = sorted({bug.scenario for bug in bugs if id_ in bug.experiments})
    return RESILIENCE if RESILIENCE in named or not named else named[0]


def check(bug: Defect, id_: str, folder: Path) -> BugRow:
    """Run the experiment on a cluster with the bug."""
    finished = run(folder, "--simulate", f"{bug.scenario},{bug.name}", ids=[id_])
    result = finished.result(id_)
    stopped = result is not None and "Stopped" in result.reason_codes  # others were hurt, so the run ended by itself
    caught = result is not None and result.verdict is Verdict.FAILED and finished.code == (2 if stopped else 1)
    return BugRow(
        bug=bug.name,
        experiment=id_,
        verdict=result.verdict.value if result else f"exit code {finished.code}",
        reasons=sorted({f"{one.name}: {one.reason_code}" for one in result.findings if one.verdict is Verdict.FAILED}) if result else [],
        caught=caught,
        output="" if caught else finished.tail,
    )
