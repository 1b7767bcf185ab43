"""Every refusal has the shape and the words of a real API server."""

import pytest

from tests.simulator.api.web import CONFIG_MAPS, PODS, Web, config_map


@pytest.mark.parametrize(
    "path", ["/apis/batch/v2/jobs", "/nowhere", "/api/v2", "/api/v2/pods", "/apis/example.org/v1/things", "/apis/example.org/v1/things/t"]
)
@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH", "POST"])
def test_a_path_that_nobody_knows_is_answered_in_plain_text(web: Web, method: str, path: str) -> None:
    answer = web(method, path, {})
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


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
