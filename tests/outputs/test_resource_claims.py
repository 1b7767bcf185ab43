"""``inspect resourceclaim``: devices given twice, claims that wait or are left over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.cli.inspect import inspect
from conformance.outputs.inspect_claims import inspect_resource_claims
from conformance.outputs.unreadable import Unreadable
from fixtures.kubernetes.models import Json
from tests.dra import a_claim


def text_of(*claims: Json) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"kind": "ResourceClaim", **claim} for claim in claims]})


def held(name: str, device: str = "gpu-0", **result: Any) -> Json:
    claim = a_claim(name, device=device, **result)
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]
    return claim


def left_over() -> Json:
    claim = held("a")
    return {**claim, "metadata": {**claim["metadata"], "deletionTimestamp": "2026-11-21T01:00:00Z"}}


@pytest.mark.parametrize(("claims", "verdict", "code"), [
    ([held("a"), held("b", "gpu-1")], "good", "ALLOCATED"),
    ([held("a"), held("b")], "bad", "GIVEN_TWICE"),
    ([held("a"), held("b", adminAccess=True)], "good", "ALLOCATED"),
    ([held("a", shareID="1"), held("b", shareID="2")], "good", "ALLOCATED"),
    ([held("a"), a_claim("b")], "undecidable", "UNSETTLED"),
    ([a_claim("a", device="gpu-0")], "undecidable", "UNSETTLED"),
    ([left_over()], "undecidable", "UNSETTLED"),
])  # fmt: skip
def test_claims_are_judged_by_what_they_say(claims: list[Json], verdict: str, code: str) -> None:
    found = inspect("resourceclaim", text_of(*claims))
    assert (found.verdict, found.reason_code) == (verdict, code)


def test_text_without_a_claim_is_unreadable() -> None:
    with pytest.raises(Unreadable):
        inspect_resource_claims(json.dumps({"kind": "ResourceSlice", "spec": {}}))
