"""How long reading a fleet takes, against kubectl reading the same objects from the same server.

Whole processes, in turn A B A B, medians; the ratio is what counts on a noisy machine. The server is a
process of its own, so that only the readers are measured. ``make bench`` writes ``out/bench.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import yaml

from fixtures.record import Access, Verdict, decode_report
from fixtures.simulator.embedded import EmbeddedCluster

ROOT = Path(__file__).resolve().parents[2]


class Size(msgspec.Struct, rename="camel", kw_only=True):
    """One size of fleet."""

    nodes: int
    pods: int
    suite_seconds: float
    kubectl_seconds: float
    ratio: float
    peak_rss_mib: float = msgspec.field(name="peakRssMiB")
    requests: int
    ratios: list[float]


def measure(command: list[str], output: Path | None = None) -> tuple[float, float, int]:
    """Wall seconds, peak resident MiB and exit code of a whole process, by the operating system's own accounting."""
    with (output or Path(os.devnull)).open("wb") as sink:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    return seconds, usage.ru_maxrss / 1024, process.returncode


def bench(nodes: int, rounds: int) -> Size:
    """Measure one size. Raises RuntimeError when a reader failed: its time would mean nothing."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise RuntimeError("kubectl is not on PATH (Debian: kubernetes-client)")
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-bench-") as folder:
        cluster = EmbeddedCluster.start(f"fleet:nodes={nodes}", Path(folder))
        try:
            policy = Path(folder) / "policy.yaml"
            policy.write_text(yaml.safe_dump(cluster.policy))
            report_dir = Path(folder) / "report"
            suite = [sys.executable, "-m", "pytest", "-q", "conformance", "--kubeconfig", str(cluster.kubeconfig)]
            suite += ["--policy", str(policy), "--read-only", "--report-dir", str(report_dir)]
            reader = [kubectl, "--kubeconfig", str(cluster.kubeconfig), "get", "nodes,pods", "-A", "-o", "json"]
            suites, kubectls, ratios, peaks = [], [], [], []
            for round_ in range(rounds + 1):
                seconds, peak, code = measure(suite, Path(folder) / "suite.log")
                if code not in (0, 1):
                    raise RuntimeError(f"the suite ended with {code}: {(Path(folder) / 'suite.log').read_text()[-2000:]}")
                listed = Path(folder) / "objects.json"
                other, _, code = measure(reader, listed)
                if code:
                    raise RuntimeError(f"kubectl ended with {code}: {listed.read_text()[:500]}")
                if round_:  # the first round warms caches of both
                    suites.append(seconds)
                    kubectls.append(other)
                    ratios.append(seconds / other)
                    peaks.append(peak)
            kinds = [item["kind"] for item in json.loads(listed.read_bytes())["items"]]
            report = decode_report((report_dir / "report.json").read_bytes())
        finally:
            cluster.stop()
    judged = [result for result in report.results if result.access is Access.READ and result.verdict is not Verdict.NOT_APPLICABLE]
    if not judged:
        raise RuntimeError("no read requirement judged anything")
    return Size(
        nodes=kinds.count("Node"),
        pods=kinds.count("Pod"),
        suite_seconds=round(statistics.median(suites), 3),
        kubectl_seconds=round(statistics.median(kubectls), 3),
        ratio=round(statistics.median(ratios), 3),
        peak_rss_mib=round(max(peaks), 1),
        requests=report.requests.count,
        ratios=[round(ratio, 3) for ratio in ratios],
    )


def main() -> int:
    """Measure and write; exit 1 when the largest size misses a bar (ratio 1.0, 400 MiB)."""
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "bench.json")
    arguments = parser.parse_args()
    sizes = []
    for nodes in arguments.nodes:
        size = bench(nodes, arguments.rounds)
        sizes.append(size)
        print(
            f"{size.nodes} nodes, {size.pods} pods: suite {size.suite_seconds} s, kubectl {size.kubectl_seconds} s, "
            f"ratio {size.ratio} {size.ratios}, peak {size.peak_rss_mib} MiB, {size.requests} requests",
            flush=True,
        )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_bytes(msgspec.json.format(msgspec.json.encode({"sizes": sizes}), indent=2) + b"\n")
    last = sizes[-1]
    return 0 if last.ratio <= 1.0 and last.peak_rss_mib < 400 else 1


if __name__ == "__main__":
    sys.exit(main())
