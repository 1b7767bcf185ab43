"""Bad input: one clear line, exit code 4, no traceback, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.endtoend.runs import run_suite
from tests.served import kubeconfig

CASES = {
    "missing kubeconfig": (["--kubeconfig", "{absent}"], "absent: no such file"),
    "broken kubeconfig": (["--kubeconfig", "{broken}"], "not YAML"),
    "not a kubeconfig": (["--kubeconfig", "{other}"], "not a kubeconfig"),
    "unreachable server": (["--kubeconfig", "{away}"], "server http://127.0.0.1:9"),
    "unknown context": (["--kubeconfig", "{away}", "--context", "prod"], "no context 'prod'; it has: served"),
    "context alone": (["--context", "prod"], "--context needs --kubeconfig"),
    "two targets": (["--kubeconfig", "{away}", "--simulate", "healthy"], "one target at a time"),
    "unknown scenario": (["--simulate", "helthy"], "did you mean 'healthy'?"),
    "unknown defect": (["--simulate", "healthy,fence-untainted-gpu-nod"], "did you mean 'fence-untainted-gpu-node'?"),
    "unknown scenario option": (["--simulate", "fleet:nods=3"], "did you mean 'nodes'?"),
    "not a number": (["--simulate", "fleet:nodes=many"], "nodes"),
    "unknown requirement": (["--require", "FENCE-99"], "--require: unknown requirement 'FENCE-99'"),
    "snapshot that is not there": (["--snapshot", "{absent}"], "no such file or folder"),
    "snapshot that is not Kubernetes": (["--snapshot", "{broken}"], "snapshot"),
    "policy that is not there": (["--policy", "{absent}"], "No such file"),
    "policy with an unknown key": (["--policy", "{policy}"], "unknown key fence.taintKey; did you mean 'taintKeys'?"),
    "contradiction": (["--read-only", "--access", "workload"], "--read-only contradicts --access workload"),
    "report folder that cannot be made": (["--report-dir", "/proc/nowhere"], "--report-dir /proc/nowhere"),
    "not in a cluster": (["--in-cluster"], "--in-cluster"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_exit_code_4(tmp_path: Path, case: str) -> None:
    (tmp_path / "broken").write_text("a: [\n")
    (tmp_path / "other").write_text("kind: Pod\n")
    (tmp_path / "policy").write_text("fence: {taintKey: [a]}\n")
    places = {name: str(tmp_path / name) for name in ("broken", "other", "policy", "absent")}
    places["away"] = str(kubeconfig(tmp_path, "http://127.0.0.1:9"))
    arguments, expected = CASES[case]
    done = run_suite(tmp_path, *(argument.format(**places) for argument in arguments))
    assert done.code == 4, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("ERROR:")]
    assert expected in line
    assert "Traceback" not in done.output
    assert done.report is None
