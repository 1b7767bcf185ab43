import re

import pytest

from tests.incidents.incidents import Incident, incidents, unseen

EVERY = incidents()
REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+|https://\S+")


@pytest.mark.parametrize("incident", EVERY, ids=[one.id for one in EVERY])
def test_an_incident_turns_its_requirements_red_and_is_named(incident: Incident) -> None:
    reported = unseen(incident)
    if incident.later:
        assert reported, f"{incident.id} is seen now: remove `later` from its file"
    else:
        assert reported == {}


def test_incidents_have_ids_of_their_own_and_sources() -> None:
    ids = [one.id for one in EVERY]
    assert len(set(ids)) == len(ids)
    assert [one.id for one in EVERY if not one.reports or not all(map(REPORT.fullmatch, one.reports))] == []
    assert [one.id for one in EVERY if not one.requirements or not one.names] == []
