"""What reading and judging cost grows with the cluster and no faster: work is counted, in function calls, on fleets of three sizes."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fixtures.cluster.answer import Answer
from fixtures.cluster.kinds import KINDS
from fixtures.cluster.versions_seen import VersionsSeen
from fixtures.model.cluster import Scope
from fixtures.simulator.config.scenario import parse_simulate
from fixtures.snapshot import collect
from tests.judging import READ, judge
from tests.requirements_offline import healthy, scope_of
from tests.steps import steps

SMALL, MIDDLE, LARGE = 16, 32, 64


@cache
def fleet(nodes: int) -> Scope:
    return scope_of(parse_simulate(f"fleet:nodes={nodes}")[0])


def work(nodes: int, ids: list[str]) -> int:
    scope = fleet(nodes)
    judge(scope.snapshot, scope.policy, ids)  # what is compiled or looked up once is not counted
    return steps(lambda: judge(scope.snapshot, scope.policy, ids))


@pytest.mark.test_all
@pytest.mark.parametrize("requirement", READ)
def test_twice_as_many_more_nodes_are_twice_as_much_more_work(requirement: str) -> None:
    """Work that grows with the square would be four times as much more."""
    small, middle, large = (work(size, [requirement]) for size in (SMALL, MIDDLE, LARGE))
    assert large - middle <= 2.4 * (middle - small) + LARGE


CALLS_PER_OBJECT = {"nodes": 13, "pods": 150}
"""Of reading one object of a list: its text is decoded by one call for the whole page."""


def reading(key: str, nodes: int) -> tuple[int, int]:
    """How many objects a page of a fleet holds, and the calls that reading it takes."""
    kind = KINDS[key]
    items = [
        {**one, "metadata": {"uid": f"u-{number}", "resourceVersion": "7", **one["metadata"]}}
        for number, one in enumerate(healthy(parse_simulate(f"fleet:nodes={nodes}")[0]))
        if one["kind"] == kind.kind
    ]
    body = msgspec.json.encode({"kind": kind.list_kind, "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items})
    cluster: Any = SimpleNamespace(versions_seen=VersionsSeen(), page=lambda *_, **__: Answer(status=200, body=body))
    found = collect._list(cluster, kind, "v1")
    assert (len(found.items), found.message) == (len(items), "")
    return len(items), steps(lambda: collect._list(cluster, kind, "v1"))


@pytest.mark.parametrize("key", CALLS_PER_OBJECT)
def test_reading_an_object_takes_the_same_few_calls_in_a_small_list_and_a_large_one(key: str) -> None:
    (few, little), (more, work_) = reading(key, SMALL), reading(key, LARGE)
    assert (work_ - little) / (more - few) < CALLS_PER_OBJECT[key]
    assert work_ * few < little * more * 1.05


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
