"""Programs of a host, wherever its platform keeps them: argument lists for injector pods, and how their answers are read.

Scripts are POSIX sh, and the suite's own; what goes into them is a plain word of a known form. A kubelet turns ``$$`` in a pod's command
into ``$``, so no script has one.

Facts: docs/facts/kubelet.md#units, docs/facts/device-health.md#nvidia-smi-on-a-host, docs/facts/device-health.md#gpu-reset.
"""

from __future__ import annotations

import re
import shlex

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin:/run/current-system/sw/bin"
"""Where hosts keep programs: the usual folders, those of Flatcar and NixOS."""

KUBELETS = ("kubelet", "kubelite", "k3s", "k3s-agent", "k3s-server", "hyperkube")
"""Names of processes that are a kubelet, or have one inside."""

FIND_KUBELET = (
    "sh",
    "-c",
    f"for name in {' '.join(KUBELETS)}; do for pid in $(pgrep -x $name); do cat /proc/$pid/cgroup; done; done",
)
"""Prints the control groups of every kubelet of the host, of those in containers too."""

DRIVER_ROOT = "/run/nvidia/driver"
"""The root of a driver that runs in a container (the GPU operator's)."""

GKE_DRIVER = "/home/kubernetes/bin/nvidia"

_SERVICE = re.compile(r"\d+:(?:name=systemd)?:(?:/\.\.)*(?:/[^/]+\.slice)*/([A-Za-z0-9@._-]+\.service)(?:/.*)?")
_IN_USE = re.compile(r"in use by another|being used by", re.IGNORECASE)
_NEVER = re.compile(r"nvlink|not supported", re.IGNORECASE)


def kubelet_units(groups: str) -> list[str]:
    """Systemd units that run a kubelet, by the control groups of its processes. One in a container belongs to no unit of the host."""
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
