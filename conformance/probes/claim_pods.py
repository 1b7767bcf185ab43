"""Probe pods that claim devices by a selector of their own, and the claims that Kubernetes made for probe pods.

Facts: docs/facts/dra.md#claims, docs/facts/dra.md#selectors.
"""

import time
from collections.abc import Collection, Iterable

from conformance.probes.computing import Run
from conformance.probes.running import pinned_pod
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.model.dra.claims import api_version, claim_of, template_of
from fixtures.model.dra.slices import BY_CLASS, CLAIMS, TEMPLATES
from fixtures.model.objects import results_of
from fixtures.model.placement.free_devices import Place
from fixtures.ownership import owned
from fixtures.probes.workspace import Workspace

CANNOT_ALLOCATE = "cannot allocate all claims"
"""What the scheduler says of a pod whose claims no device of a node meets."""


def selecting_pod(scope: Scope, workspace: Workspace, place: Place, name: str, script: str | Run, expressions: Iterable[str]) -> Json:
    """A probe pod that claims one device, which CEL ``expressions`` must select too. The claim's template is created."""
    run = script if isinstance(script, Run) else Run(script=script)
    version = api_version(workspace.cluster.path(TEMPLATES))
    selectors = [{"cel": {"expression": text}} for text in expressions]
    claim = claim_of(place.device_class, 1, version, name=name, selectors=selectors)
    workspace.create(TEMPLATES, template_of(claim, owned.labels(workspace.run_id)), workspace.namespace())
    claimed = {f"{BY_CLASS}{place.device_class}": 1}
    pod = pinned_pod(scope, place.node, name, run.script, resources=claimed, env=run.env, image=run.image, limits=run.limits)
    pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = name
    return pod


def claims_by_pod(workspace: Workspace) -> dict[str, Json]:
    """Claims that were made for pods of the run, by the pod's UID."""
    return {owner: item for item in owned.labelled(workspace.cluster, CLAIMS, workspace.run_id) if (owner := _owner(item))}


def await_allocated(workspace: Workspace, pods: Collection[str], seconds: float) -> dict[str, Json]:
    """Wait until the claims of pods, by their UIDs, were given devices; the claims that there are then, by the pod's UID."""
    found: dict[str, Json] = {}
    selector = f"{owned.RUN_LABEL}={workspace.run_id}"
    with Observation(workspace.cluster, CLAIMS, workspace.namespace(), labels=selector) as observation:
        for objects in observation.until(time.monotonic() + seconds):
            found = {owner: item for item in objects.values() if (owner := _owner(item)) in pods}
            if len(found) == len(pods) and all(map(results_of, found.values())):
                break
    return found


def uid_of(workspace: Workspace, pod: str) -> str:
    """UID of a probe pod; empty where it is gone."""
    return text_of(mapping(workspace.cluster.find("pods", pod, workspace.namespace()), "metadata").get("uid"))


def _owner(claim: Json) -> str:
    """UID of the pod that a claim was made for."""
    owners = mappings(mapping(claim, "metadata").get("ownerReferences"))
    return next((text_of(item.get("uid")) for item in owners if item.get("kind") == "Pod"), "")
