import re
from typing import Any

import pytest

from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import APPLY, CONFIG_MAPS, JSON_PATCH, MERGE, PODS, STRATEGIC, Web, config_map, pod

DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
NODES = "/api/v1/nodes"


def daemon_set(name: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}}


def test_the_server_sets_identity(web: Web) -> None:
    sent = pod("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7, selfLink="/x")
    meta = web.post(PODS, sent).body["metadata"]
    assert re.fullmatch(r"[0-9a-f-]{36}", meta["uid"])
    assert not meta["creationTimestamp"].startswith("2001")
    assert meta["generation"] == 1
    assert int(meta["resourceVersion"]) > 0
    assert "selfLink" not in meta


def test_status_is_not_the_creators_to_set_but_for_nodes(web: Web) -> None:
    body = web.post(PODS, {**pod("a"), "status": {"phase": "Running"}}).body
    assert body["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    node = web.post(NODES, {"metadata": {"name": "n"}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}).body
    assert node["status"]["capacity"] == {"nvidia.com/gpu": "8"}


def test_status_and_spec_are_written_apart(web: Web) -> None:
    created = web.post(DAEMON_SETS, daemon_set("d")).body
    both = {**created, "spec": {**created["spec"], "minReadySeconds": 5}, "status": {"numberReady": 3}}
    main = web("PUT", f"{DAEMON_SETS}/d", both).body
    assert (main["spec"]["minReadySeconds"], main.get("status")) == (5, {})
    assert main["metadata"]["generation"] == 2
    status = {**main, "spec": created["spec"], "status": {"numberReady": 3, "observedGeneration": 2}}
    after = web("PUT", f"{DAEMON_SETS}/d/status", status).body
    assert (after["spec"]["minReadySeconds"], after["status"]["numberReady"]) == (5, 3)
    assert after["metadata"]["generation"] == 2
    patched = web.patch(f"{DAEMON_SETS}/d/status", {"status": {"numberReady": 4}, "spec": {"minReadySeconds": 9}}).body
    assert (patched["status"]["numberReady"], patched["spec"]["minReadySeconds"]) == (4, 5)


def test_generation_counts_changes_of_the_spec_only(web: Web) -> None:
    web.post(DAEMON_SETS, daemon_set("d"))
    assert web.patch(f"{DAEMON_SETS}/d", {"metadata": {"labels": {"a": "b"}}}).body["metadata"]["generation"] == 1
    assert web.patch(f"{DAEMON_SETS}/d", {"spec": {"minReadySeconds": 1}}).body["metadata"]["generation"] == 2


def test_a_write_that_changes_nothing_leaves_no_version(web: Web) -> None:
    before = web.post(CONFIG_MAPS, config_map("c", data={"a": "1"}))
    assert web.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "1"}}).version == before.version
    assert web("PUT", f"{CONFIG_MAPS}/c", before.body).version == before.version


def test_identity_survives_an_update_and_a_foreign_uid_is_refused(web: Web) -> None:
    created = web.post(CONFIG_MAPS, config_map("c")).body
    body = web("PUT", f"{CONFIG_MAPS}/c", config_map("c", data={"a": "1"})).body
    assert body["metadata"]["uid"] == created["metadata"]["uid"]
    assert body["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]
    answer = web("PUT", f"{CONFIG_MAPS}/c", config_map("c", uid="another"))
    assert answer.status == 409
    assert "Precondition failed: UID in precondition: another" in answer.body["message"]


def test_names_in_body_and_path_must_agree(web: Web) -> None:
    web.post(CONFIG_MAPS, config_map("c"))
    answer = web("PUT", f"{CONFIG_MAPS}/c", config_map("d"))
    assert answer.status == 400
    assert answer.body["message"] == "the name of the object (d) does not match the name on the URL (c)"


@pytest.mark.parametrize(
    ("operations", "status"),
    [
        ([{"op": "test", "path": "/data/a", "value": "other"}], 422),
        ([{"op": "remove", "path": "/data/none"}], 422),
        ([{"op": "replace", "path": "/data/none", "value": "x"}], 422),
        ([{"op": "add", "path": "/none/deep", "value": "x"}], 422),
        ([{"op": "bend", "path": "/data/a", "from": "/data/a"}], 422),
        ({"op": "add"}, 400),
    ],
)
def test_json_patches_that_do_not_apply(web: Web, operations: Any, status: int) -> None:
    version = web.post(CONFIG_MAPS, config_map("c", data={"a": "1"})).version
    assert web.patch(f"{CONFIG_MAPS}/c", operations, JSON_PATCH).status == status
    assert web.get(f"{CONFIG_MAPS}/c").version == version


def test_strategic_patch_directives(web: Web) -> None:
    volumes: list[dict[str, Any]] = [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]
    container = {"name": "c", "image": "i:1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}
    spec = daemon_set("d")
    spec["spec"]["template"]["spec"] = {"containers": [container], "volumes": volumes}
    web.post(DAEMON_SETS, spec)

    def patched(pod_spec: dict[str, Any]) -> dict[str, Any]:
        body = web.patch(f"{DAEMON_SETS}/d", {"spec": {"template": {"spec": pod_spec}}}, STRATEGIC).body
        return dict(body["spec"]["template"]["spec"])

    after = patched({"volumes": [{"name": "a", "$patch": "delete"}], "$setElementOrder/volumes": [{"name": "b"}]})
    assert [volume["name"] for volume in after["volumes"]] == ["b"]
    after = patched({"containers": [{"name": "c", "env": [{"name": "X", "$patch": "delete"}, {"name": "Z", "value": "3"}]}]})
    assert [item["name"] for item in after["containers"][0]["env"]] == ["Y", "Z"]
    after = patched({"containers": [{"name": "e", "image": "i:2"}], "$setElementOrder/containers": [{"name": "e"}, {"name": "c"}]})
    assert [item["name"] for item in after["containers"]] == ["e", "c"]
    after = patched({"volumes": [{"$patch": "replace"}, {"name": "z", "emptyDir": {}}]})
    assert [volume["name"] for volume in after["volumes"]] == ["z"]
    after = patched({"volumes": [{"name": "z", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]})
    assert after["volumes"] == [{"name": "z", "hostPath": {"path": "/x"}}]


@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("new"), "application/json"),
        ("PUT", f"{CONFIG_MAPS}/old?dryRun=All", config_map("old", data={"a": "2"}), "application/json"),
        ("PATCH", f"{CONFIG_MAPS}/old?dryRun=All", {"data": {"a": "2"}}, MERGE),
        ("PATCH", f"{CONFIG_MAPS}/new?dryRun=All&fieldManager=m", config_map("new"), APPLY),
        ("DELETE", f"{CONFIG_MAPS}/old?dryRun=All", None, "application/json"),
        ("DELETE", f"{CONFIG_MAPS}/old", {"dryRun": ["All"]}, "application/json"),
        ("POST", f"{PODS}/free/binding?dryRun=All", {"target": {"kind": "Node", "name": "n"}}, "application/json"),
        ("POST", f"{PODS}/free/eviction?dryRun=All", {"metadata": {"name": "free"}}, "application/json"),
        ("POST", f"{PODS}/free/eviction", {"metadata": {"name": "free"}, "deleteOptions": {"dryRun": ["All"]}}, "application/json"),
    ],
)
def test_dry_run_answers_like_the_real_thing_and_leaves_no_trace(
    web: Web, background: BackgroundServer, method: str, path: str, body: Any, kind: str
) -> None:
    web.post(CONFIG_MAPS, config_map("old", data={"a": "1"}))
    web.post(PODS, pod("free"))
    before = background.call(lambda: background.server.store.version)
    answer = web(method, path, body, kind)
    assert answer.status in (200, 201), answer.body
    assert background.call(lambda: background.server.store.version) == before
    assert web.get(CONFIG_MAPS).names == ["old"]
    assert web.get(f"{CONFIG_MAPS}/old").body["data"] == {"a": "1"}
    assert "nodeName" not in web.get(f"{PODS}/free").body["spec"]


def test_dry_run_still_refuses(web: Web) -> None:
    web.post(CONFIG_MAPS, config_map("c"))
    assert web.post(f"{CONFIG_MAPS}?dryRun=All", config_map("c")).status == 409
    assert web.post(f"{CONFIG_MAPS}?dryRun=All", config_map("C")).status == 422
    assert web("DELETE", f"{CONFIG_MAPS}/none?dryRun=All").status == 404


def test_immutable_config_map(web: Web) -> None:
    web.post(CONFIG_MAPS, {**config_map("c", data={"a": "1"}), "immutable": True})
    answer = web.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "2"}})
    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "data")
