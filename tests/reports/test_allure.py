"""Allure results as its users expect them: names, links, steps, categories, executor, and a folder that others use too."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.verdict.record import Report, Verdict
from reports.formats import allure
from tests.reports.chaos_samples import bare, hostile_chaos
from tests.reports.sample_report import HOSTILE, hostile_report, report, result, sample_report
from tests.tables import each_row, table

TABLE = table(__file__)
GITHUB, GITLAB, JENKINS = (TABLE["ENVIRONMENTS"][name] for name in ("github", "gitlab", "jenkins"))


def items(made: Report, folder: Path, **more: Any) -> dict[str, dict[str, Any]]:
    allure.write(made, folder, environ={}, **more)
    loaded = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*-result.json")]
    return {item["name"].split()[0]: item for item in loaded}


def test_verdicts_that_share_a_status_are_reported_apart_by_name_message_parameter_and_tag(tmp_path: Path) -> None:
    found = items(sample_report(), tmp_path)
    for identifier, status, word in (
        ("FENCE-10", "passed", "warned"),
        ("REQ-02", "passed", "waived"),
        ("INV-02", "broken", "inconclusive"),
        ("PSA-04", "broken", "error"),
    ):
        item = found[identifier]
        assert item["status"] == status
        assert item["name"].endswith(f" [{word}]")
        assert item["statusDetails"]["message"].startswith(f"{word}: ")
        assert {"name": "verdict", "value": word, "excluded": True} in item["parameters"]
        assert {"name": "tag", "value": word} in item["labels"]
    assert not found["INV-01"]["name"].endswith("]")
    assert not found["FENCE-01"]["name"].endswith("]")


def test_every_verdict_but_a_pass_has_a_category_of_its_own(tmp_path: Path) -> None:
    found = items(sample_report(), tmp_path)
    rules = json.loads((tmp_path / "categories.json").read_text())
    chosen = {
        identifier: [
            rule["name"]
            for rule in rules
            if item["status"] in rule["matchedStatuses"] and re.fullmatch(rule["messageRegex"], item["statusDetails"]["message"])
        ]
        for identifier, item in found.items()
    }
    assert chosen["FENCE-01"] == ["Not conformant"]
    assert chosen["INV-02"] == ["Inconclusive: could not be judged"]
    assert chosen["PSA-04"] == ["Error of the suite"]
    assert chosen["FENCE-10"] == ["Warned: recommended, and does not hold"]
    assert chosen["REQ-02"] == ["Waived by the owner"]
    assert chosen["DRA-01"] == ["Not applicable"]
    assert chosen["INV-01"] == []


def test_links_have_the_names_of_their_pages(tmp_path: Path) -> None:
    references = [
        "Kubernetes, Taints and Tolerations: https://kubernetes.io/docs/taints/",
        "https://kubernetes.io/docs/bare/",
        "Two pages: https://a.example/1 and https://b.example/2",
        "javascript:alert(1)",
        "no address",
    ]
    [item] = items(report([result("A-1", Verdict.PASSED, references=references)]), tmp_path).values()
    assert [(link["name"], link["url"]) for link in item["links"]] == [
        ("Kubernetes, Taints and Tolerations", "https://kubernetes.io/docs/taints/"),
        ("https://kubernetes.io/docs/bare/", "https://kubernetes.io/docs/bare/"),
        ("Two pages", "https://a.example/1"),
        ("and", "https://b.example/2"),
    ]


@each_row
def test_the_executor_is_what_the_ci_system_says(environ: dict[str, str], expected: tuple[str, str, str, int], tmp_path: Path) -> None:
    allure.write(sample_report(), tmp_path, environ=environ)
    found = json.loads((tmp_path / "executor.json").read_text())
    assert (found["type"], found["buildUrl"], found["buildName"], found["buildOrder"]) == expected
    assert found["reportName"] == "GPU conformance (simulated cluster)"


@pytest.mark.parametrize("bad", ["javascript:alert(1)", "", "https://a.example/ x", *HOSTILE.values()])
def test_an_executor_never_links_to_what_is_no_address(bad: str, tmp_path: Path) -> None:
    allure.write(sample_report(), tmp_path, environ=JENKINS | {"BUILD_URL": bad, "BUILD_NUMBER": bad})
    found = json.loads((tmp_path / "executor.json").read_text())
    assert "buildUrl" not in found
    assert "buildOrder" not in found
    assert found["url"] == "https://ci.example/"


def test_a_folder_that_others_use_too_keeps_their_files(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "0-result.json").write_text("{}")
    allure.write(sample_report(), tmp_path, environ={})
    assert (tmp_path / "0-result.json").is_file()
    allure.clear(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    allure.write(hostile_report(), tmp_path / "a", environ=dict.fromkeys((*GITHUB, *JENKINS), HOSTILE["script"]))
    allure.write(bare(hostile_chaos()), tmp_path / "b", hostile_chaos(), environ={})
    for file in [*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()]:
        text = file.read_text(encoding="utf-8")
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), file
        if file.name.endswith("-result.json"):
            item = json.loads(text)
            assert all(re.match(r"https?://", link["url"]) for link in item.get("links", []))
            assert "\n" not in item["name"] + "".join(step["name"] for step in item.get("steps", []))
