"""``gpu-conformance probe``: what the drivers of this machine say of its devices, as one document."""

import json
from collections.abc import Iterator, Sequence

import msgspec
from tabulate import tabulate

from conformance.cli.arguments import Parser, show
from conformance.cli.commands import command_parser
from conformance.version import VERSION
from fixtures.nodeprobe.document import SCHEMA_VERSION, Device, Document, encode
from fixtures.nodeprobe.smi import collect
from reports.safe_text import one_line

MAX_LISTEN = 600.0


def options(parser: Parser, command: str) -> None:
    """Give the parser the arguments of ``probe``."""
    parser.add_argument(
        "--listen", type=_seconds, default=0.0, metavar="SECONDS", help="wait so long for Xids (NVIDIA), default: not at all"
    )
    parser.add_argument("--json", action="store_true", help="print the document, with everything that was read")


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= MAX_LISTEN:
        raise ValueError
    return seconds


def main(argv: Sequence[str]) -> int:
    """Print what was found. 0 if a driver enumerates devices, 10 if none does."""
    arguments = command_parser(argv[0]).parse_args(argv[1:])
    document = collect(VERSION, listen=arguments.listen)
    show(encode(document).decode().rstrip("\n") if arguments.json else "\n".join(_lines(document)))
    return 0 if any(driver.devices for driver in document.drivers) else 10


def schema_text() -> str:
    """The JSON Schema of the document, as ``docs/node-probe.schema.json`` has it."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"node probe document {SCHEMA_VERSION}"}
    return json.dumps(head | msgspec.json.schema(Document), indent=2, ensure_ascii=False) + "\n"


def _lines(document: Document) -> Iterator[str]:
    for driver in document.drivers:
        version = f" {driver.version}" if driver.version else ""
        yield one_line(f"{driver.vendor}: driver{version}, {driver.problem or f'{len(driver.devices)} devices'}")
        if driver.devices:
            yield tabulate([_row(device) for device in driver.devices], headers=("device", "uuid", "PCI", "memory", "state"))
    host = document.host
    cards = sum(function.kind == "accelerator" for function in host.pci)
    yield f"host: kernel {one_line(host.kernel) or 'unknown'}, {cards} accelerators on the PCI bus, {len(host.rdma)} RDMA ports"


def _row(device: Device) -> tuple[str, ...]:
    memory = f"{device.memory_total / 2**30:.0f} GiB" if device.memory_total else "unknown"
    return (
        one_line(f"{device.index} {device.name}".strip(), 60),
        one_line(device.uuid, 60),
        one_line(device.pci_address, 40),
        memory,
        one_line("; ".join(_state(device)) or "answers", 200),
    )


def _state(device: Device) -> Iterator[str]:
    """What stands out. It is no verdict: requirements judge."""
    if device.lost:
        yield "lost"
    if device.recovery_action not in (None, "none"):
        yield f"driver advises: {device.recovery_action}"
    if device.remapping is not None and (device.remapping.pending or device.remapping.failed):
        yield "row remapping failed" if device.remapping.failed else "row remapping pending"
    if device.ecc is not None and device.ecc.uncorrected:
        yield f"{device.ecc.uncorrected} uncorrected memory errors"
    if device.mig is not None and device.mig.enabled:
        yield f"{len(device.mig.devices)} MIG devices"
    if device.partitions is not None and device.partitions.devices:
        yield f"{len(device.partitions.devices)} partitions ({device.partitions.compute})"
    if device.xids:
        yield f"Xids {', '.join(map(str, device.xids[:8]))} while the probe listened"
    if inactive := [link.number for link in device.links if not link.active]:
        yield f"{len(inactive)} of {len(device.links)} NVLinks inactive"
