"""DRA-08: what the answers about admin access mean, and whose namespaces are labelled."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.dra.admin_access import LABEL, Asked, check_labelled_tenants, granted, judge_admin_access
from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Json
from fixtures.model.dra.claims import claim_of, template_of
from fixtures.model.dra.slices import CLAIMS, TEMPLATES
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_namespace, a_scope
from tests.tables import each_row

WORDS = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"


def accepted(*, admin: bool, key: str = CLAIMS, version: str = "v1") -> Answer:
    more: dict[str, Any] = {"adminAccess": True} if admin else {}
    claim = claim_of("gpu.nvidia.com", 1, version, **more)
    return Answer(status=201, body=msgspec.json.encode(template_of(claim, {}) if key == TEMPLATES else claim))


def refused(status: int = 422, message: str = WORDS) -> Answer:
    return Answer(status=status, body=msgspec.json.encode({"kind": "Status", "reason": "Invalid", "message": message}))


def judged(key: str = CLAIMS, **answers: Any) -> list[Finding]:
    given_: dict[str, Any] = {
        "plain": accepted(admin=False, key=key),
        "outside": refused(),
        "inside": accepted(admin=True, key=key),
        **answers,
    }
    return list(judge_admin_access([Asked(key=key, **given_)]))


@pytest.mark.parametrize("key", [CLAIMS, TEMPLATES])
@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_admin_access_that_is_granted_outside_fails(key: str, version: str) -> None:
    answer = accepted(admin=True, key=key, version=version)
    first, _ = judged(key, outside=answer)
    assert first.outcome is Outcome.BAD
    assert "devices that others hold" in first.message
    assert "suite did not set" not in first.message


def test_a_label_that_somebody_puts_on_every_namespace_is_named() -> None:
    first, _ = judged(outside=accepted(admin=True), labelled_by_others=True)
    assert f"{LABEL}=true, which the suite did not set" in first.message


@pytest.mark.parametrize("key", [CLAIMS, TEMPLATES])
@pytest.mark.parametrize("status", [400, 403, 404, 415, 422, 451])
def test_only_a_refusal_that_names_admin_access_counts(key: str, status: int) -> None:
    """The claim is named admin-access: that alone says nothing of the request in it."""
    for words in ("by the proxy", 'resourceclaims.resource.k8s.io "admin-access" is forbidden: quota', "access denied"):
        first, _ = judged(key, outside=refused(status, words))
        assert first.outcome is Outcome.UNDECIDED
        assert str(status) in first.message
    named, _ = judged(key, outside=refused(status, "spec.devices.requests[0].exactly.adminAccess: Forbidden"))
    assert named.outcome is (Outcome.OK if status in (403, 422) else Outcome.UNDECIDED)


@pytest.mark.parametrize("answer", [refused(403, "admission webhook denied the request"), refused(422, "ValidatingAdmissionPolicy denied")])
def test_another_rule_that_refuses_it_is_as_good(answer: Answer) -> None:
    """The plain claim was accepted, so that it is the admin access that was refused."""
    assert [finding.outcome for finding in judged(outside=answer)] == [Outcome.OK, Outcome.OK]


@pytest.mark.parametrize("status", [401, 409, 429, 500, 503])
def test_a_server_that_did_not_decide_proves_nothing(status: int) -> None:
    assert judged(outside=refused(status, "try again"))[0].outcome is Outcome.UNDECIDED


def test_a_cluster_that_refuses_it_everywhere_conforms() -> None:
    first, control = judged(inside=refused(403, "not here"))
    assert (first.outcome, control.outcome) == (Outcome.OK, Outcome.NOT_JUDGED)
    first, control = judged(inside=None, without="namespace x could not be created: 403")
    assert (first.outcome, control.outcome) == (Outcome.OK, Outcome.NOT_JUDGED)
    assert "403" in control.message


def test_nothing_is_judged_where_a_plain_claim_is_refused() -> None:
    with pytest.raises(Inconclusive, match="without admin access is refused too"):
        judged(plain=refused(403, "quota"))


def test_a_server_without_the_feature_leaves_it_out_and_nothing_is_judged() -> None:
    with pytest.raises(NotApplicable, match="the feature is off"):
        judged(outside=accepted(admin=False), inside=accepted(admin=False))


def test_leaving_it_out_outside_alone_is_a_refusal() -> None:
    first, _ = judged(outside=accepted(admin=False))
    assert first.outcome is Outcome.OK
    assert "left out" in first.observed


@pytest.mark.test_all
@given(st.recursive(st.none() | st.booleans() | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_a_wild_answer_grants_nothing(spec: Any) -> None:
    body: Json = {"kind": "ResourceClaim", "spec": {"devices": {"requests": [spec, {"exactly": spec}]}, "spec": spec}}
    for key in (CLAIMS, TEMPLATES):
        assert granted(Answer(status=201, body=b"", document=body), key) in (True, False)
        assert not granted(Answer(status=201, body=b"", document={"spec": {"spec": [spec], "devices": [spec]}}), key)


@each_row
def test_only_the_value_true_opens_a_namespace(value: str | None, outcome: Outcome) -> None:
    namespaces = [a_namespace("team-a", {} if value is None else {LABEL: value}), a_namespace("kube-system", {LABEL: "true"})]
    [finding] = check_labelled_tenants(a_scope(namespaces=namespaces))
    assert (finding.subject.name, finding.outcome) == ("team-a", outcome)
