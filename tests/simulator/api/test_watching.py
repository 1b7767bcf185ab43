from collections.abc import Generator
from typing import Any

from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from tests.simulator.api.background import BackgroundServer, compact
from tests.simulator.api.web import CONFIG_MAPS, PODS, Web, config_map, pod


def until_end(frames: Generator[dict[str, Any], None, None]) -> list[dict[str, Any]]:
    """Frames before the one about the object named ``end``, which the test creates last."""
    kept: list[dict[str, Any]] = []
    for frame in frames:
        if frame["object"]["metadata"].get("name") == "end":
            frames.close()
            return kept
        kept.append(frame)
    raise AssertionError(f"the watch ended after {kept}")


def seen(frames: Generator[dict[str, Any], None, None]) -> list[tuple[str, str]]:
    return [(frame["type"], frame["object"]["metadata"].get("name", "")) for frame in until_end(frames)]


def test_watch_from_nothing_shows_what_there_is_and_then_changes(web: Web) -> None:
    web.post(CONFIG_MAPS, config_map("a"))
    frames = web.frames(f"{CONFIG_MAPS}?watch=true&timeoutSeconds=5")
    assert next(frames)["type"] == "ADDED"
    web.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
    changed = next(frames)
    assert (changed["type"], changed["object"]["kind"], changed["object"]["data"]) == ("MODIFIED", "ConfigMap", {"k": "v"})
    web("DELETE", f"{CONFIG_MAPS}/a")
    deleted = next(frames)
    assert (deleted["type"], deleted["object"]["data"]) == ("DELETED", {"k": "v"})
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(changed["object"]["metadata"]["resourceVersion"])
    frames.close()


def test_watch_resumes_exactly_after_a_version(web: Web) -> None:
    web.post(CONFIG_MAPS, config_map("a"))
    version = web.get(CONFIG_MAPS).version
    web.post(CONFIG_MAPS, config_map("b"))
    web.patch(f"{CONFIG_MAPS}/b", {"data": {"k": "v"}})
    web("DELETE", f"{CONFIG_MAPS}/b")
    web.post(CONFIG_MAPS, config_map("end"))
    frames = seen(web.frames(f"{CONFIG_MAPS}?watch=1&resourceVersion={version}"))
    assert frames == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


def test_watch_of_one_namespace_and_of_one_name(web: Web) -> None:
    version = web.get(CONFIG_MAPS).version
    for name in ("a", "b", "end"):
        web.post("/api/v1/namespaces/kube-system/configmaps", config_map(name, "kube-system"))
        web.post(CONFIG_MAPS, config_map(name))
    query = f"watch=1&resourceVersion={version}"
    assert seen(web.frames(f"{CONFIG_MAPS}?{query}")) == [("ADDED", "a"), ("ADDED", "b")]
    assert seen(web.frames(f"{CONFIG_MAPS}/end?{query}")) == []
    assert len(seen(web.frames(f"/api/v1/configmaps?{query}"))) == 4


def test_an_object_that_stops_matching_is_deleted_and_one_that_starts_is_added(web: Web) -> None:
    version = web.get(CONFIG_MAPS).version
    web.post(CONFIG_MAPS, config_map("a", labels={"tier": "x"}))
    web.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
    web.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"tier": "y"}}})
    web.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"tier": "x"}}})
    web.post(CONFIG_MAPS, config_map("end", labels={"tier": "x"}))
    frames = until_end(web.frames(f"{CONFIG_MAPS}?watch=1&labelSelector=tier=x&resourceVersion={version}"))
    assert [frame["type"] for frame in frames] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert frames[2]["object"]["metadata"]["labels"] == {"tier": "x"}
    versions = [int(frame["object"]["metadata"]["resourceVersion"]) for frame in frames]
    assert versions == sorted(set(versions))


def test_a_version_that_is_too_old_is_reported_in_the_stream(web: Web, background: BackgroundServer) -> None:
    version = web.get(CONFIG_MAPS).version
    web.post(CONFIG_MAPS, config_map("a"))
    background.call(lambda: compact(background.server.store))
    frames = list(web.frames(f"{CONFIG_MAPS}?watch=1&resourceVersion={version}"))
    assert len(frames) == 1
    error = frames[0]["object"]
    assert (frames[0]["type"], error["kind"], error["code"], error["reason"]) == ("ERROR", "Status", 410, "Expired")
    assert error["message"].startswith(f"too old resource version: {version} (")


def test_history_is_bounded_per_kind() -> None:
    store = Store(history=5)
    with BackgroundServer(SimulatedServer(store)) as background:
        web = Web(background.url)
        start = web.get(CONFIG_MAPS).version
        for index in range(6):
            web.post(CONFIG_MAPS, config_map(f"c{index}"))
        assert next(web.frames(f"{CONFIG_MAPS}?watch=1&resourceVersion={start}"))["type"] == "ERROR"
        recent = int(web.get(CONFIG_MAPS).version) - 4
        web.post(CONFIG_MAPS, config_map("end"))
        web.post(PODS, pod("end"))
        assert seen(web.frames(f"{PODS}?watch=1&resourceVersion={start}")) == []
        assert len(seen(web.frames(f"{CONFIG_MAPS}?watch=1&resourceVersion={recent}"))) == 4


def test_bookmarks_tell_the_version_to_resume_from() -> None:
    with BackgroundServer(SimulatedServer(Store(), bookmark_seconds=0.1)) as background:
        web = Web(background.url)
        version = web.get(CONFIG_MAPS).version
        web.post(PODS, pod("elsewhere"))
        frames = web.frames(f"{CONFIG_MAPS}?watch=1&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=5")
        bookmark = next(frames)
        frames.close()
        assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "ConfigMap")
        assert int(bookmark["object"]["metadata"]["resourceVersion"]) > int(version)


def test_watchers_leave_with_their_clients_and_end_with_the_server(background: BackgroundServer) -> None:
    web = Web(background.url)
    frames = [web.frames(f"{CONFIG_MAPS}?watch=1") for _ in range(3)]
    web.post(CONFIG_MAPS, config_map("a"))
    assert [next(stream)["type"] for stream in frames] == ["ADDED"] * 3
    assert background.call(lambda: len(background.server.watchers)) == 3
    background.run(background.server.stop())
    assert [list(stream) for stream in frames] == [[], [], []]


def test_a_write_in_answer_to_an_event_is_seen_after_it() -> None:
    store = Store()
    order: list[tuple[str, str]] = []

    def react(event: Any) -> None:
        if event.entry.name == "cause":
            store.put_initial(config_map("effect"))

    store.subscribe("configmaps", react)
    store.subscribe("configmaps", lambda event: order.append((event.type, event.entry.name)))
    store.put_initial(config_map("cause"))
    assert order == [("ADDED", "cause"), ("ADDED", "effect")]
