"""Captures in other encodings, in logs of container runtimes, and of another kind than somebody said."""

import codecs
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.cli.inspect import KINDS, inspect, main
from conformance.outputs.captured_text import Unreadable, decoded, unwrapped
from conformance.outputs.inspection import KUBERNETES
from tests.outputs.lookalikes import DATA, lookalike
from tests.outputs.test_inspect_command import CASES
from tests.samples import SAMPLES
from tests.tables import table

RIGHT = {name: kind for kind, name, _, _ in CASES}
WORDS = {name: (exit_code, code) for _, name, exit_code, code in CASES}


@pytest.mark.parametrize("name", sorted(RIGHT))
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        pytest.param(codecs.BOM_UTF16_BE, "utf-16-be", marks=pytest.mark.test_all),
        (b"", "utf-16-le"),
        pytest.param(b"", "utf-16-be", marks=pytest.mark.test_all),
        pytest.param(codecs.BOM_UTF32_LE, "utf-32-le", marks=pytest.mark.test_all),
        pytest.param(codecs.BOM_UTF8, "utf-8", marks=pytest.mark.test_all),
    ],
)
def test_encodings_of_windows(name: str, mark: bytes, encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "capture"
    file.write_bytes(mark + lookalike(name).replace("\n", "\r\n").encode(encoding))
    exit_code, code = WORDS[name]
    assert main([RIGHT[name], str(file), "--json"]) == exit_code
    assert json.loads(capsys.readouterr().out)["reasonCode"] == code


def as_json_lines(text: str, entry: Callable[[str], object]) -> str:
    return "\n".join(json.dumps(entry(line)) for line in text.splitlines())


def as_cut_json_file(text: str) -> str:
    parts = [part for line in text.splitlines() for part in (line[:20], f"{line[20:]}\n")]
    return "\n".join(json.dumps({"log": part, "stream": "stderr", "time": "t"}) for part in parts)


def as_cut_cri(text: str) -> str:
    lines = [(line[:20], line[20:]) for line in text.splitlines()]
    stamp = "2026-01-01T00:00:00.1Z stdout"
    return "\n".join(f"{stamp} P {head}\n{stamp} F {tail}" for head, tail in lines)


@pytest.mark.parametrize("name", sorted(RIGHT))
@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: as_json_lines(text, lambda line: {"log": f"{line}\n", "stream": "stdout", "time": "2026-01-01T00:00:00Z"}),
        lambda text: as_json_lines(text, lambda line: {"ts": 1.5, "level": "info", "jsonPayload": {"message": line}}),
        lambda text: json.dumps([{"insertId": "0", "textPayload": line} for line in text.splitlines()], indent=2),
        lambda text: "\n".join(f"2026-01-01T00:00:00.000000001+02:00 stdout F {line}" for line in text.splitlines()),
        as_cut_json_file,
        as_cut_cri,
    ],
    ids=["json-file", "JSON lines", "cloud log", "CRI", "json-file, cut", "CRI, cut"],
)
def test_logs_of_container_runtimes_and_collectors(name: str, wrap: Callable[[str], str]) -> None:
    plain = inspect(RIGHT[name], lookalike(name))
    wrapped = inspect(RIGHT[name], wrap(lookalike(name)))
    assert wrapped == plain


def test_objects_of_kubernetes_are_no_log_lines() -> None:
    event = {"kind": "Event", "message": "0/1 nodes are available: 1 Too many pods.", "reason": "FailedScheduling"}
    for text in (json.dumps(event), json.dumps({"items": [event]}), json.dumps([event]), '{"message": 3}', "{not json}", '{"a": 1}'):
        assert unwrapped(text) == text
    assert inspect("events", json.dumps(event)).verdict == "bad"


def test_no_line_is_lost_between_wrapped_ones() -> None:
    text = 'plain\n{"log": "one\\ntwo\\n", "stream": "stdout"}\n{broken\n2026-01-01T00:00:00Z stdout P cut'
    assert unwrapped(text).split("\n") == ["plain", "one", "two", "{broken", "cut"]


CAPTURES = [(file.stem, file) for file in (*sorted(DATA.glob("*.txt")), *(sorted(SAMPLES.glob("*.txt")) if SAMPLES.is_dir() else ()))]
MIXED = re.compile("dra-test|gang-|gpu-isolation|kops-|nodelabels-|openshift|unexpectedadmission")
"""Documents of several outputs."""


@pytest.mark.parametrize(("name", "file"), CAPTURES, ids=[name for name, _ in CAPTURES])
def test_a_text_is_never_good_or_bad_as_another_kind(name: str, file: Path) -> None:
    text = decoded(file.read_bytes())
    decided = set()
    for kind in KINDS:
        try:
            result = inspect(kind, text)
        except Unreadable:
            continue
        assert result.kind == kind
        if result.verdict != "undecidable":
            decided.add(kind)
        if result.verdict == "good":
            assert "undecidable" not in {finding.verdict for finding in result.findings}
    assert len(decided) <= 1 or MIXED.match(name), decided


RUN = """# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid    100 on h0 device  0 [0x01] NVIDIA H100
#  Rank  1 Group  0 Pid    101 on h1 device  0 [0x01] NVIDIA H100
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1   5000.0  214.75  214.75      0   5001.0  214.70  214.70      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 214.72
"""


def test_a_table_is_no_log_unless_it_holds_lines_of_one() -> None:
    """A log's reader finds the ranks of a table without NCCL's own lines, and nothing to judge."""
    assert inspect("nccl-log", RUN + "h0:1:2 [0] NCCL INFO NCCL version 2.21.5\n").kind == "nccl-log"
    with pytest.raises(Unreadable, match="it is nccl-tests, not nccl-log"):
        inspect("nccl-log", RUN)


@pytest.mark.parametrize("name", ["nccl-gdr", "nccl-mnnvl"])
def test_a_log_that_ends_within_a_line_is_judged_by_the_lines_before(name: str) -> None:
    text = lookalike(name)
    found = {inspect("nccl-log", text[:end]).verdict for end in range(len(text) * 2 // 3, len(text))}
    assert found <= {"good", "undecidable"}


@pytest.mark.parametrize("form", ["json", "lines"])
def test_what_a_node_of_hami_offers_cannot_be_checked(form: str) -> None:
    mark = {"hami.io/node-nvidia-register": '[{"id":"GPU-1","count":10}]'}
    labels, units = {"nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "1"}, {"nvidia.com/gpu": "10"}
    node = {"kind": "Node", "metadata": {"name": "h", "labels": labels, "annotations": mark}, "status": {"capacity": units}}
    lines = "Name: h\nLabels: nvidia.com/gpu.count=1\nAnnotations: hami.io/node-nvidia-register: [...]\nCapacity:\n  nvidia.com/gpu: 10\n"
    result = inspect("node", json.dumps(node) if form == "json" else lines)
    assert (result.verdict, result.reason_code) == ("undecidable", "SPLIT_BY_SCHEDULER")


@pytest.mark.parametrize(("kind", "listed"), [("resourceslice", "ResourceSlice"), ("events", "Event"), ("node", "Node")])
@pytest.mark.parametrize("text", ['{{"kind": "List", "items": []}}', "kind: {listed}List\nitems: []\n"])
def test_an_empty_list_decides_nothing(kind: str, listed: str, text: str) -> None:
    result = inspect(kind, text.format(listed=listed))
    assert (result.verdict, result.reason_code) == ("undecidable", "EMPTY_LIST")
    with pytest.raises(Unreadable):
        inspect(kind, "kind: ServiceList\nitems: []\n")


TABLE = table(__file__)
OTHERS = TABLE["OTHERS"]


@pytest.mark.parametrize(("program", "text"), OTHERS, ids=[row[0] for row in OTHERS])
@pytest.mark.parametrize("kind", ["nccl-log", "nvidia-smi", "dcgm-metrics", "events"])
def test_output_of_a_program_that_nobody_judges_is_named(program: str, text: str, kind: str) -> None:
    words = program if program == KUBERNETES else f"output of {program}"
    with pytest.raises(Unreadable, match=re.escape(f"it is {words}, not {kind}")):
        inspect(kind, text)


@pytest.mark.parametrize(
    "text", ["apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n labels: x\n", '{"apiVersion": "v1", "kind": "Node",\n "apiVersion": "v1",']
)
def test_a_malformed_object_of_the_kind_is_no_other_kind(text: str) -> None:
    with pytest.raises(Unreadable, match=r"^malformed (YAML|JSON): "):
        inspect("node", text)


def test_exit_code_and_words_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "capture"
    file.write_text(lookalike("smi-query"))
    assert main(["nccl-log", str(file)]) == 4
    assert "it is nvidia-smi, not nccl-log: gpu-conformance inspect nvidia-smi judges it" in capsys.readouterr().err
