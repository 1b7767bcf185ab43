"""The verdict over one captured output by itself, as ``gpu-conformance inspect`` prints it, and which program wrote a text by its marks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from conformance.outputs.captured_text import cut_lines


class Judged(StrEnum):
    """Verdict of an inspection or of one finding in it."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDABLE = "undecidable"
    NOTE = "note"  # of a finding alone: worth knowing, and no verdict

    @classmethod
    def of(cls, good: bool | None) -> Judged:
        """From the three-valued ``good`` of the verdict functions."""
        return cls.UNDECIDABLE if good is None else cls.GOOD if good else cls.BAD


class InspectionFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One subject of an output (a device, a node, a rank pair, a line) and what was found out about it."""

    subject: str
    verdict: Judged
    message: str = ""
    observed: str = ""
    expected: str = ""


class Inspection(msgspec.Struct, frozen=True, rename="camel"):
    """On the wire: ``{kind, verdict, reasonCode, message, facts, findings}``. ``facts`` hold JSON values only."""

    kind: str
    verdict: Judged
    reason_code: str
    message: str
    facts: Mapping[str, object]
    findings: Sequence[InspectionFinding]


def worst(verdicts: Sequence[Judged]) -> Judged:
    """Bad before undecidable before good; undecidable for none at all, which proves nothing."""
    for verdict in (Judged.BAD, Judged.UNDECIDABLE, Judged.GOOD):
        if verdict in verdicts:
            return verdict
    return Judged.UNDECIDABLE


_MAX_LOOKED_AT = 400_000

_JUDGED: tuple[tuple[str, str], ...] = (
    ("node-probe", r"^## node probe$|^\s*\"takenAt\": \"|^\{\"schemaVersion\":\"[\d.]+\",\"suite\":"),
    ("psa-rejection", r"violates PodSecurity \""),
    ("api-refusal", r"^The [A-Z]\w+ \"[^\"]+\" is invalid:"),
    ("resourceslice", r"\"?kind\"?: \"?ResourceSlice(?:List)?\b|^\s*NAME\s+NODE\s+DRIVER\s+POOL\s+AGE"),
    ("resourceclaim", r"\"?kind\"?: \"?ResourceClaim(?:List)?\b|^\s*(?:NAMESPACE\s+)?NAME\s.*\bSTATE\s+AGE"),
    ("podgroup", r"\"?kind\"?: \"?PodGroup\b"),
    ("nccl-tests", r"#\s*(?:size|bytes)\s+count\s.*busbw|# Avg bus bandwidth|# Collective test starting: |# nThread \d+ nGpus|\"alg_bw\":"),
    ("nccl-log", r"NCCL (?:INFO|WARN) "),
    ("ib-write-bw", r"#bytes\s+#iterations\s.*BW average|(?:RDMA_Write|RDMA_Read|Send) (?:Bidirectional )?BW Test"),
    ("kernel-log", r"NVRM: Xid |nvidia-nvswitch\d+: SXid|\bNVRM: "),
    ("dcgm-metrics", r"^(?:DCGM_(?:FI|EXP)_\w+|dcgm_gpu_\w+)\{|\"__name__\": ?\"DCGM_"),
    ("nvidia-smi", r"=NVSMI LOG=|<nvidia_smi_log>|^\s*GPU \d+: .{1,128}\(UUID: |\| NVIDIA-SMI \d|^index, |NVIDIA-SMI has failed"),
    ("mig-manager-log", r"mig\.config\.state' node label|Updating MIG config: map|nvidia-mig-parted"),
    ("vectoradd", r"\[Vector addition of "),
    ("pods", r"^\s*(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS"),
    ("node", r"\"?kind\"?: \"?Node(?:List)?\"?\s*,?$|^(?:Capacity|Allocatable):\s*$|^NAME\s+STATUS\s+ROLES\s+AGE\s+VERSION"),
    (
        "events",
        r"\"?kind\"?: \"?Event(?:List)?\b|\d+/\d+ nodes are (?:un)?available|^LAST SEEN\s+TYPE\s+REASON"
        r"|^\s*(?:Normal|Warning)\s+[A-Z]\w+\s",
    ),
)
"""Kinds that ``inspect`` judges, and the marks of each. The first that matches is meant."""

_OTHERS: tuple[tuple[str, str], ...] = (
    ("rocm-smi", r"ROCm System Management Interface|ROCm-SMI|rocm-smi"),
    ("amd-smi", r"AMD-SMI \d|amd-smi|AMDSMI Tool|AMDGPU Driver|\"?asic\"?:? ?\{?$"),
    ("amd-metrics", r"^(?:amd_)?gpu_(?:health|nodes_total|package_power|gfx_activity|ecc_uncorrect_total)\{"),
    ("hl-smi", r"HL-SMI Version|hl-smi"),
    ("neuron-ls", r"NEURON\s+\|?\s*(?:NEURON|PCI)|instance-type: (?:trn|inf)|\"neuron_device\"|neuron-ls"),
    ("xpu-smi", r"xpu-smi|^\| Device ID\s+\| Device Information"),
    ("tpu-info", r"TPU Chips|tpu-info"),
    ("nvidia-smi topo", r"^\s*GPU0\s+GPU1|Legend:\s*$"),
    ("nvidia-smi nvlink", r"^\s*Link \d+: (?:[\d.]+ GB/s|<inactive>)"),
    ("dcgmi", r"DCGM_VERSION|\bdcgmi\b|Diagnostic\s+\| Result|Health Monitor Report|GPUs found\."),
    ("ibstat", r"^CA '\w+'|^\s*Link layer: |hca_id:\s"),
    ("nvbandwidth", r"nvbandwidth Version"),
    ("deviceQuery", r"CUDA Device Query"),
    ("nvidia-fabricmanager", r"nv-fabricmanager|FabricManager|Fabric Manager version"),
    ("a Kubernetes object", r"^\"?apiVersion\"?: |^\s*\"apiVersion\": "),
    ("Prometheus metrics", r"^# (?:HELP|TYPE) "),
)
"""Programs whose output nobody judges here."""


def _first(table: tuple[tuple[str, re.Pattern[str]], ...], text: str) -> str:
    return next((name for name, pattern in table if pattern.search(text)), "")


_JUDGED_PATTERNS = tuple((name, re.compile(pattern, re.MULTILINE)) for name, pattern in _JUDGED)
_OTHER_PATTERNS = tuple((name, re.compile(pattern, re.MULTILINE)) for name, pattern in _OTHERS)


def judged_kinds(text: str) -> list[str]:
    """The kinds of ``inspect`` that a text may be, likeliest first."""
    head = looked_at(text)
    return [name for name, pattern in _JUDGED_PATTERNS if pattern.search(head)]


def other_program(text: str) -> str:
    """The program that wrote a text which ``inspect`` does not judge, or empty."""
    return _first(_OTHER_PATTERNS, looked_at(text))


def looked_at(text: str) -> str:
    """The beginning of a text without blank lines: with each of a run of them, a pattern would look through all that follow."""
    return "\n".join(line[:2048] for line in cut_lines(text[:_MAX_LOOKED_AT]) if line.strip())
