"""``verify`` finds every forgery of a report folder, and none in what a run wrote. ``sign`` has another program sign it."""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.cli.main import main
from conformance.version import VERSION
from fixtures.verdict.record import Result
from reports.evidence.bundle import subjects_of
from reports.folder import each_view, load
from tests.endtoend.runs import run_suite
from tests.judging import READ
from tests.tables import each_row

pytestmark = pytest.mark.test_all

SIGNATURE = "statement.json.sig"


STRUCK = ("FENCE-01", "PSA-05", "ADV-06", "SCALE-02", "OBS-03", "UPG-01")
"""What fails: all but the first rest on values of ConfigMaps, the last two on answers to requests."""
DEFECTS = (
    *("fence-untainted-gpu-node", "psa-visible-devices-from-configmap", "adv-config-label-without-key", "scale-fixed-size-group"),
    *("obs-exporter-frozen", "upg-removed-api-in-use"),
)


def written(folder: Path, *defects: str, option: str = f"--only=FENCE,{','.join(STRUCK)}") -> Path:
    """A report folder, of a run that defects fail."""
    folder.mkdir()
    run_suite(folder, "--simulate", ",".join(("healthy", *defects)), "--read-only", "--evidence", option)
    return folder / "report"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of two runs, and a key pair of ssh."""
    folder = tmp_path_factory.mktemp("trust")
    written(folder / "failed", *DEFECTS)
    written(folder / "healthy")
    written(folder / "whole", option="-n2")  # workers say what they read
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
    return folder


@pytest.fixture
def folder(base: Path, tmp_path: Path) -> Path:
    """A report folder to forge."""
    for run, name in (("failed", "report"), ("healthy", "other")):
        shutil.copytree(base / run / "report", tmp_path / name)
    return tmp_path / "report"


def verified(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    code = main(["verify", str(folder), *more])
    return code, capsys.readouterr().out


# -- what a forger does ----------------------------------------------------------------------------


def edit(path: Path, change: Callable[[Any], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=1))


def result(document: Any, name: str = "FENCE-01") -> Any:
    return next(one for one in document["results"] if one["id"] == name)


def fields_of(one: Result) -> dict[str, object]:
    return {"id": one.id, "verdict": one.verdict, "judged": one.judged, "total": one.total, "subjects": subjects_of(one)}


def reseal(folder: Path) -> None:
    """Make every digest, page and count that stands beside the forged record fit it again."""
    evidence = folder / "evidence"
    report = load(folder)
    for one in report.results:
        path = evidence / "requirements" / f"{one.id}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields_of(one)}))
    for name, data in each_view(report, None):
        (folder / name).write_bytes(data)
    files = [path for path in sorted(evidence.rglob("*")) if path.is_file() and path.name not in ("index.json", "SHA256SUMS")]
    sums = {str(path.relative_to(evidence)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def listed(index: Any) -> None:
        index["files"] = [{"path": path, "sha256": digest} for path, digest in sums.items()]
        index["verdict"] = report.verdict.value
        index["report"]["sha256"] = hashlib.sha256((folder / "report.json").read_bytes()).hexdigest()

    edit(evidence / "index.json", listed)
    sums["index.json"] = hashlib.sha256((evidence / "index.json").read_bytes()).hexdigest()
    (evidence / "SHA256SUMS").write_text("".join(f"{digest}  {path}\n" for path, digest in sums.items()))


def edited_verdict(folder: Path, name: str = "FENCE-01") -> None:
    def change(document: Any) -> None:
        found = result(document, name)
        document["summary"][found["verdict"]] -= 1
        found.update(verdict="passed", reasonCode="", message=f"{found['judged']} of {found['total']} judged")
        document.update(verdict="passed", exitCode=0)
        document["summary"]["passed"] += 1

    edit(folder / "report.json", change)
    reseal(folder)


def edited_finding(folder: Path, name: str = "FENCE-01") -> None:
    edited_verdict(folder, name)
    edit(folder / "report.json", lambda one: [subject.update(verdict="passed") for subject in result(one, name)["subjects"]])
    reseal(folder)


def strike(folder: Path, *names: str) -> None:
    """Edit the lists of requirements that the evidence decides, and does not."""

    def change(index: Any) -> None:
        index["judgedAgain"] = [one for one in index["judgedAgain"] if one not in names]
        index["notJudgedAgain"] += [{"id": one, "because": "it rests on answers to requests, which are not kept"} for one in names]

    edit(folder / "evidence/index.json", change)
    reseal(folder)


def edited_object(folder: Path) -> None:
    path = next((folder / "evidence/objects").glob("Node.h100-1.*"))
    edit(path, lambda node: node["spec"].update(taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]))


def edited_lists(folder: Path) -> None:
    def change(kept: Any) -> None:
        nodes = next(one for one in kept[1] if one["key"] == "nodes")["items"]
        next(one for one in nodes if one["metadata"]["name"] == "h100-1")["spec"]["taints"] = [
            {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
        ]

    edit(folder / "evidence/snapshot.json", change)
    reseal(folder)


def answer(folder: Path, words: str) -> Path:
    return next((folder / "evidence/answers").glob(f"{words}*"))


def edited_answer(folder: Path) -> None:
    edit(answer(folder, "later_pages"), lambda one: one["said"].popitem())


def answer_of_another_shape(folder: Path) -> None:
    edit(answer(folder, "later_pages"), lambda one: one.update(said=[]))
    reseal(folder)


def another_answer(folder: Path) -> None:
    """An exporter that moves, where the run saw one that does not."""
    pages = json.loads(answer(folder.parent / "other", "later_pages").read_text())["said"]
    mended = dict(zip(json.loads(answer(folder, "pages").read_text())["said"], pages.values(), strict=True))
    edit(answer(folder, "later_pages"), lambda one: one.update(said=mended))
    reseal(folder)


def no_cluster(path: Path) -> None:
    """Say that nobody could be asked, as of a saved snapshot."""
    edit(path, lambda one: one.update(said=None, raised=["NotApplicable", "NoCluster", "a saved snapshot cannot answer questions"]))


def target_of_another_kind(folder: Path) -> None:
    """A saved snapshot has no answers, so none would be missed."""
    edit(folder / "evidence/judging.json", lambda one: one["handover"]["target"].update(kind="snapshot"))
    reseal(folder)


def removed_subject(folder: Path) -> None:
    edit(folder / "report.json", lambda one: result(one)["subjects"].pop(0))
    reseal(folder)


def renamed_requirement(folder: Path) -> None:
    (folder / "evidence/requirements/FENCE-01.json").rename(folder / "evidence/requirements/FENCE-91.json")
    edit(folder / "report.json", lambda document: result(document).update(id="FENCE-91"))
    reseal(folder)


def softened_requirement(folder: Path) -> None:
    edit(folder / "report.json", lambda document: result(document).update(level="SHOULD"))
    reseal(folder)


def added_file(folder: Path) -> None:
    (folder / "evidence/objects/Node.h100-9.json").write_text("{}")


def older_tables(folder: Path) -> None:
    edit(folder / "evidence/judging.json", lambda judging: judging.update(tables="0" * 64))
    reseal(folder)


def truncated(folder: Path) -> None:
    path = folder / "evidence/snapshot.json"
    path.write_bytes(path.read_bytes()[:-200])
    reseal(folder)


def link_out(folder: Path) -> None:
    path = folder / "evidence/snapshot.json"
    shutil.move(path, folder.parent / "kept.json")
    path.symlink_to(folder.parent / "kept.json")


def key_twice(folder: Path) -> None:
    path = folder / "report.json"
    path.write_text(path.read_text().replace('"verdict": "failed",', '"verdict": "passed", "verdict": "failed",', 1))
    reseal(folder)


def edited_sums(folder: Path) -> None:
    path = folder / "evidence/SHA256SUMS"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def evidence_of_another_run(folder: Path) -> None:
    shutil.rmtree(folder / "evidence")
    shutil.copytree(folder.parent / "other/evidence", folder / "evidence")
    reseal(folder)


def edited_page(folder: Path) -> None:
    path = folder / "report.html"
    path.write_text(path.read_text().replace("FENCE-01", "FENCE-02"))


def edited_policy(folder: Path) -> None:
    edit(folder / "evidence/judging.json", lambda one: one["handover"]["policy"]["nodes"].update(heldHours=9000))
    reseal(folder)


def a_cluster_to_reach(folder: Path) -> None:
    """A kubeconfig may name a program, which whoever verifies the folder would run."""
    edit(folder / "evidence/judging.json", lambda one: one["handover"].update(kubeconfig=str(folder / "kubeconfig")))
    reseal(folder)


def the_clusters_own_account(folder: Path) -> None:
    edit(folder / "evidence/judging.json", lambda one: one["handover"].update(inCluster=True, in_cluster=True))
    reseal(folder)


def index_of_another_shape(folder: Path) -> None:
    (folder / "evidence/index.json").write_text("[]")


def subjects_of_another_shape(folder: Path) -> None:
    edit(folder / "evidence/requirements/FENCE-01.json", lambda one: one.update(subjects=["gpu-1"]))


# -- and what is found -----------------------------------------------------------------------------


@each_row
def test_a_forgery_is_found(forgery: str, found: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    globals()[forgery](folder)
    code, text = verified(folder, capsys)
    assert (code, found in text) == (1, True), text


@pytest.mark.parametrize("name", STRUCK)
def test_a_failure_is_found_that_is_struck_from_what_is_judged_again(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited_finding(folder, name)
    strike(folder, name)
    code, text = verified(folder, capsys)
    assert (code, f"{name} is passed, and the kept lists do not give this result" in text) == (1, True), text


def test_every_requirement_that_is_struck_and_edited_is_named(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each that was judged again. Those that fail nobody may hide, and of no other a word passes unseen."""
    folder = shutil.copytree(base / "whole/report", tmp_path / "report")
    names = json.loads((folder / "evidence/index.json").read_text())["judgedAgain"]
    assert set(names) == set(READ)
    edit(folder / "report.json", lambda one: [result(one, name).update(message="as somebody wishes") for name in names])
    strike(folder, *names)
    code, text = verified(folder, capsys)
    assert (code, [name for name in names if f"not checked: {name}: " not in text]) == (10, [])


def test_a_value_that_redaction_spoils_is_named_and_no_forgery(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the lists are kept where a word of the configuration is called like a credential."""

    def spoil(kept: Any) -> None:
        maps = next(one for one in kept[1] if one["key"] == "configmaps")["items"]
        (one,) = [one for one in maps if one["metadata"]["name"] == "cluster-autoscaler-status"]
        one["data"]["status"] = "[redacted]"

    edit(folder / "evidence/snapshot.json", spoil)
    strike(folder, "SCALE-02")
    code, text = verified(folder, capsys)
    why = "not checked: SCALE-02: a value that it reads is not kept whole: status of ConfigMap kube-system/cluster-autoscaler-status\n"
    assert (code, why in text) == (10, True), text


@pytest.mark.parametrize("change", [Path.unlink, no_cluster])
def test_a_result_whose_answer_was_taken_is_not_checked(
    change: Callable[[Path], object], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(answer(folder, "GET_metrics"))
    edit(folder / "report.json", lambda one: result(one, "UPG-01").update(message="as somebody wishes"))
    strike(folder, "UPG-01")
    code, text = verified(folder, capsys)
    assert (code, "not checked: UPG-01: an answer that it rests on is not kept whole: GET /metrics" in text) == (10, True), text


def test_what_a_run_wrote_fits_and_says_how_much_of_it_was_judged_again(
    base: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = verified(folder, capsys)
    assert (code, re.match(r"FITS: (\d+) of \1 read requirements judged again, byte for byte; not signed: ", text) is not None) == (0, True)
    code, text = verified(base / "whole/report", capsys)
    assert (code, text.startswith(f"FITS: {len(READ)} of {len(READ)} read requirements judged again")) == (0, True), text


@pytest.fixture(scope="module")
def asked_drivers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run that asked the drivers of nodes."""
    folder = tmp_path_factory.mktemp("drivers")
    run_suite(folder, "--simulate=healthy,obs-energy-in-joules", "--access=hardware", "--evidence", "--only=INV-04,INV-06,OBS-01")
    return folder / "report"


def test_what_drivers_said_is_kept_too(asked_drivers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = verified(asked_drivers, capsys)
    assert (code, text.startswith("FITS: 3 of 3 read requirements judged again, byte for byte;")) == (0, True), text


def test_an_edited_document_of_a_driver_is_found(asked_drivers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "report"
    shutil.copytree(asked_drivers, folder)

    def change(kept: Any) -> None:
        next(iter(kept["said"].values()))["document"]["drivers"][0]["version"] = "470.0"

    edit(answer(folder, "documents"), change)
    reseal(folder)
    code, text = verified(folder, capsys)
    assert (code, "INV-04 is passed, and the kept lists do not give this result" in text) == (1, True), text


def test_what_a_dry_run_answered_is_kept_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_suite(tmp_path, "--simulate=dra", "--access=dry-run", "--evidence", "--only=DRA-01,DRA-02")
    code, text = verified(tmp_path / "report", capsys)
    assert (code, text.startswith("FITS: 2 of 2 read requirements judged again, byte for byte;")) == (0, True), text


@pytest.mark.parametrize("nodes", ["h100-0", "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3"])
def test_a_run_about_some_nodes_is_judged_again_about_these(nodes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_suite(tmp_path, "--simulate=idle-fabric", f"--nodes={nodes}", "--read-only", "--evidence")
    code, text = verified(tmp_path / "report", capsys)
    assert (code, re.match(r"FITS: (\d+) of \1 read requirements judged again, byte for byte; not signed: ", text) is not None) == (
        0,
        True,
    ), text


def test_judging_again_sends_nothing_and_needs_no_cluster(folder: Path) -> None:
    judging = json.loads((folder / "evidence/judging.json").read_text())
    assert (judging["handover"]["kubeconfig"], judging["handover"]["in_cluster"]) == ("", False)


def test_a_version_that_judges_otherwise_is_no_forgery(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(folder / "evidence/judging.json", lambda one: one.update(tables="0" * 64))
    edit(folder / "report.json", lambda one: one["suite"].update(version="0.0.1"))
    reseal(folder)
    code, text = verified(folder, capsys)
    assert (code, f"version 0.0.1 judged, and this is {VERSION}" in text) == (10, True), text


def test_a_folder_without_evidence_is_not_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(folder / "evidence")
    assert verified(folder, capsys)[0] == 10


# -- signatures ------------------------------------------------------------------------------------


def test_what_ssh_keygen_signed_holds_and_nothing_else_does(base: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, public = base / "key", base / "key.pub"
    assert main(["sign", str(folder), "--with", "ssh-keygen", "--key", str(key)]) == 0
    assert main(["sign", str(folder.parent / "other"), "--with", "ssh-keygen", "--key", str(key)]) == 0
    said = json.loads((folder / "statement.json").read_text())
    assert (said["_type"], said["predicate"]["result"]) == ("https://in-toto.io/Statement/v1", "FAILED")
    assert said["predicate"]["configuration"][0]["annotations"]["real"] is False
    capsys.readouterr()
    code, text = verified(folder, capsys, "--key", str(public))
    assert (code, text.endswith("signed with ssh-keygen\n")) == (0, True), text
    assert verified(folder, capsys)[0] == 10  # a signature that nobody checked
    good = (folder / SIGNATURE).read_bytes()
    shutil.copy(folder.parent / "other" / SIGNATURE, folder / SIGNATURE)
    assert "ssh-keygen ended with" in verified(folder, capsys, "--key", str(public))[1]
    (folder / SIGNATURE).write_bytes(good)
    (folder / "report.md").write_text("# CONFORMANT")
    assert "report.md: is not as the statement says" in verified(folder, capsys, "--key", str(public))[1]
    for name in ("statement.json", SIGNATURE):
        shutil.copy(folder.parent / "other" / name, folder / name)
    assert "the statement has it, and it is not there" in verified(folder, capsys, "--key", str(public))[1]
    for name in ("statement.json", SIGNATURE):
        (folder / name).unlink()
    assert "a signature was asked for" in verified(folder, capsys, "--key", str(public))[1]


def test_a_signature_makes_no_failure_a_success(base: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who has the key may write any statement: other programs read its result, and not the report."""
    assert main(["sign", str(folder), "--with", "ssh-keygen", "--key", str(base / "key")]) == 0
    edit(folder / "statement.json", lambda one: one["predicate"].update(result="PASSED"))
    (folder / SIGNATURE).unlink()
    key, statement = base / "key", folder / "statement.json"
    subprocess.run(["ssh-keygen", "-Y", "sign", "-f", key, "-n", "gpu-conformance", statement], check=True, capture_output=True)
    capsys.readouterr()
    code, text = verified(folder, capsys, "--key", str(base / "key.pub"))
    assert (code, "statement.json: says something else of the run than report.json" in text) == (1, True), text


@pytest.mark.parametrize(
    ("program", "making"), [("minisign", "-G -W -p m.pub -s m.key"), ("cosign", "generate-key-pair --output-key-prefix m")]
)
def test_other_programs_sign_too(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: str, making: str
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine")
    monkeypatch.setenv("COSIGN_PASSWORD", "")
    subprocess.run([program, *making.split()], cwd=tmp_path, check=True, capture_output=True)
    assert main(["sign", str(folder), "--with", program, "--key", str(tmp_path / "m.key")]) == 0
    capsys.readouterr()
    assert verified(folder, capsys, "--key", str(tmp_path / "m.pub"))[0] == 0
    edit(folder / "statement.json", lambda one: one["predicate"].update(result="FAILED"))
    assert verified(folder, capsys, "--key", str(tmp_path / "m.pub"))[0] == 1


def test_cosign_is_given_a_key_and_sends_nothing_to_a_log(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/cosign"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$0.words"; while [ "$1" != --bundle ]; do shift; done; echo s > "$2"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert main(["sign", str(folder), "--with", "cosign", "--key", "cosign.key"]) == 0
    words = Path(f"{program}.words")
    assert {"--signing-config", "--trusted-root", "cosign.key", str(folder / "statement.json")} <= set(words.read_text().split("\n"))
    bundle = str(folder / "statement.json.sigstore.json")
    (tmp_path / "cosign.pub").touch()
    assert main(["verify", str(folder), "--key", str(tmp_path / "cosign.pub")]) == 0
    assert {"verify-blob", "--bundle", bundle, "--insecure-ignore-tlog=true", "--trusted-root"} <= set(words.read_text().split("\n"))


def test_a_program_that_is_missing_or_refuses_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sign", str(folder), "--with", "ssh-keygen", "--key", "/nonexistent"]) == 4
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main(["sign", str(folder), "--with", "minisign", "--key", "k"]) == 4
    assert capsys.readouterr().err.splitlines()[1:] == ["gpu-conformance sign: minisign is not on PATH"]
