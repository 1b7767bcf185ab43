"""Tables of the package are read from what was kept of them beside the text, as long as that is of this text."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.text.yaml_text import packaged


@pytest.fixture(autouse=True)
def _bytecode_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def _written(folder: Path, text: str) -> tuple[Path, Path]:
    path = folder / "rows.yaml"
    path.write_text(text, encoding="utf-8")
    return path, folder / "__pycache__" / "rows.yaml.values"


def test_a_table_is_read_again_from_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, kept = _written(tmp_path, "a: [1, 2.5, x, true, null]\n")
    assert packaged(path, dict[str, Any]) == {"a": [1, 2.5, "x", True, None]}
    assert kept.is_file()
    monkeypatch.setattr("yaml.load", lambda *_, **__: pytest.fail("read as YAML again"))
    assert packaged(path, dict[str, Any]) == {"a": [1, 2.5, "x", True, None]}


@pytest.mark.parametrize("later", [0, 1])
def test_another_text_is_read_anew(tmp_path: Path, later: int) -> None:
    path, _ = _written(tmp_path, "a: 1\n")
    packaged(path, dict[str, int])
    when = path.stat().st_mtime_ns
    path.write_text("a: 2\n" if later else "a: 22\n", encoding="utf-8")
    os.utime(path, ns=(when + later, when + later))
    assert packaged(path, dict[str, int]) == {"a": 2 if later else 22}


@pytest.mark.parametrize("data", [b"", b"[[", b"[[1,2]]", b'{"a": 1}', b"\xff"])
def test_a_broken_file_beside_it_changes_nothing(tmp_path: Path, data: bytes) -> None:
    path, kept = _written(tmp_path, "a: 1\n")
    kept.parent.mkdir()
    kept.write_bytes(data)
    assert packaged(path, dict[str, int]) == {"a": 1}


@pytest.mark.parametrize("text", ["a: 2026-11-01\n", "1: a\n", "a: .inf\n"])
def test_values_that_json_does_not_have_are_the_same_each_time(tmp_path: Path, text: str) -> None:
    path, kept = _written(tmp_path, text)
    assert packaged(path, dict[Any, Any]) == packaged(path, dict[Any, Any])
    assert not kept.exists()


def test_nothing_is_kept_where_python_keeps_no_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path, kept = _written(tmp_path, "a: 1\n")
    assert packaged(path, dict[str, int]) == {"a": 1}
    assert not kept.parent.exists()


def test_a_folder_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    path, kept = _written(tmp_path, "a: 1\n")
    kept.parent.write_text("no folder")
    assert packaged(path, dict[str, int]) == {"a": 1}
