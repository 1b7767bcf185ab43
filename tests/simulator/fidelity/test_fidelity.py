"""The simulated API server against a real one."""

import pytest

from fixtures.kubernetes.models import Json
from fixtures.kubernetes.podsecurity import Level, denial, evaluate
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from tests.simulator.fidelity.amounts import TESTED
from tests.simulator.fidelity.comparing import View, apart, difference
from tests.simulator.fidelity.comparison import Comparison, compare_servers
from tests.simulator.fidelity.generating import BASELINE, RESTRICTED, requests
from tests.simulator.fidelity.known import RULES, older_reason
from tests.simulator.fidelity.parts import BODIES, PARTS

pytestmark = pytest.mark.test_all


@pytest.fixture(scope="module")
def compared(plane: ControlPlane) -> Comparison:
    return compare_servers(plane, TESTED.requests)


def test_every_difference_in_what_binds_is_known(compared: Comparison) -> None:
    assert [(one.aspect, one.body, one.real.message, one.simulated.message) for one in compared.unexplained] == []


@pytest.mark.parametrize("kind", ["tolerations", "selectors", "shapes", "standards", "metadata", "life", "discovery"])
def test_what_requirements_rely_on_is_answered_alike(compared: Comparison, kind: str) -> None:
    aspects = ("status", "reason", "causes", "violations")
    binding = [one for one in compared.differences if one.kind == kind and one.aspect in aspects and one.simulated.status != 501]
    assert [(one.body, one.real.message, one.simulated.message) for one in binding] == []


def test_pod_security_violations_are_reported_in_the_same_words(compared: Comparison) -> None:
    apart_ = [one for one in compared.differences if one.real.violations and one.simulated.violations != one.real.violations]
    assert [(one.body, one.real.message, one.simulated.message) for one in apart_ if not one.known] == []
    assert sum(1 for one in compared.views if one.violations) > TESTED.requests / 20, "enough pods were refused by Pod Security to compare"


def test_the_suites_evaluator_agrees_with_the_real_admission(compared: Comparison) -> None:
    """On every pod that reached Pod Security: what the suite says offline is what the real API server said."""
    judged = 0
    for request, real in zip(compared.asked, compared.views, strict=True):
        if request.key != "pods":
            continue
        level = {BASELINE: Level.BASELINE, RESTRICTED: Level.RESTRICTED}.get(request.namespace)
        if level is None or real.status not in (201, 403) or (real.status == 403 and not real.violations):
            continue
        annotations = request.body["metadata"].get("annotations") or {}
        if any("apparmor" in key for key in annotations):
            continue  # the API server writes them into the fields first; a stored pod has both
        found = evaluate(request.body["spec"], annotations, level)
        assert denial(level, "latest", found).partition(": ")[2] == real.violations.partition(": ")[2]
        judged += 1
    assert judged > TESTED.requests / 40


def test_a_seed_gives_the_same_requests_again() -> None:
    drawn = requests(60)
    assert requests(60) == drawn
    assert requests(60, first=2) != drawn
    assert {request.kind for request in drawn} == {*PARTS, *BODIES, "mixed"}


def test_the_first_aspect_that_differs_is_named() -> None:
    one = View(status=422, reason="Invalid", causes=[("FieldValueInvalid", "spec.a")], violations="", warnings=[], message="a", object={})
    assert difference(one, one) == ""
    other = View(
        status=422, reason="Invalid", causes=[("FieldValueInvalid", "spec.b")], violations="", warnings=["w"], message="b", object={}
    )
    assert difference(one, other) == "causes"


def test_every_known_difference_says_why() -> None:
    assert all(reason.partition(": ")[2] for reason in RULES)


def test_where_objects_differ() -> None:
    assert apart({"a": [1, {"b": 2}], "c": {}}, {"a": [1, {"b": 3}]}) == [".a[1].b: 2 | 3", ".c: {} | '<absent>'"]


def test_only_servers_before_the_simulated_minor_may_word_causes_otherwise() -> None:
    def answer(reason: str, *causes: tuple[str, str]) -> View:
        return View(status=422, reason=reason, causes=list(causes), violations="", warnings=[], message=reason, object={})

    owner = ("FieldValueInvalid", "metadata.ownerReferences.uid"), ("FieldValueRequired", "metadata.ownerReferences[0].uid")
    body: Json = {"metadata": {}, "spec": {}}
    assert older_reason(body, answer("Invalid", owner[0], owner[0]), answer("Invalid", owner[1]), "v1.36.3")
    assert not older_reason(body, answer("Invalid", owner[0]), answer("Invalid", owner[1]), "v1.37.2")
    assert not older_reason(body, answer("Invalid", ("FieldValueInvalid", "spec.a")), answer("Invalid", owner[1]), "v1.36.3")
