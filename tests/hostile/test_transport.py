"""Every caller asks a cluster through ``fixtures/cluster``: what its transport bounds and refuses is so for all of them."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPENING = frozenset({"aiohttp", "http", "httpx", "kubernetes", "requests", "socket", "ssl", "urllib3", "websocket"})
NO_CLUSTER = {
    "chaos/safety/lease.py": "the name of this machine",
    "conformance/delivery/files.py": "buckets and web hooks",
    "conformance/probes/running.py": "errors of the transport's library",
    "fixtures/nodeprobe/pod_resources.py": "the kubelet's socket, on a node",
    "fixtures/probes/allreduce.py": "runs inside a pod",
    "fixtures/system/process.py": "the name of this machine",
}


def opens(path: Path) -> bool:
    tree = ast.parse(path.read_text())
    modules = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    return any(module.partition(".")[0] in OPENING or module == "urllib.request" for module in modules)


@pytest.mark.parametrize("folder", ["chaos", "conformance", "deploy", "fixtures", "reports"])
def test_no_other_part_opens_a_connection_to_a_cluster(folder: str) -> None:
    skipped = ("fixtures/cluster/", "fixtures/simulator/", "fixtures/localcluster/")
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / folder).rglob("*.py")}
    found = {name for name, path in files.items() if not name.startswith(skipped) and opens(path)}
    assert found == {name for name in NO_CLUSTER if name.startswith(f"{folder}/")}
