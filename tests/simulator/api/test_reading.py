import pytest

from tests.simulator.api.background import BackgroundServer, compact
from tests.simulator.api.web import PODS, Web, pod
from tests.tables import each_row


@pytest.fixture
def seeded(background: BackgroundServer) -> BackgroundServer:
    def seed() -> None:
        store = background.server.store
        for index in range(10):
            node = f"n{index % 2}"
            labels = {"index": str(index), "parity": "even" if index % 2 == 0 else "odd"}
            store.put_initial({**pod(f"p{index}", node=node, labels=labels), "status": {"phase": "Running" if index < 8 else "Failed"}})
        store.put_initial(pod("p0", "other"))

    background.call(lambda: background.server.store.put_initial({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}))
    background.call(seed)
    return background


def test_list_carries_kind_and_version_and_its_items_do_not(web: Web, seeded: BackgroundServer) -> None:
    answer = web.get(PODS)
    assert (answer.body["kind"], answer.body["apiVersion"], len(answer.body["items"])) == ("PodList", "v1", 10)
    assert int(answer.version) >= max(int(item["metadata"]["resourceVersion"]) for item in answer.body["items"])
    assert all("kind" not in item and "apiVersion" not in item for item in answer.body["items"])
    assert web.get(f"{PODS}/p0").body["kind"] == "Pod"


@each_row
def test_selectors(web: Web, seeded: BackgroundServer, kind: str, selector: str, count: int) -> None:
    assert len(web.get(f"{PODS}?{kind}Selector={selector}").names) == count


def test_pages_show_one_state_whatever_happens_between_them(web: Web, seeded: BackgroundServer) -> None:
    first = web.get(f"{PODS}?limit=4")
    assert first.names == ["p0", "p1", "p2", "p3"]
    assert first.body["metadata"]["remainingItemCount"] == 6
    web("DELETE", f"{PODS}/p9?gracePeriodSeconds=0")
    web.post(PODS, pod("p45"))
    second = web.get(f"{PODS}?limit=4&continue={first.body['metadata']['continue']}")
    third = web.get(f"{PODS}?limit=4&continue={second.body['metadata']['continue']}")
    assert (second.names, third.names) == (["p4", "p5", "p6", "p7"], ["p8", "p9"])
    assert first.version == second.version == third.version
    assert "continue" not in third.body["metadata"]
    assert web.get(PODS).names[-1] == "p8"


def test_pages_with_a_selector_do_not_guess_what_remains(web: Web, seeded: BackgroundServer) -> None:
    page = web.get(f"{PODS}?limit=3&labelSelector=parity=even")
    assert page.names == ["p0", "p2", "p4"]
    assert "remainingItemCount" not in page.body["metadata"]
    rest = web.get(f"{PODS}?limit=3&labelSelector=parity=even&continue={page.body['metadata']['continue']}")
    assert rest.names == ["p6", "p8"]


def test_a_stale_continue_token_is_expired(web: Web, seeded: BackgroundServer) -> None:
    token = web.get(f"{PODS}?limit=4").body["metadata"]["continue"]
    seeded.call(lambda: compact(seeded.server.store))
    answer = web.get(f"{PODS}?limit=4&continue={token}")
    assert (answer.status, answer.body["reason"]) == (410, "Expired")
    assert answer.body["message"].startswith("The provided continue parameter is too old to display a consistent list result.")
    assert answer.body["metadata"] == {}


@pytest.mark.parametrize("token", ["%%%", "bm90IGpzb24"])
def test_forged_continue_tokens_are_refused(web: Web, token: str) -> None:
    answer = web.get(f"{PODS}?limit=2&continue={token.replace('%', '%25')}")
    assert answer.status == 400
    assert "continue key is not valid" in answer.body["message"]
