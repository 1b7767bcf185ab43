"""Public incidents, each written from its reports into a healthy cluster, with the requirements that must turn red.

A file of ``reports/`` is one incident. Its changes are those of a defect (``fixtures/simulator/config/defects.py``), but it is written
from what people reported, never from a check.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from fixtures.simulator.config.scenario import Change, Defect, load_scenario
from fixtures.verdict.record import Result, Verdict
from tests.judging import CATALOGUE, judge
from tests.requirements_offline import scope_of

REPORTS = Path(__file__).parent / "reports"
RED = (Verdict.FAILED, Verdict.WARNED)


class Repeated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object that is there many times."""

    count: int
    object: dict[str, Any]

    @property
    def each(self) -> Iterator[dict[str, Any]]:
        """The objects."""
        text = json.dumps(self.object)
        return (json.loads(text.replace("$n", str(number))) for number in range(self.count))


class Incident(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One incident. ``reports`` are public threads as ``owner/repository#number`` or addresses.

    ``names`` are objects that the red requirements must name. ``later`` says why no requirement sees the incident yet. ``repeated``
    are objects of which there are many: ``$n`` in any text counts them.
    """

    id: str
    title: str
    reports: list[str]
    scenario: str
    requirements: list[str]
    names: list[str]
    changes: list[Change] = []
    objects: list[dict[str, Any]] = []
    repeated: list[Repeated] = []
    policy: dict[str, Any] = {}
    later: str = ""

    @property
    def as_defect(self) -> Defect:
        """The incident as a change of its scenario."""
        return Defect(
            name=self.id,
            description=self.title,
            scenario=self.scenario,
            trips=self.requirements,
            changes=self.changes,
            objects=[*self.objects, *(item for many in self.repeated for item in many.each)],
            policy=self.policy,
        )


def incidents() -> list[Incident]:
    """Every incident, by id."""
    files = sorted(REPORTS.glob("*.yaml"))
    return [msgspec.convert(yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader), Incident) for path in files]


def judged(incident: Incident) -> dict[str, Result]:
    """The results of the requirements that must see the incident, as a run over a snapshot of the cluster has them."""
    scope = scope_of(load_scenario(incident.scenario), [incident.as_defect])
    scope.snapshot.offline = True
    return judge(scope.snapshot, scope.policy, incident.requirements)


def unseen(incident: Incident) -> dict[str, str]:
    """Requirements that do not see it, and what they say instead; empty when all of them name what is wrong."""
    reported = {id_: "no such requirement yet" for id_ in incident.requirements if id_ not in CATALOGUE.by_id}
    if reported:
        return reported
    for id_, result in judged(incident).items():
        named = " ".join([result.message, *(f"{found.namespace}/{found.name} {found.message}" for found in result.subjects)])
        missing = [name for name in incident.names if name not in named]
        if result.verdict not in RED or missing:
            reported[id_] = f"{result.verdict.value}: {result.message}" + (f" (does not name {', '.join(missing)})" if missing else "")
    return reported
