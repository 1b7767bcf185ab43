"""OPS-08: definitions of custom kinds."""

from conformance.ops.api_objects import check_definitions
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from tests.builders import a_scope
from tests.tables import each_row


def a_definition(group: str, served: list[str], stored: list[str], established: str, since: str) -> Json:
    versions = [{"name": "v1", "served": "v1" in served}, {"name": "v1beta1", "served": "v1beta1" in served}]
    conditions = [{"type": kind, "status": established, "lastTransitionTime": since} for kind in ("NamesAccepted", "Established")]
    status = {"storedVersions": stored, "conditions": conditions}
    return {"metadata": {"name": f"things.{group}"}, "spec": {"group": group, "versions": versions}, "status": status}


@each_row
def test_definitions(served: list[str], stored: list[str], established: str, since: str, outcome: Outcome, cause: str) -> None:
    made = a_definition("kueue.x-k8s.io", served, stored, established, since)
    others = a_definition("example.com", [], ["v1"], "False", "2020-01-01T00:00:00Z")
    (finding,) = check_definitions(a_scope(customresourcedefinitions=[made, others]))
    assert (finding.outcome, finding.cause) == (outcome, cause)
