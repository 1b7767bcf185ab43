"""How long reading a fleet takes, against kubectl reading the same objects from the same server; and what a full run waits for.

Whole processes, in turn A B A B, medians; the ratios are what counts on a noisy machine, that of CPU time most. The server is a
process of its own, so that only the readers are measured. Pages of exporters, which no list has and each node serves for itself, are
read in a run of their own: ``withPagesCpuSeconds``. The full run is on a cluster whose pods take half a minute to start.
``make bench`` writes ``out/bench.json``.
"""

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

from conformance.catalogue import load_catalogue
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.verdict.record import Access, Verdict, decode_report

ROOT = Path(__file__).resolve().parents[2]


class Size(msgspec.Struct, rename="camel", kw_only=True):
    """One size of fleet."""

    asked: int
    nodes: int
    pods: int
    suite_seconds: float
    kubectl_seconds: float
    ratio: float
    suite_cpu_seconds: float
    kubectl_cpu_seconds: float
    cpu_ratio: float
    with_pages_cpu_seconds: float
    peak_rss_mib: float = msgspec.field(name="peakRssMiB")
    requests: int
    ratios: list[float]


class FullRun(msgspec.Struct, rename="camel", kw_only=True):
    """A run with probe pods, each of which takes ``pod_start_seconds`` to start. ``ratio``: how many such starts the run took."""

    scenario: str
    pod_start_seconds: int
    seconds: float
    ratio: float
    judged: int


class Measured(msgspec.Struct, frozen=True):
    """A whole process by the operating system's own accounting: wall and CPU seconds, peak resident MiB, exit code."""

    seconds: float
    cpu: float
    peak: float
    code: int


POD_START = 30
FULL_RUN = "rdma-training"
MAX_CPU_RATIOS = {100: 0.6, 1000: 0.15}
MAX_PEAK_MIB = {1000: 300.0, 5000: 700.0}
MAX_SECONDS_RATIO = 1.0
MAX_FULL_RUN_SECONDS = 120.0


class Bar(msgspec.Struct, frozen=True):
    """A value and the most that it may be."""

    what: str
    value: float
    most: float

    @property
    def missed(self) -> bool:
        """Whether the value is above it."""
        return self.value > self.most

    def __str__(self) -> str:
        return f"{'missed' if self.missed else 'kept'}: {self.what} {self.value:g} (bar {self.most:g})"


def measure(command: list[str], output: Path | None = None) -> Measured:
    """Run a process to its end. It may keep its bytecode, as an installed package does, whatever this shell forbids: each round would
    compile the suite anew beside a kubectl that is compiled once.
    """
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with (output or Path(os.devnull)).open("wb") as sink:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, cwd=ROOT, env=environ)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode)


def bench(nodes: int, rounds: int) -> Size:
    """Measure one size. Raises RuntimeError when a reader failed or the fleet is not conformant: the time would mean nothing."""
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
            lists = [*suite, "--only", ",".join(area.area for area in load_catalogue().areas if area.area != "OBS")]
            reader = [kubectl, "--kubeconfig", str(cluster.kubeconfig), "get", "nodes,pods", "-A", "-o", "json"]
            suites: list[Measured] = []
            kubectls: list[Measured] = []
            for round_ in range(rounds + 1):
                own = measure(lists, Path(folder) / "suite.log")
                if own.code:
                    raise RuntimeError(f"the suite ended with {own.code}: {(Path(folder) / 'suite.log').read_text()[-2000:]}")
                listed = Path(folder) / "objects.json"
                other = measure(reader, listed)
                if other.code:
                    raise RuntimeError(f"kubectl ended with {other.code}: {listed.read_text()[:500]}")
                if round_:  # the first round warms caches of both
                    suites.append(own)
                    kubectls.append(other)
            kinds = [item["kind"] for item in json.loads(listed.read_bytes())["items"]]
            report = decode_report((report_dir / "report.json").read_bytes())
            whole = measure(suite, Path(folder) / "suite.log")
        finally:
            cluster.stop()
    judged = [result for result in report.results if result.access is Access.READ and result.verdict is not Verdict.NOT_APPLICABLE]
    if not judged:
        raise RuntimeError("no read requirement judged anything")
    ratios = [own.seconds / other.seconds for own, other in zip(suites, kubectls, strict=True)]
    return Size(
        asked=nodes,
        nodes=kinds.count("Node"),
        pods=kinds.count("Pod"),
        suite_seconds=round(statistics.median(own.seconds for own in suites), 3),
        kubectl_seconds=round(statistics.median(other.seconds for other in kubectls), 3),
        suite_cpu_seconds=round(statistics.median(own.cpu for own in suites), 3),
        kubectl_cpu_seconds=round(statistics.median(other.cpu for other in kubectls), 3),
        cpu_ratio=round(statistics.median(own.cpu / other.cpu for own, other in zip(suites, kubectls, strict=True)), 3),
        ratio=round(statistics.median(ratios), 3),
        with_pages_cpu_seconds=round(whole.cpu, 3),
        peak_rss_mib=round(max(own.peak for own in suites), 1),
        requests=report.requests.count,
        ratios=[round(ratio, 3) for ratio in ratios],
    )


def full_run(scenario: str, pod_start: int) -> FullRun:
    """Measure a run with probes. Raises RuntimeError when it is not conformant."""
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-bench-") as folder:
        report_dir, log = Path(folder) / "report", Path(folder) / "suite.log"
        command = [sys.executable, "-m", "pytest", "-q", "conformance", "--simulate", f"{scenario}:podStart={pod_start}"]
        done = measure([*command, "--report-dir", str(report_dir)], log)
        if done.code:
            raise RuntimeError(f"the full run ended with {done.code}: {log.read_text()[-2000:]}")
        report = decode_report((report_dir / "report.json").read_bytes())
    judged = sum(result.verdict is not Verdict.NOT_APPLICABLE for result in report.results)
    seconds = round(done.seconds, 1)
    return FullRun(scenario=scenario, pod_start_seconds=pod_start, seconds=seconds, ratio=round(seconds / pod_start, 2), judged=judged)


def bars(sizes: list[Size], run: FullRun | None) -> list[Bar]:
    """What was measured beside the most that it may be. Sizes without a bar are measured only."""
    found = []
    for size in sizes:
        for name, value, most in (("CPU ratio", size.cpu_ratio, MAX_CPU_RATIOS), ("peak MiB", size.peak_rss_mib, MAX_PEAK_MIB)):
            if size.asked in most:
                found.append(Bar(f"{size.asked} nodes, {name}", value, most[size.asked]))
        if size.asked >= 1000:
            found.append(Bar(f"{size.asked} nodes, seconds ratio", size.ratio, MAX_SECONDS_RATIO))
    if run is not None:
        found.append(Bar("full run, seconds", run.seconds, MAX_FULL_RUN_SECONDS))
    return found


def main() -> int:
    """Measure and write; exit 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pod-start", type=int, default=POD_START, help="seconds that pods of the full run take; 0 leaves it out")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "bench.json")
    arguments = parser.parse_args()
    sizes = []
    for nodes in arguments.nodes:
        size = bench(nodes, arguments.rounds)
        sizes.append(size)
        print(
            f"{size.nodes} nodes, {size.pods} pods: suite {size.suite_seconds} s, kubectl {size.kubectl_seconds} s, "
            f"ratio {size.ratio} {size.ratios}, CPU {size.suite_cpu_seconds} s to {size.kubectl_cpu_seconds} s, ratio {size.cpu_ratio}, "
            f"with pages of exporters {size.with_pages_cpu_seconds} s, peak {size.peak_rss_mib} MiB, {size.requests} requests",
            flush=True,
        )
    run = full_run(FULL_RUN, arguments.pod_start) if arguments.pod_start else None
    if run is not None:
        print(f"full run on {run.scenario}, pods start in {run.pod_start_seconds} s: {run.seconds} s, {run.ratio} starts long", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_bytes(msgspec.json.format(msgspec.json.encode({"sizes": sizes, "fullRun": run}), indent=2) + b"\n")
    found = bars(sizes, run)
    for bar in found:
        print(bar, flush=True)
    return 1 if any(bar.missed for bar in found) else 0


if __name__ == "__main__":
    sys.exit(main())
