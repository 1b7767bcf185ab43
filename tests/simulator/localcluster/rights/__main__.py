"""``python -m tests.simulator.localcluster.rights [--embedded] [--scenario NAME …] [--right "VERB RESOURCE" …]``: the whole proof.

On a local control plane unless ``--embedded``. Writes ``out/rights.json``; exit status 1 when something does not hold.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from conformance.catalogue import load_catalogue
from fixtures.localcluster.control_plane.account import ROLES
from tests.simulator.localcluster.rights.proof import SCENARIOS, Proof, Prover
from tests.simulator.localcluster.rights.targets import NOT_EMBEDDED, embedded, local

ROOT = Path(__file__).resolve().parents[4]


def main() -> int:
    """Prove, write, and say what does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.localcluster.rights", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--embedded", action="store_true", help="the embedded cluster instead of real Kubernetes")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="only this one (again for more)")
    parser.add_argument("--role", action="append", choices=ROLES, help="only this one (again for more)")
    parser.add_argument("--right", action="append", help="only this right, e.g. 'create pods' (again for more)")
    options = parser.parse_args()
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="gpu-conformance-rights-") as folder:
        opened = embedded if options.embedded else local
        prover = Prover(load_catalogue(), opened, Path(folder), tell, options.right, NOT_EMBEDDED if options.embedded else {})
        proof = prover.prove(options.scenario or SCENARIOS, options.role or ROLES)
    file = ROOT / "out" / "rights.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(_document(proof)), indent=2) + b"\n")
    for line in proof.problems:
        print(f"DOES NOT HOLD  {line}")
    removed = {(case.role, case.removed) for case in proof.cases}
    outcome = "the roles hold" if proof.holds else "not proven"
    print(f"{len(removed)} of {proof.rights} rights removed in {len(proof.cases)} runs: {outcome}; {file}")
    return 0 if proof.holds else 1


def _document(proof: Proof) -> dict[str, object]:
    return {
        "verbs": proof.rights,
        "removed": len({(case.role, case.removed) for case in proof.cases}),
        "inconclusive": sum(len(case.inconclusive) for case in proof.cases),
        "stillPassed": [f"{case.role} {case.removed}: {id_}" for case in proof.cases for id_ in case.still_passed],
        "wronglyFailed": [f"{case.role} {case.removed}: {id_}" for case in proof.cases for id_ in case.wrongly_failed],
        "refused": proof.refused,
        "needless": proof.needless,
        "explained": proof.explained,
        "notConformant": proof.baselines,
        "holds": proof.holds,
        "cases": proof.cases,
    }


if __name__ == "__main__":
    sys.exit(main())
