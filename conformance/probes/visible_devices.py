"""The script that lists devices in a container, and the parser of its output."""

from __future__ import annotations

import re

import msgspec

from conformance.outputs.nvidia_smi import parse_listing
from conformance.outputs.unreadable import Unreadable
from conformance.probes.running import ProbeResult
from fixtures.compute.document import SCHEMA_VERSION, Document, decode
from fixtures.text.json_text import NotJson

END_MARKER = "## end"
SOURCE = "nvidia-smi -L and /dev in the container"
LIST_SCRIPT = 'echo "## uid"; id -u; echo "## smi"; nvidia-smi -L 2>&1 || echo "exit=$?"; echo "## dev"; ls -1 /dev; echo "## end"'
"""Prints who the container runs as, what nvidia-smi lists and what is in /dev, between markers."""

STAY = "; sleep 3600"
HOLD_SCRIPT = LIST_SCRIPT + STAY
"""The same, and keeps the devices until the pod is deleted."""

_COMPUTE = 'echo "## compute"; gpu-conformance compute --json {options} 2>/dev/null; echo "## end"'


def computing_script(options: str) -> str:
    """The same list, and what the compute check finds with these options; for an image of the suite."""
    return LIST_SCRIPT.replace('echo "## end"', _COMPUTE.format(options=options))


_DEVICE = re.compile(r"nvidia(\d{1,4}|ctl|-uvm|-uvm-tools|-caps|-modeset)\Z|kfd\Z|dri\Z")
MAX_UUIDS_SHOWN = 8


class VisibleDevices(msgspec.Struct, frozen=True, kw_only=True):
    """What a container printed. ``uuids``: devices it lists, MIG devices in place of the GPU they are part of.

    ``computed`` is what the compute check found, None where the script did not run it.
    """

    uid: str
    uuids: tuple[str, ...]
    failures: tuple[str, ...]
    exit_code: str
    device_files: tuple[str, ...]
    computed: Document | None = None

    @property
    def sees_nothing(self) -> bool:
        """Whether neither nvidia-smi nor ``/dev`` shows a device."""
        return not self.uuids and not self.device_files

    @property
    def text(self) -> str:
        """One line of evidence."""
        shown = ", ".join(self.uuids[:MAX_UUIDS_SHOWN]) + (" …" if len(self.uuids) > MAX_UUIDS_SHOWN else "")
        smi = f"{len(self.uuids)} devices ({shown})" if self.uuids else "no device"
        if not self.uuids and (self.failures or self.exit_code):
            smi += f" ({'; '.join(self.failures) or 'nvidia-smi'}{f', exit {self.exit_code}' if self.exit_code else ''})"
        files = ", ".join(f"/dev/{name}" for name in self.device_files[:MAX_UUIDS_SHOWN])
        return f"uid {self.uid or '?'} sees {smi}" + (f"; {files}" if files else "")


def read_visible_devices(text: str) -> VisibleDevices:
    """Read the output of :data:`LIST_SCRIPT`, or of :func:`computing_script`.

    Raises :class:`Unreadable` when a section is missing, out of order or no document.
    """
    sections = _sections(text)
    computed = sections.pop("compute", None)
    if list(sections) != ["uid", "smi", "dev", "end"]:
        raise Unreadable(f"the probe's output is incomplete: it has the sections {', '.join(sections) or 'none'}")
    smi = sections["smi"]
    uuids, failures = _listed(smi)
    exits = re.findall(r"^exit=(\d{1,3})$", smi, re.MULTILINE)
    files = [line.strip() for line in sections["dev"].splitlines()]
    devices = tuple(sorted(name for name in files if _DEVICE.match(name)))
    if not devices and "null" not in files:
        raise Unreadable("the probe's output lists no /dev/null, so it is not a listing of /dev and proves nothing")
    return VisibleDevices(
        uid=sections["uid"].strip()[:32],
        uuids=uuids,
        failures=failures,
        exit_code=exits[-1] if exits else "",
        device_files=devices,
        computed=None if computed is None else _document(computed),
    )


def _document(text: str) -> Document:
    try:
        document = decode(text.encode())
    except NotJson as error:
        raise Unreadable(f"gpu-conformance compute printed no document ({error})") from None
    if document.schema_version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise Unreadable(f"the compute check's document has the version {document.schema_version[:20]}, and {SCHEMA_VERSION} is read here")
    return document


def _listed(smi: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        listing = parse_listing(smi)
    except Unreadable:  # no nvidia-smi in the container, or nothing printed: it sees nothing
        first = next((line.strip() for line in smi.splitlines() if line.strip() and not line.startswith("exit=")), "")
        return (), (first[:200],) if first else ()
    return tuple(listing.uuids), listing.failures


def _sections(text: str) -> dict[str, str]:
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.replace("\r", "").split("\n"):
        if line.startswith("## "):
            name = line[3:].strip()
            if name in sections:
                raise Unreadable(f"the probe's output has the section {name!r} twice")
            current = sections[name] = []
        elif current is not None:
            current.append(line)
    return {name: "\n".join(lines) for name, lines in sections.items()}


def visible_to(ran: ProbeResult, container: str = "probe") -> VisibleDevices | str:
    """What a container saw, or why that is not known."""
    if ran.trouble:
        return f"the probe pod gave no answer: {ran.trouble}"
    try:
        return read_visible_devices(ran.logs.get(container, ""))
    except Unreadable as error:
        return f"the probe's output could not be read: {error}"
