"""PRODUCT.yaml for CNCF's AI conformance: from live runs alone, never more than was shown, and nothing that names the cluster."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from conformance.catalogue import load_catalogue
from conformance.cli.main import main
from fixtures.simulator.config.scenario import load_defect
from fixtures.verdict.record import Report, TargetKind, Verdict
from reports.cncf.product import write
from reports.cncf.programme import ITEMS, RELEASES, CncfError, Shown, release_of, shown
from reports.folder import write_all
from tests.reports.sample_report import HOSTILE, hostile_report, report, result, subject
from tests.tables import each_row, table

STATUSES = {"Implemented", "Partially Implemented", "Not Implemented", ""}
"""Those of the programme but ``N/A``, which is a vendor's word."""
GANG = ("GANG-01", "GANG-02", "GANG-03", "GANG-04")
ACCESS = ("ISO-01", "ISO-02", "ISO-03", "PSA-05")


def live(verdicts: dict[str, Verdict], version: str = "v1.36.2", **fields: Any) -> Report:
    made = report([result(id_, verdict, [subject("secret-node-7")]) for id_, verdict in verdicts.items()], **fields)
    made.target.kubernetes_version = version
    made.target.nodes, made.target.simulated_nodes = 8, 0
    return made


def passing(*ids: str) -> dict[str, Verdict]:
    return dict.fromkeys(ids, Verdict.PASSED)


def of(made: Report, id_: str, release: str = "1.36") -> Shown:
    return next(one for one in shown(made, release) if one.item.id == id_)


def product(folder: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((folder / "PRODUCT.yaml").read_text(encoding="utf-8")))


def entries(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for listed in document["spec"].values() for entry in listed}


def test_every_way_names_requirements_of_the_catalogue() -> None:
    known = load_catalogue().by_id
    assert [id_ for item in ITEMS for way in item.ways for id_ in way if id_ not in known] == []
    assert all(item.ways or item.beyond for item in ITEMS), "what shows nothing says why"


def of_nodes(nodes: int | None, simulated: int | None) -> Report:
    made = live(passing(*GANG), kind=TargetKind.SIMULATED_NODES if simulated else TargetKind.LIVE)
    made.target.nodes, made.target.simulated_nodes = nodes, simulated
    return made


@pytest.mark.parametrize(
    ("made", "words"),
    [
        *((live(passing(*GANG), kind=kind), "only a run on a live cluster") for kind in TargetKind if kind is not TargetKind.LIVE),
        (msgspec.structs.replace(live(passing(*GANG), exit_code=10), other_cluster_uid="other"), "ended at another cluster"),
        (of_nodes(8, 1), "1 of 8 nodes simulated"),
        (of_nodes(8, 8), "cluster of simulated nodes"),
        (of_nodes(None, None), "whether nodes are"),
        *((live(passing(*GANG), exit_code=code), "did not come to its end") for code in (2, 3, 4, 5)),
        (live({}), "no requirement"),
    ],
)
def test_only_a_whole_run_on_a_live_cluster_of_real_nodes_shows_anything(made: Report, words: str, tmp_path: Path) -> None:
    with pytest.raises(CncfError, match=words):
        write(made, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("version", ["v1.34.9", "v1.39.0", "", "one", "v1.36", "1.36.2-eks-1", "v1.35.0-rc.1"])
def test_only_releases_with_a_checklist_are_known(version: str) -> None:
    made = live(passing(*GANG), version)
    if version.startswith(("v1.36", "1.36", "v1.35")):
        assert release_of(made) in RELEASES
    else:
        with pytest.raises(CncfError, match=r"known checklists are of 1\.35, 1\.36, 1\.37, 1\.38"):
            release_of(made)


@each_row
def test_a_status_is_what_all_its_requirements_show(verdicts: dict[str, Verdict], status: str) -> None:
    assert of(live(verdicts), "gang_scheduling").status == status


def test_what_is_judged_in_part_is_never_implemented() -> None:
    one = of(live(passing("NET-02", "NET-03", "NET-04")), "high_performance_networking")
    assert one.status == "Partially Implemented"
    assert "Not judged: network devices are judged as extended resources" in one.notes


def test_what_the_suite_does_not_judge_has_no_status_and_says_so() -> None:
    for item in ITEMS:
        if not item.ways and item.level("1.36"):
            one = of(live(passing(*load_catalogue().by_id)), item.id)
            assert (one.status, one.notes) == ("", f"Not judged: {item.beyond}.")


@pytest.mark.parametrize("release", RELEASES)
def test_the_part_has_the_shape_of_the_programme(release: str, tmp_path: Path) -> None:
    made = live(passing(*load_catalogue().by_id), f"v{release}.1")
    write(made, tmp_path)
    document = product(tmp_path)
    assert document["metadata"]["kubernetesVersion"] == f"v{release}"
    assert all(value.startswith("[") and value.endswith("]") for name, value in document["metadata"].items() if name != "kubernetesVersion")
    found = entries(document)
    assert {id_: entry["level"] for id_, entry in found.items()} == {item.id: item.level(release) for item in ITEMS if item.level(release)}
    assert {entry["status"] for entry in found.values()} <= STATUSES
    for entry in found.values():
        assert bool(entry["evidence"]) == bool(entry["status"])
        for path in entry["evidence"]:
            assert (tmp_path / path.removeprefix("file://").partition("#")[0]).is_file()


def test_the_levels_are_those_of_the_facts() -> None:
    page = (Path(__file__).parents[2] / "docs" / "facts" / "cncf-ai-conformance.md").read_text(encoding="utf-8")
    table = page.partition("## What the")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| ")]
    assert rows[0][2:] == list(RELEASES)
    assert [(section, id_, tuple(levels)) for section, id_, *levels in rows[1:]] == [(item.section, item.id, item.levels) for item in ITEMS]


def test_what_1_38_adds_as_a_must_is_answered() -> None:
    """Versions of drivers by labels, attributes of DRA and the node itself (INV-04), in pools that fit together (INV-05)."""
    made = live(passing("INV-04", "INV-05", "ADV-04", "OPS-01", "OPS-02", "FENCE-06", "OBS-01", "OBS-03"), "v1.38.0")
    assert [
        (of(made, id_, "1.38").level, of(made, id_, "1.38").status) for id_ in ("driver_runtime_management", "accelerator_metrics")
    ] == [("MUST", "Implemented")] * 2
    made.results[0].verdict = Verdict.FAILED
    assert of(made, "driver_runtime_management", "1.38").status == "Partially Implemented"


@pytest.mark.parametrize("release", RELEASES)
def test_every_must_is_answered_by_a_run_that_judged_everything(release: str) -> None:
    made = live(passing(*load_catalogue().by_id), f"v{release}.0")
    musts = [one for one in shown(made, release) if one.level == "MUST"]
    assert len(musts) == (9 if release in ("1.35", "1.38") else 8)
    assert {one.item.id for one in musts if not one.status} == set()


def test_what_the_programmes_own_test_misses_is_a_defect_that_a_requirement_finds() -> None:
    page = (Path(__file__).parents[2] / "docs" / "facts" / "cncf-ai-conformance.md").read_text(encoding="utf-8")
    for item in ITEMS:
        assert bool(item.missed) == bool(item.why)
        if item.missed:
            found = set(load_defect(item.missed).trips)
            assert found & {id_ for way in item.ways for id_ in way}, item.id
            assert f"| {item.id} | `{item.missed}` | {', '.join(sorted(found))} | {item.why} |" in page
    answered = [item.id for item in ITEMS if item.level("1.38") == "MUST"]
    assert [item.id for item in ITEMS if item.level("1.38") == "MUST" and not item.missed] == ["gang_scheduling"], answered


@pytest.mark.parametrize("release", ["1.37", "1.38"])
def test_evidence_since_1_37_names_cases_that_are_in_the_file(release: str, tmp_path: Path) -> None:
    write(live(passing(*GANG), f"v{release}.0"), tmp_path)
    named = [path.partition("#")[2] for path in entries(product(tmp_path))["gang_scheduling"]["evidence"] if "#" in path]
    junit = (tmp_path / "results" / "junit.xml").read_text()
    assert len(named) == 4
    assert all(f'name="{name}"' in junit for name in named)


def test_nothing_that_is_handed_in_names_the_cluster(tmp_path: Path) -> None:
    made = live(passing(*GANG, *ACCESS[:3]) | {ACCESS[3]: Verdict.FAILED}, exit_code=1)
    made.results[-1].message = "node secret-node-7 shows it"
    made.residue, made.regressions = ["Namespace secret-tenant"], ["secret-node-7 is worse"]
    write(made, tmp_path)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            text = file.read_text()
            assert not [word for word in ("secret-", "10.0.0.1", "gpu-prod", "0f1c7a52", "gpu-003") if word in text], file


TABLE = table(__file__)
CHECKLIST: str = TABLE["CHECKLIST"]


def test_a_checklist_is_filled_in_and_what_its_author_wrote_stays(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text(CHECKLIST)
    write(live(passing(*GANG, *ACCESS)), tmp_path / "out", tmp_path / "list.yaml")
    document = product(tmp_path / "out")
    assert document["metadata"] == {"kubernetesVersion": "v1.36", "platformName": "Turbo"}
    found = entries(document)
    assert (found["gang_scheduling"]["description"], found["gang_scheduling"]["status"]) == ("their words", "Implemented")
    assert found["gang_scheduling"]["evidence"] == ["evidence/gang_scheduling.md"]
    assert found["secure_accelerator_access"] == yaml.safe_load(CHECKLIST)["spec"]["security"][0]
    assert found["new_one"] == yaml.safe_load(CHECKLIST)["spec"]["security"][1]
    assert "Not judged: the suite makes no autoscaler go up" in found["pod_autoscaling"]["notes"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CHECKLIST.replace("v1.36", "v1.35"), "for Kubernetes v1.35, and the cluster has v1.36"),
        ("metadata: {}\nspec: []", "no checklist"),
        ("metadata: {}\nspec: {a: [{}]}", "no checklist"),
        ("[", "not YAML"),
        ("", "no checklist"),
        ("metadata: {kubernetesVersion: v1.36}\nspec: {a: [{id: b}]}", "no requirement that the suite knows"),
        ("!!python/object/apply:os.system [id]", "not YAML"),
        ("x" * (1 << 21), "larger than"),
        ("a: &a [1]\n" + "b: *c\n", "not YAML"),
        (CHECKLIST + "notes: " + "[" * 50_000, "nested deeper than"),
        (f"a: &a [{'1, ' * 99}]\nb: &b [{'*a, ' * 999}]\nc: [{'*b, ' * 999}]\n", "aliases that make it too large"),
    ],
)
def test_what_is_no_checklist_is_refused_in_one_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text(text)
    with pytest.raises(CncfError, match=words) as caught:
        write(live(passing(*GANG)), tmp_path / "out", tmp_path / "list.yaml")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    made = hostile_report()
    made.target.kind, made.target.kubernetes_version = TargetKind.LIVE, "v1.36.2"
    made.target.nodes, made.target.simulated_nodes = 8, 0
    made.run.id = made.run.policy_digest = "x\n# status: Implemented\n" + HOSTILE["markdown"] + HOSTILE["ansi"]
    for one, id_ in zip(made.results, (*GANG, *ACCESS), strict=False):
        one.id, one.verdict = id_, Verdict.PASSED
    write(made, tmp_path)
    text = (tmp_path / "PRODUCT.yaml").read_text()
    assert all(line.startswith("# ") for line in text.splitlines()[:2])
    assert set(product(tmp_path)) == {"metadata", "spec"}
    for page in (tmp_path / "evidence").iterdir():
        assert not any(bad in page.read_text() for bad in ("<script", "<img", "](", "\x1b", "\u202e"))
        assert {line.count("|") for line in page.read_text().splitlines() if line.startswith("|")} == {5}


def test_the_command_refuses_a_simulated_run_and_fills_in_a_live_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_all(live(passing(*GANG), kind=TargetKind.SIMULATED), tmp_path / "simulated")
    write_all(live(passing(*GANG)), tmp_path / "live")
    assert main(["cncf", str(tmp_path / "simulated"), "--into", str(tmp_path / "out")]) == 4
    assert "simulated cluster" in capsys.readouterr().err
    assert main(["cncf", str(tmp_path / "missing"), "--into", str(tmp_path / "out")]) == 4
    assert not (tmp_path / "out").exists()
    assert main(["cncf", str(tmp_path / "live"), "--into", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "MUST   gang_scheduling              Implemented" in printed
    assert printed[-1] == str(tmp_path / "out" / "PRODUCT.yaml")
    assert json.loads((tmp_path / "live" / "report.json").read_text())["target"]["kind"] == "live"


def test_the_page_lists_what_shows_each_requirement() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")
    rows = {
        line.split("|")[1].split()[0].rstrip(","): line for line in text.splitlines() if line.startswith("| ") and "_" in line.split("|")[1]
    }
    for item in ITEMS:
        if item.ways:
            assert ("in part" in rows[item.id]) is bool(item.beyond)
            assert item.ways[0][0] in rows[item.id]
            assert item.ways[-1][-1] in rows[item.id]
        else:
            assert item.id not in rows
