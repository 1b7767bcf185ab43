import codecs
import io
import json
import sys
from pathlib import Path

import pytest

from conformance.cli.inspect import KINDS, inspect, main
from conformance.outputs.captured_text import Unreadable
from tests.outputs.lookalikes import lookalike, path_of
from tests.tables import each_row, table

TABLE = table(__file__)
CASES = list(TABLE["test_exit_code_and_json"]["kind, name, exit_code, code"].values())


@each_row
def test_exit_code_and_json(kind: str, name: str, exit_code: int, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([kind, str(path_of(name)), "--json"]) == exit_code
    out, err = capsys.readouterr()
    printed = json.loads(out)
    assert list(printed) == ["kind", "verdict", "reasonCode", "message", "facts", "findings"]
    assert (printed["kind"], printed["reasonCode"]) == (kind, code)
    assert isinstance(printed["facts"], dict)
    assert isinstance(printed["findings"], list)
    assert err == ""


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lookalike("nccl-gdr").encode())))
    assert main(["nccl-log", "-"]) == 0
    assert "GDR_ENGAGED" in capsys.readouterr().out


UNREADABLE = [
    *(b"", b"   \n\n", b"\x7fELF\0\0\1", b"\0" * 64, b"a\0b", codecs.BOM_UTF16_LE + b"a\0\0\0" * 9, bytes(range(128, 256)) * 20),
    *(b"nothing of the kind", b"hello\nworld", b"1 2 3 4", b"via NET/IB/0/GDRDMA", b"\0NCCL INFO x", b"<nvidia_smi_log>"),
    *(b"{", b"a: [b", b"- - -", b"kind: List\nitems:\n- x"),
]


@pytest.mark.parametrize("content", UNREADABLE)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_unreadable_files_are_four_with_one_line(kind: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert main([kind, str(file), "--json"]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


@each_row
def test_wrong_use_is_four_with_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 4
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(Unreadable, match="did you mean nccl-log"):
        inspect("nccl-logs", "x")


def test_captured_text_does_not_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log"
    file.write_text("h:1:2 [0] NCCL WARN Cuda failure \x1b]0;owned\x07 \x9b31m\u202e\n")
    assert main(["nccl-log", str(file)]) == 1
    assert not any(not character.isprintable() for character in capsys.readouterr().out.replace("\n", ""))
