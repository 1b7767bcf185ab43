"""``gpu-conformance compute``: whether the devices of this machine or container compute, as one document."""

from collections.abc import Iterator, Sequence

from tabulate import tabulate

from conformance.cli.arguments import Parser, show, whole_number
from conformance.cli.commands import command_parser
from conformance.version import VERSION
from fixtures.compute.checking import Sizes
from fixtures.compute.collect import PATIENCE, collect
from fixtures.compute.document import Device, Document, Library, encode
from fixtures.compute.kernels import TILE
from reports.safe_text import one_line

_NO_DEVICE = 10
_HEADERS = ("device", "uuid", "FP32", "memory", "to", "from", "state")


def options(parser: Parser, command: str) -> None:
    """Give the parser the arguments of ``compute``."""
    size = Sizes()
    rows, memory, copy = size.rows // TILE, size.memory >> 20, size.copy >> 20
    parser.add_argument("--json", action="store_true", help="print the document, with everything that was found")
    for name, least, most, default, unit, words in (
        ("seconds", 0, 3600, 0, "N", "multiply matrices on each device for this long; 0: a few times"),
        ("rows", 1, 256, rows, "N", f"rows and columns of the matrices, in units of {TILE}"),
        ("memory", 1, 1 << 20, memory, "MIB", "memory of each device to fill and compare, in MiB, at most half of what is free"),
        ("copy", 1, 1024, copy, "MIB", "size of copies between host and device, in MiB"),
        ("patience", 1, 600, int(PATIENCE), "SECONDS", "how long one call of a library may take"),
    ):
        words = f"{words}; default {default}"
        parser.add_argument(f"--{name}", type=whole_number(least, most), default=default, metavar=unit, help=words)


def main(argv: Sequence[str]) -> int:
    """Print what was found. 0 if every device computes, 1 if one does not, 10 if there is none to ask or the check was stopped."""
    arguments = command_parser(argv[0]).parse_args(argv[1:])
    sizes = Sizes(copy=arguments.copy << 20, memory=arguments.memory << 20, rows=arguments.rows * TILE, seconds=float(arguments.seconds))
    document = collect(VERSION, sizes, patience=arguments.patience)
    show(encode(document, indent=False).decode().rstrip("\n") if arguments.json else "\n".join(_lines(document)))
    return _status(document)


def _status(document: Document) -> int:
    if document.stopped:
        return _NO_DEVICE
    if document.broken or not all(device.computes for device in document.devices):
        return 1
    return 0 if document.devices else _NO_DEVICE


def _lines(document: Document) -> Iterator[str]:
    for library in document.libraries:
        yield one_line(f"{library.api}: {_state(library)}")
        if library.devices:
            yield tabulate([_row(device) for device in library.devices], headers=_HEADERS)
    if document.stopped:
        yield "stopped before everything was tried"


def _state(library: Library) -> str:
    if not library.present:
        return f"{library.file} is not there"
    version = f" {library.version}" if library.version else ""
    return f"{library.file}{version}, {library.trouble or f'{len(library.devices)} devices'}"


def _row(device: Device) -> tuple[str, ...]:
    figures, failed = device.figures, device.failed
    state = "computes" if device.computes else "nothing was compared"
    if failed is not None:
        wrong = f"{failed.wrong.count} wrong values, the first at byte {failed.wrong.first}" if failed.wrong else ""
        state = ": ".join(filter(None, (f"{failed.name} {failed.status}", str(failed.trouble or ""), wrong)))
    rates = [(figures.fp32, 1e12, "TFLOP/s"), *((rate, 1e9, "GB/s") for rate in (figures.memory, figures.to_device, figures.from_device))]
    return (
        one_line(f"{device.index} {device.name}".strip(), 60),
        one_line(device.uuid, 60),
        *(f"{rate / unit:.4g} {words}" if rate else "-" for rate, unit, words in rates),
        one_line(state, 200),
    )
