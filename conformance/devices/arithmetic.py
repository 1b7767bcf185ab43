"""Capacity as a product: physical devices × units per device, per node and resource.

Facts: docs/facts/resources.md#capacity, docs/facts/vendors-and-clouds.md#amd, docs/facts/vendors-and-clouds.md#gke.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from conformance.devices.physical import PhysicalCount, number
from fixtures.model.devices import mig_geometry
from fixtures.model.devices.node_labels import NodeAdvertisement, capacity_inconsistencies, expectations

GKE = "cloud.google.com/gke-"
TIMES = "\N{MULTIPLICATION SIGN}"
AMD_PARTITION = "amd.com/gpu.compute-memory-partition"
AMD_PARTITION_LABELS = (AMD_PARTITION, "amd.com/compute-memory-partition")
_AMD_UNITS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4}
# compute dies per package; cpx makes a unit of each
_AMD_DIES = {"MI300A": 6, "MI308X": 4}


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of one node. ``expected`` is None when only ``problem`` can be told; both empty of fault means it agrees."""

    resource: str
    observed: int
    expected: int | None
    formula: str
    source: str
    problem: str = ""

    @property
    def agrees(self) -> bool:
        """Whether what is advertised is what the arithmetic gives."""
        return not self.problem and (self.expected is None or self.observed == self.expected)

    @property
    def shown(self) -> str:
        """``nvidia.com/gpu 8 = 8 × 1``, with ≠ where it does not hold."""
        return f"{self.resource} {self.observed} {'=' if self.agrees else '≠'} {self.formula}"


def gke_terms(labels: Mapping[str, str], capacity: Mapping[str, int]) -> list[Term]:
    """GKE's own plugin: ``nvidia.com/gpu`` == accelerators × partitions × clients; ``[]`` where its labels do not say so.

    Facts: docs/facts/vendors-and-clouds.md#gke.
    """
    count = number(labels.get(f"{GKE}accelerator-count"))
    size = labels.get(f"{GKE}gpu-partition-size", "")
    clients = number(labels.get(f"{GKE}max-shared-clients-per-gpu"))
    if count is None or not (size or clients) or not labels.get(f"{GKE}accelerator", "nvidia").startswith("nvidia"):
        return []
    factors = [count]
    if size:
        geometry = mig_geometry.geometry_of(labels.get(f"{GKE}accelerator", ""))
        per_device = geometry.maxima.get(size) if geometry else mig_geometry.usual_maximum(size)
        if not per_device:
            return []
        factors.append(per_device)
    if clients:
        factors.append(clients)
    expected = 1
    for factor in factors:
        expected *= factor
    formula = f" {TIMES} ".join(map(str, factors))
    observed = capacity.get("nvidia.com/gpu", 0)
    return [Term(resource="nvidia.com/gpu", observed=observed, expected=expected, formula=formula, source="labels cloud.google.com/gke-*")]


def label_terms(view: NodeAdvertisement) -> Iterator[Term]:
    """By the labels of GPU Feature Discovery: one term per resource that they predict or that the node advertises."""
    capacity, predicted = view.capacity, expectations(view)
    entries = {entry.advertised_as: entry for entry in (view.gpu, *view.mig)}
    problems = {item.what.removeprefix("capacity "): item for item in capacity_inconsistencies(view)}
    for resource, units in predicted.items():
        observed = capacity.get(resource, 0)
        problem = problems.pop(resource, None)
        entry = entries.get(resource)
        if units == observed == 0:
            continue
        if entry is not None and units:
            formula, source = f"{entry.count} {TIMES} {entry.factor}", f"labels {entry.resource}.count {TIMES} replicas"
        else:
            formula, source = "0", f"node labels: {problem.source if problem else 'no device of that kind'}"
        yield Term(resource=resource, observed=observed, expected=units, formula=formula, source=source)
    for resource, problem in problems.items():
        if not resource.startswith("nvidia.com/"):
            continue
        observed = capacity.get(resource, 0)
        yield Term(
            resource=resource, observed=observed, expected=None, formula=problem.expected, source="node labels", problem=problem.source
        )
    whole = view.gpu.advertised_as
    if view.strategy == "mixed" and whole not in predicted and whole not in problems and capacity.get(whole, 0):
        formula = f"whole devices of {view.gpu.count} {TIMES} {view.gpu.factor}"
        yield Term(
            resource=whole, observed=capacity[whole], expected=None, formula=formula, source="labels nvidia.com/gpu.count, mig-*.count"
        )


def amd_terms(labels: Mapping[str, str], capacity: Mapping[str, int], sources: list[PhysicalCount]) -> list[Term]:
    """AMD: units over all ``amd.com/*`` resources == devices × partitions (docs/facts/vendors-and-clouds.md#amd)."""
    offered = {name: units for name, units in capacity.items() if name.startswith("amd.com/") and units}
    partition = next((labels[key] for key in AMD_PARTITION_LABELS if labels.get(key)), "")
    mixed = any(key.startswith(f"{AMD_PARTITION}.") for key in labels)
    if not offered or mixed:
        return []
    units = amd_units(partition, labels.get("amd.com/gpu.product-name", ""))
    total, names = sum(offered.values()), " + ".join(sorted(offered))
    if not sources:
        if units > 1 and total % units:
            problem = f"{partition} makes {units} units of each device"
            formula = f"devices {TIMES} {units}"
            return [Term(resource=names, observed=total, expected=None, formula=formula, source=f"label {AMD_PARTITION}", problem=problem)]
        return []
    first = sources[0]
    expected = first.devices * units
    # the labeller counts what the driver lists, which may be partitions already
    if first.source.startswith("labels beta.amd.com") and units > 1 and first.devices % units == 0 and total == first.devices:
        expected, units = total, 1
    formula = f"{first.devices} {TIMES} {units}"
    return [Term(resource=names, observed=total, expected=expected, formula=formula, source=f"{first.source}, label {AMD_PARTITION}")]


def amd_units(partition: str, product: str) -> int:
    """Units that one device makes: ``partition`` is ``cpx_nps1`` or ``cpx``."""
    compute = partition.partition("_")[0].lower()
    if compute == "cpx":
        return next((dies for model, dies in _AMD_DIES.items() if model in product), 8)
    return _AMD_UNITS.get(compute, 1)


def counted_terms(capacity: Mapping[str, int], sources: list[PhysicalCount]) -> Iterator[Term]:
    """Without labels of sharing: capacity is a whole multiple, at least one, of the devices that another source counts."""
    if not sources or not sources[0].devices:
        return
    devices, source = sources[0].devices, sources[0].source
    for resource, observed in sorted(capacity.items()):
        if not observed or "/mig-" in resource:
            continue
        whole, rest = divmod(observed, devices)
        problem = f"no whole multiple of {devices} devices" if rest or not whole else ""
        formula = f"{devices} {TIMES} {max(whole, 1)}"
        yield Term(resource=resource, observed=observed, expected=None, formula=formula, source=source, problem=problem)
