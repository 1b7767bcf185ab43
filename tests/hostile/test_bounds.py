"""Every read has an end: in bytes, depth, pages and time, whatever a server sends."""

import gzip
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.observe.view import View
from fixtures.cluster import client
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.snapshot.collect import collect
from fixtures.text import json_text, limits
from fixtures.text.json_text import NotJson, check_depth
from fixtures.verdict.subjects import Inconclusive
from tests.hostile.lying import Asked, Said, a_list, an_object, lying, reported, status
from tests.hostile.test_answers import SERVED, announced, every
from tests.served import kubeconfig, served
from tests.steps import steps
from tests.tables import each_row
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all


def nest(depth: int) -> str:
    return "[" * depth + "]" * depth


def read_pods(tmp_path: Path, answer: Callable[[Asked], Said]) -> tuple[Any, list[Asked]]:
    """What a read of the pods comes to, on a server whose discovery is honest, and what it was asked."""

    def answers(asked: Asked) -> Said:
        return reported(announced(SERVED, root=asked.path)) if asked.path in ("/api", "/apis") else answer(asked)

    with lying(tmp_path, answers) as (cluster, asked):
        return collect(cluster, ["pods"], version=""), asked


def test_an_endless_log_is_read_to_its_bound(tmp_path: Path) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while True:
            sent += 1 << 16
            yield b"x" * (1 << 16)

    with lying(tmp_path, lambda asked: Said(endless(), headers={"Content-Type": "text/plain"})) as (cluster, _):
        assert len(cluster.logs("default", "p", limit_bytes=1 << 20)) == 1 << 20
    assert sent < 32 << 20, "what was sent on the way into a buffer, and no more"


def test_a_server_that_ends_no_answer_costs_its_time_twice_and_not_for_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATIENCE_SECONDS", 0.05)
    over = threading.Event()

    def silence() -> Iterator[bytes]:
        over.wait(PATIENCE)
        yield b""

    with lying(tmp_path, lambda asked: Said(silence())) as (cluster, _):
        begun = time.monotonic()
        for number in range(20):
            with pytest.raises(ApiTrouble, match="no complete answer"):
                cluster.request("GET", f"/apis/a.example/v1/kinds{number}", seconds=0.5)
        assert time.monotonic() - begun < 6, "twenty kinds in ten seconds if each had its time"
        over.set()


def test_a_watch_that_never_begins_costs_its_time_once_and_not_each_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "OPEN_SECONDS", 1.0)
    monkeypatch.setattr(limits, "PATIENCE_SECONDS", 0.1)
    over = threading.Event()

    def answer(asked: Asked) -> Said:
        if asked.query.get("watch"):
            over.wait(PATIENCE)
        return reported(a_list("Pod"))

    with lying(tmp_path, answer) as (cluster, _):
        begun = time.monotonic()
        for _ in range(8):
            with pytest.raises(ApiTrouble, match="timed out"), Observation(cluster, "pods"):
                pass
        assert time.monotonic() - begun < 4, "eight probes in eight seconds if each had its time"
        over.set()
        with Observation(cluster, "pods"):
            assert cluster.opening_seconds("/api/v1/pods") == 1.0, "as before once one begins"


# -- depth -----------------------------------------------------------------------------------------------


def _deep_pod(folder: Path, place: str, depth: int) -> Any:
    pod = json.dumps(an_object("Pod", "p"))[:-1] + f', "{place}": {{"affinity": {nest(depth)}}}}}'
    return read_pods(folder, every(Said(json.dumps(a_list("Pod", "POD")).replace('"POD"', pod).encode())))[0]


@pytest.mark.parametrize("depth", [limits.JSON_DEPTH + 1, 500, 900, 1_500, 100_000])
@pytest.mark.parametrize("place", ["spec", "unheardOf", "metadata"], ids=["read as a struct", "left out of it", "of another kind"])
def test_a_deep_object_costs_its_kind_and_no_more(tmp_path: Path, depth: int, place: str) -> None:
    snapshot = _deep_pod(tmp_path, place, depth)
    if place == "unheardOf" and depth <= 900:
        assert [pod.name for pod in snapshot.pods] == ["p"], "nobody reads it, and msgspec passes over so many levels"
        return
    with pytest.raises(Inconclusive) as caught:
        _ = snapshot.pods
    assert caught.value.code == "Unreadable"


DEEP_PARTS = {
    "fields of an owner": '"managedFields": [{"manager": "m", "fieldsV1": %s}]',
    "fields of an owner, as text that looks like it": '"annotations": {"a\\"managedFields": "]]}}"}, "managedFields": [%s]',
    "one in the other": '"managedFields": [{"managedFields": {"managedFields": %s}}]',
}


@pytest.mark.parametrize("depth", [limits.JSON_DEPTH, 3_000, 100_000])
@pytest.mark.parametrize("part", DEEP_PARTS)
def test_what_nobody_reads_may_be_deep_and_hides_no_other_object(tmp_path: Path, part: str, depth: int) -> None:
    """A tenant may write that into an object of his own: a real API server takes owners of fields at any depth (1.37.2)."""
    pods = [an_object("Pod", "a"), an_object("Pod", "b"), an_object("Pod", "c")]
    body = json.dumps(a_list("Pod", *pods)).replace('"uid": "uid-of-b"', f'"uid": "uid-of-b", {DEEP_PARTS[part] % nest(depth)}')
    snapshot, _ = read_pods(tmp_path, every(Said(body.encode())))
    assert [pod.name for pod in snapshot.pods] == ["a", "b", "c"]
    with lying(tmp_path, every(Said(body.encode()))) as (cluster, _):
        assert [pod["metadata"]["name"] for pod in cluster.each("pods")] == ["a", "b", "c"]
        with Observation(cluster, "pods", "default") as observation:
            assert observation.objects.keys() == {"default/a", "default/b", "default/c"}


def test_parameters_of_a_driver_may_be_deep_and_hide_no_other_claim() -> None:
    deep = '{"a":' * 1_500 + "1" + "}" * 1_500
    config = '[{"requests": ["r"], "opaque": {"driver": "d.example.com", "parameters": DEEP}}]'.replace("DEEP", deep)
    claim = json.dumps(an_object("ResourceClaim", "c", "resource.k8s.io/v1", spec={"devices": {"config": "CONFIG"}}))
    found = json_text.decode(claim.replace('"CONFIG"', config))
    assert found["spec"] == {"devices": {"config": [{"requests": ["r"], "opaque": None}]}}


@each_row
def test_whatever_else_is_deep_is_no_json(text: str) -> None:
    with pytest.raises(NotJson):
        json_text.decode(text.replace("DEEP", nest(2_000)))


@pytest.mark.parametrize("depth", [limits.JSON_DEPTH + 1, 1_500])
def test_a_deep_answer_of_any_request_is_trouble(tmp_path: Path, depth: int) -> None:
    body = json.dumps(an_object("ConfigMap", "c", extra="DEEP")).replace('"DEEP"', nest(depth)).encode()
    with lying(tmp_path, every(Said(body))) as (cluster, _), pytest.raises(ApiTrouble, match="deep"):
        cluster.get("configmaps", "c", "default")
    refusal = json.dumps({"kind": "Status", "details": "DEEP"}).replace('"DEEP"', nest(depth)).encode()
    with lying(tmp_path, every(Said(refusal, 409))) as (cluster, _), pytest.raises(ApiTrouble):
        cluster.create("configmaps", {"kind": "ConfigMap", "metadata": {"name": "c"}}, namespace="default")


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b"1",
        b'"["',
        b'{"a":"{[","b":"\\"{","c":"\\\\","d":["}",{"e":[[]]}]}',
        b'{"' + b"[" * 5_000 + b'":"' + b"{" * 5_000 + b'"}',
        b'["' + b'\\"[' * 1_000 + b'"]',
        nest(limits.JSON_DEPTH).encode(),
        b"[" + b"{}," * 50_000 + b"{}]",
    ],
)
def test_depth_is_that_of_arrays_and_objects_not_of_strings(text: bytes) -> None:
    check_depth(text)
    msgspec.json.decode(text)


@pytest.mark.parametrize(
    "text",
    [
        nest(limits.JSON_DEPTH + 1),
        '{"a":"}","b":' * (limits.JSON_DEPTH + 1) + "1" + ',"c":"{"}' * (limits.JSON_DEPTH + 1),
        '{"\\\\":[' * 70 + "]}" * 70,
        '{"a\\"":[' * 70 + "]}" * 70,
    ],
)
def test_strings_do_not_hide_a_nest(text: str) -> None:
    json.loads(text)
    with pytest.raises(NotJson, match="deeper"):
        check_depth(text.encode())


@pytest.mark.parametrize("text", [b"", b"{", b"]", b'{"a', b"\xff", b"nul", b"[1,]", b'{"a":1}{', b"[" * 1_000_000])
def test_what_is_not_json_is_one_exception(text: bytes) -> None:
    with pytest.raises(NotJson):
        json_text.decode(text)


def test_whole_numbers_beyond_64_bits_are_floats_as_in_kubernetes() -> None:
    """Workers of one run hand on what was read in a format that has no larger ones."""
    nines = "9" * 20
    text = f'{{"a": [{2**64 - 1},{-(2**63)}], "b":{2**64}, "c": "x: {nines}, \\" {nines}"}}'
    found = json_text.decode(text)
    assert found == {"a": [2**64 - 1, -(2**63)], "b": float(2**64), "c": f'x: {nines}, " {nines}'}
    assert type(found["b"]) is float
    assert json_text.decode('{"a":[-99999999999999999999]}') == {"a": [-1e20]}
    assert json_text.decode('{"a": 99999999999999999999.5}') == {"a": 1e20}
    with pytest.raises(NotJson):
        json_text.decode(f'{{"a": {"9" * 400}}}')


def test_looking_at_depth_goes_through_a_text_as_often_however_long_it_is() -> None:
    def passes(size: int) -> int:
        text = b"[" + (nest(limits.JSON_DEPTH - 2) + ",").encode() * size + b"1]"
        return steps(lambda: check_depth(text))

    assert passes(8_000) == passes(100) < 4 * limits.JSON_DEPTH


@pytest.mark.parametrize(
    "text", [b" " + b"1" * 20 + b" %b", b"[" * 200 + b"]" * 200 + b', {"managedFields": ["%b'], ids=["long number", "deep member"]
)
def test_a_string_that_is_never_closed_is_looked_through_once(text: bytes) -> None:
    """Looked through again from each of its quotes, it would take hours."""
    with pytest.raises(NotJson):
        json_text.decode(text % (b'\\"' * 1_000_000))


# -- bytes and time --------------------------------------------------------------------------------------


def test_a_body_without_end_is_read_up_to_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_BYTES", 8 << 20)
    with lying(tmp_path, every(Said(itertools.repeat(b" " * (1 << 20))))) as (cluster, _):
        with pytest.raises(ApiTrouble) as caught:
            cluster.get("pods", "p", "default")
        assert caught.value.code == "TooLarge"
        assert cluster.requests().bytes < 16 << 20


def test_objects_filled_to_the_brim_are_read_by_smaller_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may create objects may give each of them 256 KiB of annotations: ninety are enough for a page that is too large."""
    full = {"labels": {"team": "a"}, "annotations": {"a": "\x01" * 10_000}}
    names = {f"full-{number}" for number in range(60)}
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **full}} for name in names]
    monkeypatch.setattr(limits, "BODY_BYTES", 1 << 20)
    with served(tmp_path, spaces) as (cluster, _):
        before = cluster.requests().count
        assert names <= {item["metadata"]["name"] for item in cluster.each("namespaces")}
        assert cluster.requests().count - before < 20
        assert names <= {item["metadata"]["name"] for item in View.of(cluster).select("namespaces", labels="team=a")}
        assert names <= {item.name for item in collect(cluster, ["namespaces"], version="").namespaces}


def test_what_an_answer_says_of_itself_is_cut(tmp_path: Path) -> None:
    long = "A" * 3_000_000
    with lying(tmp_path, every(status(403, long, long))) as (cluster, _):
        answer = cluster.get("pods", "p", "default")
        assert len(answer.reason) == len(answer.message) == limits.MESSAGE_CHARACTERS
    snapshot, _ = read_pods(tmp_path, every(status(403, long, long)))
    with pytest.raises(Inconclusive) as caught:
        _ = snapshot.pods
    assert len(caught.value.code) == limits.MESSAGE_CHARACTERS
    with lying(tmp_path, every(reported({"gitVersion": f"v1.36.{long}"}))) as (cluster, _):
        assert cluster.probe() == f"v1.36.{long}"[: limits.VERSION_CHARACTERS]


def test_a_packed_body_is_not_unpacked(tmp_path: Path) -> None:
    bomb = gzip.compress(b" " * (1 << 20))
    with (
        lying(tmp_path, every(Said(bomb, headers={"Content-Encoding": "gzip"}))) as (cluster, _),
        pytest.raises(ApiTrouble, match="compressed"),
    ):
        cluster.get("pods", "p", "default")


def slowly(first: bytes = b"") -> Iterator[bytes]:
    yield first
    while True:
        time.sleep(0.05)
        yield b" "


def test_a_deadline_is_for_the_whole_request(tmp_path: Path) -> None:
    with lying(tmp_path, lambda asked: Said(slowly(b"{"))) as (cluster, asked):
        with pytest.raises(ApiTrouble) as caught:
            cluster.request("GET", "/api/v1/pods", seconds=0.6)
        assert caught.value.code == "Timeout"
        assert len(asked) == 1, "no time is left for another attempt"


def test_a_head_has_to_come_in_time_as_well(tmp_path: Path) -> None:
    def drip(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            connection.sendall(b"a")
            time.sleep(0.05)

    with answering(drip) as port:
        cluster = Cluster.from_kubeconfig(kubeconfig(tmp_path, f"http://127.0.0.1:{port}"))
        with pytest.raises(ApiTrouble) as caught:
            cluster.request("GET", "/version", attempts=1, seconds=0.6)
        assert caught.value.code == "Timeout"


def test_who_is_always_late_costs_the_time_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATIENCE_SECONDS", 0.1)
    with lying(tmp_path, lambda asked: Said(slowly()) if "pods" in asked.path else reported(an_object("Node", "n"))) as (cluster, _):
        given = []
        for _ in range(8):
            with pytest.raises(ApiTrouble) as caught:
                cluster.request("GET", "/api/v1/pods", seconds=1.0)
            given.append(caught.value.message.rpartition(" within ")[2])
        assert given == ["1 s", "0.5 s", "0.25 s", "0.125 s", *["0.1 s"] * 4]
        assert cluster.get("nodes", "n").ok, "others are not the slower for it"


def test_who_is_always_throttled_is_asked_less_each_time_and_again_as_before_once_he_answers(tmp_path: Path) -> None:
    refusing = [True]
    created = reported(an_object("Pod", "p"), 201)
    refused = Said(status(429, "TooManyRequests").body, 429, {"Retry-After": "soon"})
    with lying(tmp_path, lambda asked: refused if refusing[0] else created) as (cluster, asked):

        def requests_of_a_creation() -> int:
            before = len(asked)
            with suppress(ApiTrouble):
                cluster.request("POST", "/api/v1/namespaces/d/pods", body=an_object("Pod", "p"))
            return len(asked) - before

        counts = [requests_of_a_creation() for _ in range(6)]
        assert counts[0] > 2
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] == 2
        refusing[0] = False
        assert requests_of_a_creation() == 1
        refusing[0] = True
        assert requests_of_a_creation() == counts[0]


def test_half_a_body_is_no_answer(tmp_path: Path) -> None:
    body = json.dumps(an_object("Pod", "p")).encode()
    with lying(tmp_path, every(Said(body, headers={"Content-Length": str(len(body) * 2)}))) as (cluster, asked):
        with pytest.raises(ApiTrouble) as caught:
            cluster.request("GET", "/api/v1/namespaces/d/pods/p", attempts=2)
        assert caught.value.code == "ConnectionFailed"
        assert len(asked) == 2


# -- heads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["²", "-5", "", "x", "1e9", "9" * 400, "0x10", "Wed, 21 Oct 2065 07:28:00 GMT", "٣"])
def test_an_odd_retry_after_is_no_crash_and_no_wait(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("fixtures.cluster.client._pause", pauses.append)
    refusal = Said(status(429, "TooManyRequests").body, 429, {"Retry-After": text.encode().decode("latin-1")})
    with lying(tmp_path, every(refusal)) as (cluster, asked):
        with pytest.raises(ApiTrouble) as caught:
            cluster.request("GET", "/api/v1/pods", attempts=3, seconds=10)
        assert caught.value.code == "TooManyRequests"
        assert all(pause < 1 for pause in pauses)
        assert len(asked) <= 3


@pytest.mark.parametrize(
    "headers",
    [{"Warning": "²"}, {"Warning": '299 - "' + "a" * 60_000}, {"Content-Type": "²"}, {"Content-Length": "²"}, {"Location": "//²"}],
)
def test_odd_heads_are_no_crash(tmp_path: Path, headers: dict[str, str]) -> None:
    body = json.dumps(an_object("Pod", "p")).encode()
    odd = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    with lying(tmp_path, every(Said(body, headers=odd))) as (cluster, _):
        try:
            answer = cluster.request("GET", "/api/v1/namespaces/d/pods/p", attempts=1, seconds=2)
        except ApiTrouble:
            return
        assert answer.ok
        assert all(len(text) <= limits.MESSAGE_CHARACTERS for text in answer.warnings)


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (_CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-a: b\r\n"),
        (_CHUNKED + b"5;", b"a" * 1000),
        (_CHUNKED + b"-5\r\nabc\r\n0\r\n\r\n", b""),
        (_CHUNKED + b"zz\r\nabc", b""),
        (_CHUNKED + b"f" * 3000 + b"\r\nabc", b""),
        (b"HTTP/1.1 -200 OK\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 500\r\n\r\n{}", b""),
        (b"HTTP/1.1 200 OK\r\n", b"X: a\r\n" * 100),
        (b"<html>hello</html>", b""),
    ],
    ids=[
        *("100 for ever", "trailers for ever", "a chunk's head for ever", "a negative chunk", "no number", "a huge chunk"),
        *("a negative status", "two lengths", "heads for ever", "no head"),
    ],
)
def test_bytes_that_are_no_http_are_trouble(tmp_path: Path, first: bytes, then: bytes) -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(first)
        while then:
            connection.sendall(then)

    with answering(talk) as port:
        cluster = Cluster.from_kubeconfig(kubeconfig(tmp_path, f"http://127.0.0.1:{port}"))
        with pytest.raises(ApiTrouble):
            cluster.request("GET", "/api/v1/pods", attempts=2, seconds=2)


@contextmanager
def answering(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that talks to each connection in a thread of its own, and closes it then."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                talk(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def test_a_watch_opens_where_the_server_closes_the_connection_of_the_list(tmp_path: Path) -> None:
    """It closes each connection after one answer and does not say so. Its watches stay open."""
    body = json.dumps(a_list("Pod", an_object("Pod", "a"))).encode()
    ended = threading.Event()

    def once(connection: socket.socket) -> None:
        if b"watch=true" in connection.recv(65536):
            connection.sendall(_CHUNKED)
            ended.wait(PATIENCE)
        else:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            time.sleep(0.2)  # the next request is on its way

    with answering(once) as port:
        cluster = Cluster.from_kubeconfig(kubeconfig(tmp_path, f"http://127.0.0.1:{port}"))
        with Observation(cluster, "pods", "default") as observation:
            assert observation.objects.keys() == {"default/a"}
        assert cluster.requests().by_verb_and_resource["list pods"] == 1
        ended.set()


def test_a_redirection_is_not_followed(tmp_path: Path) -> None:
    with lying(tmp_path, every(Said(b"", 307, {"Location": "/api/v1/pods?again=true"}))) as (cluster, asked):
        with pytest.raises(ApiTrouble, match="redirect"):
            cluster.request("GET", "/api/v1/pods")
        assert len(asked) == 1


# -- pages -----------------------------------------------------------------------------------------------


def refused(snapshot: Any) -> str:
    with pytest.raises(Inconclusive) as caught:
        _ = snapshot.pods
    return caught.value.code


def page_of(number: int, period: int) -> Said:
    """A page with a pod of its own, and one of ``period`` tokens."""
    return reported(a_list("Pod", an_object("Pod", f"p{number}"), token=f"t{number % period}"))


@pytest.mark.parametrize("period", [1, 2, 5])
def test_a_continue_token_that_comes_again_ends_the_list(tmp_path: Path, period: int) -> None:
    numbers = itertools.count()
    snapshot, asked = read_pods(tmp_path, lambda request: page_of(next(numbers), period))
    assert refused(snapshot) == "Endless"
    assert len(asked) <= period + 4


@pytest.mark.parametrize(("name", "value"), [("LIST_PAGES", 20), ("LIST_BYTES", 4_000), ("LIST_SECONDS", 0.2)])
def test_a_list_of_ever_new_pages_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: float) -> None:
    monkeypatch.setattr(limits, name, value)
    numbers = itertools.count()
    snapshot, _ = read_pods(tmp_path, lambda request: page_of(next(numbers), 1_000_000))
    assert refused(snapshot) == "TooLarge"


def test_the_same_page_under_ever_new_tokens_is_no_list(tmp_path: Path) -> None:
    """Whoever drops the query of a request gives the first page for each."""
    numbers = itertools.count()
    snapshot, asked = read_pods(tmp_path, lambda request: reported(a_list("Pod", an_object("Pod", "p"), token=f"t{next(numbers)}")))
    assert refused(snapshot) == "Unreadable"
    assert len(asked) <= 6


# -- watches ---------------------------------------------------------------------------------------------


def watched(tmp_path: Path, events: Callable[[], Said], seconds: float = 60) -> tuple[ApiTrouble | None, int]:
    """What a watch of pods comes to, and how often one was opened."""
    pods = a_list("Pod", an_object("Pod", "p"))
    later = {**pods, "metadata": {"resourceVersion": "1000000000"}}
    lists = itertools.chain([pods], itertools.repeat(later))
    with lying(tmp_path, lambda asked: events() if asked.query.get("watch") else reported(next(lists))) as (cluster, asked):
        trouble = None
        try:
            with Observation(cluster, "pods", "default") as observation:
                for objects in observation.until(time.monotonic() + seconds):
                    assert all(obj["metadata"]["name"] for obj in objects.values())
        except ApiTrouble as raised:
            trouble = raised
        return trouble, sum(bool(request.query.get("watch")) for request in asked)


def at_version(name: str, version: str, uid: str = "") -> dict[str, Any]:
    """A pod of a version. :func:`a_list` is of version 9."""
    pod = an_object("Pod", name)
    return {**pod, "metadata": {**pod["metadata"], "resourceVersion": version, **({"uid": uid} if uid else {})}}


def event(kind: str, obj: object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


BRIEF = {
    "nothing": b"",
    "a bookmark": event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9"}}),
    "the same object": event("MODIFIED", at_version("p", "10")),
    "an older object": event("MODIFIED", an_object("Pod", "p")),
    "another object's end": event("DELETED", at_version("p", "10", uid="another")),
    "expired": event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}),
    "a page": b"<html>\n<body>\n",
    "no object": event("MODIFIED", [1]),
    "an object without a name": event("DELETED", {}),
    "metadata that is true": event("BOOKMARK", {"metadata": True}),
    "another kind": event("DELETED", an_object("Secret", "p")),
    "another type": event("PATCHED", an_object("Pod", "p")),
    "a nest": b'{"type":"MODIFIED","object":' + nest(1_500).encode() + b"}\n",
}


@pytest.mark.parametrize("name", BRIEF)
def test_watches_that_end_at_once_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(limits, "BRIEF_WATCHES", 4)
    trouble, opened = watched(tmp_path, lambda: Said(BRIEF[name]))
    assert trouble is not None
    assert trouble.code == "WatchEnds"
    assert opened <= 6


def test_an_event_without_end_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENT_BYTES", 4 << 20)
    monkeypatch.setattr(limits, "BRIEF_WATCHES", 1)
    monkeypatch.setattr(limits, "BRIEF_SECONDS", 30.0)
    trouble, opened = watched(tmp_path, lambda: Said(itertools.repeat(b"a" * (1 << 20))))
    assert trouble is not None
    assert opened <= 3


def test_a_flood_of_events_ends_at_the_deadline(tmp_path: Path) -> None:
    flood = (event("MODIFIED", at_version("p", str(version))) for version in itertools.count(10))
    trouble, opened = watched(tmp_path, lambda: Said(flood), seconds=0.5)
    assert trouble is None
    assert opened == 1


def test_a_silent_watch_ends_at_the_deadline_too(tmp_path: Path) -> None:
    ended, outlasted = threading.Event(), threading.Event()

    def silence() -> Iterator[bytes]:
        if not ended.wait(60):
            outlasted.set()
        yield b""

    trouble, _ = watched(tmp_path, lambda: Said(silence()), seconds=0.3)
    ended.set()
    assert trouble is None
    assert not outlasted.is_set(), "the watch ended before the silence"


@pytest.mark.parametrize("stated", [b"", event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})], ids=["nothing", "bookmarks"])
def test_where_watches_are_silent_later_waits_see_changes_by_lists(tmp_path: Path, stated: bytes) -> None:
    """A proxy that forwards no event must not cost each probe the whole time that a pod may take to start."""
    ended, lists = threading.Event(), itertools.count(1)

    def silence() -> Iterator[bytes]:
        if stated:
            yield stated
        ended.wait(PATIENCE)
        yield b""

    def answered(asked: Asked) -> Said:
        if asked.query.get("watch"):
            return Said(silence())
        return reported(a_list("Pod", *(an_object("Pod", f"p{number}") for number in range(next(lists)))))

    with lying(tmp_path, answered) as (cluster, _):
        with Observation(cluster, "pods", "default") as observation:
            assert [len(objects) for objects in observation.until(time.monotonic() + 0.3)] == [1, 2]
        deadline = time.monotonic() + PATIENCE
        with Observation(cluster, "pods", "default") as observation:
            assert [len(objects) for _, objects in zip(range(3), observation.until(deadline), strict=False)] == [3, 4, 5]
        assert time.monotonic() < deadline - PATIENCE / 2
        ended.set()
