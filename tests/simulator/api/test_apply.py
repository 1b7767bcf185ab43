"""Server-side apply: ownership of fields, conflicts, giving up."""

from typing import Any

import pytest

from tests.simulator.api.web import APPLY, CONFIG_MAPS, MERGE, Answer, Web, config_map

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def apply(web: Web, path: str, body: dict[str, Any], manager: str, query: str = "") -> Answer:
    return web("PATCH", f"{path}?fieldManager={manager}{query}", body, APPLY)


def deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template, **spec},
    }


def managers(answer: Answer) -> dict[tuple[str, str], dict[str, Any]]:
    return {(item["manager"], item["operation"]): item["fieldsV1"] for item in answer.body["metadata"]["managedFields"]}


def test_an_ordinary_write_takes_fields_over(web: Web) -> None:
    apply(web, f"{CONFIG_MAPS}/c", config_map("c", data={"a": "1", "b": "1"}), "one")
    after = web("PATCH", f"{CONFIG_MAPS}/c?fieldManager=editor", {"data": {"a": "2"}}, MERGE)
    assert managers(after) == {("one", "Apply"): {"f:data": {"f:b": {}}}, ("editor", "Update"): {"f:data": {"f:a": {}}}}
    assert apply(web, f"{CONFIG_MAPS}/c", config_map("c", data={"a": "1", "b": "1"}), "one").status == 409


def test_list_items_are_owned_by_key(web: Web) -> None:
    first = deployment({"name": "main", "image": "i:1"}, {"name": "side", "image": "s:1"}, replicas=2)
    assert apply(web, f"{DEPLOYMENTS}/d", first, "one").status == 201
    extra = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    extra["spec"] = {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "X", "value": "1"}]}]}}}
    both = apply(web, f"{DEPLOYMENTS}/d", extra, "two")
    containers = both.body["spec"]["template"]["spec"]["containers"]
    assert containers == [{"name": "main", "image": "i:1", "env": [{"name": "X", "value": "1"}]}, {"name": "side", "image": "s:1"}]
    fewer = apply(web, f"{DEPLOYMENTS}/d", deployment({"name": "side", "image": "s:1"}), "one")
    spec = fewer.body["spec"]
    assert "replicas" not in spec
    assert [item["name"] for item in spec["template"]["spec"]["containers"]] == ["main", "side"]
    assert "image" not in spec["template"]["spec"]["containers"][0]
    conflict = apply(web, f"{DEPLOYMENTS}/d", deployment({"name": "side", "image": "s:2"}), "three")
    field = '.spec.template.spec.containers[name="side"].image'
    assert conflict.body["details"]["causes"][0]["field"] == field


def test_objects_that_nobody_tracked_belong_to_before_first_apply(web: Web, background: Any) -> None:
    background.call(lambda: background.server.store.put_initial(config_map("seeded", data={"a": "1"})))
    answer = apply(web, f"{CONFIG_MAPS}/seeded", config_map("seeded", data={"a": "2"}), "one")
    assert answer.status == 409
    assert "before-first-apply" in answer.body["message"]
    after = apply(web, f"{CONFIG_MAPS}/seeded", config_map("seeded", data={"b": "1"}), "one")
    assert set(managers(after)) == {("one", "Apply"), ("before-first-apply", "Update")}


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("", config_map("c"), 422),
        ("fieldManager=m", {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "c"}}, 400),
        ("fieldManager=m", config_map("d"), 400),
        ("fieldManager=m", [], 400),
        ("fieldManager=m", b"{: not yaml", 400),
        ("fieldManager=m", config_map("c", managedFields=[{"manager": "x"}]), 400),
        ("fieldManager=m", config_map("c", resourceVersion="1"), 409),
    ],
)
def test_applies_that_are_refused(web: Web, query: str, body: Any, status: int) -> None:
    web.post(CONFIG_MAPS, config_map("c"))
    assert web("PATCH", f"{CONFIG_MAPS}/c?{query}", body, APPLY).status == status


def test_duplicate_keys_are_refused(web: Web) -> None:
    container = {"name": "main", "image": "i", "env": [{"name": "X", "value": "1"}, {"name": "X", "value": "2"}]}
    answer = apply(web, f"{DEPLOYMENTS}/d", deployment(container), "one")
    assert answer.status == 500
    assert answer.body["message"] == (
        "failed to create typed patch object (default/d; apps/v1, Kind=Deployment): "
        '.spec.template.spec.containers[name="main"].env: duplicate entries for key [name="X"]'
    )
