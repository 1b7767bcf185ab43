"""Reports that fill the HTML page: ten failures, a fleet, and one with everything that a page can show."""

from pathlib import Path

import msgspec
import yaml

from fixtures.verdict.record import (
    AppliedPolicy,
    AppliedWaiver,
    Cause,
    Change,
    ComparedChange,
    Comparison,
    Coverage,
    FindingCause,
    InventoryRow,
    NotJudged,
    Remedy,
    Report,
    Verdict,
)
from tests.reports.sample_report import CAPACITY, HOSTILE, NFD, NODES, OPERATOR, report, result, sample_report, subject

UNFENCED = FindingCause(
    code="NodeNotFenced",
    title="A node has no taint that keeps pods without devices away",
    remedy=Remedy.ACT,
    advice="Set the taint in the template of the node pool. If you use another taint key, list it in fence.taintKeys of the policy.",
    look=["kubectl get node NODE -o jsonpath='{.spec.taints}'"],
    changes=[
        Change(run="kubectl taint nodes NODE nvidia.com/gpu=present:NoSchedule", does="keeps new pods off these nodes"),
        Change(run=f"kubectl label node NODE {' '.join(f'example.com/label-{i}=value' for i in range(9))}", does="labels these nodes"),
    ],
)
OTHER_DRIVER = FindingCause(
    code="VersionsDifferInPool",
    title="Nodes of one pool run different drivers",
    remedy=Remedy.LOOK,
    advice="Bring the nodes to the version of their pool when they are drained next.",
    look=["kubectl describe node NODE", "kubectl get pods -A --field-selector spec.nodeName=NODE"],
)


def failing_report(failures: int = 10, passed: int = 64) -> Report:
    """``failures`` requirements that fail as real ones do, with words of their real length, among others that pass."""
    fault = "the node has no taint: any pod that fits lands on it and takes CPU and memory from device pods, and nobody notices for weeks"
    causes = [msgspec.structs.replace(UNFENCED, code=f"{UNFENCED.code}{i}") for i in range(failures)]
    results = [
        result(
            f"FENCE-{i:02d}",
            Verdict.FAILED,
            [
                subject(
                    f"gpu-{i}-{j}",
                    Verdict.FAILED,
                    kind="Node",
                    observed="no taints",
                    expected="a taint",
                    message=fault,
                    cause=causes[i].code,
                )
                for j in range(6)
            ],
            title="Every accelerator node carries the hard taint of its pool",
            remediation=causes[i].text,
            rationale="A soft or missing taint lets ordinary pods occupy accelerator nodes. " * 3,
        )
        for i in range(failures)
    ]
    results += [result(f"REQ-{i:02d}", Verdict.PASSED, [subject(name, kind="Node") for name in NODES]) for i in range(passed)]
    return of_causes(report(results, verdict=Verdict.FAILED, exit_code=1), *causes)


def of_causes(made: Report, *causes: FindingCause) -> Report:
    made.causes = list(causes)
    return made


def fleet_report(nodes: int = 1_000, failing: int = 211, requirements: int = 84) -> Report:
    """A fleet of three pools in which ``failing`` nodes fail here and there; subjects are capped as a run caps them."""
    names = [f"gpu-pool-{i % 3}-{i:04d}.example.internal" for i in range(nodes)]
    bad = names[:failing]
    results = []
    for number in range(requirements):
        hit = {name for at, name in enumerate(bad) if number < 14 and (at * 7 + number * number) % 5 < 2}
        wrong = [
            subject(
                name,
                Verdict.FAILED,
                kind="Node",
                observed=f"driver {550 + at % 4}.90.{number:02d}",
                expected="driver 570.124.06",
                source="node.metadata.labels[nvidia.com/cuda.driver-version.full]",
                message=f"{name} runs a driver that no other node of its pool has",
                cause=OTHER_DRIVER.code,
            )
            for at, name in enumerate(name for name in bad if name in hit)
        ]
        good = [subject(name, kind="Node", observed="driver 570.124.06", expected="driver 570.124.06") for name in names if name not in hit]
        results.append(
            result(
                f"ADV-{number:02d}",
                Verdict.FAILED if wrong else Verdict.PASSED,
                [*wrong, *good[:100]],
                judged=nodes,
                total=nodes,
                subjects_omitted=len(good) - 100,
                remediation=OTHER_DRIVER.text,
                rationale="A node with another driver fails jobs that its peers run. " * 3,
                message=f"Node {wrong[0].name}: another driver (and {len(wrong) - 1} more)" if wrong else "",
            )
        )
    made = of_causes(report(results, verdict=Verdict.FAILED, exit_code=1), OTHER_DRIVER)
    made.inventory = [
        InventoryRow(node=name, sources=[NFD, OPERATOR, CAPACITY], product=f"NVIDIA-{name[9]}-80GB", capacity={"nvidia.com/gpu": "8"})
        for name in names
    ]
    return made


def full_report() -> Report:
    """The rich report with a scope, waivers, a baseline, a policy, residue and commands to copy."""
    made = sample_report()
    for one in made.results:
        if one.id == "FENCE-01":
            for each in one.subjects:
                each.kind = "Node"
                each.cause = UNFENCED.code if each.verdict is Verdict.FAILED else ""
    made.causes = [UNFENCED]
    unjudged = [one for one in made.results if one.verdict in (Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE, Verdict.ERROR)]
    written = yaml.load((Path(__file__).parent / "full_report.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    scope, comparison = msgspec.convert(written["scope"], Coverage), msgspec.convert(written["comparison"], Comparison)
    made.scope, made.comparison, made.waivers = scope, comparison, msgspec.convert(written["waivers"], list[AppliedWaiver])
    made.waiver_problems, made.regressions = written["waiver_problems"], written["regressions"]
    scope.not_judged[:0] = [
        NotJudged(id=one.id, title=one.title, area=one.area, level=one.level, cause=Cause.ABSENT, because=one.message) for one in unjudged
    ]
    comparison.changes += [
        ComparedChange(bucket="still failing", requirement="GANG-02", subject="PodGroup team-a/train-0", message=HOSTILE["script"]),
        *(ComparedChange(bucket="fixed", requirement="REQ-03", subject=f"Node gpu-{i:03}", new=Verdict.PASSED) for i in range(50)),
    ]
    made.policy = AppliedPolicy(changed="fence:\n  taintKeys:\n  - +example.com/gpu\n", whole="accelerators: {}\nfence: {}\n" * 300)
    made.residue = ["Namespace gpu-conformance-7f3a"]
    return made
