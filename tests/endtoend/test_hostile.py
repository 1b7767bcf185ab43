"""Hostile text from a cluster leads nowhere: the run ends properly, reports show it as text, credentials stay out."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
import yaml
from lxml import etree
from prometheus_client.parser import text_string_to_metric_families

from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.verdict.record import Verdict
from tests.endtoend.hostile import SECRETS, objects
from tests.endtoend.runs import Finished, run_suite
from tests.served import served

pytestmark = pytest.mark.test_all

PROPER = (0, 1, 10)
SCHEMAS = Path(__file__).parents[1] / "reports" / "schemas"
CTRF = jsonschema.Draft7Validator(json.loads((SCHEMAS / "ctrf-1.0.json").read_bytes()))
SARIF = jsonschema.Draft4Validator(json.loads((SCHEMAS / "sarif-2.1.0.json").read_bytes()))
MARKER = "kubeconfigTokenMarker4711"


class Page(HTMLParser):
    """What a browser would make of a report: elements, and attributes that do something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.handlers: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.handlers += [f"{tag} {name}" for name, _ in attrs if name.startswith("on")]
        self.addresses += [str(value) for name, value in attrs if name in ("href", "src", "action", "formaction", "xlink:href")]


def texts(folder: Path, done: Finished) -> dict[str, str]:
    """Every file of the report, and the output."""
    files = {str(file.relative_to(folder)): file.read_text(errors="replace") for file in (folder / "report").rglob("*") if file.is_file()}
    return {**files, "output": done.output}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, dict[str, str]]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects()}))
    done = run_suite(folder, "--snapshot", str(folder / "cluster.json"), "--evidence")
    return done, texts(folder, done)


def test_the_run_ends_properly_and_every_requirement_with_a_verdict(judged: tuple[Finished, dict[str, str]]) -> None:
    done, _ = judged
    assert done.code in PROPER, done.output[-3000:]
    assert "Traceback" not in done.output
    assert "INTERNALERROR" not in done.output
    assert [(r.id, r.message) for r in done.record.results if r.verdict is Verdict.ERROR] == []
    failed = {result.id for result in done.record.results if result.verdict is Verdict.FAILED}
    assert {"FENCE-01", "PSA-05", "REQ-02"} <= failed, "what is wrong with this cluster must be found all the same"


def test_the_page_holds_no_element_and_no_handler_of_theirs(judged: tuple[Finished, dict[str, str]], tmp_path: Path) -> None:
    page = Page(judged[1]["report/report.html"])
    plain = run_suite(tmp_path, "--simulate", "healthy", "--read-only", "-k", "fence")
    usual = Page((tmp_path / "report" / "report.html").read_text())
    assert plain.code == 0
    assert page.elements.count("script") == usual.elements.count("script")
    assert page.handlers == []
    assert set(page.elements) & {"img", "iframe", "object", "embed", "x"} == set()
    for element in ("form", "style", "link", "meta", "title"):
        assert page.elements.count(element) == usual.elements.count(element), element
    assert [url for url in page.addresses if not url.startswith(("https://", "http://", "#", "data:"))] == []
    for text in ("<script>alert", "<img src=x", "<svg/onload", "alert(2)>"):
        assert text not in judged[1]["report/report.html"]


def test_what_people_read_moves_no_cursor_and_reorders_nothing(judged: tuple[Finished, dict[str, str]]) -> None:
    for name in ("output", "report/report.html", "report/report.md", "report/junit.xml"):
        assert re.findall("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff]", judged[1][name]) == [], name


def test_every_format_keeps_to_its_schema(judged: tuple[Finished, dict[str, str]]) -> None:
    found = judged[1]
    assert [error.message for error in CTRF.iter_errors(json.loads(found["report/ctrf.json"]))] == []
    assert [error.message for error in SARIF.iter_errors(json.loads(found["report/report.sarif"]))] == []
    junit = etree.XMLSchema(etree.parse(str(SCHEMAS / "jenkins-junit.xsd")))
    assert junit.validate(etree.fromstring(found["report/junit.xml"].encode())), junit.error_log
    assert len(list(text_string_to_metric_families(found["report/metrics.prom"]))) > 10
    assert json.loads(found["report/evidence/index.json"])["complete"] is True


def test_no_file_and_no_output_holds_a_credential(judged: tuple[Finished, dict[str, str]]) -> None:
    for name, text in judged[1].items():
        assert [secret for secret in SECRETS if secret in text] == [], name


def test_megabytes_stay_out_of_what_people_read(judged: tuple[Finished, dict[str, str]]) -> None:
    assert "A" * 5_000 not in judged[1]["report/report.html"]
    assert max(map(len, judged[1]["output"].splitlines())) < 3_000  # the longest names each kind that was not saved
    assert len(judged[1]["report/report.html"]) < 8 << 20


# -- the suite's own credentials ----------------------------------------------------------------------


def test_a_live_cluster_of_hostile_text_ends_properly_too(tmp_path: Path) -> None:
    with served(tmp_path, [item for item in objects() if item["kind"] in ("Node", "Pod", "Namespace")]):
        done = run_suite(tmp_path, "--kubeconfig", str(tmp_path / "kubeconfig"), "--read-only", "--evidence", "-v", "-rA", "--showlocals")
    found = texts(tmp_path, done)
    assert done.code in PROPER, done.output[-2000:]
    assert "Traceback" not in done.output
    assert "report/report.json" in found
    assert [name for name, text in found.items() if any(secret in text for secret in SECRETS)] == []


def test_the_token_of_a_kubeconfig_appears_nowhere(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    with EmbeddedCluster.start("healthy,fence-untainted-gpu-node", tmp_path / "cluster") as cluster:
        tokens = [user["user"]["token"] for user in yaml.safe_load(cluster.kubeconfig.read_text())["users"]]
        policy = tmp_path / "policy.yaml"
        policy.write_text("probes: {windowSeconds: 1, startSeconds: 20}\n")
        done = run_suite(
            tmp_path, "--kubeconfig", str(cluster.kubeconfig), "--policy", str(policy), "--evidence", "-v", "-rA", "--showlocals"
        )
    found = texts(tmp_path, done)
    assert done.code == 1, done.output[-2000:]
    assert "report/report.json" in found
    assert tokens
    assert [name for name, text in found.items() if any(token in text for token in tokens)] == []


def test_a_token_that_is_refused_appears_nowhere_either(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    with EmbeddedCluster.start("healthy", tmp_path / "cluster") as cluster:
        document = yaml.safe_load(cluster.kubeconfig.read_text())
        for user in document["users"]:
            user["user"] = {"token": MARKER}
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
        done = run_suite(tmp_path, "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert done.code == 4, done.output
    assert "401" in done.output
    assert "Traceback" not in done.output
    assert [name for name, text in texts(tmp_path, done).items() if MARKER in text] == []
