"""evidence/: what verdicts rest on, bounded, with digests, and never with a secret."""

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.plugin.evidence import write_evidence
from fixtures.verdict.record import Report, SubjectResult, Verdict
from reports.evidence import bundle
from reports.evidence.bundle import EvidenceError, Sources, prepare, write_outputs
from reports.evidence.redaction import safe_object, safe_text
from reports.folder import write_all
from tests.builders import a_node, a_pod, a_snapshot
from tests.reports.sample_report import HOSTILE, report, result, sample_report, subject
from tests.tables import each_row, table

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.c2lnbmF0dXJl"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEplantedADAN\n-----END PRIVATE KEY-----"
TABLE = table(__file__)
PLANTED: dict[str, str] = TABLE["PLANTED"]
MARKS = ("planted", "PLANTED", "c2lnbmF0dXJl", "cGxhbnRlZDpwbGFudGVk")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def leaks(text: str) -> list[str]:
    return [mark for mark in MARKS if mark in text]


def sources(objects: dict[str, Any], **more: Any) -> Sources:
    return Sources(lists=[], reads={}, find=lambda one: objects.get(one.name), **more)


def written(made: Report, folder: Path, found: Sources | None = None) -> dict[str, bytes]:
    prepare(folder, wanted=True)
    return files(bundle.write(made, folder, found or sources({})))


@given(
    st.recursive(
        st.sampled_from([*PLANTED.values(), "word", "nvidia.com/gpu"]) | st.integers() | st.none() | st.booleans(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*PLANTED.values(), "env", "args", "name", "data"]), inner)
        ),
        max_leaves=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_no_object_of_any_shape_keeps_a_credential(value: object) -> None:
    assert leaks(json.dumps(safe_object(value))) == []


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("kept", [1_000, 985, 9_180])
def test_a_credential_at_the_end_of_what_is_kept_is_known(text: str, kept: int) -> None:
    long = " " * kept + text + " " + "x" * 20_000
    assert leaks(safe_text(long)) == []
    assert safe_text(long).endswith(f"… ({len(long) - 1_000:,} more characters)")


@each_row
def test_words_of_findings_stay(text: str) -> None:
    assert safe_text(text) == text


def test_an_object_keeps_its_shape_and_loses_its_secrets() -> None:
    container = {
        "name": "main",
        "image": "repo/x:1",
        "command": ["sh", "-c", "run planted"],
        "args": ["--token", "planted"],
        "env": [
            {"name": "DB", "value": "planted"},
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NCCL_PASSWORD", "value": "password=planted"},
            {"name": "NCCL_AUTH_TOKEN", "value": "planted"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "registry", "key": "k"}}},
            "planted",
        ],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    metadata = {
        "name": "p",
        "labels": {"app": "web", "odd": PLANTED["github"]},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"env": "planted"}',
            "vault.example/inject": "planted",
            "nvidia.com/gpu-driver-upgrade": "done",
            "nvidia.com/api-token": "planted",
            "example.kubernetes.io/token": "planted",
        },
        "managedFields": [{"manager": "planted"}],
    }
    found: Any = safe_object(
        {
            "metadata": metadata,
            "spec": {"containers": [container], "imagePullSecrets": [{"name": "registry"}], "script": "planted"},
            "data": {"config.yaml": "planted", "n": None},
            "binaryData": {"x": "planted"},
            "parameters": [{"name": "password", "value": "planted"}, {"name": "X-Api-Key", "value": {"text": "planted"}}],
            "custom": {"adminPassword": "planted", "secretName": "tls", "tokens": ["planted"], "env": {"A": "planted"}},
        }
    )
    assert leaks(json.dumps(found)) == []
    kept = found["spec"]["containers"][0]
    assert kept["env"][1] == {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    assert kept["env"][0] == {"name": "DB", "value": "[left out: 7 bytes]"}
    assert kept["env"][4]["valueFrom"]["secretKeyRef"] == {"name": "registry", "key": "k"}
    assert (kept["image"], kept["resources"]) == ("repo/x:1", {"limits": {"nvidia.com/gpu": 1}})
    assert found["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert found["custom"]["secretName"] == "tls"
    assert found["metadata"]["annotations"]["nvidia.com/gpu-driver-upgrade"] == "done"
    assert found["data"] == {"config.yaml": "[left out: 7 bytes]", "n": "[left out]"}
    assert "managedFields" not in found["metadata"]


def test_no_planted_secret_reaches_a_file(tmp_path: Path) -> None:
    """Objects as the suite reads them, findings and outputs, each with every kind of credential."""
    secrets = list(PLANTED.values())
    pod = a_pod("train-0", namespace="team-a", annotations={f"a/{i}": text for i, text in enumerate(secrets)})
    pod.spec.containers[0].env = [{"name": f"V{i}", "value": text} for i, text in enumerate(secrets)]
    node = a_node("gpu-0", labels={f"l{i}": text for i, text in enumerate(secrets)})
    daemons = {"metadata": {"name": "web", "namespace": "team-a"}, "spec": {"token": JWT, "x": secrets, "args": secrets}}
    snapshot = a_snapshot(nodes=[node], pods=[pod], deployments=[daemons])
    about = [
        subject("gpu-0", Verdict.FAILED, kind="Node"),
        subject("train-0", Verdict.FAILED, kind="Pod", namespace="team-a"),
        subject("web", kind="Deployment", namespace="team-a"),
        subject(f"gpu-0 {PLANTED['github']}", kind="Node"),
    ]
    for one in about:
        one.observed, one.message, one.source, one.expected = " ".join(secrets), KEY, JWT, PLANTED["yaml"]
    made = report([result("FENCE-01", Verdict.FAILED, about, message=" ".join(secrets))])
    prepare(tmp_path, wanted=True)
    write_outputs(tmp_path, "FENCE-01", [(f"probe-{i}", text) for i, text in enumerate(secrets)])
    write_outputs(tmp_path, "FENCE-02", [(text, {"message": text, text: [text], "spec": {"args": [text]}}) for text in secrets])
    write_outputs(tmp_path, "FENCE-03", [("large", {"x": ["y" * 1_000] * 1_000})])
    write_all(made, tmp_path)
    folder = write_evidence(made, tmp_path, snapshot, {"FENCE-01": ["nodes", "pods", "apps/deployments"]})
    found = files(folder)
    kept = {name[8:].rsplit(".", 2)[0] for name in found if "objects/" in name}
    assert kept == {"Node.gpu-0", "Pod.team-a.train-0", "Deployment.team-a.web"}
    assert {name: leaks(name + data.decode()) for name, data in found.items() if leaks(name + data.decode())} == {}


def test_every_file_is_in_the_index_with_its_digest_and_is_private(tmp_path: Path) -> None:
    prepare(tmp_path, wanted=True)
    write_outputs(tmp_path, "FENCE-05", [("cpu-probe", "one\ntwo"), ("cpu-probe.pod", {"status": {"phase": "Pending"}})])
    write_all(sample_report(), tmp_path)
    found = files(bundle.write(sample_report(), tmp_path, sources({"gpu-003": {"kind": "Node"}}), tmp_path / "report.json"))
    index = json.loads(found["index.json"])
    assert index["complete"] is True
    assert {one["path"] for one in index["files"]} == set(found) - {"index.json", "SHA256SUMS"}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in found.items() if name != "SHA256SUMS"}
    assert all((one["sha256"], one["bytes"]) == (digests[one["path"]], len(found[one["path"]])) for one in index["files"])
    assert set(found["SHA256SUMS"].decode().splitlines()) == {f"{digest}  {name}" for name, digest in digests.items()}
    assert index["report"]["sha256"] == hashlib.sha256((tmp_path / "report.json").read_bytes()).hexdigest()
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "evidence").rglob("*")} == {0o600, 0o700}
    assert json.loads(found["requirements/FENCE-05.json"])["outputs"] == [
        "outputs/FENCE-05.01.cpu-probe.log",
        "outputs/FENCE-05.02.cpu-probe.pod.json",
    ]
    assert json.loads(found["outputs/FENCE-05.02.cpu-probe.pod.json"]) == {"status": {"phase": "Pending"}}


def test_an_object_is_written_once_and_named_by_each_requirement(tmp_path: Path) -> None:
    node = {"kind": "Node", "metadata": {"name": "gpu-0"}}
    made = report([result(f"A-{i}", Verdict.PASSED, [subject("gpu-0"), subject("gone")]) for i in range(3)])
    found = written(made, tmp_path, sources({"gpu-0": node}))
    [path] = [name for name in found if name.startswith("objects/")]
    assert json.loads(found[path]) == node
    assert [[one["object"] for one in json.loads(found[f"requirements/A-{i}.json"])["subjects"]] for i in range(3)] == [[path, None]] * 3


def test_what_does_not_fit_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_OBJECTS", 5)
    monkeypatch.setattr(bundle, "MAX_BYTES", 4_000)
    many = [subject(f"n{i}", Verdict.FAILED) for i in range(20)]
    found = written(
        report([result("A-1", Verdict.FAILED, many)]),
        tmp_path,
        sources({f"n{i}": {"kind": "Node", "n": i, "x": [f"{i} " * 400]} for i in range(20)} | {"n0": {"x": ["y" * 900] * 200}}),
    )
    stored = [data for name, data in found.items() if name.startswith("objects/")]
    assert 0 < len(stored) < 5
    assert sum(map(len, stored)) <= 4_000
    assert json.loads(found["index.json"])["leftOut"]["objects"] >= 1
    assert len(json.loads(found["requirements/A-1.json"])["subjects"]) == 20, "findings stay"


def test_long_outputs_keep_their_end_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_OUTPUT_BYTES", 1_000)
    prepare(tmp_path, wanted=True)
    write_outputs(tmp_path, "NET-05", [("rank", "x" * 5_000 + "\nthe end"), *(("p", "t") for _ in range(60))])
    kept = sorted((tmp_path / "evidence" / "outputs").iterdir())
    assert len(kept) == bundle.MAX_OUTPUTS
    text = kept[0].read_text()
    assert text.startswith("[4008 characters before this are left out]")
    assert len(text) <= 1_000


def test_hostile_names_lead_to_no_other_file(tmp_path: Path) -> None:
    names = ["..", "../../escape", "/etc/passwd", ".hidden", "", "a/b", "x" * 5_000, *HOSTILE.values()]
    made = report([result(name, Verdict.FAILED, [SubjectResult(kind=name, namespace=name, name=name, verdict=Verdict.FAILED)], title=name)
                   for name in names])  # fmt: skip
    prepare(tmp_path / "run", wanted=True)
    write_outputs(tmp_path / "run", "../../x", [(name, "text \x1b[31m") for name in names])
    bundle.write(made, tmp_path / "run", sources({name: {"metadata": {"name": name}} for name in names}))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["evidence"]
    paths = [path for path in (tmp_path / "run" / "evidence").rglob("*") if path.is_file()]
    assert all(len(path.relative_to(tmp_path / "run" / "evidence").parts) <= 2 for path in paths)
    assert not any(path.name.startswith(".") for path in paths)
    assert not any("\x1b" in path.read_text() for path in paths)


def test_evidence_of_an_earlier_run_goes(tmp_path: Path) -> None:
    written(sample_report(), tmp_path)
    prepare(tmp_path, wanted=True)
    assert json.loads((tmp_path / "evidence" / "index.json").read_text())["complete"] is False
    prepare(tmp_path, wanted=False)
    assert not (tmp_path / "evidence").exists()


@pytest.mark.parametrize("name", ["mine.txt", "index.json", "objects"])
def test_other_peoples_evidence_stays(name: str, tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / name).write_text('{"complete": true}')
    prepare(tmp_path, wanted=False)
    with pytest.raises(EvidenceError, match="no run wrote it"):
        prepare(tmp_path, wanted=True)
    assert (tmp_path / "evidence" / name).read_text() == '{"complete": true}'


def test_a_file_that_somebody_put_beside_the_evidence_keeps_all_of_it(tmp_path: Path) -> None:
    written(sample_report(), tmp_path)
    (tmp_path / "evidence" / "notes.txt").write_text("mine")
    with pytest.raises(EvidenceError, match="no run wrote it"):
        prepare(tmp_path, wanted=True)
    assert (tmp_path / "evidence" / "notes.txt").read_text() == "mine"


def test_evidence_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "evidence").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EvidenceError, match="no run wrote it"):
        prepare(tmp_path, wanted=True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_lists_are_named_with_their_trouble(tmp_path: Path) -> None:
    snapshot = a_snapshot(nodes=[a_node("gpu-0")], trouble={"pods": "Forbidden"})
    made = report([result("A-1", Verdict.PASSED, [subject("gpu-0 nvidia.com/gpu", kind="Node")])])
    prepare(tmp_path, wanted=True)
    write_all(made, tmp_path)
    index = json.loads(files(write_evidence(made, tmp_path, snapshot, {"A-1": ["nodes", "pods"]}))["index.json"])
    assert [(one["resource"], one["objects"], one["trouble"]) for one in index["lists"]] == [("nodes", 1, ""), ("pods", 0, "Forbidden")]
    assert index["requirements"][0]["objects"] == 1, "the object of a part is the whole's"
