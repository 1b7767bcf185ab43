"""What CNCF's programme asks for, by release, and which requirements of this suite show it.

The ids, sections and levels are docs/facts/cncf-ai-conformance.md#requirements-per-release.
"""

from __future__ import annotations

import msgspec

RELEASES = ("1.35", "1.36", "1.37", "1.38")
_MUST, _SHOULD, _ABSENT = "MUST", "SHOULD", ""
_MUSTS = (_MUST,) * 4
_SHOULDS = (_SHOULD,) * 4


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement of the programme. ``levels`` go with ``RELEASES``; "" where the release does not have it.

    Each of ``ways`` is a list of the suite's requirements that show it if all of them pass. ``beyond`` is the part of it that the suite
    does not judge: then it is shown in part at most. Without ways, ``beyond`` says why the suite shows nothing.
    """

    section: str
    id: str
    levels: tuple[str, str, str, str]
    ways: tuple[tuple[str, ...], ...] = ()
    beyond: str = ""

    def level(self, release: str) -> str:
        """``MUST``, ``SHOULD``, or "" where the release does not have the requirement."""
        return self.levels[RELEASES.index(release)]


ITEMS = (
    Item(section="accelerators", id="dra_support", levels=(_MUST, _ABSENT, _ABSENT, _ABSENT), ways=(("DRA-01", "DRA-05"),)),
    Item(
        section="accelerators",
        id="driver_runtime_management",
        levels=(_SHOULD, _SHOULD, _SHOULD, _MUST),
        ways=(("INV-04", "INV-05", "ADV-04", "OPS-01", "OPS-02", "FENCE-06"),),
    ),
    Item(
        section="accelerators",
        id="gpu_sharing",
        levels=_SHOULDS,
        ways=(("MIG-02", "MIG-07"), ("MIG-03", "MIG-07"), ("SHARE-01", "SHARE-03")),
    ),
    Item(
        section="accelerators",
        id="virtualized_accelerator",
        levels=_SHOULDS,
        beyond="the suite does not judge vGPU nodes",
    ),
    Item(section="networking", id="ai_inference", levels=_MUSTS, beyond="the suite does not judge the Gateway API"),
    Item(
        section="networking",
        id="advanced_inference_ingress",
        levels=(_ABSENT, _SHOULD, _SHOULD, _SHOULD),
        beyond="the suite does not judge the Gateway API Inference Extension",
    ),
    Item(
        section="networking",
        id="high_performance_networking",
        levels=(_ABSENT, _SHOULD, _SHOULD, _SHOULD),
        ways=(("NET-02", "NET-03", "NET-04"),),
        beyond="network devices are judged as extended resources, not as DRA devices",
    ),
    Item(
        section="networking",
        id="disaggregated_inference",
        levels=(_ABSENT, _SHOULD, _SHOULD, _SHOULD),
        beyond="the suite starts no inference service",
    ),
    Item(
        section="schedulingOrchestration",
        id="gang_scheduling",
        levels=_MUSTS,
        ways=(("GANG-01", "GANG-02", "GANG-03", "GANG-04"),),
    ),
    Item(
        section="schedulingOrchestration",
        id="cluster_autoscaling",
        levels=_MUSTS,
        beyond="the suite does not make a cluster autoscaler add or remove nodes",
    ),
    Item(
        section="schedulingOrchestration",
        id="pod_autoscaling",
        levels=_MUSTS,
        beyond="the suite does not judge HorizontalPodAutoscalers",
    ),
    Item(
        section="observability",
        id="accelerator_metrics",
        levels=_MUSTS,
        ways=(("OBS-01", "OBS-03"),),
    ),
    Item(
        section="observability",
        id="ai_service_metrics",
        levels=_MUSTS,
        beyond="the suite does not judge how metrics of workloads are collected",
    ),
    Item(
        section="security",
        id="secure_accelerator_access",
        levels=_MUSTS,
        ways=(("ISO-01", "ISO-02", "ISO-03", "PSA-05"),),
    ),
    Item(
        section="security",
        id="workload_sandboxing",
        levels=(_ABSENT, _ABSENT, _SHOULD, _SHOULD),
        beyond="the suite does not judge whether a workload has a kernel of its own",
    ),
    Item(
        section="operator",
        id="robust_controller",
        levels=_MUSTS,
        beyond="the suite judges the operators of the GPU stack, and installs no AI operator with webhooks",
    ),
)
