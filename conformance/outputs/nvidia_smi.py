"""Readers of ``nvidia-smi -L``, ``nvidia-smi -q`` text and ``nvidia-smi -q -x`` XML.

What is printed becomes a device of the node probe's document, whatever its form.
Facts: docs/facts/device-health.md#other-forms-of-nvidia-smi.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from conformance.outputs import nvidia_smi_tables
from conformance.outputs.log_text import log_lines
from conformance.outputs.nvidia_smi_sections import EXCERPT, Sections
from conformance.outputs.unreadable import Unreadable, readable_text
from fixtures.model.devices import mig_geometry
from fixtures.nodeprobe import smi_device, smi_listing, smi_xml
from fixtures.nodeprobe.document import Device
from fixtures.nodeprobe.smi_listing import ListedGpu, Listing, failure_of


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
    listing = smi_listing.listing(log_lines(text))
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
    if smi_xml.is_xml(text):
        return _parse_xml(text)
    lines = log_lines(text)
    failures = tuple(failure for line in lines if (failure := failure_of(line)))
    sections = Sections(lines)
    named = [(name, values) for name, values in sections.gpus if values or not name.startswith(EXCERPT)]
    tables = [*nvidia_smi_tables.from_table(lines), *nvidia_smi_tables.from_csv(lines)]
    known = {"attached_gpus", "driver_version"} & sections.header.keys()
    if not tables and not named and not known and not failures:
        raise Unreadable("neither nvidia-smi -q text nor its XML found")
    driver, cuda = next((found for line in lines if (found := nvidia_smi_tables.versions(line))), ("", ""))
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
