"""Conditions that a user gives: how they are read, what answers mean, and what never reaches a report."""

import os
import select
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from chaos.observe import user_conditions
from chaos.observe.user_conditions import Answer, Asking, ConditionTextError, UserCondition, ask, parse_user_condition
from chaos.observe.view import NoData
from tests.certificates import needs_openssl, of_loopback
from tests.tables import each_row


class Server(HTTPServer):
    """Answers every request alike, and keeps what it was asked."""

    status, body, location = 200, b"", ""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.asked.append((self.path, self.headers.get("Authorization", "")))
        self.send_response(server.status)
        if server.location:
            self.send_header("Location", server.location)
        self.send_header("Content-Length", str(len(server.body)))
        self.end_headers()
        self.wfile.write(server.body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield made
        made.shutdown()


def asked(text: str) -> Answer | str:
    try:
        return ask(parse_user_condition(text))
    except NoData as error:
        return str(error)


@each_row
def test_a_text_that_is_no_condition_is_refused_with_what_was_expected(text: str, says: str) -> None:
    with pytest.raises(ConditionTextError) as refused:
        parse_user_condition(text)
    assert says in str(refused.value)
    assert "hunter2" not in str(refused.value)


@each_row
def test_reports_show_neither_arguments_nor_the_query_of_an_address(text: str, shown: str) -> None:
    assert str(parse_user_condition(text)) == shown


@each_row
def test_an_exit_code_says_yes_or_no_and_any_other_says_nothing(text: str, holds: bool | None, says: str) -> None:
    found = asked(text)
    assert (found.holds if isinstance(found, Answer) else None) is holds
    assert says in str(found)


def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(user_conditions, "SECONDS", 3.0)
    pid = tmp_path / "pid"
    assert "did not end" in str(asked(f"command sh -c 'sleep 60 & echo $! > {pid}; wait'"))
    with suppress(ProcessLookupError):
        left = os.pidfd_open(int(pid.read_text()))
        assert select.select([left], [], [], 30)[0]
        os.close(left)


@each_row
def test_what_prometheus_answers(server: Server, body: str, status: int, holds: bool | None, says: str) -> None:
    server.body, server.status = body.encode(), status
    found = asked(f"promql {server.url} 'sum(errors) > 5'")
    assert (found.holds if isinstance(found, Answer) else None) is holds
    assert says in str(found)
    assert server.asked[0][0] == "/api/v1/query?query=sum%28errors%29+%3E+5"


def test_an_answer_without_end_is_cut_and_says_nothing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_conditions, "MAX_BYTES", 1000)
    server.body = b" " * 2000
    assert "longer" in str(asked(f"promql {server.url} up"))


@pytest.mark.parametrize(("status", "holds"), [(200, True), (204, True), (404, False), (503, False)])
def test_a_page_holds_by_its_status(server: Server, status: int, holds: bool) -> None:
    server.status = status
    assert asked(f"http {server.url}/healthz") == Answer(holds=holds, value=f"status {status}")
    assert asked(f"not http {server.url}/healthz") == Answer(holds=not holds, value=f"status {status}")


def test_a_redirect_is_not_followed(server: Server) -> None:
    server.status, server.location = 302, server.url + "/elsewhere"
    assert "redirects are not followed" in str(asked(f"http {server.url}/a"))
    assert [path for path, _ in server.asked] == ["/a"]


@needs_openssl
def test_a_token_goes_only_to_a_server_whose_certificate_is_trusted(server: Server, tmp_path: Path) -> None:
    token = tmp_path / "token"
    context, certificate = of_loopback(tmp_path)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    token.write_text("hunter2\n")
    url = server.url.replace("http:", "https:")
    assert "not trusted" in str(asked(f"http token-file={token} {url}/healthz"))
    assert server.asked == []
    assert asked(f"http ca-file={certificate} token-file={token} {url}/healthz") == Answer(holds=True, value="status 200")
    assert server.asked == [("/healthz", "Bearer hunter2")]


def test_an_old_answer_is_no_answer() -> None:
    """The one that hangs is not asked again, and what it said before is not repeated for ever."""
    answers = iter([Answer(holds=False, value="exit code 1")])
    hanging = threading.Event()

    def once(_: UserCondition) -> Answer:
        found = next(answers, None)
        if found is None:
            hanging.wait(30)
            raise NoData("no answer")
        return found

    with Asking([UserCondition(kind="command", argv=("x",))], 0.01, once) as asking:
        while not asking._latest:
            threading.Event().wait(0.01)
        assert not asking.latest(0).holds
        at, found = asking._latest[0]
        asking._latest[0] = (at - 60, found)
        with pytest.raises(NoData, match="no answer for"):
            asking.latest(0)
        hanging.set()
