"""Seeded commands through the fault proxy: what a command says it has done is what the cluster shows.

On the cluster are a change that was not put back, and the namespace of a run that has ended.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec

from chaos.ledger.undos.nodes import NodeLabels
from chaos.safety.lease import read_lease
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import KINDS
from fixtures.ownership import owned
from fixtures.ownership.proof_record import PROOF
from fixtures.policy.allowlist import cluster_uid
from fixtures.probes.workspace import Workspace
from fixtures.system.process import Process
from tests.chaos.leak_scan import scan
from tests.chaos.ledger.simulated_cluster import fetch, ledger, world
from tests.endtoend.runs import ROOT, environment
from tests.hostile.faults.campaign import Outcome, left_behind
from tests.hostile.faults.plans import command_faults
from tests.hostile.faults.proxy import Fault, through

COMMANDS = (("chaos", "status"), ("chaos", "halt"), ("chaos", "recover"), ("cleanup",))
CODES = {0, 4, 10, 11}
NODE, LABEL, VALUE = "gpu-1", "nvidia.com/gpu.product", "H100"
ENDED = "20261121-100000-gone"
_OF_CHAOS = "gpu-conformance-chaos"
_SECONDS = 180.0


def stated(seed: int, folder: Path) -> Outcome:
    """The command of a seed."""
    random = Random(seed)
    command = random.choice(COMMANDS)
    return answered(command, command_faults(random), folder, seed=seed)


def answered(command: tuple[str, ...], faults: tuple[Fault, ...], folder: Path, *, seed: int = 0) -> Outcome:
    """A command under certain faults, on a cluster of its own."""
    outcome = Outcome(seed=seed, simulate=" ".join(command), faults=[], exit_code=0)
    with world(folder) as (cluster, _):
        cluster.learn_versions({key: kind.versions[0] for key, kind in KINDS.items() if key in ("namespaces", owned.PRIORITY_CLASSES)})
        uid = cluster_uid(cluster)
        _leave(cluster, folder)
        with through(folder / "kubeconfig", folder / "proxied", faults) as proxy:
            consent = () if command == ("chaos", "status") else ("--yes", "--chaos-cluster", uid)
            patience = ("--seconds", "60") if command == ("chaos", "recover") else ()
            code, output = _run([*command, "--kubeconfig", str(folder / "proxied"), *consent, *patience])
            outcome.met(proxy)
        outcome.exit_code = code
        outcome.changed = int(code not in (0, 11))
        outcome.wrong = list(_wrong(command, code, output, cluster))
    return outcome


def _leave(cluster: Cluster, folder: Path) -> None:
    """A label of a node that experiment A9 has taken off, and a namespace of another run. Both runs' processes have ended."""
    book = ledger(folder, cluster, experiment="A9")
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", NODE), {LABEL: None}))
    cluster.patch("nodes", NODE, {"metadata": {"labels": {LABEL: None}}})
    workspace = Workspace(cluster, ENDED)
    workspace.namespace()
    assert workspace._opened is not None
    workspace._opened.stop_renewing()
    for item in cluster.request("GET", cluster.path(owned.PRIORITY_CLASSES)).json()["items"]:
        record = msgspec.json.decode(item["metadata"]["annotations"][PROOF])
        record["process"] = str(msgspec.structs.replace(Process.me(), pid=4_000_000))
        annotations = {PROOF: msgspec.json.encode(record).decode()}
        cluster.patch(owned.PRIORITY_CLASSES, item["metadata"]["name"], {"metadata": {"annotations": annotations}})


def _run(arguments: list[str]) -> tuple[int, str]:
    command = [sys.executable, "-c", "import sys; from conformance.cli.main import main; sys.exit(main())", *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return -999, f"no end within {_SECONDS:.0f} s"
    return done.returncode, done.stdout + done.stderr


def _wrong(command: tuple[str, ...], code: int, output: str, cluster: Cluster) -> Iterator[str]:
    if code not in CODES or "Traceback" in output:
        yield f"crash: exit code {code}: {output[-1500:]}"
    lease = read_lease(cluster)
    put_back = fetch(cluster, "nodes", NODE)["metadata"]["labels"].get(LABEL) == VALUE
    if command[-1] == "halt" and code == 0 and not (lease and lease.halted):
        yield f"wrong answer: exit 0 and not halted: {output}"
    if command[-1] == "status" and code == 0 and not put_back:
        yield f"wrong answer: exit 0 although a change is not put back: {output}"
    if command[-1] == "recover" and code == 0 and not put_back:
        yield f"wrong answer: exit 0 and not put back: {output}"
    if command[-1] == "recover" and code == 0 and (left := [line for line in scan(cluster).values if _OF_CHAOS in line]):
        yield f"wrong answer: exit 0 with {', '.join(left)}: {output}"
    for item in left_behind(cluster) if command[-1] == "cleanup" else ():
        if code == 0 or f"removed: {item}" in output.splitlines():
            yield f"wrong answer: {item} is there: {output}"
