"""OPS-12: on no node do two device plugins register the same vendor's devices.

The kubelet keeps one endpoint per resource name: the plugin that registered last wins, and ids of one reach the other.
Facts: docs/facts/device-plugin.md#two-plugins-on-a-node.
"""

from __future__ import annotations

from collections.abc import Iterator

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.platform.plugin_pods import plugin_pods
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable

_HIDDEN = ("eks.amazonaws.com/compute-type", "auto")
"""EKS Auto Mode runs the plugins on the machine, where no pod shows them."""

_SOURCE = "pods that mount /var/lib/kubelet/device-plugins"
_EXPECTED = "one device plugin per vendor"


def check_one_plugin(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node with a device plugin that is seen. Raises :class:`NotApplicable` where none is."""
    seen = False
    for node in scope.accelerator_nodes:
        plugins = _plugins(scope, node)
        if not plugins:
            continue
        seen = True
        observed = "; ".join(f"{vendor}: {listed(names)}" for vendor, names in sorted(plugins.items()))
        doubled = {vendor: names for vendor, names in plugins.items() if len(names) > 1}
        about = About(subject(node), _SOURCE, _EXPECTED, observed)
        if doubled:
            both = "; ".join(f"{listed(names)} register devices of {vendor}" for vendor, names in sorted(doubled.items()))
            message = f"{both}: the kubelet believes whichever registered last, so pods get wrong devices or none"
            yield about.bad(message, cause="TwoDevicePlugins")
        else:
            yield about.ok()
    if not seen:
        raise NotApplicable("NoPlugins", "no pod on an accelerator node is a device plugin; plugins may be host services")


def _plugins(scope: Scope, node: Node) -> dict[str, list[str]]:
    """Names of plugins by vendor on a node: one per owner, as a pod may be there twice while it is replaced."""
    found: dict[str, set[str]] = {}
    for vendor, pod in plugin_pods(scope, node):
        if not pod.metadata.deletion_timestamp:
            owner = pod.controller
            name = f"{owner.kind} {pod.namespace}/{owner.name}" if owner else f"Pod {pod.namespace}/{pod.metadata.name}"
            found.setdefault(vendor, set()).add(name)
    if node.metadata.label.get(_HIDDEN[0]) == _HIDDEN[1]:
        for names in found.values():
            names.add("EKS Auto Mode's own")
    return {vendor: sorted(names) for vendor, names in found.items()}
