"""Discovery, identity, authorization, faults on demand, and what is outside resources."""

from typing import Any

import pytest
import urllib3

from fixtures.simulator.admission.interface import Admission, AdmissionRequest, ApiError, Reader
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import CONFIG_MAPS, PODS, Web, config_map, pod, widget_definition
from tests.troubles import Trouble

REVIEWS = "/apis/authorization.k8s.io/v1"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def test_aggregated_discovery(web: Web) -> None:
    answer = web.get("/apis", Accept=AGGREGATED)
    assert answer.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    items = {item["metadata"]["name"]: item for item in answer.body["items"]}
    widgets = items["example.com"]["versions"][0]["resources"][0]
    assert (widgets["resource"], widgets["scope"], widgets["responseKind"]["kind"]) == ("widgets", "Namespaced", "Widget")
    assert [item["subresource"] for item in widgets["subresources"]] == ["status"]
    core = web.get("/api", Accept=AGGREGATED).body["items"][0]["versions"][0]
    assert core["version"] == "v1"
    assert "pods" in [item["resource"] for item in core["resources"]]


def test_openapi_names_field_validation_for_every_kind(web: Web) -> None:
    paths = web.get("/openapi/v3").body["paths"]
    assert "apis/apps/v1" in paths
    document = web.get(paths["api/v1"]["serverRelativeURL"]).body
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert {"fieldValidation", "dryRun"} <= {parameter["name"] for parameter in patch["parameters"]}
    assert web.get("/openapi/v2").status == 404
    assert web.get("/openapi/v3/apis/nothing/v1").status == 404


class OnlyConfigMaps:
    """Lets everyone read ConfigMaps of the namespace default and ask for rights, and ``boss`` do everything."""

    def allowed(self, user: str, verb: str, group: str, resource: str, subresource: str, namespace: str, name: str) -> bool:
        if resource == "selfsubjectaccessreviews":
            return True
        return user == "boss" or (resource == "configmaps" and verb in ("get", "list", "watch") and namespace == "default")


@pytest.fixture
def guarded() -> Any:
    with BackgroundServer(SimulatedServer(Store(), authorizer=OnlyConfigMaps(), tokens={"t-ann": "ann", "t-boss": "boss"})) as background:
        yield background


def test_refusals_in_the_words_of_the_server(guarded: BackgroundServer) -> None:
    ann = Web(guarded.url, "t-ann")
    answer = ann.get("/api/v1/pods")
    assert (answer.status, answer.body["reason"], answer.body["details"]) == (403, "Forbidden", {"kind": "pods"})
    assert answer.body["message"] == ('pods is forbidden: User "ann" cannot list resource "pods" in API group "" at the cluster scope')
    assert ann.get("/apis/apps/v1/namespaces/default/daemonsets/d").body["message"] == (
        'daemonsets.apps "d" is forbidden: User "ann" cannot get resource "daemonsets" in API group "apps" in the namespace "default"'
    )
    assert 'resource "pods/log"' in ann.get(f"{PODS}/a/log").body["message"]
    assert ann.get(CONFIG_MAPS).status == 200
    assert ann.post(CONFIG_MAPS, config_map("c")).status == 403
    assert ann.get("/apis").status == 200


def test_unknown_tokens_are_unauthorized(guarded: BackgroundServer) -> None:
    answer = Web(guarded.url, "forged").get(CONFIG_MAPS)
    assert (answer.status, answer.body["reason"], answer.body["message"]) == (401, "Unauthorized", "Unauthorized")


def test_access_reviews(guarded: BackgroundServer) -> None:
    def review(token: str, **attributes: str) -> Any:
        answer = Web(guarded.url, token)("POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}})
        assert answer.status == 201
        return answer.body["status"]

    wanted = {"verb": "list", "resource": "configmaps", "namespace": "default"}
    assert review("t-ann", **wanted) == {"allowed": True}
    assert review("t-ann", **{**wanted, "verb": "create"}) == {"allowed": False}
    assert review("t-boss", **{**wanted, "verb": "create"}) == {"allowed": True}


@pytest.mark.parametrize(("status", "reason"), [(500, "InternalError"), (503, "ServiceUnavailable"), (429, "TooManyRequests")])
def test_troubles_are_answered_as_often_as_asked(background: BackgroundServer, web: Web, status: int, reason: str) -> None:
    background.server.troubles.append(Trouble("list", "pods", status, times=2, retry_after=3, message="not now"))
    assert web.get(f"{PODS}/x").status == 404
    answers = [web.get(PODS) for _ in range(3)]
    assert [answer.status for answer in answers] == [status, status, 200]
    assert (answers[0].body["reason"], answers[0].body["message"], answers[0].headers["Retry-After"]) == (reason, "not now", "3")


def test_dropped_and_hanging_requests(background: BackgroundServer, web: Web) -> None:
    background.server.troubles.append(Trouble("get", "pods", "drop"))
    with pytest.raises(urllib3.exceptions.HTTPError):
        web.get(f"{PODS}/x")
    assert web.get(f"{PODS}/x").status == 404
    background.server.troubles.append(Trouble("*", "*", "hang"))
    impatient = urllib3.PoolManager(retries=False, timeout=0.2)
    with pytest.raises(urllib3.exceptions.TimeoutError):
        impatient.request("GET", background.url + PODS)
    assert web.get(PODS).status == 200


class Stamp:
    """An admission that labels what is created, warns, and refuses the name ``never``."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, str, bool]] = []

    def __call__(self, request: AdmissionRequest, reader: Reader) -> list[str]:
        self.seen.append((request.verb, request.resource.key, request.name, request.subresource, request.dry_run))
        if request.name == "never":
            raise ApiError.forbidden(request.resource, request.name, "no such thing")
        assert reader.get("namespaces", "", "default") is not None
        if request.verb != "delete":
            request.obj["metadata"].setdefault("labels", {})["stamped"] = str(len(list(reader.list("configmaps"))))
        return ['would have "words"']


def veto(request: AdmissionRequest, reader: Reader) -> None:
    """An admission that refuses what the one before it did not stamp."""
    if request.verb == "create" and "stamped" not in request.obj["metadata"].get("labels", {}):
        raise ApiError.bad_request("not stamped")


def test_admissions_run_in_order_on_every_write() -> None:
    stamp = Stamp()
    chain: list[Admission] = [stamp, veto]
    with BackgroundServer(SimulatedServer(Store(), admissions=chain)) as background:
        web = Web(background.url)
        created = web.post(CONFIG_MAPS, config_map("c"))
        assert created.body["metadata"]["labels"] == {"stamped": "0"}
        assert created.headers["Warning"] == '299 - "would have \\"words\\""'
        assert web.patch(f"{CONFIG_MAPS}/c?dryRun=All", {"data": {"a": "1"}}).body["metadata"]["labels"] == {"stamped": "1"}
        web("DELETE", f"{CONFIG_MAPS}/c")
        assert stamp.seen == [
            ("create", "configmaps", "c", "", False),
            ("update", "configmaps", "c", "", True),
            ("delete", "configmaps", "c", "", False),
        ]
        assert web.post(CONFIG_MAPS, config_map("never")).body["message"] == 'configmaps "never" is forbidden: no such thing'
        assert web.get(f"{CONFIG_MAPS}/never").status == 404


def test_a_fault_of_the_server_is_500_in_status_shape(background: BackgroundServer, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(background.server.store, "entry", broken)
    answer = web.get(f"{PODS}/x")
    assert (answer.status, answer.body["reason"], answer.body["message"]) == (
        500,
        "InternalError",
        "Internal error occurred: RuntimeError: broken",
    )


def test_seeding_fills_in_what_is_missing_and_keeps_what_is_there() -> None:
    first, second = Store(), Store()
    given = {**pod("a"), "status": {"phase": "Running"}}
    one, two = first.put_initial({**given, "metadata": dict(given["metadata"])}), second.put_initial(given)
    assert one["metadata"]["uid"] == two["metadata"]["uid"]
    assert (one["status"], one["metadata"]["generation"]) == ({"phase": "Running"}, 1)
    again = first.put_initial(pod("a", uid="ignored"))
    assert again["metadata"]["uid"] == one["metadata"]["uid"]
    with pytest.raises(LookupError, match=r'no matches for kind "Widget" in version "example\.com/v1"'):
        first.put_initial({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    first.put_initial(widget_definition())
    assert first.put_initial({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})["metadata"]["uid"]
