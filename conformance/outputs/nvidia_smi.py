"""Readers of ``nvidia-smi -L``, ``nvidia-smi -q`` text and ``nvidia-smi -q -x`` XML, and the health verdict per GPU.

Facts: docs/facts/device-health.md#memory-errors.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from conformance.outputs import mig_geometry, nvidia_smi_fabric, nvidia_smi_tables
from conformance.outputs.log_text import log_lines
from conformance.outputs.nvidia_smi_sections import Sections, normal
from conformance.outputs.unreadable import Unreadable, readable_text

RETIRED_PAGES_LIMIT = 60  # single plus double bit; from there on the GPU is replaced (docs/facts/device-health.md#memory-errors)
_GPU_LINE = re.compile(r"\s{0,8}GPU (\d{1,4}): (.{1,128}?) \(UUID: (GPU-[0-9a-fA-F-]{4,64})\)")
_MIG_LINE = re.compile(r"\s{0,16}MIG (\S{1,32})\s{1,16}Device\s{1,8}(\d{1,4}): \(UUID: (MIG-[0-9a-zA-Z/-]{4,96})\)")
_FAILED = re.compile(
    r"No devices (?:were )?found|couldn't communicate with the NVIDIA driver|Failed to initialize NVML|Driver/library version mismatch"
    r"|Unable to determine the device handle|GPU is lost|NVIDIA-SMI has failed"
)
_XML_LINE = re.compile(r"\s{0,64}</?[A-Za-z_][\w.-]{0,64}(?:\s[^<>]{0,256})?/?>[^<>]{0,512}(?:</[\w.-]{1,64}>)?\s{0,64}")
_XML_START, _XML_END = "<nvidia_smi_log>", "</nvidia_smi_log>"
_NONE = frozenset({"", "n/a", "none", "[n/a]", "not supported", "requested functionality has been deprecated"})


class Action(StrEnum):
    """What has to be done with a GPU, mildest first."""

    HEALTHY = "healthy"
    THROTTLED = "throttled"
    RESET = "reset"
    REBOOT = "reboot"
    REPLACE = "replace"


class MigDevice(msgspec.Struct, frozen=True):
    """One MIG device of a ``-L`` listing."""

    profile: str
    index: int
    uuid: str


class ListedGpu(msgspec.Struct, frozen=True):
    """One GPU of a ``-L`` listing."""

    index: int
    model: str
    uuid: str
    mig: tuple[MigDevice, ...]

    @property
    def layout(self) -> dict[str, int]:
        """MIG devices by profile."""
        return dict(Counter(device.profile for device in self.mig))


class Listing(msgspec.Struct, frozen=True):
    """A ``-L`` listing. ``failures`` are lines in which nvidia-smi says that it cannot list."""

    gpus: tuple[ListedGpu, ...]
    failures: tuple[str, ...]

    @property
    def uuids(self) -> list[str]:
        """UUIDs of what a container can use: MIG devices where a GPU has them, the GPU itself otherwise."""
        return [device.uuid for gpu in self.gpus for device in gpu.mig] + [gpu.uuid for gpu in self.gpus if not gpu.mig]


class GpuHealth(msgspec.Struct, frozen=True):
    """One GPU of ``-q``. ``None`` where the driver prints nothing or ``N/A``."""

    pci: str
    model: str
    uuid: str
    retired_single: int | None
    retired_double: int | None
    retired_pending: bool | None
    remapped_correctable: int | None
    remapped_uncorrectable: int | None
    remap_pending: bool | None
    remap_failure: bool | None
    volatile_uncorrectable: int | None
    sram_threshold_exceeded: bool | None
    recovery_action: str
    fabric_state: str
    fabric_status: str
    fabric_problems: tuple[str, ...]
    fabric_doubts: tuple[str, ...]
    has_fabric: bool
    slowdowns: tuple[str, ...]
    mig_enabled: bool | None
    lost: bool

    @property
    def has_signal(self) -> bool:
        """Whether any health signal was read; without one a GPU cannot be called healthy."""
        numbers = (self.retired_single, self.retired_double, self.retired_pending, self.remap_pending, self.remap_failure)
        answered = self.recovery_action.lower() not in _NONE - {"none"}
        return bool(answered or self.lost or self.has_fabric) or any(value is not None for value in (*numbers, self.volatile_uncorrectable))

    def judge(self) -> tuple[Action, tuple[str, ...]]:
        """The strongest action that the signals ask for, and every reason, strongest first."""
        found: list[tuple[Action, str]] = []
        pages = (self.retired_single or 0) + (self.retired_double or 0)
        if pages >= RETIRED_PAGES_LIMIT:
            found.append((Action.REPLACE, f"{pages} retired pages ({self.retired_single or 0}+{self.retired_double or 0})"))
        if self.retired_pending:
            found.append((Action.RESET, "page retirement pending"))
        if self.remap_failure:
            found.append((Action.REPLACE, "row remapping failed"))
        if self.remap_pending:
            found.append((Action.RESET, "row remapping pending"))
        if self.sram_threshold_exceeded:
            found.append((Action.REPLACE, "SRAM error threshold exceeded"))
        if self.volatile_uncorrectable:
            found.append((Action.RESET, f"{self.volatile_uncorrectable} uncorrectable ECC errors since reset"))
        if self.lost:
            found.append((Action.REBOOT, "the driver cannot read the GPU"))
        if self.recovery_action.lower() not in _NONE:
            action = Action.REBOOT if "reboot" in self.recovery_action.lower() else Action.RESET
            found.append((action, f"the driver asks for recovery: {self.recovery_action}"))
        found.extend((Action.RESET, problem) for problem in self.fabric_problems)
        found.extend((Action.THROTTLED, f"{name} active") for name in self.slowdowns)
        order = list(Action)
        found.sort(key=lambda item: -order.index(item[0]))
        return (found[0][0] if found else Action.HEALTHY), tuple(reason for _, reason in found)


class Query(msgspec.Struct, frozen=True):
    """A ``-q`` output. ``attached`` is the number the header states; ``cut`` XML was read up to where it ends."""

    driver: str
    cuda: str
    attached: int | None
    gpus: tuple[GpuHealth, ...]
    failures: tuple[str, ...]
    cut: bool = False


def parse_listing(text: str) -> Listing:
    """Read ``nvidia-smi -L``; comment and other lines between are skipped.

    Raises:
        Unreadable: empty, binary or oversized text, or neither a GPU line nor a message of nvidia-smi in it.
    """
    gpus: list[tuple[int, str, str, list[MigDevice]]] = []
    failures: list[str] = []
    for line in log_lines(text):
        if gpu := _GPU_LINE.match(line):
            gpus.append((int(gpu[1]), gpu[2], gpu[3], []))
        elif (mig := _MIG_LINE.match(line)) and gpus:
            gpus[-1][3].append(MigDevice(mig[1], int(mig[2]), mig[3]))
        elif failure := _failure(line):
            failures.append(failure)
    if not gpus and not failures:
        raise Unreadable("no GPU line of nvidia-smi -L found")
    return Listing(tuple(ListedGpu(index, model, uuid, tuple(mig)) for index, model, uuid, mig in gpus), tuple(failures))


def _failure(line: str) -> str:
    return line.strip()[:300] if _FAILED.search(line) else ""


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
        possible, reason = mig_geometry.fits(gpu.model, gpu.layout)
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
    if _XML_START in text:
        return _parse_xml(text)
    lines = log_lines(text)
    failures = tuple(failure for line in lines if (failure := _failure(line)))
    sections = Sections(lines)
    tables = [*nvidia_smi_tables.from_table(lines), *nvidia_smi_tables.from_csv(lines)]
    known = {"attached_gpus", "driver_version"} & sections.header.keys()
    if not tables and not sections.gpus and not known and not failures:
        raise Unreadable("neither nvidia-smi -q text nor its XML found")
    driver, cuda = next((found for line in lines if (found := nvidia_smi_tables.versions(line))), ("", ""))
    attached = sections.header.get("attached_gpus", "")
    expected = int(attached) + len(tables) if re.fullmatch(r"\d{1,4}", attached) else None
    return Query(
        sections.header.get("driver_version", driver),
        sections.header.get("cuda_version", cuda),
        expected,
        tuple(_health(pci, values) for pci, values in [*tables, *sections.gpus]),
        failures,
    )


def _parse_xml(text: str) -> Query:
    end = text.find(_XML_END)
    # from the root element on: without the document type there are no entities to expand
    document = text[text.find(_XML_START) :] if end < 0 else text[text.find(_XML_START) : end + len(_XML_END)]
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(events=("start",))
    root: ElementTree.Element | None = None
    cut = end < 0
    try:
        parser.feed(document)
        for event in parser.read_events():
            if root is None and isinstance(event[-1], ElementTree.Element):
                root = event[-1]
    except (ElementTree.ParseError, ValueError) as error:
        clean = "\n".join(line for line in document.split("\n") if _XML_LINE.fullmatch(line))
        if clean != document.rstrip() and _XML_START in clean:
            return _parse_xml(clean)  # another program's line stands between
        cut = True
        if root is None:
            raise Unreadable(f"malformed nvidia-smi XML: {error}") from error
    if root is None or (root.find("gpu") is None and root.find("attached_gpus") is None):
        raise Unreadable("nvidia-smi XML without a header or a GPU")
    gpus = []
    for gpu in root.findall("gpu"):
        values: dict[str, str] = {}
        _flatten(gpu, "", values, 0)
        gpus.append(_health(gpu.get("id", ""), values))
    attached = root.findtext("attached_gpus", "").strip()
    return Query(
        root.findtext("driver_version", "").strip(),
        root.findtext("cuda_version", "").strip(),
        int(attached) if re.fullmatch(r"\d{1,4}", attached) else None,
        tuple(gpus),
        (),
        cut,
    )


def _flatten(element: ElementTree.Element, path: str, values: dict[str, str], depth: int) -> None:
    for child in element:
        name = f"{path}/{normal(child.tag)}" if path else normal(child.tag)
        if len(child) and depth < 12:
            _flatten(child, name, values, depth + 1)
        else:
            values.setdefault(name, (child.text or "").strip())


def _pick(values: Mapping[str, str], *paths: str) -> str:
    return next((values[path] for path in paths if path in values), "")


def _count(values: Mapping[str, str], *paths: str) -> int | None:
    value = _pick(values, *paths)
    return int(value) if re.fullmatch(r"\d{1,18}", value) else None


def _yes(values: Mapping[str, str], *paths: str) -> bool | None:
    return {"yes": True, "no": False}.get(_pick(values, *paths).lower())


def _sum(values: Mapping[str, str], prefix: str) -> int | None:
    counts = [
        int(value)
        for path, value in values.items()
        if path.startswith(prefix) and "uncorrectable" in path and "sram_sources" not in path and re.fullmatch(r"\d{1,18}", value)
    ]
    return sum(counts) if counts else None


def _health(pci: str, values: Mapping[str, str]) -> GpuHealth:
    mig = _pick(values, "mig_mode/current", "mig_mode/current_mig").lower()
    slowdowns = [
        path.rpartition("/")[2].removeprefix("clocks_event_reason_").removeprefix("clocks_throttle_reason_")
        for path, value in values.items()
        if value.lower() == "active"
        and path.startswith(("clocks_event_reasons/", "clocks_throttle_reasons/"))
        and path.endswith(("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"))
    ]
    return GpuHealth(
        pci=pci,
        model=_pick(values, "product_name"),
        uuid=_pick(values, "gpu_uuid", "uuid"),
        retired_single=_count(values, "retired_pages/single_bit_ecc", "retired_pages/multiple_single_bit_retirement/retired_count"),
        retired_double=_count(values, "retired_pages/double_bit_ecc", "retired_pages/double_bit_retirement/retired_count"),
        retired_pending=_yes(
            values, "retired_pages/pending_page_blacklist", "retired_pages/pending_blacklist", "retired_pages/pending_retirement"
        ),
        remapped_correctable=_count(values, "remapped_rows/correctable_error", "remapped_rows/remapped_row_corr"),
        remapped_uncorrectable=_count(values, "remapped_rows/uncorrectable_error", "remapped_rows/remapped_row_unc"),
        remap_pending=_yes(values, "remapped_rows/pending", "remapped_rows/remapped_row_pending"),
        remap_failure=_yes(values, "remapped_rows/remapping_failure_occurred", "remapped_rows/remapped_row_failure"),
        volatile_uncorrectable=_sum(values, "ecc_errors/volatile/"),
        sram_threshold_exceeded=_yes(values, "ecc_errors/aggregate/sram_threshold_exceeded"),
        recovery_action=_pick(values, "gpu_recovery_action"),
        fabric_state=_pick(values, "fabric/state"),
        fabric_status=_pick(values, "fabric/status"),
        fabric_problems=nvidia_smi_fabric.fabric_problems(values),
        fabric_doubts=nvidia_smi_fabric.fabric_doubts(values),
        has_fabric=nvidia_smi_fabric.has_fabric(values),
        slowdowns=tuple(slowdowns),
        mig_enabled={"enabled": True, "disabled": False}.get(mig),
        lost=any(value in ("Unknown Error", "[Unknown Error]", "ERR!", "GPU is lost", "[GPU is lost]") for value in values.values()),
    )
