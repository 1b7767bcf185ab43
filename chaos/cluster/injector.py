"""Injector pods: short-lived privileged pods that run one host program each. Nothing else acts on a host.

The program and its arguments are the container's command. Scripts are POSIX sh and the suite's own. Names of units and devices are
checked before they are put into one: nothing a cluster says is ever interpreted. A kubelet turns ``$$`` in a pod's command into ``$``, so
no script has one. Programs are found wherever a host's platform keeps them.

Unlike canaries, injectors name no PriorityClass. They take nobody's place whatever class the cluster gives them: they are bound by name,
past the scheduler, which alone preempts by class; a kubelet makes room for system-critical classes only, and those are no cluster's
default. A class of the run, below everybody's, would make an undo the first to be evicted from a node under pressure, and the pod would
be refused where that class is gone already: a late `recover` could undo nothing on a host.

Facts: docs/facts/kubelet.md#units, docs/facts/device-health.md#nvidia-smi-on-a-host, docs/facts/device-health.md#gpu-reset.
"""

import re
import secrets
import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from chaos.cluster.requests import accepted, await_object
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping
from fixtures.model.objects import container_statuses, is_live, phase_of, pull_secrets_of, reason_of, uid_of
from fixtures.ownership import owned

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin:/run/current-system/sw/bin"
"""Where hosts keep programs: the usual folders, those of Flatcar and NixOS."""

KUBELETS = ("kubelet", "kubelite", "k3s", "k3s-agent", "k3s-server", "hyperkube")
"""Names of processes that are a kubelet, or have one inside."""

RUNTIMES = ("containerd", "crio")
"""Names of processes that are a kubelet's container runtime."""


def _groups_of(names: Sequence[str]) -> tuple[str, ...]:
    """Prints the control groups of every process of the host with one of the names, of those in containers too."""
    return ("sh", "-c", f"for name in {' '.join(names)}; do for pid in $(pgrep -x $name); do cat /proc/$pid/cgroup; done; done")


FIND_KUBELET, FIND_RUNTIME = _groups_of(KUBELETS), _groups_of(RUNTIMES)

DRIVER_ROOT = "/run/nvidia/driver"
"""The root of a driver that runs in a container (the GPU operator's)."""

GKE_DRIVER = "/home/kubernetes/bin/nvidia"

_SERVICE = re.compile(r"\d+:(?:name=systemd)?:(?:/\.\.)*(?:/[^/]+\.slice)*/([A-Za-z0-9@._-]+\.service)(?:/.*)?")
_IN_USE = re.compile(r"in use by another|being used by", re.IGNORECASE)
_NEVER = re.compile(r"nvlink|not supported", re.IGNORECASE)


def units_of(groups: str) -> list[str]:
    """Systemd units by the control groups of their processes. A process in a container belongs to no unit of the host."""
    found = (_SERVICE.fullmatch(line.strip()) for line in groups.splitlines())
    return sorted({match[1] for match in found if match})


def nvidia_smi(*args: str) -> tuple[str, ...]:
    """``nvidia-smi`` with these arguments: in the root of a driver that runs in a container, where GKE puts it, else on the path."""
    given = shlex.join(args)
    script = (
        f"if [ -f {DRIVER_ROOT}/usr/bin/nvidia-smi ]; then chroot {DRIVER_ROOT} nvidia-smi {given}; "
        f"else if [ -f {GKE_DRIVER}/bin/nvidia-smi ]; then LD_LIBRARY_PATH={GKE_DRIVER}/lib64 {GKE_DRIVER}/bin/nvidia-smi {given}; "
        f"else nvidia-smi {given}; fi; fi"
    )
    return ("sh", "-c", script)


def open_files(uuid: str) -> tuple[str, ...]:
    """Prints a line for each process that has the device's file open, which is what makes a reset be refused."""
    script = (
        f"for info in $(grep -l {shlex.quote(uuid)} /proc/driver/nvidia/gpus/*/information); do "
        "minor=$(sed -n 's/^Device Minor:[^0-9]*//p' $info); find /proc/[0-9]*/fd -lname /dev/nvidia$minor; done 2>/dev/null"
    )
    return ("sh", "-c", script)


def says_in_use(output: str) -> bool:
    """Whether a reset was refused because somebody uses the device."""
    return bool(_IN_USE.search(output))


def never_resets(output: str) -> bool:
    """Whether a reset was refused for a reason that does not pass: its NVLink peers would have to be reset with it."""
    return bool(_NEVER.search(output))


HOST = ("nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--")
"""Into the namespaces of the host's first process: its files, its systemd, its devices."""

LOG_BYTES = 64 << 10
POD_SECONDS = 120
LIMITS = {"cpu": "1", "memory": "512Mi"}
"""A host program that runs away is ended before it harms who else is on the node."""

COMPONENT = "app.kubernetes.io/component"
UNPULLED = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
"""Reasons for which a kubelet keeps a container waiting for its image."""

RIGHTS = ("create pods", "get pods", "list pods", "watch pods", "delete pods", "get pods/log")


class HostResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a host program ended. ``output`` is what it wrote to either stream, bounded."""

    exit_code: int
    output: str


def injector_pod(
    *,
    name: str,
    node: str,
    image: str,
    argv: Sequence[str],
    run_id: str,
    seconds: int = POD_SECONDS,
    pull_secrets: Sequence[str] = (),
) -> Json:
    """The pod as JSON. Bound to its node by name, past the scheduler, so that no taint, cordon or full node keeps it away."""
    container: Json = {
        "name": "injector",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [*HOST, *argv],
        "env": [{"name": "PATH", "value": PATH}],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "resources": {"limits": dict(LIMITS), "requests": dict.fromkeys(LIMITS, "0")},  # asks for nothing: a full node must take it
    }
    more = {"hostPID": True, "hostNetwork": True, "enableServiceLinks": False}  # a node whose pod network is broken can still be repaired
    labels = {**owned.labels(run_id), COMPONENT: "injector"}
    return bound_pod(name, node, labels, container, seconds=max(seconds, 1), pull_secrets=pull_secrets, **more)


def bound_pod(
    name: str, node: str, labels: dict[str, str], container: Json, *, seconds: int, pull_secrets: Sequence[str] = (), **more: Any
) -> Json:
    """A pod that is bound to a node by name and runs one container once. Its node ends it after ``seconds``; ``more`` is of its spec."""
    spec = {
        **({"imagePullSecrets": [{"name": secret} for secret in pull_secrets]} if pull_secrets else {}),
        "nodeName": node,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": seconds,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": {**spec, **more}}


def run_on_host(
    cluster: Cluster,
    *,
    namespace: str,
    node: str,
    image: str,
    argv: Sequence[str],
    run_id: str,
    deadline: float,
    seconds: int = POD_SECONDS,
    name: str = "",
    pull_secrets: Sequence[str] = (),
) -> HostResult:
    """Run one host program on a node and wait for its end until ``deadline`` (monotonic seconds); the pod is deleted by UID.

    A program that fails is a result. Raises :class:`ApiTrouble` when the pod could not be created, did not end in time (its node
    ends it after ``seconds``) or its log could not be read: then the program may have run.
    """
    name = name or f"injector-{secrets.token_hex(4)}"
    pod = injector_pod(name=name, node=node, image=image, argv=argv, run_id=run_id, seconds=seconds, pull_secrets=pull_secrets)
    try:
        created = accepted(cluster.create("pods", pod, namespace=namespace), f"injector pod on {node}").json()
        finished = _finished(cluster, namespace, name, uid_of(created), deadline)
        code = mapping(_status(finished), "state", "terminated").get("exitCode")
        if code is None:
            raise ApiTrouble("InjectorFailed", f"injector pod on {node}: {reason_of(finished) or 'ended without an exit code'}")
        return HostResult(exit_code=int(code), output=cluster.logs(namespace, name, limit_bytes=LOG_BYTES))
    finally:
        _remove(cluster, namespace, name, run_id)


def delete_injectors(cluster: Cluster, *, namespace: str, node: str, run_id: str) -> None:
    """Delete the run's injector pods on a node, by UID: one that has not started yet would act after its fault was undone.

    Raises :class:`ApiTrouble`.
    """
    query = {"labelSelector": f"{owned.RUN_LABEL}={run_id},{COMPONENT}=injector", "fieldSelector": f"spec.nodeName={node}"}
    answer = cluster.request("GET", cluster.path("pods", namespace), query=query)
    if answer.status == 404:
        return
    for pod in accepted(answer, f"list injector pods on {node}").json().get("items") or ():
        gone = cluster.delete("pods", str(pod["metadata"]["name"]), namespace, uid=uid_of(pod), grace_seconds=0)
        if gone.status not in (404, 409):
            accepted(gone, f"delete injector pod {pod['metadata']['name']}")


def _finished(cluster: Cluster, namespace: str, name: str, uid: str, deadline: float) -> Json:
    pod: Json | None = None

    def runs(found: Json | None) -> str:
        nonlocal pod
        pod = found
        # a kubelet gives a pod its last phase once all of it is torn down, seconds after its one container has ended
        ended = bool(mapping(_status(found), "state", "terminated"))
        return "" if uid_of(found) != uid or not is_live(found) or ended else "it runs"

    if not await_object(cluster, "pods", name, namespace, deadline, runs):
        if pod is None or uid_of(pod) != uid:
            raise ApiTrouble("InjectorGone", f"injector pod {namespace}/{name} was deleted by somebody else")
        return pod
    why = obstacle(pod, namespace) or phase_of(pod) or "unknown"
    raise ApiTrouble("Timeout", f"injector pod {namespace}/{name} did not end in time ({why})")


def obstacle(pod: Json | None, namespace: str) -> str:
    """What keeps the container of a pod with the injectors' image from running: what it waits for, or how it ended; else empty."""
    status = _status(pod)
    waiting = mapping(status, "state", "waiting")
    ended = mapping(status, "state", "terminated") or mapping(status, "lastState", "terminated")
    reason = str(waiting.get("reason") or ended.get("reason") or "")
    if reason in UNPULLED:
        return reason + _unpulled(pod, namespace)
    message = " ".join(str(waiting.get("message") or ended.get("message") or "").split())
    return f"{reason}: {message[:300]}" if message else reason


def _unpulled(pod: Json | None, namespace: str) -> str:
    """What to do about an image that cannot be pulled. Secrets are never copied: no account of ours may read one."""
    names = ", ".join(pull_secrets_of(pod))
    if not names:
        return ": its image could not be pulled; expected one that the node can pull, or its Secrets in probes.pullSecrets"
    return (
        f": its image could not be pulled; expected Secrets {names} in namespace {namespace}, which something in the cluster must put there"
    )


def _status(pod: Json | None) -> Json:
    return next(iter(container_statuses(pod)), {})


def _remove(cluster: Cluster, namespace: str, name: str, run_id: str) -> None:
    """Delete the pod; what the API refuses now goes with the run's namespace."""
    try:
        found = cluster.find("pods", name, namespace, labels=f"{owned.RUN_LABEL}={run_id}")
        if found is not None:
            cluster.delete("pods", name, namespace, uid=uid_of(found), grace_seconds=0)
    except ApiTrouble:
        return
