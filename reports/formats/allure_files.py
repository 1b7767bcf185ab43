"""The files beside Allure's results: ``categories.json``, ``environment.properties``, and ``executor.json`` where a CI system ran it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, Verdict
from reports import chaos_phrases, phrases
from reports.safe_text import NAME_LIMIT, link_parts, one_line
from reports.verdicts import DISPLAY, WORD

_CATEGORIES: tuple[tuple[str, Verdict], ...] = (
    ("Not conformant", Verdict.FAILED),
    ("Inconclusive: could not be judged", Verdict.INCONCLUSIVE),
    ("Error of the suite", Verdict.ERROR),
    ("Warned: recommended, and does not hold", Verdict.WARNED),
    ("Waived by the owner", Verdict.WAIVED),
    ("Not applicable", Verdict.NOT_APPLICABLE),
)


def categories() -> str:
    """Groups of results by their verdict, which begins each message. Allure 2 reads the file; Allure 3 wants it in its configuration."""
    rules = [
        {"name": name, "matchedStatuses": [DISPLAY[verdict].allure], "messageRegex": rf"{WORD[verdict]}: [\s\S]*"}
        for name, verdict in _CATEGORIES
    ]
    return json.dumps(rules, indent=1) + "\n"


def environment(report: Report, chaos: ChaosReport | None) -> str:
    """Java properties: what was judged, without addresses or names of the cluster."""
    facts = {
        "target": phrases.target_name(report.target),
        "kubernetes": report.target.kubernetes_version,
        "suite": f"{report.suite.name} {report.suite.version}",
        "run": report.run.id,
        "verdict": chaos_phrases.overall(report, chaos),
        "exitCode": str(report.exit_code),
        "scope": phrases.scope_words(report) if report.results else "",
    }
    if report.target.simulated:
        facts |= {"warning": phrases.banner(report.target)}
    return "".join(f"{key}={one_line(value, 1_000)}\n" for key, value in facts.items() if value).replace("\\", "\\\\")


def executor(report: Report, environ: Mapping[str, str]) -> str:
    """Who ran it, as the CI system says; "" on any other machine."""
    found = _github(environ) or _gitlab(environ) or _jenkins(environ)
    if not found:
        return ""
    order = found.pop("buildOrder")
    facts: dict[str, object] = {key: one_line(value, NAME_LIMIT) for key, value in found.items() if value}
    for key in ("url", "buildUrl"):
        if [url for _, url in link_parts(str(facts.get(key, "")))] != [facts.get(key)]:
            facts.pop(key, None)  # no address that a page may link
    if order.isascii() and order.isdigit() and len(order) < 16:
        facts["buildOrder"] = int(order)
    return json.dumps(facts | {"reportName": f"GPU conformance ({phrases.target_name(report.target)})"}, indent=1) + "\n"


def _github(environ: Mapping[str, str]) -> dict[str, str]:
    if environ.get("GITHUB_ACTIONS") != "true":
        return {}
    home = f"{environ.get('GITHUB_SERVER_URL', '')}/{environ.get('GITHUB_REPOSITORY', '')}"
    number = environ.get("GITHUB_RUN_NUMBER", "")
    build = f"{home}/actions/runs/{environ.get('GITHUB_RUN_ID', '')}"
    name = f"{environ.get('GITHUB_WORKFLOW', '')} #{number}"
    return {"type": "github", "name": "GitHub Actions", "url": home, "buildName": name, "buildUrl": build, "buildOrder": number}


def _gitlab(environ: Mapping[str, str]) -> dict[str, str]:
    if environ.get("GITLAB_CI") != "true":
        return {}
    number = environ.get("CI_PIPELINE_IID", "")
    return {
        "type": "gitlab",
        "name": "GitLab CI",
        "url": environ.get("CI_PROJECT_URL", ""),
        "buildName": f"{environ.get('CI_JOB_NAME', '')} #{number}",
        "buildUrl": environ.get("CI_JOB_URL", ""),
        "buildOrder": number,
    }


def _jenkins(environ: Mapping[str, str]) -> dict[str, str]:
    if not environ.get("JENKINS_URL"):
        return {}
    number = environ.get("BUILD_NUMBER", "")
    return {
        "type": "jenkins",
        "name": "Jenkins",
        "url": environ["JENKINS_URL"],
        "buildName": f"{environ.get('JOB_NAME', '')} #{number}",
        "buildUrl": environ.get("BUILD_URL", ""),
        "buildOrder": number,
    }
