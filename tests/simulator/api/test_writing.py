import re
from datetime import datetime, timedelta
from typing import Any

from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import CONFIG_MAPS, PODS, Web, config_map, pod
from tests.tables import each_row


def test_the_server_sets_identity(web: Web) -> None:
    sent = pod("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7, selfLink="/x")
    meta = web.post(PODS, sent).body["metadata"]
    assert re.fullmatch(r"[0-9a-f-]{36}", meta["uid"])
    assert not meta["creationTimestamp"].startswith("2001")
    assert meta["generation"] == 1
    assert int(meta["resourceVersion"]) > 0
    assert "selfLink" not in meta


@each_row
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


def test_an_empty_namespace_goes_at_once_and_its_name_can_be_used_again(web: Web) -> None:
    first = web.post("/api/v1/namespaces", {"metadata": {"name": "brief"}}).body
    assert first["status"] == {"phase": "Active"}
    assert first["metadata"]["labels"] == {"kubernetes.io/metadata.name": "brief"}
    web("DELETE", "/api/v1/namespaces/brief")
    assert web.get("/api/v1/namespaces/brief").status == 404
    assert web.post("/api/v1/namespaces", {"metadata": {"name": "brief"}}).body["metadata"]["uid"] != first["metadata"]["uid"]
