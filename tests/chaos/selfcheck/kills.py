"""The runner is killed at random instants; ``recover`` must restore exactly what was there before."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from chaos.engine.recover import status
from chaos.model.records import LedgerError
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from tests.chaos import leak_scan
from tests.chaos.selfcheck.runs import ROOT, RUN_SECONDS, Stage, start

VICTIMS = ("runner", "child", "both")
BEGIN_SECONDS = 120.0
RESTORE_SECONDS = 60.0
"""What the cluster gets after ``recover`` until it must look as before: programs that were killed come back, timers of hosts fire."""

_STEP = 0.02
_METRICS = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS")


class Kill(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One kill: who died, ``seconds`` after the begin of the experiment, how far it was, and what was left in the end."""

    experiment: str
    victim: str
    seconds: float
    stage: str
    open_entries: int
    residue: list[str]
    restored_seconds: float


def kill_once(stage: Stage, id_: str, duration: float, chance: random.Random, report: Path) -> Kill:
    """Start the experiment, kill at a random instant of ``duration`` seconds, recover, compare."""
    before = look(stage.cluster)
    victim, instant, from_act = chance.choice(VICTIMS), chance.uniform(0.0, duration), chance.random() < 0.75
    process = start(stage.command(report, id_))
    folder = report / "chaos" / id_
    sink = threading.Thread(target=process.stdout.read if process.stdout else None, daemon=True)  # a full pipe would hold it up
    sink.start()
    _until(process, folder / ("child.log" if from_act else "plan.json"), BEGIN_SECONDS)
    began = time.monotonic()
    _idle(process, instant)
    seconds = time.monotonic() - began
    reached = _reached(folder)
    if victim != "child":
        kill_group(process.pid)
    if victim != "runner":
        for pid in children(folder):
            kill_group(pid)
    ended = _ended(process, folder)
    opened = _open_entries(stage.cluster)
    recovered = recover(stage)
    asked = time.monotonic()
    left = list(ended)
    if recovered.returncode:
        left.append(f"recover ended with {recovered.returncode}: {(recovered.stdout + recovered.stderr).strip()[-500:]}")
    left += differences(stage.cluster, before)
    if still := _open_entries(stage.cluster):
        left.append(f"{still} entries are open after recover")
    return Kill(
        experiment=id_,
        victim=victim,
        seconds=round(seconds, 3),
        stage=reached,
        open_entries=opened,
        residue=left,
        restored_seconds=round(time.monotonic() - asked, 2),
    )


def recover(stage: Stage) -> subprocess.CompletedProcess[str]:
    """``gpu-conformance chaos recover`` from another process, by what the cluster holds alone."""
    command = [sys.executable, "-m", "conformance.cli.main", "chaos", "recover", *stage.options, "--yes"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def look(cluster: Cluster) -> dict[str, str]:
    """What must be as before: the leak scan's view, readiness of nodes, and what telemetry says of devices."""
    values = dict(leak_scan.scan(cluster).values)
    for node in cluster.request("GET", "/api/v1/nodes").json()["items"]:
        for condition in node["status"].get("conditions") or ():
            if condition["type"] == "Ready" or condition["status"] != "False":  # a detector that has never spoken says no less than False
                values[f"node {node['metadata']['name']} condition {condition['type']}"] = str(condition["status"])
    for pod in cluster.request("GET", "/api/v1/pods", query={"labelSelector": "app=nvidia-dcgm-exporter"}).json()["items"]:
        values |= _metrics(cluster, pod)
    return values


def _metrics(cluster: Cluster, pod: Json) -> dict[str, str]:
    meta = pod["metadata"]
    answer = cluster.request("GET", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}:9400/proxy/metrics", accept="*/*")
    found = {}
    for line in answer.body.decode(errors="replace").splitlines() if answer.ok else ():
        name, _, rest = line.partition("{")
        if name in _METRICS:
            labels, _, value = rest.rpartition("} ")
            uuid = next((part for part in labels.split(",") if part.startswith("UUID=")), "")
            profile = next((part for part in labels.split(",") if part.startswith("GPU_I_ID=")), "")
            found[f"{name} {uuid} {profile}".strip()] = value
    return found


def differences(cluster: Cluster, before: dict[str, str]) -> list[str]:
    """What is not as before, once it had time to be; empty as soon as all is."""
    deadline = time.monotonic() + RESTORE_SECONDS
    while True:
        try:
            now = look(cluster)
            found = [f"{key}: {before.get(key)} → {now.get(key)}" for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
        except ApiTrouble as trouble:
            found = [f"the cluster could not be read: {trouble.message}"]
        if not found or time.monotonic() > deadline:
            return found
        threading.Event().wait(0.3)


def _open_entries(cluster: Cluster) -> int:
    try:
        return len(status(cluster).open_entries)
    except LedgerError:
        return -1


def _reached(folder: Path) -> str:
    """How far the experiment was, by what it had written."""
    if (folder / "verdict.json").exists():
        return "judged"
    if (folder / "journal.json").exists():
        return "undone"
    ledger = folder / "ledger.jsonl"
    if ledger.exists():
        text = ledger.read_bytes()
        for state in (b'"undoing"', b'"applied"', b'"armed"'):
            if state in text:
                return state.decode().strip('"')
        return "acting"
    return "before"


def _until(process: subprocess.Popen[bytes], path: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < deadline and process.poll() is None:
        _idle(process, _STEP)


def _idle(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return


def _ended(process: subprocess.Popen[bytes], folder: Path) -> list[str]:
    """Wait for everything of the run to be gone: a child may still be undoing, a runner may still be judging."""
    try:
        process.wait(timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        kill_group(process.pid)
        return ["the runner did not end"]
    deadline = time.monotonic() + RESTORE_SECONDS
    while children(folder):
        if time.monotonic() > deadline:
            return ["the child outlived its runner"]
        threading.Event().wait(_STEP)
    return []


def children(folder: Path) -> list[int]:
    """Processes whose command line names the experiment's folder."""
    wanted = str(folder).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"chaos.engine.child" in words and wanted in words:
                found.append(int(entry.name))
    return found


def kill_group(pid: int) -> None:
    """SIGKILL to a process and all that it started in its session."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
