"""What a run asks of the API is what the catalogue declares: nobody grants the suite a right by trial and error."""

from pathlib import Path

import pytest

from conformance.catalogue import load_catalogue
from conformance.requirement import Requirement
from fixtures.cluster.kinds import KINDS
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof import VERBS
from fixtures.probes.namespace_limits import NETWORK_POLICIES, QUOTAS
from fixtures.verdict.record import Access
from tests.endtoend.runs import run_for_record

pytestmark = pytest.mark.test_all

OWN = frozenset(
    {
        "get version",
        "get /api",
        "list apis",  # discovery
        "create authorization.k8s.io/selfsubjectaccessreviews",  # every user may ask what he may do (system:basic-user)
        *(f"list {key}" for key in ("nodes", "pods", "namespaces")),
        *(f"{verb} namespaces" for verb in ("create", "delete", "watch")),
        *(f"{verb} {PRIORITY_CLASSES}" for verb in VERBS),  # what vouches for the run; without these rights its folder does
    }
)
"""What the plugin does by itself."""

REQUIREMENTS = list(load_catalogue().by_id.values())
CREATING = [requirement for requirement in REQUIREMENTS if any(right.startswith("create ") for right in requirement.writes)]


def of_custom_kind(right: str) -> bool:
    """Whether it is the list of a kind that only the cluster's definitions name (README, Rights)."""
    verb, _, key = right.partition(" ")
    return verb == "list" and "." in key.partition("/")[0] and key not in KINDS


def declared(requirement: Requirement) -> set[str]:
    """Its requests as a record counts them: a path that is no resource (``get /metrics``) without its slash."""
    return {f"list {key}" for key in requirement.lists} | {right.replace(" /", " ") for right in requirement.writes}


@pytest.mark.parametrize("scenario", ["healthy", "rdma-training", "kueue-inference", "mig-mixed"])
def test_a_run_asks_nothing_that_no_requirement_declares(tmp_path: Path, scenario: str) -> None:
    done = run_for_record(tmp_path, "--simulate", scenario)
    assert done.code == 0, done.output
    used = set(done.record.requests.by_verb_and_resource)
    judged = {result.id for result in done.record.results}
    known = set().union(*(declared(requirement) for requirement in REQUIREMENTS if requirement.id in judged))
    assert "create pods" in used
    assert sorted(item for item in used - known - OWN if not of_custom_kind(item)) == []


@pytest.mark.parametrize(
    ("ids", "scenario"), [("GANG-02", "kueue-inference"), ("OBS-06", "healthy"), ("REQ-07", "healthy"), ("PSA-03", "healthy")]
)
def test_a_requirement_by_itself_asks_what_it_declares_itself(tmp_path: Path, ids: str, scenario: str) -> None:
    folder = Path(__file__).resolve().parents[2] / "conformance"
    [test] = [
        f"{file.stem} and {text.partition('def ')[2].partition('(')[0]}"
        for file in folder.glob("*/test_*.py")
        for text in file.read_text().split("@requirement(")
        if text.startswith(f'"{ids}"')
    ]
    done = run_for_record(tmp_path, "--simulate", scenario, "-k", test)
    [result] = done.record.results
    assert result.id == ids
    [requirement] = [requirement for requirement in REQUIREMENTS if requirement.id == ids]
    looked_for = {
        f"list {key}" for key in ("kueue.x-k8s.io/clusterqueues", "kueue.x-k8s.io/resourceflavors", "scheduling.volcano.sh/queues")
    }
    used = set(done.record.requests.by_verb_and_resource)
    assert sorted(used - declared(requirement) - OWN - looked_for) == []


@pytest.mark.parametrize("requirement", CREATING, ids=lambda requirement: str(requirement.id))
def test_what_creates_something_may_remove_it_and_see_it_go(requirement: Requirement) -> None:
    rights = declared(requirement)
    for right in [right for right in rights if right.startswith("create ")]:
        key = right.removeprefix("create ")
        if key in (NETWORK_POLICIES, QUOTAS) and f"delete {key}" not in rights:
            assert "create namespaces" in rights  # they bound a namespace of the run, and go with it
            continue
        if requirement.access is not Access.DRY_RUN or key in ("namespaces", "resourcequotas"):  # a dry-run leaves nothing to remove
            assert {f"{verb} {key}" for verb in ("delete", "list", "watch")} <= rights
    assert "create namespaces" in rights


def test_requirements_that_only_read_declare_no_writes() -> None:
    reading = [requirement for requirement in REQUIREMENTS if requirement.access is Access.READ]
    assert [(r.id, right) for r in reading for right in r.writes if right.split()[0] not in ("get", "list", "watch")] == []
