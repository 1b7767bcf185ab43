"""Types are met by one thread at a time: a second that meets one with it ends the process (docs/decisions/one-thread-meets-a-type.md)."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("conformance", "chaos", "fixtures", "reports")
HOME = ROOT / "fixtures" / "text" / "typed.py"

_TOGETHER = """
import sys, threading
from fixtures.kubernetes.models import Pod
from fixtures.text import json_text, typed
from fixtures.verdict.record import Report
sys.setswitchinterval(1e-6)
together = threading.Barrier(16)
text = b'{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}'
calls = (
    lambda: typed.convert({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}, Pod, strict=False),
    lambda: typed.decoder(list[Pod], strict=False).decode(b"[%b]" % text),
    lambda: typed.decode(text, Pod),
    lambda: json_text.decode(text, Pod),
)
def decode(call):
    together.wait()
    call()
threads = [threading.Thread(target=decode, args=(calls[number % len(calls)],)) for number in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_threads_that_meet_a_type_together_all_decode_it() -> None:
    """With msgspec's own functions in the place of ``typed``'s, nearly each of these processes ended with a segmentation fault."""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", _TOGETHER], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("folder", FOLDERS)
def test_only_one_file_lets_msgspec_meet_types(folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*.py") if path != HOME]
    assert [f"{path.relative_to(ROOT)}:{line}" for path in files for line in meetings(path.read_text(encoding="utf-8"))] == []


def meetings(code: str) -> Iterator[int]:
    """The lines at which msgspec is given a type."""
    for node in ast.walk(ast.parse(code)) if "msgspec" in code else ():
        if isinstance(node, ast.ImportFrom) and node.module in ("msgspec", "msgspec.json"):
            yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = ast.unparse(node.func)
            if called in ("msgspec.convert", "msgspec.json.Decoder") or (called == "msgspec.json.decode" and node.keywords):
                yield node.lineno
