"""A webhook hears of what changed since the run before, and of nothing else; its URL is never shown."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from conformance.cli.main import main
from conformance.delivery import webhook
from conformance.delivery.outcome import DeliveryError
from conformance.delivery.webhook import Form, Hook
from fixtures.verdict.record import Cause, Coverage, Level, NotJudged, TargetKind, Verdict
from reports.merge import history
from tests.reports.sample_report import HOSTILE
from tests.reports.test_history import on_day
from tests.tables import each_row

RUN = "202611{:02d}-060000-abcd"


def changed(volume: Path, *days: list[str] | None) -> webhook.Change | None:
    """What the last of some daily runs changed: FENCE-01 failed on the nodes, or was not asked."""
    for day, nodes in enumerate(days, start=1):
        made = on_day(day, nodes)
        verdict = Verdict.FAILED if nodes else Verdict.PASSED
        history.append(msgspec.structs.replace(made, verdict=verdict), volume)
    return webhook.change(volume, RUN.format(len(days)))


@each_row
def test_only_what_changed_is_sent(days: list[list[str] | None], came: list[str] | None, gone: list[str] | None, tmp_path: Path) -> None:
    found = changed(tmp_path, *days)
    assert (found and [one.key for one in found.came], found and [one.key for one in found.gone]) == (came, gone)


def test_the_run_before_of_another_cluster_is_not_the_one_before(tmp_path: Path) -> None:
    history.append(msgspec.structs.replace(on_day(1, ["gpu-1"], name="west"), verdict=Verdict.FAILED), tmp_path)
    assert changed(tmp_path, None, []) is None


def test_a_run_about_some_nodes_says_nothing_of_the_others(tmp_path: Path) -> None:
    """Nor of what was so before the next whole run."""
    bare = NotJudged(id="UPG-01", title="t", area="UPG", level=Level.MUST, cause=Cause.NODES, because="b")
    about = Coverage(requirements=2, judged=1, nodes=["gpu-2"], not_judged=[bare])
    history.append(msgspec.structs.replace(on_day(1, ["gpu-1"]), verdict=Verdict.FAILED), tmp_path)
    for day in (2, 3):
        history.append(msgspec.structs.replace(on_day(day, []), verdict=Verdict.PASSED, scope=about), tmp_path)
        assert webhook.change(tmp_path, RUN.format(day)) is None
    history.append(msgspec.structs.replace(on_day(4, ["gpu-1"]), verdict=Verdict.FAILED), tmp_path)
    assert webhook.change(tmp_path, RUN.format(4)) is None


def test_clusters_without_a_uid_are_told_apart_by_name(tmp_path: Path) -> None:
    for day, name in ((1, "west"), (2, "east")):
        made = on_day(day, ["gpu-1"], name=name)
        made.target.cluster_uid = ""
        history.append(msgspec.structs.replace(made, verdict=Verdict.FAILED), tmp_path)
    found = webhook.change(tmp_path, RUN.format(2))
    assert found is not None
    assert (found.cluster, found.before) == ("east", None)


def test_a_simulated_cluster_is_named_as_such_and_slack_calls_nobody(tmp_path: Path) -> None:
    made = on_day(1, [f"<!channel> {' '.join(HOSTILE.values())}"])
    made.target.kind = TargetKind.SIMULATED
    history.append(msgspec.structs.replace(made, verdict=Verdict.FAILED), tmp_path)
    found = webhook.change(tmp_path, RUN.format(1))
    assert found is not None
    sent = json.loads(webhook.body(found, Form.SLACK))["text"]
    assert sent.startswith("SIMULATED, no result of a real cluster: ")
    assert "<" not in sent
    assert json.loads(webhook.body(found, Form.JSON))["gpuConformance"]["simulated"] is True


def test_a_change_is_posted_once_and_a_redirect_is_not_followed(tmp_path: Path) -> None:
    taken: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200 if self.path == "/good?key=secret" else 307)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    found = changed(tmp_path, [], ["gpu-1"])
    assert found is not None
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = tmp_path / "url"
        url.write_text(f"http://127.0.0.1:{server.server_port}/good?key=secret\n")
        assert webhook.send(Hook(Form.JSON, url), found) == "webhook 127.0.0.1"
        url.write_text(f"http://127.0.0.1:{server.server_port}/moved?key=secret\n")
        with pytest.raises(DeliveryError, match="refused the results: 307") as refused:
            webhook.send(Hook(Form.JSON, url), found)
        server.shutdown()
    assert "secret" not in str(refused.value)
    assert [path for path, _ in taken] == ["/good?key=secret", "/moved?key=secret"]
    said = json.loads(taken[0][1])["gpuConformance"]
    assert (said["before"], said["now"], [cause["nodes"] for cause in said["came"]]) == ("passed", "failed", [["gpu-1"]])


@pytest.mark.parametrize("given", ["xml=/x", "json=relative", "json", "https://hooks.example/T0/secret"])
def test_what_is_no_webhook_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["job", "--in-cluster", "--to", "folder=/results", "--webhook", given])
    assert main(["job", "--in-cluster", "--webhook", "json=/x"]) == 4
    assert capsys.readouterr().err
