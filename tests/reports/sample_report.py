"""A rich report for the tests of the writers: every verdict, every kind of target, and hostile text on demand."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from fixtures.verdict.record import (
    Access,
    AppliedPolicy,
    AppliedWaiver,
    AreaCoverage,
    Cause,
    ComparedChange,
    Comparison,
    Coverage,
    DeviceClaim,
    InventoryRow,
    Level,
    NotJudged,
    PublishedDevice,
    PublishedSlice,
    Report,
    Requests,
    Result,
    Run,
    SubjectResult,
    Suite,
    Target,
    TargetKind,
    Verdict,
    WaiverState,
)

HOSTILE = {
    "script": "<script>window.pwned=1</script>",
    "attribute": '"><img src=x onerror="window.pwned=2">',
    "single": "'><svg/onload=window.pwned=3>",
    "cdata": "]]><!--",
    "ansi": "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J",
    "rtl": "gpu\u202egnp.exe\u2066x",
    "template": "{{ 7*7 }}{% raw %}",
    "markdown": "| a | `b` [x](javascript:alert(1)) @someone ![i](http://x.example/i.png)",
    "newlines": "one\r\ntwo\u2028three\x00\x0b",
    "hebrew": "שלום-gpu",
    "surrogate": "bad\ud800name",
}

NODES = [f"gpu-{i:03d}" for i in range(8)]
NFD = "label feature.node.kubernetes.io/pci-0302_10de.present"
OPERATOR = "label nvidia.com/gpu.present"
CAPACITY = "capacity nvidia.com/gpu"


def subject(name: str, verdict: Verdict = Verdict.PASSED, *, kind: str = "node", namespace: str = "", **more: Any) -> SubjectResult:
    return SubjectResult(kind=kind, namespace=namespace, name=name, verdict=verdict, **more)


def result(id: str, verdict: Verdict, subjects: list[SubjectResult] | None = None, **fields: object) -> Result:
    """A result whose counts follow from its subjects unless given."""
    subjects = subjects or []
    judged = sum(s.verdict in (Verdict.PASSED, Verdict.FAILED, Verdict.WAIVED) for s in subjects)
    values: dict[str, object] = {
        "title": f"Requirement {id}",
        "area": id.split("-")[0],
        "level": Level.MUST,
        "access": Access.READ,
        "judged": judged,
        "total": len(subjects),
        "duration_seconds": 0.012,
    }
    return Result(id=id, verdict=verdict, subjects=subjects, **(values | fields))  # type: ignore[arg-type]


def published(device: str, claim: str, *, used_by: list[str]) -> PublishedSlice:
    """A ResourceSlice of three devices: one that a claim holds, one tainted and free, one whose claims were not read."""
    held = DeviceClaim(namespace="team-a", name=claim, used_by=used_by, owner=f"Job/{claim}", share=True)
    return PublishedSlice(
        name=f"slice-of-{device}",
        driver="gpu.nvidia.com",
        pool=device,
        generation=3,
        devices=[
            PublishedDevice(name=device, type="gpu", product=device, uuid=device, claims=[held]),
            PublishedDevice(name=f"{device}-ill", taint=f"gpu.nvidia.com/xid={device}:NoExecute", claims=[]),
            PublishedDevice(name=f"{device}-unread"),
        ],
        left_out=5,
    )


def report(results: list[Result], *, kind: TargetKind = TargetKind.LIVE, verdict: Verdict = Verdict.PASSED, exit_code: int = 0) -> Report:
    """A report around ``results``; the summary is counted."""
    summary = {v.value: sum(r.verdict is v for r in results) for v in Verdict}
    simulated = kind in (TargetKind.SIMULATED, TargetKind.LOCAL)
    return Report(
        suite=Suite(version="0.1.0"),
        target=Target(
            kind=kind,
            server="https://10.0.0.1:6443",
            context="admin@gpu-prod",
            cluster_uid="0f1c7a52-6f1e-4b1e-9d0a-3a2b1c0d9e8f",
            kubernetes_version="v1.36.2",
            scenario="h100-8x" if simulated else "",
            defects=["untainted-node", "half-gang"] if simulated else [],
        ),
        run=Run(
            id="20261121T103000Z-7f3a",
            started_at="2026-11-21T10:30:00Z",
            duration_seconds=83.4,
            command="pytest conformance --policy policy.yaml",
            policy_digest="sha256:9b74c9897bac770ffc029102a200c5de",
        ),
        verdict=verdict,
        exit_code=exit_code,
        summary=summary,
        results=results,
        inventory=[
            InventoryRow(
                node=name,
                sources=[NFD, OPERATOR, CAPACITY][: 3 if i < 6 else 2],
                product="NVIDIA-H100-80GB-HBM3",
                capacity={"nvidia.com/gpu": "8"} if i < 6 else {},
                judged=i < 7,
                message="" if i < 6 else ("no capacity although the operator labelled it" if i == 6 else "cordoned: not judged"),
                slices=[published(f"gpu-{i}", f"train-{i}", used_by=[f"train-{i}"])] if i < 2 else [],
            )
            for i, name in enumerate(NODES)
        ],
        requests=Requests(
            count=42, bytes=18_400_000, by_verb_and_resource={"LIST nodes": 2, "LIST pods": 20, "CREATE pods": 12, "WATCH pods": 8}
        ),
    )


def sample_report(kind: TargetKind = TargetKind.SIMULATED) -> Report:
    """A failed run with every verdict among 14 requirements of 7 areas."""
    entries = yaml.load((Path(__file__).parent / "sample_results.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return report([_result(entry) for entry in entries], kind=kind, verdict=Verdict.FAILED, exit_code=1)


def _result(entry: dict[str, Any]) -> Result:
    """A result of the file, whose counts follow from its subjects unless given."""
    alike = entry.pop("subjects", ())
    subjects = [msgspec.to_builtins(subject(name)) | one for one in alike for name in one.pop("names")]
    plain = msgspec.to_builtins(result(entry["id"], Verdict.PASSED, msgspec.convert(subjects, list[SubjectResult])))
    return msgspec.convert(plain | entry, Result)


def hostile_report() -> Report:
    """A report in which every free text is hostile."""
    results = [
        result(
            f"REQ-{i:02d}",
            Verdict.FAILED,
            [
                SubjectResult(
                    kind=text, namespace=text, name=text, verdict=Verdict.FAILED, observed=text, expected=text, source=text, message=text
                )
            ],
            title=text,
            area=text,
            reason_code=text,
            message=text,
            rationale=text,
            remediation=text,
            references=[text, f"https://example.com/{text}", f"javascript:{text}"],
        )
        for i, text in enumerate(HOSTILE.values())
    ]
    made = report(results, kind=TargetKind.SIMULATED, verdict=Verdict.FAILED, exit_code=1)
    texts = list(HOSTILE.values())
    made.target.server = made.target.context = made.target.cluster_uid = made.target.kubernetes_version = " ".join(texts)
    made.target.scenario, made.target.defects, made.target.notes = texts[0], texts, texts
    made.run.id = made.run.command = made.run.policy_digest = made.run.started_at = " ".join(texts)
    made.inventory = [
        InventoryRow(node=t, sources=texts, product=t, capacity={t: t}, message=t, slices=[published(t, t, used_by=texts)]) for t in texts
    ]
    made.requests.by_verb_and_resource = dict.fromkeys(texts, 1)
    made.residue = texts
    made.regressions = texts
    made.waiver_problems = texts
    made.waivers = [
        AppliedWaiver(requirement=t, subjects=texts, reason=t, owner=t, expires=t, state=WaiverState.EXPIRED, waived=1) for t in texts
    ]
    made.policy = AppliedPolicy(changed="\n".join(texts), whole="\n".join(texts))
    made.comparison = Comparison(
        run=texts[0],
        started_at=texts[1],
        cluster_uid=texts[2],
        kubernetes_version=texts[3],
        counts=dict.fromkeys(texts, 3),
        changes=[ComparedChange(bucket=t, requirement=t, subject=t, message=t) for t in texts],
    )
    unjudged = [NotJudged(id=t, title=t, area=t, level=Level.MUST, cause=Cause.SELECTION, because=t) for t in texts]
    made.scope = Coverage(
        requirements=2 * len(texts),
        judged=len(texts),
        sentence=" ".join(texts),
        areas=[AreaCoverage(area=t, title=t, requirements=2, judged=1) for t in texts],
        not_judged=unjudged,
        shortfalls=texts,
        notes=texts,
    )
    return made


def large_report(requirements: int = 1_000, subjects: int = 100) -> Report:
    """``requirements`` results of ``subjects`` subjects each."""
    results = [
        result(
            f"A{i % 12:02d}-{i:04d}",
            Verdict.FAILED if i % 10 == 0 else Verdict.PASSED,
            [
                subject(
                    f"node-{j:05d}",
                    Verdict.FAILED if i % 10 == 0 and j < 30 else Verdict.PASSED,
                    observed="560.35.03",
                    expected="570.*",
                    source="label nvidia.com/cuda.driver-version.full",
                )
                for j in range(subjects)
            ],
        )
        for i in range(requirements)
    ]
    return report(results, verdict=Verdict.FAILED, exit_code=1)
