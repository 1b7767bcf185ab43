"""Signals of the metrics exporter, through the API server's proxy to its pod on each target node."""

import contextlib
import hashlib
import re
import time

from chaos.model.conditions import JsonValue
from chaos.model.plan import Plan, PlanFacts
from chaos.observe.signals.gangs import DEFAULT_STALE
from chaos.observe.view import NoData, Reading, Signal, View, target_gpu
from conformance.outputs.captured_text import Unreadable
from conformance.outputs.dcgm import Sample, as_before, parse_samples
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mappings
from fixtures.model.objects import containers_of, is_ready, name_of, namespace_of, node_of
from fixtures.model.platform.exporters import metrics_port
from fixtures.model.platform.installed import pods_of
from fixtures.model.standing import Kept, StandingKind

XID = "DCGM_FI_DEV_XID_ERRORS"


def answering(reading: Reading) -> JsonValue:
    """Whether every target node's exporter serves a page with devices on it."""
    try:
        return bool(_samples(reading))
    except NoData:
        return False


def foreign(reading: Reading) -> JsonValue:
    """UUIDs with series that do not belong to the target nodes' devices."""
    known = {device.uuid for devices in PlanFacts.of(reading.plan).devices.values() for device in devices}
    try:
        return sorted({uuid for sample in _samples(reading) if (uuid := _uuid(sample))} - known)
    except NoData:
        return []  # a page that is not served names no foreign device


def stale(reading: Reading) -> float:
    """Seconds since any value of the page last changed, seen from here: a page that never changes is frozen."""
    joined = "\n".join(f"{sample.name} {sorted(sample.labels.items())} {sample.value}" for sample in _samples(reading))
    digest = hashlib.sha256(joined.encode()).hexdigest()
    memory: tuple[str, float] | None = reading.memory.get("metrics.stale")
    now = time.monotonic()
    if memory is None or memory[0] != digest:
        memory = reading.memory["metrics.stale"] = (digest, now)
    return round(now - memory[1], 2)


def xids(reading: Reading) -> dict[str, int]:
    """``{UUID: code}`` of devices whose last Xid is not 0."""
    found = map(as_before, _samples(reading))
    return {uuid: int(sample.value) for sample in found if sample.name == XID and sample.value and (uuid := _uuid(sample))}


def xids_elsewhere(reading: Reading) -> JsonValue:
    """As :func:`xids`, of every device but the targeted one."""
    target = target_gpu(reading).facts["uuid"]
    return {uuid: code for uuid, code in xids(reading).items() if uuid != target}


def _samples(reading: Reading) -> list[Sample]:
    found: list[Sample] = []
    for pod in _exporters(reading):
        try:
            found += samples_of(View.at(reading), pod)
        except Unreadable as error:
            raise NoData(f"metrics of {name_of(pod)}: {error}") from None
    return found


def _exporters(reading: Reading) -> list[Json]:
    found = PlanFacts.of(reading.plan).components.get("exporter")
    if found is None:
        raise NoData("no exporter was found when the experiment was planned")
    pods = {node_of(pod): pod for pod in pods_of(View.at(reading), found) if is_ready(pod)}
    missing = [node for node in reading.plan.nodes if node not in pods]
    if missing:
        raise NoData(f"no exporter is ready on {missing[0]}")
    return [pods[node] for node in reading.plan.nodes]


def samples_of(view: View, pod: Json) -> list[Sample]:
    """What an exporter's pod serves. Raises :class:`NoData`, and ``Unreadable`` for what is no page of metrics."""
    port = metrics_port(port for container in containers_of(pod) for port in mappings(container.get("ports")))
    return parse_samples(view.pod_page(namespace_of(pod), name_of(pod), port, "/metrics"))


_WORKLOAD = re.compile(r"(?i)(?:exported_)?(?:pod|namespace|container)(?:_?name)?|.*pod_.*|hpc_job")
"""Labels of a series that come and go with the pod that holds the device."""


def pages(view: View, plan: Plan) -> dict[str, Kept]:
    """What the target nodes' exporters serve, to be compared later: for each family and device the names of its labels.

    A page that cannot be read is none: whether it was read is for the experiment's own signals.
    """
    exporter, found = PlanFacts.of(plan).components.get("exporter"), dict[str, Kept]()
    for pod in pods_of(view, exporter) if exporter is not None else ():
        node = node_of(pod)
        if node not in plan.nodes or not is_ready(pod):
            continue
        with contextlib.suppress(NoData, Unreadable, ApiTrouble):
            rows: dict[tuple[str, ...], JsonValue] = {
                (sample.name, _uuid(sample), sample.labels.get("GPU_I_ID", "")): sorted(
                    key for key in sample.labels if not _WORKLOAD.fullmatch(key)
                )
                for sample in samples_of(view, pod)
                if _uuid(sample)
            }
            found[f"metrics of {node}"] = Kept(kind=PAGE, itself=node, node=node, rows=rows)
    return found


PAGE = StandingKind(key="pods", keep=())


def _uuid(sample: Sample) -> str:
    return sample.labels.get("UUID") or sample.labels.get("uuid") or ""


SIGNALS: dict[str, Signal] = {
    "metrics.answering": answering,
    # UUIDs that have series, sorted.
    "metrics.uuids": lambda reading: sorted({uuid for sample in _samples(reading) if (uuid := _uuid(sample))}),
    "metrics.foreign": foreign,
    "metrics.stale": stale,
    # Whether the page has not changed for longer than the experiment's duration ``stale``.
    "metrics.frozen": lambda reading: stale(reading) > reading.plan.seconds.get("stale", DEFAULT_STALE),
    "metrics.xids": xids,
    # The last Xid that the metrics show for the targeted device; 0 without one.
    "metrics.xids.target": lambda reading: xids(reading).get(target_gpu(reading).facts["uuid"], 0),
    "metrics.xids.elsewhere": xids_elsewhere,
}
