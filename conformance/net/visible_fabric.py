"""NET-04: the script that lists RDMA devices in a container, the parser of its output, and the judgement."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from conformance.outputs.captured_text import Unreadable
from conformance.probes.running import ProbeResult
from fixtures.verdict.findings import About, Finding, undecided

LIST_SCRIPT = (
    'echo "## dev"; ls -1 /dev/infiniband 2>&1 || echo "exit=$?"; '
    'echo "## verbs"; for v in /sys/class/infiniband_verbs/uverbs*/ibdev; do echo "$v $(cat $v 2>/dev/null)"; done; '
    'echo "## ports"; for p in /sys/class/infiniband/*/ports/1/state; do echo "$p $(cat $p 2>/dev/null)"; done; '
    'echo "## end"'
)
"""Prints device files, which HCA each uverbs device is, and the state of port 1 of each HCA, between markers.

sysfs belongs to the host and shows every HCA to every pod; what a pod can use are its device files.
"""

SOURCE = "/dev/infiniband and /sys/class/infiniband in the container"
_UVERBS = re.compile(r"uverbs\d{1,4}\Z")
_VERBS = re.compile(r"/sys/class/infiniband_verbs/(uverbs\d{1,4})/ibdev ([\w.-]{1,64})\s*\Z")
_PORT = re.compile(r"/sys/class/infiniband/([\w.-]{1,64})/ports/1/state (\d: [A-Z_a-z]{1,32})\s*\Z")
_SECTIONS = ["dev", "verbs", "ports", "end"]


class VisibleFabric(msgspec.Struct, frozen=True, kw_only=True):
    """Device files of the container, the HCA of each where sysfs tells, and the state of each HCA's port 1 (``4: ACTIVE``)."""

    uverbs: tuple[str, ...]
    hcas: dict[str, str]
    ports: dict[str, str]

    @property
    def active(self) -> list[str]:
        """HCAs with an ACTIVE port 1 that the container can use; all of the host where sysfs does not say which is which."""
        usable = {self.hcas[name] for name in self.uverbs if name in self.hcas} or set(self.ports)
        return sorted(name for name, state in self.ports.items() if name in usable and state.endswith(" ACTIVE"))

    @property
    def text(self) -> str:
        """One line of evidence."""
        states = ", ".join(f"{name} {state}" for name, state in sorted(self.ports.items())[:8]) or "none"
        return f"{len(self.uverbs)} uverbs device(s); port 1: {states}"


def read_visible_fabric(text: str) -> VisibleFabric:
    """Read the output of :data:`LIST_SCRIPT`. Raises :class:`Unreadable` when a section is missing or out of order."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.replace("\r", "").split("\n"):
        if line.startswith("## "):
            lines = sections.setdefault(line[3:].strip(), [])
        else:
            lines.append(line.strip())
    if list(sections) != _SECTIONS:
        raise Unreadable(f"the probe's output is incomplete: it has the sections {', '.join(sections) or 'none'}")
    verbs = [match for line in sections["verbs"] if (match := _VERBS.match(line))]
    ports = [match for line in sections["ports"] if (match := _PORT.match(line))]
    return VisibleFabric(
        uverbs=tuple(sorted(line for line in sections["dev"] if _UVERBS.match(line))),
        hcas={match[1]: match[2] for match in verbs},
        ports={match[1]: match[2] for match in ports},
    )


def judge_visible_fabric(asked: ProbeResult, unasked: ProbeResult, resource: str) -> Iterator[Finding]:
    """NET-04: the pod that asked sees devices and an ACTIVE port; the one beside it that did not sees no device."""
    seen = _visible_to(asked)
    expected = "a uverbs device and an ACTIVE port 1"
    works = False
    if isinstance(seen, str):
        yield undecided(asked.subject, cause="ProbeDidNotRun", message=seen, source=SOURCE)
    else:
        works = bool(seen.uverbs and seen.active)
        observed = f"{seen.text}, on node {asked.node}"
        about = About(asked.subject, SOURCE, expected, observed)
        if not seen.uverbs:
            message = f"it holds one {resource} and has no /dev/infiniband/uverbs*, so NCCL finds no HCA and falls back to TCP"
            yield about.bad(message, cause="FabricNotVisible")
        elif not seen.active:
            message = f"it holds one {resource} and no port 1 of its HCAs is ACTIVE, so nothing can be sent over the fabric"
            yield about.bad(message, cause="FabricPortDown")
        else:
            yield about.ok()
    yield _judge_unasked(unasked, works, resource)


def _judge_unasked(ran: ProbeResult, works: bool, resource: str) -> Finding:
    seen = _visible_to(ran)
    about = About(ran.subject, SOURCE, "no uverbs device")
    if isinstance(seen, str):
        return about.undecided(seen, cause="ProbeDidNotRun")
    observed = f"{seen.text}, on node {ran.node}"
    if seen.uverbs:
        message = f"it did not ask for {resource} and sees /dev/infiniband/{seen.uverbs[0]}: any pod here can use the fabric uncounted"
        return about.bad(message, cause="FabricVisibleToAll", observed=observed)
    if not works:
        message = f"PositiveControlFailed: the pod on {ran.node} that asked for {resource} sees no working device either"
        return about.undecided(message, cause="PositiveControlFailed")
    return about.ok(observed)


def _visible_to(ran: ProbeResult) -> VisibleFabric | str:
    """What a pod saw, or why that is not known."""
    if ran.trouble:
        return f"the probe pod gave no answer: {ran.trouble}"
    try:
        return read_visible_fabric(ran.logs.get("probe", ""))
    except Unreadable as error:
        return f"the probe's output could not be read: {error}"
