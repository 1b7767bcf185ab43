from __future__ import annotations

import pytest

from conformance.catalogue import load_catalogue
from deploy.rights import FULL, READ_ONLY, cluster_role, right, rights
from fixtures.verdict.record import Access


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("list pods", ("", "pods", "list")),
        ("get pods/log", ("", "pods/log", "get")),
        ("list apps/daemonsets", ("apps", "daemonsets", "list")),
        ("create kueue.x-k8s.io/clusterqueues", ("kueue.x-k8s.io", "clusterqueues", "create")),
        ("patch nvidia.com/clusterpolicies/status", ("nvidia.com", "clusterpolicies/status", "patch")),
        ("list events", ("", "events", "list")),
    ],
)
def test_rights_of_a_catalogue_are_read(text: str, expected: tuple[str, str, str]) -> None:
    assert right(text) == expected


@pytest.mark.parametrize("text", ["", "pods", "list", "* pods", "escalate pods", "list "])
def test_what_is_no_right_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not 'VERB RESOURCE'"):
        right(text)


def test_a_role_gives_each_right_and_no_other() -> None:
    wanted = rights(load_catalogue().by_id.values())
    given = {
        (group, resource, verb)
        for rule in cluster_role(FULL, wanted)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert given == wanted
    assert not any("*" in part for entry in given for part in entry)


def test_the_read_only_role_changes_nothing() -> None:
    reading = [requirement for requirement in load_catalogue().by_id.values() if requirement.access == Access.READ]
    verbs = {verb for rule in cluster_role(READ_ONLY, rights(reading))["rules"] for verb in rule["verbs"]}
    assert verbs <= {"get", "list", "watch"}


def test_nobody_may_read_secrets_or_exec() -> None:
    wanted = rights(load_catalogue().by_id.values())
    assert not [entry for entry in wanted if entry[1] in {"secrets", "pods/exec", "serviceaccounts/token", "nodes/proxy"}]
