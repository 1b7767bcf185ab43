"""Fields that writers of objects own: a tenant may fill them, nobody reads what they name, and they cost no more than their text."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from fixtures.snapshot.collect import collect
from tests.hostile.lying import Asked, Said, a_list, an_object, lying, said
from tests.hostile.test_answers import SERVED, announced

ENTRIES = 100_000
FILLED = json.dumps([{"manager": "m", "operation": "Update", "time": "2026-11-01T00:00:00Z", "fieldsV1": "FIELDS"}]).replace(
    '"FIELDS"', "{" + ", ".join(f'"f:{number}": {{}}' for number in range(ENTRIES)) + "}"
)
DEPLOYMENTS, CLAIMS = "apps/deployments", "resource.k8s.io/resourceclaims"


def read(folder: Path, key: str, body: str | bytes) -> tuple[Any, int]:
    """The listing of a key that a server answers with this list, and the bytes that reading it needed at most."""

    def answers(asked: Asked) -> Said:
        return (
            said(announced([*SERVED, CLAIMS], root=asked.path))
            if asked.path in ("/api", "/apis")
            else Said(body if isinstance(body, bytes) else body.encode())
        )

    with lying(folder, answers) as (cluster, _):
        collect(cluster, [], version="")
        tracemalloc.start()
        try:
            listing = collect(cluster, [key], version="").listing(key)
            return listing, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def of(kind: str, api_version: str, fields: str, **more: Any) -> str:
    """A list of one object with these owners of its fields."""
    body = json.dumps(a_list(kind, an_object(kind, "a", api_version, **more), api_version=api_version))
    return body.replace('"uid":', f'"managedFields": {fields}, "uid":', 1)


def test_an_object_is_read_without_them_and_costs_little_more_than_its_text(tmp_path: Path) -> None:
    body = of("Deployment", "apps/v1", FILLED, spec={"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}})
    listing, peak = read(tmp_path, DEPLOYMENTS, body)
    [found] = listing.items
    assert found["spec"] == {"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    assert found["metadata"] == {"name": "a", "namespace": "default", "uid": "uid-of-a", "resourceVersion": "7"}
    assert peak < 8 * len(body)


def test_of_claims_it_is_kept_who_wrote_when(tmp_path: Path) -> None:
    body = of("ResourceClaim", "resource.k8s.io/v1", FILLED, spec={"devices": {}})
    listing, peak = read(tmp_path, CLAIMS, body)
    [found] = listing.items
    assert found["metadata"]["managedFields"] == [{"manager": "m", "time": "2026-11-01T00:00:00Z"}]
    assert peak < 8 * len(body)


@pytest.mark.parametrize("fields", ["null", "7", '"x"', "[7]", '[{"manager": 7}]', "{}", "[null]"])
@pytest.mark.parametrize(
    ("key", "kind", "version"), [(DEPLOYMENTS, "Deployment", "apps/v1"), (CLAIMS, "ResourceClaim", "resource.k8s.io/v1")]
)
def test_whatever_they_are_hides_no_object(tmp_path: Path, key: str, kind: str, version: str, fields: str) -> None:
    listing, _ = read(tmp_path, key, of(kind, version, fields))
    assert [item["metadata"]["name"] for item in listing.items] == ["a"]


@pytest.mark.parametrize("text", [b'{"replicas": 1e999}', b'{"name": "\xff"}'], ids=["number", "bytes"])
@pytest.mark.parametrize(
    ("kind", "version", "key"), [("Deployment", "apps/v1", DEPLOYMENTS), ("ResourceClaim", "resource.k8s.io/v1", CLAIMS)]
)
def test_a_value_that_cannot_be_read_leaves_its_kind_unread(tmp_path: Path, kind: str, version: str, key: str, text: bytes) -> None:
    body = of(kind, version, "[]", spec="SPEC").encode().replace(b'"SPEC"', text)
    listing, _ = read(tmp_path, key, body)
    assert (listing.items, listing.trouble) == ([], "Unreadable")
