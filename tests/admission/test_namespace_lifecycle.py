from __future__ import annotations

from fixtures.simulator.server.admission import AdmissionRequest
from tests.admission.cluster import NAMESPACES, Objects, admit, namespace, pod, refusal, request


def test_a_namespace_that_does_not_exist() -> None:
    error = refusal(pod(), Objects().put("namespaces"))
    assert (error.code, error.reason, error.message) == (404, "NotFound", 'namespaces "team" not found')


def test_a_namespace_that_is_going() -> None:
    going = Objects().put("namespaces", {**namespace("team"), "status": {"phase": "Terminating"}})
    error = refusal(pod(), going)
    assert error.code == 403
    text = "unable to create new content in namespace team because it is being terminated"
    assert error.message == f'pods "train" is forbidden: {text}'
    assert error.details is not None
    assert error.details["causes"][0]["reason"] == "NamespaceTerminating"
    admit(request(pod(), verb="update", old=pod()), going)


def test_namespaces_that_stay() -> None:
    deletion = AdmissionRequest("delete", NAMESPACES, "", "kube-system", "", {}, namespace("kube-system"), "", False)
    assert refusal(deletion).message == 'namespaces "kube-system" is forbidden: this namespace may not be deleted'
