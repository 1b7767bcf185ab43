"""PSA-05: ways around the device plugin in tenants' pods and templates."""

import posixpath
from collections.abc import Collection, Iterable, Iterator

from conformance.common_findings import unread
from conformance.psa.environments import (
    DEVICES,
    HARMLESS,
    NO_VALUE,
    VARIABLES,
    Environments,
    in_secrets,
    may_open,
    opens,
    secrets_taken,
    takes_config,
)
from conformance.psa.given_devices import GivenDevices, takes_field
from conformance.psa.host_paths import by_host, exposed_by, injected, takes_whole_nodes, unknown_device
from fixtures.kubernetes.models import Container, PodSpec
from fixtures.kubernetes.untyped import mapping
from fixtures.model.cluster import Scope
from fixtures.model.demand.host_volumes import HostVolumes, claims_volume
from fixtures.model.demand.pod_templates import templates
from fixtures.model.demand.reserved_devices import doubt, granted, unreserved
from fixtures.model.demand.template import Template, demand_of, lacks_image
from fixtures.model.devices.shares import knows_nodes
from fixtures.model.facts import reported
from fixtures.model.placement.affinity import Choice, Tolerated, too_long
from fixtures.model.placement.free_devices import runtime_classes
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, allowed


def _may_meet_devices(scope: Scope, spec: PodSpec, *, asks_device: bool) -> bool:
    """Whether a pod is on an accelerator node, or could get to one, by its node, selector and tolerations.

    Admission may give pods that ask for a device its toleration. Where no accelerator node is known, every pod may be on one. So may one
    whose affinity is too long to be held against all nodes.
    """
    nodes = scope.accelerator_nodes if scope.snapshot.listing("nodes").known else []
    if not nodes or asks_device:
        return True
    if spec.node_name:
        names = scope.cached_by(("names of accelerator nodes",), lambda: {node.name for node in nodes})
        return spec.node_name in names or spec.node_name not in scope.snapshot.node_by_name

    def one_lets_in() -> bool:
        choice, tolerated = Choice(spec), Tolerated(spec.tolerations)
        return bool(too_long(spec)) or any(choice.admits(node) and tolerated.lets_onto(node) for node in nodes)

    return scope.cached_by(("let in", repr((spec.node_selector, spec.affinity, spec.tolerations))), one_lets_in)


SOURCE = "pod.spec"
EXPECTED = "devices through the device plugin or a claim only"
RUNTIME_CLASS = "nvidia"

DEVICE_LIST = "/var/run/nvidia-container-devices"
"""NVIDIA's container runtime grants the device that a mount below this folder names, where
``accept-nvidia-visible-devices-as-volume-mounts`` is set (docs/facts/container-runtimes.md#device-mounts)."""


def check_bypass(scope: Scope) -> Iterator[Finding]:
    """PSA-05: no pod and no template of a tenant bypasses the device plugin to reach devices, whether it asks for one or not."""
    ways = _Ways(scope)
    for template in templates(scope):
        if template.trouble:
            if not template.namespace or scope.is_tenant(template.namespace):
                yield unread(template)
        elif scope.is_tenant(template.namespace):
            yield _judge(scope, ways, template)


_HostPath = tuple[str, str, bool]
"""A path of the host that a volume mounts: in words, as a path, and whether a container may write there."""


class _Ways:
    """What of a cluster decides whether a pod's fields open a device."""

    def __init__(self, scope: Scope) -> None:
        self.classes = {RUNTIME_CLASS, *(name for name, handler in runtime_classes(scope).items() if handler.startswith("nvidia"))}
        self.environments = Environments(scope.snapshot, VARIABLES)
        self.in_secrets = in_secrets(scope.capacity_names if knows_nodes(scope) else ())
        self.volumes = HostVolumes(scope.snapshot)
        self.scope = scope


def _judge(scope: Scope, ways: _Ways, template: Template) -> Finding:
    source = template.path if not template.live else SOURCE
    demand, given = demand_of(scope, template), GivenDevices(scope, template)
    asks_device = demand.devices or bool(given.shares)
    about = About(template.place, source, EXPECTED)
    paths = list(_host_paths(ways, template))
    if found := bypasses(template, ways, paths, asks_device=asks_device or bool(demand.unknown), given=given):
        if by_host(scope, template):
            message = "the policy lets it reach the fabric through the host, and it takes every device of its node"
            return allowed(template.place, message=message, source="policy tenants.hostRdma")
        cause, words = found[0]
        first = words + (f" and {len(found) - 1} more" if len(found) > 1 else "")
        message = f"{first}: it can use devices that were granted to others, and no quota counts that"
        return about.bad(
            message[:600] + scope.platform.advice(template.namespace), cause=cause, observed="; ".join(words for _, words in found)[:1500]
        )
    if doubts := list(_doubts(ways, template, given, paths, asks_device=asks_device)):
        return about.undecided(doubts[0][:600])
    if secret := next(_secrets(ways, template, asks_device=asks_device), ""):
        return about.undecided(secret[:600], cause="SecretNotRead")
    if not ways.environments.known and any(takes_config(one) or _names_config(one) for one in template.containers):
        reason = "a container takes its environment from a ConfigMap, and the snapshot holds no configmaps"
        return about.not_judged(reason)
    if (lacking := ways.volumes.lacking) and any(map(claims_volume, template.volumes)):
        return about.not_judged(f"it mounts a claim, and the snapshot holds no {lacking}")
    excused = [path for _, path, writable in paths if _is_platforms(scope, template, path, writable=writable)]
    observed = f"mounts {listed(excused)} as the platform's guide has it (policy tenants.hostPaths)" if excused else ""
    return about.ok(observed or "none of the known bypasses")


def bypasses(
    template: Template, ways: _Ways, paths: Iterable[_HostPath], *, asks_device: bool, given: GivenDevices
) -> list[tuple[str, str]]:
    """Each bypass: its cause, and words of its own."""
    found = [("HostOpenToPod", words) for words in _rights_on_the_host(template, ways, paths)]
    found += [("DevicesChosenByPod", words) for words in _choices(template, ways, given, asks_device=asks_device)]
    return found + [("ClaimWithAdminAccess", words) for words in _admin_claims(template, ways)]


def _rights_on_the_host(template: Template, ways: _Ways, paths: Iterable[_HostPath]) -> Iterator[str]:
    spec = template.spec
    for container in spec.every_container():
        if mapping(container.security_context).get("privileged") is True:
            yield f"container {container.name} is privileged and sees every device of the node"
    for words, path, writable in paths:
        what = exposed_by(path, writable=writable)
        if what and not _is_platforms(ways.scope, template, path, writable=writable):
            yield f"{words}: {what}"
    if spec.host_pid:
        yield "hostPID=true shows the processes of the host and of other jobs, and lets root of a container end them"
    if spec.host_ipc:
        yield "hostIPC=true opens the shared memory of other jobs and of the MPS daemon"


def _admin_claims(template: Template, ways: _Ways) -> Iterator[str]:
    for entry in template.entries:
        if ways.scope.claims.admin_access(entry, template.namespace, template.claims).some:
            yield f"claim {entry.get('name')} has adminAccess=true and gets devices beside the pods that hold them"


def _choices(template: Template, ways: _Ways, given: GivenDevices, *, asks_device: bool) -> Iterator[str]:
    """What names devices to the container runtime, or says that a scheduler gave them."""
    spec, parts = template.spec, _given(ways, template)
    for container in spec.every_container():
        yield from _variables(container, ways.environments, template.namespace, parts)
        if container.env_from and ways.environments.known:
            yield from _shared_variables(template.namespace, container, ways.environments, parts)
        for mount in container.volume_mounts or ():
            if listed_device(mount.get("mountPath")):
                yield f"container {container.name} mounts a volume at {str(mount['mountPath'])[:200]}, which grants that device"
    whole = not template.partial or (spec.containers and not lacks_image(spec))
    if spec.runtime_class_name in ways.classes and not asks_device and whole:
        yield f"runtimeClassName {spec.runtime_class_name} without a device lets the image's NVIDIA_VISIBLE_DEVICES choose"
    for key, value in template.annotations.items():
        if key.startswith("cdi.k8s.io/"):
            yield f"annotation {key}={value[:100]} asks the container runtime for CDI devices"
    yield from given.not_given()
    yield from given.beyond_request()


def _host_paths(ways: _Ways, template: Template) -> Iterator[_HostPath]:
    """Paths of the host that volumes mount."""
    spec = template.spec
    for volume in spec.volumes or ():
        name, path = volume.get("name"), mapping(volume.get("hostPath")).get("path")
        mounts = [mount for container in spec.every_container() for mount in container.volume_mounts or () if mount.get("name") == name]
        writable = not mounts or any(mount.get("readOnly") is not True for mount in mounts)
        if isinstance(path, str):
            yield f"volume {name} mounts hostPath {path[:200]}", path, writable
        if held := ways.volumes.behind(volume, template):
            words = f"volume {name} mounts {held.path[:200]} of the host through PersistentVolume {held.name}{held.how}"
            yield words, held.path, writable


def _is_platforms(scope: Scope, template: Template, path: str, *, writable: bool) -> bool:
    """Whether the platform's guide has device pods mount a path, and the pod is one that may have what the path opens."""
    if not matches(posixpath.normpath(path), scope.policy.tenants.host_paths):
        return False
    return takes_whole_nodes(scope, template) if exposed_by(path, writable=writable) else bool(demand_of(scope, template).devices)


def _doubts(ways: _Ways, template: Template, given: GivenDevices, paths: Iterable[_HostPath], *, asks_device: bool) -> Iterator[str]:
    """Why nobody can tell whether a template without a known bypass has one, each in a clause."""
    if ways.volumes.trouble and any(map(claims_volume, template.volumes)):
        yield f"what of the host its claims mount is not known: {ways.volumes.trouble}"
    spec = template.spec
    for words, path, writable in paths:
        if unknown_device(path) and not _is_platforms(ways.scope, template, path, writable=writable):
            yield f"{words}, and nothing shows whether that device is an accelerator's"
    for key, value in template.annotations.items():
        if (clause := injected(key, value)) and not takes_whole_nodes(ways.scope, template):
            yield f"annotation {reported(key, 100)} {clause}, and nothing shows whether a container runtime adds devices by it"
    for entry in spec.resource_claims or ():
        if unread := ways.scope.claims.admin_access(entry, template.namespace, template.claims).unknown:
            yield f"whether its claim {entry.get('name')} has admin access to devices is not known: {unread}"
    if template.partial and spec.containers and lacks_image(spec) and spec.runtime_class_name in ways.classes and not asks_device:
        yield f"runtimeClassName {spec.runtime_class_name} lets an image choose its devices, unless what completes this part asks for one"
    pod = template.pod
    unsure = doubt(ways.scope, pod) or (pod.node_name and unreserved(ways.scope, pod)) if pod is not None else ""
    if unsure and any(map(_takes_device, template.containers)):
        yield f"a container takes its device from a ConfigMap, and {unsure}"
    if ungiven := given.doubt():
        yield ungiven
    for container in template.containers:
        for variable in filter(None, map(may_open, container.env or ())):
            yield f"container {container.name} sets {variable[:100]}, and nothing shows whether a container runtime adds devices by it"


def _secrets(ways: _Ways, template: Template, *, asks_device: bool) -> Iterator[str]:
    """Secrets of which containers take every key where they may meet devices, each in a clause."""
    for container in template.containers:
        taken = secrets_taken(container, ways.in_secrets, ways.environments, template.namespace)
        if taken and _may_meet_devices(ways.scope, template.spec, asks_device=asks_device):
            what = f"takes every key of Secret {taken[0][:253]} (envFrom), which is never read: one may be {ways.in_secrets[0]}"
            yield f"container {container.name} {what}; let it name single keys (valueFrom.secretKeyRef)"


def _takes_device(container: Container) -> bool:
    """Whether a container takes its device from elsewhere, as one does that shares a reserved device."""
    return takes_config(container) or any("valueFrom" in entry and entry.get("name") in DEVICES for entry in container.env or ())


def _names_config(container: Container) -> bool:
    """Whether a container takes its devices from one key of a ConfigMap."""
    return any(entry.get("name") in DEVICES and mapping(entry.get("valueFrom")).get("configMapKeyRef") for entry in container.env or ())


def _variables(container: Container, environments: Environments, namespace: str, given: Collection[str] | None) -> Iterator[str]:
    """Each variable by which a runtime adds devices that nobody gave, in words. ``given`` as :func:`_given` has it."""
    for entry in container.env or ():
        name, value = entry.get("name"), entry.get("value")
        if name not in VARIABLES or takes_field(entry):
            continue
        if "valueFrom" not in entry:
            if opens(name, str(value or "")):
                yield f"container {container.name} sets {name}={str(value)[:100]} by hand"
        elif (given is None or given) and mapping(entry["valueFrom"]).get("configMapKeyRef"):
            found = environments.of_key(namespace, entry["valueFrom"]).strip() if environments.known else ""
            if given and not _are_given(found, given):
                yield f"container {container.name} takes {name}={found[:100]} from elsewhere, and its reservation holds another device"
        elif name in DEVICES:
            yield f"container {container.name} takes {name} from elsewhere"


def _given(ways: _Ways, template: Template) -> Collection[str] | None:
    """The devices of a pod's reservations. None: it has a part of a device by a reservation that is not known.

    A pod that waits for its scheduler has none, and the ConfigMap that its container names is still to come.
    """
    pod = template.pod
    if pod is None or not unreserved(ways.scope, pod):
        return granted(ways.scope, pod) if pod is not None else ()
    return None if pod.node_name else (NO_VALUE,)


def _shared_variables(namespace: str, container: Container, environments: Environments, given: Collection[str] | None) -> Iterator[str]:
    stated = {entry.get("name") for entry in container.env or ()}  # ``env`` wins over ``envFrom``
    for name, (value, config) in environments.variables(namespace, container.env_from or ()).items():
        if name not in stated and opens(name, value) and given is not None and not _are_given(value.strip(), given):
            yield f"container {container.name} takes {name}={value[:100]} from ConfigMap {config}"


def _are_given(value: str, given: Collection[str]) -> bool:
    """Whether a variable names no device, or only devices that were given; several have commas between them."""
    return value in HARMLESS or all(device.strip() in given for device in value.split(","))


def listed_device(path: object) -> str:
    """The device that a mount path asks NVIDIA's container runtime for, or empty."""
    if not isinstance(path, str) or "nvidia-container-devices" not in path:
        return ""
    clean = posixpath.normpath("/" + path.strip().lstrip("/"))
    if clean.startswith("/run/"):
        clean = f"/var{clean}"  # the same folder on every distribution
    return clean.removeprefix(f"{DEVICE_LIST}/") if clean.startswith(f"{DEVICE_LIST}/") else ""
