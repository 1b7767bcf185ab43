"""Writes what a run shows to CNCF: ``PRODUCT.yaml``, and the evidence that it names.

A checklist of the programme, or a ``PRODUCT.yaml`` that was begun, is filled in: entries that have a status already are their
author's and stay. Without one, only the part is written that the run knows (docs/facts/cncf-ai-conformance.md#productyaml).
"""

from pathlib import Path

import msgspec
import yaml

from fixtures.system import private_files
from fixtures.text import users_files, yaml_text
from fixtures.verdict.record import Report
from reports.cncf.programme import ITEMS, RELEASES, CncfError, Shown, release_of, shown
from reports.formats import junit
from reports.safe_text import markdown_plain, one_line, visible
from reports.verdicts import WORD

MAX_CHECKLIST_BYTES = 1 << 20
NAME = "PRODUCT.yaml"
JUNIT = "results/junit.xml"

_HEAD = """# Written by gpu-conformance from run {run}, on a live cluster with Kubernetes {version}.
# A status is what that run showed; an empty one is not judged. You answer for all of it, and for what stands in square brackets.
"""
_METADATA = ("platformName", "platformVersion", "vendorName", "websiteUrl", "repoUrl", "documentationUrl", "productLogoUrl",
             "description", "contactEmailAddress", "k8sConformanceUrl")  # fmt: skip

Json = dict[str, object]


def write(report: Report, folder: Path, checklist: Path | None = None) -> list[Shown]:
    """Write the files to ``folder``. Returns what they say of each requirement of the release. Raises :class:`CncfError`."""
    release = release_of(report)
    entries = shown(report, release)
    document = _filled(_read(checklist, release), entries, release) if checklist else _part(report, entries, release)
    version = one_line(report.target.kubernetes_version, 60)
    text = _HEAD.format(run=one_line(report.run.id, 100), version=version)
    text += yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    files = {f"evidence/{one.item.id}.md": _evidence(report, one) for one in entries if one.results}
    try:
        for name, content in {NAME: text, JUNIT: junit.render(_public(report)), **files}.items():
            private_files.make_folder((folder / name).parent)
            private_files.write_text(folder / name, content)
    except OSError as error:
        raise CncfError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return entries


def _public(report: Report) -> Report:
    """The record without what names the cluster or anything in it: what is handed in is published."""
    results = [msgspec.structs.replace(result, subjects=[], subjects_omitted=0, message="") for result in report.results]
    target = msgspec.structs.replace(report.target, server="", context="", cluster_uid="")
    return Report(
        suite=report.suite,
        target=target,
        run=report.run,
        verdict=report.verdict,
        exit_code=report.exit_code,
        summary=report.summary,
        results=results,
    )


def _part(report: Report, entries: list[Shown], release: str) -> Json:
    """What the run knows, without the programme's own words."""
    metadata: Json = {"kubernetesVersion": f"v{release}", **{name: f"[{name}]" for name in _METADATA}}
    spec: dict[str, list[Json]] = {}
    for one in entries:
        entry: Json = {"id": one.item.id, "level": one.level, **_answer(one, release)}
        spec.setdefault(one.item.section, []).append(entry)
    return {"metadata": metadata, "spec": spec}


def _answer(one: Shown, release: str) -> Json:
    evidence = [f"evidence/{one.item.id}.md"] if one.status else []
    if one.status and release in RELEASES[RELEASES.index("1.37") :]:
        evidence += [f"file://{JUNIT}#{one_line(f'{result.id} {result.title}')}" for result in one.results]
    return {"status": one.status, "evidence": evidence, "notes": visible(one.notes)}


def _filled(document: Json, entries: list[Shown], release: str) -> Json:
    answers = {(one.item.section, one.item.id): _answer(one, release) for one in entries}
    spec = document["spec"]
    assert isinstance(spec, dict)
    for section, listed in spec.items():
        for entry in listed:
            answer = answers.get((str(section), str(entry.get("id"))))
            if answer and not entry.get("status"):
                entry.update({key: value for key, value in answer.items() if value or key not in entry})
    return document


def _read(path: Path, release: str) -> Json:
    """A checklist of that release. Raises :class:`CncfError` for any other file."""
    try:
        text = users_files.read(path, MAX_CHECKLIST_BYTES + 1)
        document = yaml_text.load(text, most=MAX_CHECKLIST_BYTES, unique=True)
    except OSError as error:
        raise CncfError(f"{path}: cannot be read: {error.strerror or error}") from error
    except yaml_text.NotYaml as error:
        raise CncfError(f"{path}: not YAML: {one_line(str(error), 200)}") from error
    metadata, spec = (document.get(name) if isinstance(document, dict) else None for name in ("metadata", "spec"))
    if not isinstance(metadata, dict) or not isinstance(spec, dict) or not all(_entries(listed) for listed in spec.values()):
        raise CncfError(f"{path}: no checklist: expected metadata, and spec with a list of entries with an id for each section")
    named = one_line(str(metadata.get("kubernetesVersion", "")), 60)
    if named != f"v{release}":
        raise CncfError(f"{path}: for Kubernetes {named or 'of no version'}, and the cluster has v{release}")
    known = {(item.section, item.id) for item in ITEMS}
    if not any((section, entry.get("id")) in known for section, listed in spec.items() for entry in listed):
        raise CncfError(f"{path}: has no requirement that the suite knows")
    return dict(document)


def _entries(listed: object) -> bool:
    return isinstance(listed, list) and all(isinstance(entry, dict) and "id" in entry for entry in listed)


def _evidence(report: Report, one: Shown) -> str:
    """A page about one requirement of the programme, fit to be published: no address and no name of the cluster's objects."""
    facts = {
        "status": one.status or "not judged",
        "notes": one.notes,
        "suite": f"{report.suite.name} {report.suite.version}",
        "run": f"{report.run.id}, began {report.run.started_at}",
        "Kubernetes": report.target.kubernetes_version,
        "policy": report.run.policy_digest or "not known",
    }
    lines = [f"# {one.item.id} ({one.level})", ""]
    lines += [f"- **{name}**: {markdown_plain(one_line(text, 2_000))}" for name, text in facts.items()]
    lines += ["", "| requirement | verdict | judged | what it asserts |", "|---|---|---|---|"]
    for result in one.results:
        cells = (result.id, WORD[result.verdict], f"{result.judged} of {result.total}", result.title)
        lines.append(f"| {' | '.join(markdown_plain(one_line(cell, 300)) for cell in cells)} |")
    lines += ["", f"The results of all requirements are in `{JUNIT}`.", ""]
    return "\n".join(lines)
