"""Readers of ``nvidia-smi -L``, ``-q`` as text and XML, the table that ``nvidia-smi`` prints by itself, and its CSV.

What is printed becomes a device of the node probe's document, whatever its form.
Facts: docs/facts/device-health.md#other-forms-of-nvidia-smi.
"""

import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from conformance.outputs.captured_text import COLUMNS, Unreadable, log_lines, readable_text
from fixtures.model.devices import mig_geometry
from fixtures.nodeprobe import smi_device, smi_xml
from fixtures.nodeprobe.document import Device
from fixtures.nodeprobe.smi_xml import ListedGpu, Listing, failure_of, normal

_GPU_HEADER = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*\Z")
_KEY_VALUE = re.compile(r"( {0,64})(\S(?:[^:]|:(?! )){0,96}?) {0,64}:(?: |\Z)(.{0,256})\Z")
_BEGINNINGS = frozenset({"Fabric", "ECC Errors", "Remapped Rows", "Retired Pages", "Clocks Event Reasons", "Clocks Throttle Reasons"})
_SECTIONS = frozenset(
    {"fabric", "health", "ecc_errors", "volatile", "aggregate", "remapped_rows", "retired_pages"}
    | {"clocks_event_reasons", "clocks_throttle_reasons", "mig_mode"}
)
_VALUES = re.compile(
    r"pending\w*|remapping_failure_occurred|\w*uncorrectable\w*|sram_threshold_exceeded|single_bit_ecc|double_bit_ecc|state|status|summary"
    r"|bandwidth|route_\w+|access_timeout_recovery|incorrect_configuration|hw_\w*slowdown"
)
EXCERPT = "excerpt"
"""How a GPU is called whose line is not in the text."""
_MARGIN = 4  # the indent of what belongs to a GPU


class Sections:
    """One text, line by line. ``gpus`` are PCI bus id and values of each; ``header`` is what stands before them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.header: dict[str, str] = {}
        self.gpus: list[tuple[str, dict[str, str]]] = []
        self._stack: list[tuple[int, str]] = []
        self._named = False
        self._begun: set[str] = set()
        self._known = ""
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        if gpu := _GPU_HEADER.match(line):
            self.gpus.append((gpu[1], {}))
            self._named, self._stack, self._known = True, [], ""
            return
        beginning = line.strip() in _BEGINNINGS
        if beginning and not self._named:
            self._begin_excerpt(line.strip())
        match = _KEY_VALUE.match(line)
        indent = len(line) - len(line.lstrip(" "))
        key = normal(match[2] if match else line)
        margin = _MARGIN if self._named else 0 if beginning else 1
        if not key or (self.gpus and indent < margin):
            return
        while self._stack and self._stack[-1][0] >= indent:
            self._stack.pop()
        path = "/".join([*(name for _, name in self._stack[-6:]), key])
        if match is None and key in _SECTIONS:
            above = self._stack[-1][1] if self._stack else ""
            self._known = f"{self._known}/{key}" if self._known and above and above not in _SECTIONS else path
        elif match is not None:
            self._value(path, key, match[3].strip())
        self._stack.append((indent, key))

    def _begin_excerpt(self, section: str) -> None:
        """The text begins within a GPU: a section that comes again is the next GPU's."""
        if not self.gpus or section in self._begun:
            self.gpus.append((f"{EXCERPT} {len(self.gpus) + 1}", {}))
            self._begun = set()
        self._begun.add(section)
        self._stack = []

    def _value(self, path: str, key: str, value: str) -> None:
        if not self.gpus:
            self.header.setdefault(path, value)
            return
        values = self.gpus[-1][1]
        values.setdefault(path, value)
        parent = self._stack[-1][1] if self._stack else ""
        if not parent:
            self._known = ""
        elif self._known and (parent not in _SECTIONS or self._known.endswith(f"/{parent}")) and _VALUES.fullmatch(key):
            values.setdefault(f"{self._known}/{key}", value)


_GPU_ROW = re.compile(
    r"\|\s{1,8}(\d{1,4})\s{1,8}(\S.{0,64}?)\s{2,40}(?:On|Off|N/A)\s{1,8}\|\s{1,8}([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])"
    r"\s{1,16}\S{1,8}\s{0,8}\|\s{0,32}(\S{1,16})\s{0,8}\|"
)
_BORDER = re.compile(r"\+[-=+]{8,200}\+?\s*\Z|\|[=+|]{8,200}\|?\s*\Z")
_VERSIONS = re.compile(r"\| NVIDIA-SMI \S{1,32}\s{1,40}(?:KMD |Driver )Version: (\S{1,32})(?:\s{1,40}CUDA (?:UMD )?Version: (\S{1,32}))?")
_COLUMNS = COLUMNS["smi"]
_ACTIVE = re.compile(r"clocks_(event|throttle)_reasons\.(hw_\w{1,32})\Z")
_PCI = ("pci.bus_id", "gpu_bus_id")
_UNITS = re.compile(r"\s*\[[^\]]{1,16}\]\Z")

Gpus = list[tuple[str, dict[str, str]]]
"""PCI bus id, and values by path as ``-q`` has them."""


def versions(line: str) -> tuple[str, str] | None:
    """Driver and CUDA of the table's head line."""
    match = _VERSIONS.search(line)
    return (match[1], match[2] or "") if match else None


def from_table(lines: Sequence[str]) -> Gpus:
    """GPUs of the table. What its rows call ``ERR!`` the driver cannot read."""
    gpus: Gpus = []
    inside = False
    for line in lines:
        if match := _GPU_ROW.search(line):
            ecc = match[4]
            values = {"product_name": match[2], "index": match[1]}
            if ecc.isdigit():
                values["ecc_errors/volatile/uncorrectable"] = ecc
            gpus.append((match[3], values))
            inside = True
        elif _BORDER.search(line.strip()):
            inside = False
        if inside and gpus and "ERR!" in line:
            gpus[-1][1]["handle"] = "ERR!"
    return gpus


def from_csv(lines: Sequence[str]) -> Gpus:
    """GPUs of ``--format=csv`` with its head. Columns that say nothing of health are left out."""
    gpus: Gpus = []
    heads: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        named = [_UNITS.sub("", cell) for cell in cells]
        if len(cells) > 1 and sum(name in _COLUMNS or name in _PCI or _ACTIVE.match(name) is not None for name in named) >= 1:
            heads = named
        elif heads and len(cells) == len(heads):
            row = dict(zip(heads, cells, strict=True))
            values = {_COLUMNS[name]: value for name, value in row.items() if name in _COLUMNS}
            values |= {f"clocks_{m[1]}_reasons/{m[2]}": value for name, value in row.items() if (m := _ACTIVE.match(name))}
            gpus.append((next((row[name] for name in _PCI if name in row), row.get("index", str(len(gpus)))), values))
    return gpus


class Query(msgspec.Struct, frozen=True):
    """A ``-q`` output. ``gpus`` are devices by what names them in the text; ``attached`` is the number that the header states.

    ``cut``: XML was read up to where it ends.
    """

    driver: str
    cuda: str
    attached: int | None
    gpus: tuple[tuple[str, Device], ...]
    failures: tuple[str, ...]
    cut: bool = False


def parse_listing(text: str) -> Listing:
    """Read ``nvidia-smi -L``; comment and other lines between are skipped.

    Raises:
        Unreadable: empty, binary or oversized text, or neither a GPU line nor a message of nvidia-smi in it.
    """
    listing = smi_xml.listing(log_lines(text))
    if not listing.gpus and not listing.failures:
        raise Unreadable("no GPU line of nvidia-smi -L found")
    return listing


def listings(gpus: Sequence[ListedGpu]) -> list[list[ListedGpu]]:
    """A text may hold the listings of several pods: indexes begin anew."""
    found: list[list[ListedGpu]] = []
    for gpu in gpus:
        if not found or gpu.index <= found[-1][-1].index:
            found.append([])
        found[-1].append(gpu)
    return found


def listing_problems(listing: Listing) -> list[str]:
    """What is wrong with a listing: nvidia-smi's own failures, a UUID listed twice, a MIG layout that the product cannot have."""
    problems = list(listing.failures)
    for gpus in listings(listing.gpus):
        counted = Counter([gpu.uuid for gpu in gpus] + [device.uuid for gpu in gpus for device in gpu.mig])
        problems += [f"UUID {uuid} is listed {count} times" for uuid, count in sorted(counted.items()) if count > 1]
    for gpu in listing.gpus:
        possible, reason = mig_geometry.fits_devices(gpu.model, 1, gpu.layout)
        if not possible:
            problems.append(f"GPU {gpu.index}: {reason}")
    return problems


def parse_query(text: str) -> Query:
    """Read ``nvidia-smi -q``, as text or, where an ``nvidia_smi_log`` element is found, as XML; what stands around either is skipped.

    The table of ``nvidia-smi`` itself, its CSV, and excerpts of ``-q`` without the line of the GPU are read too.

    Raises:
        Unreadable: empty, binary or oversized text, malformed XML, or nothing that ``nvidia-smi -q`` prints.
    """
    text = readable_text(text)
    if smi_xml.is_xml(text):
        return _parse_xml(text)
    lines = log_lines(text)
    failures = tuple(failure for line in lines if (failure := failure_of(line)))
    sections = Sections(lines)
    named = [(name, values) for name, values in sections.gpus if values or not name.startswith(EXCERPT)]
    tables = [*from_table(lines), *from_csv(lines)]
    known = {"attached_gpus", "driver_version"} & sections.header.keys()
    if not tables and not named and not known and not failures:
        raise Unreadable("neither nvidia-smi -q text nor its XML found")
    driver, cuda = next((found for line in lines if (found := versions(line))), ("", ""))
    attached = sections.header.get("attached_gpus", "")
    expected = int(attached) + len(tables) if re.fullmatch(r"\d{1,4}", attached) else None
    return Query(
        sections.header.get("driver_version", driver),
        sections.header.get("cuda_version", cuda),
        expected,
        tuple((name, _device(index, name, values)) for index, (name, values) in enumerate([*tables, *named])),
        failures,
    )


def _device(index: int, name: str, values: smi_xml.Values) -> Device:
    return smi_device.device(index, smi_xml.SmiGpu(pci=name if ":" in name else "", values=values))


def _parse_xml(text: str) -> Query:
    try:
        log = smi_xml.read(text)
    except smi_xml.NotSmi as error:
        raise Unreadable(str(error)) from None
    failures = tuple(failure for line in text.partition(smi_xml.START)[0].split("\n") if (failure := failure_of(line)))
    attached = log.header.get("attached_gpus", "")
    return Query(
        log.header.get("driver_version", ""),
        log.header.get("cuda_version", ""),
        int(attached) if re.fullmatch(r"\d{1,4}", attached) else None,
        tuple((gpu.pci, smi_device.device(index, gpu)) for index, gpu in enumerate(log.gpus)),
        failures,
        log.cut,
    )
