"""Scenarios and defects, each judged once: by all requirements that read, over the objects that it begins with."""

from collections.abc import Iterable
from functools import cache

import msgspec

from conformance.causes import met
from fixtures.kubernetes.models import Json
from fixtures.simulator.config.defects import policy_of
from fixtures.simulator.config.scenario import load_defect, load_scenario
from fixtures.simulator.simulated_cluster import with_defects
from fixtures.verdict.record import Report, Result
from tests.judging import READ, judge
from tests.reports.sample_report import report
from tests.requirements_offline import NOW, healthy, policy_over, snapshot_of

RUNNING = "GANG-01"
"""Judges whether schedulers are available, which nothing is before the scenario's programs run."""


class Judged(msgspec.Struct, frozen=True):
    """A simulated cluster's objects, and what each requirement finds in them."""

    objects: list[Json]
    results: dict[str, Result]


@cache
def judged(scenario: str, defect: str = "") -> Judged:
    """A scenario with a defect, judged without a server; each once per process."""
    defects = [load_defect(defect)] if defect else []
    objects = with_defects(healthy(load_scenario(scenario)), defects, NOW)
    return Judged(objects, results_of(scenario, defect, objects, [id_ for id_ in READ if id_ != RUNNING]))


def results_of(scenario: str, defect: str, objects: Iterable[Json], ids: Iterable[str] = READ) -> dict[str, Result]:
    """The results over objects of a scenario with a defect, under its policy over the presets that its marks choose."""
    made = load_scenario(scenario)
    snapshot = snapshot_of(objects, made.kubernetes_version)
    policy = policy_over(snapshot, policy_of(made, [load_defect(defect)] if defect else []))
    return judge(snapshot, policy, ids, may_probe=True)


def report_of(name: str) -> Report:
    """The report on a defect's cluster."""
    scenario = load_defect(name).scenario
    results = judged(scenario, name).results.values()
    made = report(list(results))
    made.causes = met(code for one in made.results for code in (*(subject.cause for subject in one.subjects), one.cause))
    made.target.kubernetes_version = load_scenario(scenario).kubernetes_version
    return made
