from typing import Any

from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store.store import Store
from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import CRDS, STRATEGIC, WIDGETS, Web, widget, widget_definition


def test_what_a_seeded_definition_defines_is_served(web: Web) -> None:
    listed = web.get("/apis/example.com/v1").body["resources"]
    assert [item["name"] for item in listed] == ["widgets", "widgets/status"]
    assert listed[0]["shortNames"] == ["wd"]
    assert web.get(WIDGETS).body["kind"] == "WidgetList"
    status = web.get(f"{CRDS}/widgets.example.com").body["status"]
    assert {item["type"]: item["status"] for item in status["conditions"]} == {"NamesAccepted": "True", "Established": "True"}
    assert (status["storedVersions"], status["acceptedNames"]["listKind"]) == (["v1"], "WidgetList")


def test_definitions_are_read_only(web: Web) -> None:
    assert web.get(f"{CRDS}/widgets.example.com").status == 200
    refused = (
        web.post(CRDS, widget_definition()),
        web.patch(f"{CRDS}/widgets.example.com", {}),
        web("DELETE", f"{CRDS}/widgets.example.com"),
    )
    assert [(answer.status, answer.body["reason"]) for answer in refused] == [(405, "MethodNotAllowed")] * 3


def served(definition: dict[str, Any]) -> BackgroundServer:
    store = Store()
    store.put_initial(definition)
    return BackgroundServer(SimulatedServer(store))


def test_versions_are_served_side_by_side() -> None:
    definition = widget_definition()
    definition["spec"]["versions"].append({**definition["spec"]["versions"][0], "name": "v1beta1", "storage": False})
    with served(definition) as background:
        web = Web(background.url)
        web.post(WIDGETS, widget("w", size=1))
        old = web.get(f"{WIDGETS.replace('/v1/', '/v1beta1/')}/w").body
        assert (old["apiVersion"], old["spec"]["size"]) == ("example.com/v1beta1", 1)
        group = next(item for item in web.get("/apis").body["groups"] if item["name"] == "example.com")
        assert [item["version"] for item in group["versions"]] == ["v1", "v1beta1"]
        assert group["preferredVersion"]["version"] == "v1"


def test_status_is_a_field_like_others_without_its_subresource() -> None:
    with served(widget_definition(subresources={})) as background:
        web = Web(background.url)
        body = web.post(WIDGETS, {**widget("w", anything=[1]), "status": {"phase": "kept"}}).body
        assert (body["spec"], body["status"]) == ({"anything": [1]}, {"phase": "kept"})
        assert web.get(f"{WIDGETS}/w/status").status == 404


def test_a_definition_cannot_take_the_place_of_a_built_in_kind() -> None:
    definition = widget_definition()
    definition["metadata"]["name"] = "deviceclasses.resource.k8s.io"
    definition["spec"]["group"] = "resource.k8s.io"
    definition["spec"]["names"] = {"plural": "deviceclasses", "kind": "Impostor"}
    with served(definition) as background:
        assert Web(background.url).get("/apis/resource.k8s.io/v1/deviceclasses").body["kind"] == "DeviceClassList"


def test_status_subresource_and_generation(web: Web) -> None:
    created = web.post(WIDGETS, {**widget("w", size=1), "status": {"phase": "Lied"}}).body
    assert "status" not in created
    body = web.patch(f"{WIDGETS}/w/status", {"status": {"phase": "Ready"}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}}).body
    assert (body["status"], body["spec"]["size"], body["metadata"].get("labels")) == ({"phase": "Ready"}, 1, None)
    assert body["metadata"]["generation"] == 1
    body = web.patch(f"{WIDGETS}/w", {"status": {"phase": "Lied"}, "spec": {"size": 2}}).body
    assert (body["status"], body["metadata"]["generation"]) == ({"phase": "Ready"}, 2)


def test_updates_need_a_version_and_strategic_patches_are_not_taken(web: Web) -> None:
    web.post(WIDGETS, widget("w", size=1))
    answer = web("PUT", f"{WIDGETS}/w", widget("w", size=2))
    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.body["message"]
    assert web.patch(f"{WIDGETS}/w", {"spec": {"size": 2}}, STRATEGIC).status == 415
