"""Every refusal has the shape and the words of a real API server."""

import pytest

from tests.simulator.api.web import CONFIG_MAPS, PODS, STRATEGIC, Web, config_map, pod


def test_missing_object_is_not_found_with_details(web: Web) -> None:
    answer = web.get(f"{PODS}/nobody")
    assert answer.status == 404
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "nobody" not found',
        "reason": "NotFound",
        "details": {"name": "nobody", "kind": "pods"},
        "code": 404,
    }


@pytest.mark.parametrize(
    "path", ["/apis/batch/v2/jobs", "/nowhere", "/api/v2", "/api/v2/pods", "/apis/example.org/v1/things", "/apis/example.org/v1/things/t"]
)
@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH", "POST"])
def test_a_path_that_nobody_knows_is_answered_in_plain_text(web: Web, method: str, path: str) -> None:
    answer = web(method, path, {})
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_creating_twice_conflicts(web: Web) -> None:
    assert web.post(PODS, pod("a")).status == 201
    answer = web.post(PODS, pod("a"))
    assert (answer.status, answer.body["reason"], answer.body["message"]) == (409, "AlreadyExists", 'pods "a" already exists')


def test_creating_in_a_missing_namespace_names_the_namespace(web: Web) -> None:
    answer = web.post("/api/v1/namespaces/none/pods", pod("a", "none"))
    assert (answer.status, answer.body["message"]) == (404, 'namespaces "none" not found')


def test_stale_update_conflicts_and_changes_nothing(web: Web) -> None:
    first = web.post(CONFIG_MAPS, config_map("c", data={"a": "1"})).body
    web.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "2"}})
    answer = web("PUT", f"{CONFIG_MAPS}/c", {**first, "data": {"a": "3"}})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert answer.body["message"] == (
        'Operation cannot be fulfilled on configmaps "c": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert answer.body["details"] == {"name": "c", "kind": "configmaps"}
    assert web.get(f"{CONFIG_MAPS}/c").body["data"] == {"a": "2"}


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"{", "couldn't get version/kind; json parse error"),
        (b"[]", "must be of type object"),
        (b'{"kind": "Service", "apiVersion": "v1"}', "cannot be handled as a Pod"),
        (b'{"kind": "Pod", "apiVersion": "v9"}', "the API version in the data (v9) does not match the expected API version (v1)"),
        (b'{"metadata": {"labels": {"a": 1}}}', "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"),
        (b'{"metadata": "x"}', "cannot unmarshal string into Go struct field"),
        (b'{"metadata": {"name": "a", "namespace": "other"}}', "the namespace of the provided object does not match"),
        (b'{"metadata": {"name": "a", "resourceVersion": "7"}}', "resourceVersion should not be set on objects to be created"),
    ],
)
def test_malformed_bodies_are_bad_requests(web: Web, body: bytes, part: str) -> None:
    answer = web("POST", PODS, body)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert part in answer.body["message"]


def test_bodies_above_three_mebibytes_are_refused(web: Web) -> None:
    answer = web.post(CONFIG_MAPS, config_map("big", data={"a": "x" * (3 << 20)}))
    assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert web.post(CONFIG_MAPS, config_map("large", data={"a": "x" * (2 << 20)})).status == 201


def test_pod_spec_is_immutable_but_for_images(web: Web) -> None:
    created = web.post(PODS, pod("a")).body
    moved = {**created, "spec": {**created["spec"], "nodeName": "n1"}}
    answer = web("PUT", f"{PODS}/a", moved)
    assert answer.status == 422
    assert answer.body["message"].startswith('Pod "a" is invalid: spec: Forbidden: pod updates may not change fields other than')
    image = {"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}}
    assert web.patch(f"{PODS}/a", image, STRATEGIC).status == 200


def test_immortal_namespaces(web: Web) -> None:
    answer = web("DELETE", "/api/v1/namespaces/default")
    assert (answer.status, answer.body["message"]) == (403, 'namespaces "default" is forbidden: this namespace may not be deleted')
