"""The results of a run reach each destination whole, or the job says which they did not reach."""

import base64
import gzip
import json
import os
import stat
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from conformance.delivery import destinations, files
from conformance.delivery.destinations import Destination, Kind, deliver, parse
from conformance.delivery.outcome import DeliveryError, Outcome, archive, line, outcome_of
from fixtures.cluster.client import Cluster
from fixtures.verdict.record import TargetKind
from reports.folder import write_all
from tests.certificates import needs_openssl, of_loopback
from tests.hostile.faults import effects
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.reports.sample_report import HOSTILE, sample_report
from tests.served import served
from tests.tables import each_row

RUN = "20261121-103000-7f3a"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-conformance"}}
PLACE = "gpu-conformance/result"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    report = sample_report()
    report.run.id = RUN
    write_all(report, tmp_path / "report")
    return tmp_path / "report"


def an_outcome() -> Outcome:
    report = sample_report()
    report.run.id = RUN
    return outcome_of(report, report.exit_code)


# -- the last line ---------------------------------------------------------------------------------------------------------


def test_the_last_line_says_what_was_judged_and_that_it_was_simulated() -> None:
    reported = json.loads(line(an_outcome()))["gpuConformance"]
    values = [reported[key] for key in ("target", "simulated", "exitCode", "runId")]
    assert values == ["simulated", True, sample_report().exit_code, RUN]
    assert "FENCE-01" in reported["failed"]
    assert json.loads(line(outcome_of(sample_report(TargetKind.LIVE), 0)))["gpuConformance"]["simulated"] is False


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_a_cluster_is_called_it_stays_one_line_of_ascii(text: str) -> None:
    report = sample_report()
    report.target.cluster_uid = report.target.kubernetes_version = report.run.id = text
    reported = line(outcome_of(report, 1))
    assert reported.isascii()
    assert reported.isprintable()
    assert json.loads(reported)["gpuConformance"]["exitCode"] == 1


# -- destinations -----------------------------------------------------------------------------------------------------------


@each_row
def test_what_is_no_destination_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no destination|is not NAMESPACE/NAME|must be absolute"):
        parse(text)


def test_sonobuoy_names_its_folder_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse("sonobuoy").place == "/tmp/sonobuoy/results"
    monkeypatch.setenv("SONOBUOY_RESULTS_DIR", "/elsewhere")
    assert parse("sonobuoy") == Destination(Kind.SONOBUOY, "/elsewhere")


def test_a_config_map_is_made_and_then_replaced(folder: Path, tmp_path: Path) -> None:
    with served(tmp_path, [NAMESPACE]) as (cluster, _):
        assert destinations.write_config_map(cluster, PLACE, folder, an_outcome()) == f"ConfigMap {PLACE}"
        first = cluster.get("configmaps", "result", "gpu-conformance").json()
        assert json.loads(first["data"]["summary.json"])["gpuConformance"]["runId"] == RUN
        record = gzip.decompress(base64.b64decode(first["binaryData"]["report.json.gz"]))
        assert record == (folder / "report.json").read_bytes()
        assert "SIMULATED CLUSTER" in first["data"]["report.md"]
        (folder / "report.md").unlink()
        (folder / "report.json").unlink()
        destinations.write_config_map(cluster, PLACE, folder, outcome_of(None, 3))
        second = cluster.get("configmaps", "result", "gpu-conformance").json()
    assert list(second["data"]) == ["summary.json"]  # nothing of an earlier run is left beside it
    assert not second.get("binaryData")


def test_the_config_map_of_somebody_else_is_left_alone(folder: Path, tmp_path: Path) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "result", "namespace": "gpu-conformance"}, "data": {"a": "b"}}
    with served(tmp_path, [NAMESPACE, theirs]) as (cluster, _):
        with pytest.raises(DeliveryError, match="not the suite's"):
            deliver(parse(f"configmap={PLACE}"), folder, an_outcome(), cluster, keep=1)
        assert cluster.get("configmaps", "result", "gpu-conformance").json()["data"] == {"a": "b"}


def test_results_that_the_cluster_does_not_show_are_not_delivered(folder: Path, tmp_path: Path) -> None:
    """Last week's verdict would be read as this one's."""
    fault = Fault(name="not done", verb="patch", resource="configmaps", effect=effects.not_done, times=ALWAYS)
    with served(tmp_path, [NAMESPACE]) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [fault]):
        destinations.write_config_map(cluster, PLACE, folder, outcome_of(None, 1))
        with pytest.raises(DeliveryError, match="does not show it"):
            destinations.write_config_map(Cluster.from_kubeconfig(tmp_path / "proxied"), PLACE, folder, outcome_of(None, 0))


def test_a_record_that_is_too_large_is_left_out_and_reported(folder: Path, tmp_path: Path) -> None:
    (folder / "report.json").write_bytes(os.urandom(destinations.MAX_BINARY + 1))
    with served(tmp_path, [NAMESPACE]) as (cluster, _):
        assert destinations.write_config_map(cluster, PLACE, folder, an_outcome()).endswith("without report.json.gz: too large")
        assert not cluster.get("configmaps", "result", "gpu-conformance").json().get("binaryData")


def test_a_refused_config_map_is_reported_with_its_cause(folder: Path, tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        with pytest.raises(DeliveryError, match="cannot create the ConfigMap: 404 NotFound"):
            deliver(parse(f"configmap={PLACE}"), folder, an_outcome(), cluster, keep=1)
    with pytest.raises(DeliveryError, match="no cluster"):
        deliver(parse(f"configmap={PLACE}"), folder, an_outcome(), None, keep=1)


def test_a_volume_keeps_the_last_runs_and_nothing_of_others(folder: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    for name in ("lost+found", "20261119-103000-0001", "20261120-103000-0002", "notes"):
        (volume / name).mkdir(parents=True)
    assert files.copy(folder, volume, an_outcome(), keep=2) == f"folder {volume / RUN}, 1 older removed"
    assert sorted(path.name for path in volume.iterdir()) == [
        "20261120-103000-0002",
        RUN,
        "history.jsonl",
        "latest.json",
        "lost+found",
        "notes",
    ]
    assert (volume / RUN / "report.html").read_bytes() == (folder / "report.html").read_bytes()
    assert files.copy(folder, volume, an_outcome(), keep=2) == f"folder {volume / RUN}"  # again, in place of the first


@pytest.mark.parametrize("run_id", ["", "../../etc", "a/b", ".."])
def test_a_run_id_never_leads_out_of_the_volume(folder: Path, tmp_path: Path, run_id: str) -> None:
    outcome = an_outcome()
    outcome.run_id = run_id
    (tmp_path / "volume").mkdir()
    with pytest.raises(DeliveryError, match="no report"):
        files.copy(folder, tmp_path / "volume", outcome, keep=2)


def test_a_volume_that_is_not_mounted_is_reported(folder: Path) -> None:
    with pytest.raises(DeliveryError, match=r"folder=/nowhere: no such folder"):
        deliver(parse("folder=/nowhere"), folder, an_outcome(), None, keep=1)


def test_metrics_land_whole_and_readable_for_another_user(folder: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        files.textfile(folder, tmp_path)
    finally:
        os.umask(before)
    landed = tmp_path / "gpu_conformance.prom"
    assert landed.read_bytes() == (folder / "metrics.prom").read_bytes()
    assert stat.S_IMODE(landed.stat().st_mode) == 0o644
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["gpu_conformance.prom"]


def test_metrics_are_swapped_in_one_step(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landed = tmp_path / "gpu_conformance.prom"
    landed.write_text("old\n")
    seen: list[list[str]] = []

    def replace(self: Path, target: Path) -> Path:
        seen.append([path.name for path in tmp_path.glob("*.prom")])
        assert landed.read_text() == "old\n"
        os.replace(self, target)
        return target

    monkeypatch.setattr(Path, "replace", replace)
    files.textfile(folder, tmp_path)
    assert seen == [["gpu_conformance.prom"]]  # a collector that looks now finds the old one, and nothing half written
    assert landed.read_text() != "old\n"


def test_sonobuoy_finds_the_archive_that_done_names(folder: Path, tmp_path: Path) -> None:
    results = tmp_path / "sonobuoy" / "results"
    files.sonobuoy(folder, results)
    named = Path((results / "done").read_text())
    assert named == results / "results.tar.gz"
    with tarfile.open(named) as tar:
        members = {member.name: member for member in tar.getmembers()}
    assert {"junit.xml", "report.json", "report.html"} <= set(members)
    assert {member.mode for member in members.values()} == {0o644}
    assert all(stat.S_IMODE((results / name).stat().st_mode) == 0o644 for name in ("done", "results.tar.gz"))


def test_done_is_written_last(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "results.tar.gz").mkdir()  # so that the archive cannot be written
    with pytest.raises(OSError, match="directory"):
        files.sonobuoy(folder, tmp_path)
    assert not (tmp_path / "done").exists()


# -- object store -------------------------------------------------------------------------------------------------------------


class Store(HTTPServer):
    """Takes one object a request; answers with ``status`` and ``location``."""

    status = 200
    location = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.taken: list[tuple[str, bytes]] = []


class Handler(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        assert isinstance(self.server, Store)
        self.server.taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def url_file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "url"
    file.write_text(text)
    return file


def test_a_presigned_url_gets_the_archive(folder: Path, tmp_path: Path, store: Store) -> None:
    url = f"http://127.0.0.1:{store.server_port}/bucket/key.tar.gz?X-Amz-Signature=secret&X-Amz-Expires=60"
    assert files.put(folder, url_file(tmp_path, url + "\n")) == "object store 127.0.0.1"
    ((path, body),) = store.taken
    assert path == "/bucket/key.tar.gz?X-Amz-Signature=secret&X-Amz-Expires=60"
    assert body == archive(folder)


@pytest.mark.parametrize(("status", "location"), [(403, ""), (500, ""), (307, "http://127.0.0.1:1/elsewhere")])
def test_a_refusal_is_reported_without_the_url_and_redirects_are_not_followed(
    folder: Path, tmp_path: Path, store: Store, status: int, location: str
) -> None:
    store.status, store.location = status, location
    file = url_file(tmp_path, f"http://127.0.0.1:{store.server_port}/b?X-Amz-Signature=secret")
    with pytest.raises(DeliveryError, match=f"127.0.0.1 refused the results: {status}") as refused:
        files.put(folder, file)
    assert "secret" not in str(refused.value)
    assert len(store.taken) == 1


@pytest.mark.parametrize(
    "text",
    ["", "secret", "http://store.example/secret", "https:///secret", "file:///secret", "https://a b/secret", "https://x/\x1b", "x" * 9000],
)
def test_what_is_no_safe_url_is_refused_and_never_shown(folder: Path, tmp_path: Path, text: str) -> None:
    with pytest.raises(DeliveryError) as refused:
        files.put(folder, url_file(tmp_path, text))
    assert "secret" not in str(refused.value)


def test_nobody_there_is_reported_without_the_url(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match=r"cannot send to 127.0.0.1: \w+$"):
        files.put(folder, url_file(tmp_path, "http://127.0.0.1:1/b?X-Amz-Signature=secret"))


@needs_openssl
def test_only_a_store_whose_certificate_is_trusted_gets_anything(
    folder: Path, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, certificate = of_loopback(tmp_path)
    store.socket = context.wrap_socket(store.socket, server_side=True)
    file = url_file(tmp_path, f"https://127.0.0.1:{store.server_port}/b?X-Amz-Signature=secret")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(DeliveryError, match=r"cannot send to 127.0.0.1: \w+$"):
        files.put(folder, file)
    assert store.taken == []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert files.put(folder, file) == "object store 127.0.0.1"
    assert len(store.taken) == 1
