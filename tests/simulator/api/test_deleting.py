from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import CONFIG_MAPS, PODS, Web, config_map, pod

NAMESPACES = "/api/v1/namespaces"


def owner(obj: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": obj["kind"], "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"], **more}


def test_deletion_answers_with_a_status_that_names_the_uid(web: Web) -> None:
    uid = web.post(CONFIG_MAPS, config_map("c")).body["metadata"]["uid"]
    answer = web("DELETE", f"{CONFIG_MAPS}/c")
    assert (answer.status, answer.body["status"]) == (200, "Success")
    assert answer.body["details"] == {"name": "c", "kind": "configmaps", "uid": uid}
    assert web.get(f"{CONFIG_MAPS}/c").status == 404
    assert web("DELETE", f"{CONFIG_MAPS}/c").status == 404


@pytest.mark.parametrize(
    ("preconditions", "words"),
    [
        ({"uid": "other"}, "the UID in the precondition (other) does not match the UID in record"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record"),
    ],
)
def test_preconditions(web: Web, preconditions: dict[str, str], words: str) -> None:
    created = web.post(CONFIG_MAPS, config_map("c")).body
    answer = web("DELETE", f"{CONFIG_MAPS}/c", {"preconditions": preconditions})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert words in answer.body["message"]
    meta = created["metadata"]
    right = {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
    assert web("DELETE", f"{CONFIG_MAPS}/c", right).status == 200


def test_finalizers_hold_an_object_until_they_are_gone(web: Web) -> None:
    web.post(CONFIG_MAPS, config_map("c", finalizers=["example.com/a", "example.com/b"]))
    answer = web("DELETE", f"{CONFIG_MAPS}/c")
    assert (answer.status, answer.body["kind"]) == (200, "ConfigMap")
    assert answer.body["metadata"]["deletionTimestamp"]
    assert web("DELETE", f"{CONFIG_MAPS}/c").version == answer.version
    left = web.patch(f"{CONFIG_MAPS}/c", {"metadata": {"finalizers": ["example.com/b"]}}).body
    assert left["metadata"]["deletionTimestamp"] == answer.body["metadata"]["deletionTimestamp"]
    refused = web.patch(f"{CONFIG_MAPS}/c", {"metadata": {"finalizers": ["example.com/b", "example.com/new"]}})
    assert (refused.status, refused.body["details"]["causes"][0]["field"]) == (422, "metadata.finalizers")
    assert web.patch(f"{CONFIG_MAPS}/c", {"metadata": {"finalizers": None}}).status == 200
    assert web.get(f"{CONFIG_MAPS}/c").status == 404


def test_a_pod_on_a_node_goes_when_someone_confirms_it(web: Web) -> None:
    web.post(PODS, pod("a", node="n"))
    answer = web("DELETE", f"{PODS}/a")
    assert (answer.body["metadata"]["deletionGracePeriodSeconds"], answer.status) == (30, 200)
    due = datetime.fromisoformat(answer.body["metadata"]["deletionTimestamp"])
    assert answer.body["metadata"]["generation"] == 2
    assert web.get(f"{PODS}/a").status == 200
    shorter = web("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5}).body
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    assert datetime.fromisoformat(shorter["metadata"]["deletionTimestamp"]) == due - timedelta(seconds=25), "from the first deletion on"
    longer = web("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 60}).body
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    assert web("DELETE", f"{PODS}/a?gracePeriodSeconds=0").status == 200
    assert web.get(f"{PODS}/a").status == 404


@pytest.mark.parametrize("how", ["unbound", "finished", "zero"])
def test_other_pods_go_at_once(web: Web, background: BackgroundServer, how: str) -> None:
    if how == "finished":
        done = {**pod("a", node="n"), "status": {"phase": "Succeeded"}}
        background.call(lambda: background.server.store.put_initial(done))
    else:
        sent = pod("a", node="n" if how == "zero" else "")
        if how == "zero":
            sent["spec"]["terminationGracePeriodSeconds"] = 0
        web.post(PODS, sent)
    assert web("DELETE", f"{PODS}/a").body["kind"] == "Pod"
    assert web.get(f"{PODS}/a").status == 404


def test_children_follow_their_last_owner(web: Web) -> None:
    one, two = web.post(CONFIG_MAPS, config_map("one")).body, web.post(CONFIG_MAPS, config_map("two")).body
    web.post(CONFIG_MAPS, config_map("child", ownerReferences=[owner(one), owner(two)]))
    child = web.get(f"{CONFIG_MAPS}/child").body
    web.post(CONFIG_MAPS, config_map("grandchild", ownerReferences=[owner(child)]))
    web("DELETE", f"{CONFIG_MAPS}/one")
    assert web.get(CONFIG_MAPS).names == ["child", "grandchild", "two"]
    web("DELETE", f"{CONFIG_MAPS}/two")
    assert web.get(CONFIG_MAPS).names == []


def test_a_child_of_an_owner_that_does_not_exist_is_collected(web: Web) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}
    assert web.post(CONFIG_MAPS, config_map("child", ownerReferences=[ghost])).status == 201
    assert web.get(f"{CONFIG_MAPS}/child").status == 404


def test_seeded_children_wait_for_what_happens_to_their_owner(web: Web, background: BackgroundServer) -> None:
    uid = "11111111-1111-1111-1111-111111111111"
    reference = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "late", "uid": uid}]

    def seed() -> None:
        background.server.store.put_initial(config_map("early", ownerReferences=reference))
        background.server.store.put_initial(config_map("late", uid=uid))

    background.call(seed)
    assert web.get(CONFIG_MAPS).names == ["early", "late"]
    web("DELETE", f"{CONFIG_MAPS}/late")
    assert web.get(CONFIG_MAPS).names == []


def test_foreground_deletion_waits_for_the_children(web: Web) -> None:
    parent = web.post(CONFIG_MAPS, config_map("parent")).body
    reference = [owner(parent, blockOwnerDeletion=True)]
    web.post(CONFIG_MAPS, config_map("held", ownerReferences=reference, finalizers=["example.com/a"]))
    web.post(CONFIG_MAPS, config_map("free", ownerReferences=reference))
    answer = web("DELETE", f"{CONFIG_MAPS}/parent?propagationPolicy=Foreground")
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert web.get(CONFIG_MAPS).names == ["held", "parent"]
    web.patch(f"{CONFIG_MAPS}/held", {"metadata": {"finalizers": None}})
    assert web.get(CONFIG_MAPS).names == []


def test_a_namespace_takes_its_content_with_it(web: Web) -> None:
    web.post(NAMESPACES, {"metadata": {"name": "gone"}})
    web.post(f"{NAMESPACES}/gone/configmaps", config_map("c", "gone"))
    web.post(f"{NAMESPACES}/gone/pods", pod("running", "gone", node="n"))
    answer = web("DELETE", f"{NAMESPACES}/gone")
    assert answer.body["status"]["phase"] == "Terminating"
    assert web.get(f"{NAMESPACES}/gone/configmaps").names == []
    late = web.post(f"{NAMESPACES}/gone/configmaps", config_map("late", "gone"))
    assert late.status == 403
    assert late.body["message"].endswith("unable to create new content in namespace gone because it is being terminated")
    assert late.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    web.patch(f"{NAMESPACES}/gone", {"metadata": {"labels": {"touched": "yes"}}})
    assert web.get(f"{NAMESPACES}/gone").status == 200
    web("DELETE", f"{NAMESPACES}/gone/pods/running?gracePeriodSeconds=0")
    assert web.get(f"{NAMESPACES}/gone").status == 404


def test_an_empty_namespace_goes_at_once_and_its_name_can_be_used_again(web: Web) -> None:
    first = web.post(NAMESPACES, {"metadata": {"name": "brief"}}).body
    assert first["status"] == {"phase": "Active"}
    assert first["metadata"]["labels"] == {"kubernetes.io/metadata.name": "brief"}
    web("DELETE", f"{NAMESPACES}/brief")
    assert web.get(f"{NAMESPACES}/brief").status == 404
    assert web.post(NAMESPACES, {"metadata": {"name": "brief"}}).body["metadata"]["uid"] != first["metadata"]["uid"]
