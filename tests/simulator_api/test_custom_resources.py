from __future__ import annotations

from typing import Any

import pytest

from tests.simulator_api.web import CRDS, STRATEGIC, WIDGETS, Web, widget, widget_definition

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def web(web: Web) -> Web:
    assert web.post(CRDS, widget_definition()).status == 201
    return web


def test_a_definition_is_established_and_served_at_once(web: Web) -> None:
    status = web.get(f"{CRDS}/widgets.example.com").body["status"]
    assert {item["type"]: item["status"] for item in status["conditions"]} == {"NamesAccepted": "True", "Established": "True"}
    assert (status["storedVersions"], status["acceptedNames"]["listKind"]) == (["v1"], "WidgetList")
    listed = web.get("/apis/example.com/v1").body["resources"]
    assert [item["name"] for item in listed] == ["widgets", "widgets/status"]
    assert listed[0]["shortNames"] == ["wd"]
    assert web.get(WIDGETS).body["kind"] == "WidgetList"


def test_items_of_custom_lists_carry_their_kind(web: Web) -> None:
    web.post(WIDGETS, widget("w", size=1))
    assert [(item["apiVersion"], item["kind"]) for item in web.get(WIDGETS).body["items"]] == [("example.com/v1", "Widget")]


def test_removing_the_definition_removes_its_objects(web: Web) -> None:
    web.post(WIDGETS, widget("w", size=1))
    web("DELETE", f"{CRDS}/widgets.example.com")
    assert web.get(WIDGETS).status == 404
    assert "example.com" not in [group["name"] for group in web.get("/apis").body["groups"]]
    web.post(CRDS, widget_definition())
    assert web.get(WIDGETS).names == []


def test_defaults_are_filled_in_and_unknown_fields_dropped_with_a_warning(web: Web) -> None:
    sent = widget("w", size=1, colour="red", free={"any": {"thing": 1}}, parts=[{"name": "a", "extra": 1}])
    answer = web.post(WIDGETS, sent)
    assert answer.body["spec"] == {"size": 1, "mode": "fast", "free": {"any": {"thing": 1}}, "parts": [{"name": "a"}]}
    warnings = answer.headers.getlist("Warning")  # type: ignore[attr-defined]
    assert warnings == ['299 - "unknown field \\"spec.colour\\""', '299 - "unknown field \\"spec.parts[0].extra\\""']


def test_field_validation_strict_and_ignore(web: Web) -> None:
    answer = web.post(f"{WIDGETS}?fieldValidation=Strict", widget("w", size=1, colour="red"))
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"].endswith('strict decoding error: unknown field "spec.colour"')
    quiet = web.post(f"{WIDGETS}?fieldValidation=Ignore", widget("w", size=1, colour="red"))
    assert (quiet.status, "Warning" in quiet.headers, "colour" in quiet.body["spec"]) == (201, False, False)
    assert web.post(f"{WIDGETS}?fieldValidation=Loud", widget("v", size=1)).status == 422


@pytest.mark.parametrize(
    ("spec", "field", "reason", "part"),
    [
        ({}, "spec.size", "FieldValueRequired", "Required value"),
        ({"size": "1"}, "spec.size", "FieldValueTypeInvalid", 'spec.size in body must be of type integer: "string"'),
        ({"size": 0}, "spec.size", "FieldValueInvalid", "spec.size in body should be greater than or equal to 1"),
        ({"size": True}, "spec.size", "FieldValueTypeInvalid", '"boolean"'),
        ({"size": 1, "mode": "odd"}, "spec.mode", "FieldValueNotSupported", 'Unsupported value: "odd": supported values: "fast", "slow"'),
        ({"size": 1, "limit": []}, "spec.limit", "FieldValueTypeInvalid", "must be of type integer,string"),
        ({"size": 1, "parts": [{"count": 1}]}, "spec.parts[0].name", "FieldValueRequired", "Required value"),
        ({"size": 1, "parts": [{"name": "a"}, {"name": "a"}]}, "spec.parts[1]", "FieldValueDuplicate", 'Duplicate value: {"name":"a"}'),
        ({"size": 1, "parts": {}}, "spec.parts", "FieldValueTypeInvalid", "must be of type array"),
    ],
)
def test_what_the_schema_refuses(web: Web, spec: dict[str, Any], field: str, reason: str, part: str) -> None:
    answer = web.post(WIDGETS, widget("w", **spec))
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["message"].startswith('Widget.example.com "w" is invalid: ')
    cause = answer.body["details"]["causes"][0]
    assert (cause["field"], cause["reason"]) == (field, reason)
    assert part in cause["message"]
    assert web.get(f"{WIDGETS}/w").status == 404


@pytest.mark.parametrize("limit", [3, "50%"])
def test_int_or_string(web: Web, limit: Any) -> None:
    assert web.post(WIDGETS, widget("w", size=1, limit=limit)).body["spec"]["limit"] == limit


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


def test_printer_columns(web: Web) -> None:
    web.post(WIDGETS, widget("w", size=3))
    body = web.get(WIDGETS, Accept=TABLE).body
    assert [column["name"] for column in body["columnDefinitions"]] == ["Name", "Size", "Ready"]
    assert body["rows"][0]["cells"] == ["w", 3, None]


def test_versions_are_served_side_by_side(web: Web) -> None:
    definition = widget_definition()
    definition["spec"]["versions"].append({**definition["spec"]["versions"][0], "name": "v1beta1", "storage": False})
    web.patch(f"{CRDS}/widgets.example.com", {"spec": definition["spec"]})
    web.post(WIDGETS, widget("w", size=1))
    old = web.get(f"{WIDGETS.replace('/v1/', '/v1beta1/')}/w").body
    assert (old["apiVersion"], old["spec"]["size"]) == ("example.com/v1beta1", 1)
    group = web.get("/apis/example.com").body
    assert [item["version"] for item in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"group": ""}, "spec.group"),
        ({"scope": "Everywhere"}, "spec.scope"),
        ({"versions": []}, "spec.versions"),
        ({"names": {"plural": "widgets"}}, "spec.names.kind"),
        ({"group": "other.com"}, "metadata.name"),
        ({"group": "apps"}, "spec.group"),
    ],
)
def test_definitions_that_are_refused(background: Any, change: dict[str, Any], field: str) -> None:
    definition = widget_definition()
    definition["spec"].update(change)
    answer = Web(background.url).post(CRDS, definition)
    assert answer.status == 422
    assert field in [cause["field"] for cause in answer.body["details"]["causes"]]


def test_a_definition_without_schema_of_its_spec_keeps_nothing_but_what_it_names(background: Any) -> None:
    web = Web(background.url)
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    web.post(CRDS, widget_definition(schema=schema, subresources={}))
    body = web.post(WIDGETS, {**widget("w", anything=[1]), "status": {"phase": "kept"}}).body
    assert (body["spec"], body["status"]) == ({"anything": [1]}, {"phase": "kept"})
    assert web.get(f"{WIDGETS}/w/status").status == 404


def test_a_definition_cannot_take_the_place_of_a_built_in_kind(background: Any) -> None:
    web = Web(background.url)
    definition = widget_definition()
    definition["metadata"]["name"] = "deviceclasses.resource.k8s.io"
    definition["spec"]["group"] = "resource.k8s.io"
    definition["spec"]["names"] = {"plural": "deviceclasses", "kind": "Impostor"}
    assert web.post(CRDS, definition).status == 201
    assert "status" not in web.get(f"{CRDS}/deviceclasses.resource.k8s.io").body
    assert web.get("/apis/resource.k8s.io/v1/deviceclasses").body["kind"] == "DeviceClassList"
    web("DELETE", f"{CRDS}/deviceclasses.resource.k8s.io")
    assert web.get("/apis/resource.k8s.io/v1/deviceclasses").body["kind"] == "DeviceClassList"
