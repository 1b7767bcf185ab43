"""A server or a proxy may answer with the request that it got, credentials included: they get into no message and no output."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.answer import REDACTED
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.snapshot.collect import collect
from tests.hostile.lying import Asked, Said, a_list, an_object, lying, said, status
from tests.hostile.test_answers import SERVED, announced
from tests.served import edited

TOKENS = {"a word": "s3cr3t-word", "a bootstrap token": "abcdef.0123456789abcdef", "a long one": "o" * 50 + "paque" * 200}
ECHOES: dict[str, Callable[[str], Said]] = {
    "a Status": lambda token: status(500, "InternalError", f"upstream: authorization {token} was not taken"),
    "a refusal": lambda token: status(403, "Forbidden", f"the token {token} may not"),
    "a reason": lambda token: status(403, f"No {token}"),
    "a page": lambda token: Said(f"<pre>GET /\nx-token: {token}\n</pre>".encode(), 502, {"Content-Type": "text/html"}),
    "a page that says OK": lambda token: Said(f"<pre>x-token: {token}</pre>".encode(), 200),
    "the request as JSON": lambda token: said({"headers": {"x-token": [token]}}),
    "a page behind some text": lambda token: Said(b" " * 150 + token.encode(), 200),
    "another status": lambda token: Said(f"x-token: {token}".encode(), 206),
}


def texts(cluster: Cluster) -> Iterator[str]:
    """What all that asks the cluster says."""
    asks: list[Callable[[], Any]] = [
        lambda: cluster.get("pods", "a", "default"),
        lambda: cluster.delete("pods", "a", "default"),
        lambda: list(cluster.each("pods")),
        lambda: cluster.logs("default", "a"),
        lambda: Observation(cluster, "pods", "default").__enter__(),
        lambda: Observation(cluster, "pods", "default")._connect(),
    ]
    for ask in asks:
        try:
            answer = ask()
            yield f"{answer.reason} {answer.message}" if hasattr(answer, "reason") else ""
        except ApiTrouble as trouble:
            yield f"{trouble.code} {trouble.message}"
    listing = collect(cluster, ["pods"], version="").listing("pods")
    yield f"{listing.trouble} {listing.message}"


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("name", ECHOES)
def test_no_message_repeats_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, token: str) -> None:
    monkeypatch.setattr("fixtures.cluster.client._pause", lambda _: None)

    def answers(asked: Asked) -> Said:
        return said(announced(SERVED, root=asked.path)) if asked.path in ("/api", "/apis") else ECHOES[name](token)

    with lying(tmp_path, answers) as (served, _):
        found = list(texts(Cluster.from_kubeconfig(edited(tmp_path, served.server, user={"user": {"token": token}}))))
    assert not [text for text in found if token[:10] in text]
    assert any(REDACTED[:9] in text for text in found)


def test_no_warning_repeats_them(tmp_path: Path) -> None:
    token = TOKENS["a word"]
    warned = said(an_object("Pod", "a"), Warning=f'299 - "{token} is deprecated"')
    with lying(tmp_path, lambda _: warned) as (served, _):
        answer = Cluster.from_kubeconfig(edited(tmp_path, served.server, user={"user": {"token": token}})).get("pods", "a", "default")
    assert answer.warnings == (f"{REDACTED} is deprecated",)


def test_a_refused_watch_keeps_none_that_it_does_not_repeat(tmp_path: Path) -> None:
    with lying(tmp_path, lambda _: status(403, "Forbidden", "nobody may watch")) as (served, _):
        cluster = Cluster.from_kubeconfig(edited(tmp_path, served.server, user={"user": {"token": TOKENS["a word"]}}))
        refused = cluster.refusal(cluster.stream("/api/v1/pods", {"watch": "true"}, 5), "watch pods")
    assert (refused.status, refused.credentials) == (403, "")


def test_an_object_stays_as_it_is(tmp_path: Path) -> None:
    """An experiment puts back what it has read."""
    token = TOKENS["a word"]
    pod = an_object("Pod", "a", spec={"nodeName": token})
    with lying(tmp_path, lambda asked: said(pod if asked.path.endswith("/a") else a_list("Pod", pod))) as (served, _):
        cluster = Cluster.from_kubeconfig(edited(tmp_path, served.server, user={"user": {"token": token}}))
        assert cluster.get("pods", "a", "default").json()["spec"] == {"nodeName": token}
        assert [item["spec"] for item in cluster.each("pods", "default")] == [{"nodeName": token}]


def test_a_token_that_may_be_a_word_of_the_answer_takes_no_word_out_of_it(tmp_path: Path) -> None:
    with lying(tmp_path, lambda _: status(403, "Forbidden", "pods are forbidden")) as (served, _):
        answer = Cluster.from_kubeconfig(edited(tmp_path, served.server, user={"user": {"token": "pods"}})).get("pods", "a", "default")
    assert answer.message == "pods are forbidden"
