"""Inspections of what a run over the fabric printed: NCCL log, nccl-tests table, perftest output."""

from conformance.outputs import job_logs, nccl_lines, nccl_log, nccl_tests
from conformance.outputs.inspection import Inspection, InspectionFinding, Judged


def inspect_nccl_log(text: str) -> Inspection:
    """``nccl-log``. Codes: those of :class:`~conformance.outputs.nccl_log.NcclCode`. Raises ``Unreadable``."""
    log = nccl_lines.parse(text)
    verdict = nccl_log.judge(log)
    findings = [InspectionFinding("failure", Judged.BAD, warning[:500]) for warning in verdict.failures]
    findings += [InspectionFinding("NCCL WARN", Judged.UNDECIDABLE, text[:500]) for text in log.warnings if text not in verdict.failures]
    findings += [
        InspectionFinding(f"HCA {hca.index} {hca.name}", Judged.BAD, "GPU Direct RDMA Disabled", "disabled", "enabled")
        for hca in log.hcas
        if not hca.enabled and hca.network not in nccl_log.SOCKET_NETWORKS
    ]
    if log.environment.get("NCCL_IB_DISABLE") not in (None, "0"):
        value = log.environment["NCCL_IB_DISABLE"]
        findings.append(
            InspectionFinding("environment", Judged.UNDECIDABLE, f"NCCL_IB_DISABLE={value}: InfiniBand is off by configuration")
        )
    for line in log.net_channels:
        if not line.gdr:
            end = "" if line.collective else f" -> {line.dst}"
            where = f"channel {line.channel:02d}/{line.connection} {line.src}{end} [{line.direction}]"
            what = "no GPUDirect RDMA" if line.understood else "transport not understood: not seen to be direct"
            findings.append(InspectionFinding(where, Judged.BAD, what, f"via {line.via}", "via NET/…/GDRDMA"))
    one_sided = list(nccl_log.uncovered(log))
    for pair in one_sided if log.whole else ():
        where = f"channel {pair.channel:02d}/{pair.connection} {pair.src} -> {pair.dst}"
        findings.append(InspectionFinding(where, Judged.BAD, f"no [{pair.missing}] line", "one direction only", "send and receive"))
    if one_sided and not log.whole:
        findings.append(InspectionFinding("excerpt", Judged.NOTE, f"{len(one_sided)} connections show lines of one side only"))
    return verdict.inspection("nccl-log", findings)


def inspect_nccl_tests(text: str) -> Inspection:
    """``nccl-tests``. Codes: those of :class:`~conformance.outputs.nccl_tests.NcclTestsCode`. Raises ``Unreadable``."""
    run = nccl_tests.parse(text)
    verdict = nccl_tests.judge(run)
    findings = [
        InspectionFinding(f"{row.size} bytes {place}", Judged.BAD, "wrong values", f"{half.wrong:g}", "0")
        for row in run.rows
        for place, half in (("out-of-place", row.out_of_place), ("in-place", row.in_place))
        if half is not None and half.wrong and not run.error_column
    ]
    if verdict.good is not True:
        findings.append(InspectionFinding("run", Judged.of(verdict.good), verdict.message))
    return verdict.inspection("nccl-tests", findings)


def inspect_perftest(text: str) -> Inspection:
    """``ib-write-bw``, judged as evidence of GPUDirect RDMA. Raises ``Unreadable``."""
    output = job_logs.parse_perftest(text)
    findings = [InspectionFinding("perftest", Judged.BAD, failure) for failure in output.failures]
    return job_logs.judge_perftest(output).inspection("ib-write-bw", findings)
