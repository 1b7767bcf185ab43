"""INV-01: the independent sources that call a node an accelerator node, and whether they agree."""

from __future__ import annotations

from collections.abc import Iterator

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, whole
from fixtures.model.devices.unlisted_offers import unlisted_offers
from fixtures.model.devices.vendors import shared_pools, vendor_of_label, vendors_of
from fixtures.model.nodes.availability import withheld
from fixtures.model.nodes.marks import is_faint
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, bad, not_judged, undecided
from fixtures.verdict.subjects import Subject

ADVERTISED = "advertised"
"""Capacity keys or ResourceSlices: a node offers its devices through one or the other, never both (ADV-05)."""

NFD = "NFD label"
"""Labels that Node Feature Discovery derives from PCI: one source, whatever device class the label names.

Facts: docs/facts/vendors-and-clouds.md#pci-vendors.
"""

_NFD_PREFIX = "feature.node.kubernetes.io/"


def source_of(name: str) -> str:
    """The independent source that a column of ``Scope.sources`` belongs to."""
    if name in ("capacity", "ResourceSlice"):
        return ADVERTISED
    return NFD if name.startswith(f"label {_NFD_PREFIX}") else name


def rows(scope: Scope) -> dict[str, dict[str, bool]]:
    """``{node: {source: yes}}`` over the sources in use here, without those that cannot know the node's vendor.

    A label that no node of the cluster carries is a source that is not installed, and says nothing. Advertisement
    always counts: devices that nobody offers are what INV-01 is there to find.
    """
    merged: dict[str, dict[str, bool]] = {}
    for name, columns in scope.sources.items():
        row = merged.setdefault(name, {ADVERTISED: False})
        for column, yes in columns.items():
            source = source_of(column)
            row[source] = row.get(source, False) or yes
    in_use = {ADVERTISED} | {source for row in merged.values() for source, yes in row.items() if yes}
    told = {
        vendor_of_label(column.removeprefix("label "))
        for columns in scope.sources.values()
        for column, yes in columns.items()
        if yes and source_of(column) == NFD
    }
    by_name = scope.snapshot.node_by_name
    return {
        name: {source: yes for source, yes in row.items() if source in in_use and (yes or _knows(source, by_name.get(name), scope, told))}
        for name, row in merged.items()
    }


def _knows(source: str, node: Node | None, scope: Scope, told: set[str]) -> bool:
    """Whether a source that does not name the node could have: a vendor's label says nothing about another vendor's node.

    ``told`` are the vendors of whose devices feature discovery tells on some node, empty text for a vendor that is not known.
    """
    if node is None or not (vendors := vendors_of(node, scope)):
        return True
    if source == NFD:
        return "" in told or bool(vendors & told)
    if not source.startswith("label "):
        return True
    domain = source.removeprefix("label ").partition("/")[0]
    return any(domain == vendor or domain.endswith(f".{vendor}") for vendor in vendors) or "." not in domain


def check_agreement(scope: Scope) -> Iterator[Finding]:
    """One finding per node that any source names, and one for the number of nodes where the policy states it."""
    table = rows(scope)
    if not table and scope.policy.accelerators.expected_count != 0:
        yield _none(scope)
    for name, row in sorted(table.items()):
        yield _judge(scope, name, row)
    expected = scope.policy.accelerators.expected_count
    if expected is not None:
        found = sum(name in scope.snapshot.node_by_name for name in table)
        subject = Subject("Cluster", "accelerator nodes")
        about = About(subject, "policy accelerators.expectedCount")
        if found == expected:
            yield about.ok(str(found), expected=str(expected))
        else:
            message = f"the policy expects {expected} accelerator nodes and the sources name {found}"
            yield about.bad(message, cause="NodeCountUnexpected", observed=str(found), expected=str(expected))


def _none(scope: Scope) -> Finding:
    """No source calls any node an accelerator node. Resources that the policy does not list may be accelerators all the same."""
    place, source = Subject("Cluster", "accelerator nodes"), "labels, capacity, ResourceSlices and policy"
    message = "no source calls any node an accelerator node, so nothing about devices can be judged"
    offering = {node.name: offers for node in scope.snapshot.nodes if (offers := unlisted_offers(scope, node))}
    if offering:
        first = min(offering)
        return undecided(place, message=f"{message}, but {first} may be one: {offering[first]}", source=source)
    observed = f"0 of {len(scope.snapshot.nodes)} nodes"
    return bad(place, cause="NoAcceleratorNode", observed=observed, expected="at least one", source=source, message=message)


def _judge(scope: Scope, name: str, row: dict[str, bool]) -> Finding:
    subject = Subject("Node", name)
    node = scope.snapshot.node_by_name.get(name)
    observed = ", ".join(f"{source}: {'yes' if yes else 'no'}" for source, yes in sorted(row.items()))
    about = About(subject, "node labels", "all sources agree", observed)
    if node is None:
        return about.bad(
            "the policy expects this node and it is gone",
            cause="ExpectedNodeGone",
            observed="no such node",
            expected="a node of this name",
            source="policy accelerators.expectedNodes",
        )
    if virtual := scope.virtual(node):
        return about.not_judged(f"{virtual}: no agent of this cluster labels it")
    owned = name in scope.policy.accelerators.expected_nodes and not scope.vm_devices(
        node
    )  # a label is no excuse for what the owner expects
    if not row[ADVERTISED] and not owned and (reason := withheld(scope, node)):
        return about.not_judged(reason)
    if not row[ADVERTISED] and (offers := unlisted_offers(scope, node)):
        message = f"{offers}: whether these are its devices is not known"
        return about.undecided(message, source="node labels and status.capacity")
    if not any(row.values()):
        return _marked(subject, scope.marks[name], _consequence(scope, node))
    if len(row) < 2:
        only = next(iter(row))
        return about.not_judged(f"one source only ({only}): there is nothing to compare it with", source="node labels and status.capacity")
    if all(row.values()):
        return about.ok(source="node labels, status.capacity, ResourceSlices")
    yes, no = ([source for source, value in sorted(row.items()) if value is wanted] for wanted in (True, False))
    if no == [ADVERTISED]:
        zero = [resource for resource, count in scope.device_capacity(node).items() if not whole(count)]
        why = f"{', '.join(zero)} is 0" if zero else "no device resource is in its capacity and no ResourceSlice has a device of it"
        message = f"{', '.join(yes)} call it an accelerator node but {why}: {_consequence(scope, node)}"
    else:
        verb = "does" if len(no) == 1 else "do"
        message = f"{', '.join(yes)} call it an accelerator node, {', '.join(no)} {verb} not: programs treat it differently"
    return about.bad(
        message,
        cause="DevicesNotOffered" if no == [ADVERTISED] else "NodeMarksDisagree",
        source="node labels, status.capacity, ResourceSlices",
    )


def _consequence(scope: Scope, node: Node) -> str:
    """What follows for a node that offers no device of its own."""
    if pools := shared_pools(scope, node):
        return f"only devices of {listed(pools)} can be had here, which several nodes can reach and which count for no node"
    return "its devices cannot be scheduled"


def _marked(subject: Subject, marks: tuple[str, ...], consequence: str) -> Finding:
    """A node that no source names and marks do: its devices went, or never came."""
    observed, source = ", ".join(marks[:5]), "node labels, taints and status.capacity"
    if is_faint(marks):
        return not_judged(
            subject, message=f"{observed}, and nothing else calls it an accelerator node: there is nothing to compare", source=source
        )
    message = f"it has {observed}, and neither capacity nor a ResourceSlice offers a device of its own: {consequence}"
    return bad(
        subject,
        cause="DevicesNotOffered",
        observed=observed,
        expected="a device in capacity or in a ResourceSlice",
        source=source,
        message=message,
    )
