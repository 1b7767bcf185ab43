"""``gpu-conformance inspect KIND FILE``: judge one captured output by itself.

Exit codes: 0 good, 1 bad, 4 unreadable (also a missing file or an unknown kind; one line on stderr), 10 undecidable.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from tabulate import tabulate

from conformance.cli.arguments import Parser
from conformance.outputs.inspect_cluster import (
    inspect_events,
    inspect_node,
    inspect_podgroup,
    inspect_psa_rejection,
    inspect_resource_slices,
)
from conformance.outputs.inspect_device import (
    inspect_dcgm,
    inspect_kernel_log,
    inspect_mig_manager,
    inspect_nvidia_smi,
    inspect_vector_add,
)
from conformance.outputs.inspect_fabric import inspect_nccl_log, inspect_nccl_tests, inspect_perftest
from conformance.outputs.inspection import Inspection, Judged
from conformance.outputs.unreadable import MAX_CHARACTERS, Unreadable

KINDS: Mapping[str, Callable[[str], Inspection]] = {
    "nccl-log": inspect_nccl_log,
    "nccl-tests": inspect_nccl_tests,
    "nvidia-smi": inspect_nvidia_smi,
    "dcgm-metrics": inspect_dcgm,
    "node": inspect_node,
    "events": inspect_events,
    "resourceslice": inspect_resource_slices,
    "podgroup": inspect_podgroup,
    "psa-rejection": inspect_psa_rejection,
    "kernel-log": inspect_kernel_log,
    "ib-write-bw": inspect_perftest,
    "mig-manager-log": inspect_mig_manager,
    "vectoradd": inspect_vector_add,
}
EXIT_UNREADABLE = 4
_EXIT = {Judged.GOOD: 0, Judged.BAD: 1, Judged.UNDECIDABLE: 10}
_MAX_SHOWN = 40
_MAX_WIDTH = 160


def inspect(kind: str, text: str) -> Inspection:
    """Judge ``text`` as an output of ``kind`` (a key of :data:`KINDS`).

    Raises:
        Unreadable: the kind is not known, or the text is not what its reader reads.
    """
    reader = KINDS.get(kind)
    if reader is None:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f", did you mean {near[0]}?" if near else f", one of {', '.join(KINDS)}"
        raise Unreadable(f"unknown kind {kind[:64]!r}{hint}")
    return reader(text)


def to_json(inspection: Inspection) -> str:
    """``{kind, verdict, reasonCode, message, facts, findings}`` as indented ASCII JSON."""
    return json.dumps(msgspec.to_builtins(inspection), indent=2)


def _printable(value: object) -> str:
    """One line without control characters: captured text must not drive the terminal."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= _MAX_WIDTH else f"{text[: _MAX_WIDTH - 1]}…"


def to_text(inspection: Inspection) -> str:
    """The same for people: verdict, facts and findings as tables."""
    parts = [f"{inspection.kind}: {inspection.verdict.upper()} {inspection.reason_code}", _printable(inspection.message), ""]
    facts = [(name, _printable(value)) for name, value in inspection.facts.items() if value not in (None, "", [], {})]
    parts += [tabulate(facts, tablefmt="plain", disable_numparse=True)] if facts else []
    if inspection.findings:
        rows = [(f.verdict.value, _printable(f.subject), _printable(f.message)) for f in inspection.findings[:_MAX_SHOWN]]
        parts += ["", tabulate(rows, headers=("verdict", "subject", "finding"), tablefmt="simple", disable_numparse=True)]
        if len(inspection.findings) > _MAX_SHOWN:
            parts.append(f"and {len(inspection.findings) - _MAX_SHOWN} more (--json prints all)")
    return "\n".join(parts)


def _decode(data: bytes) -> str:
    """Raises ``Unreadable`` for binary data: NUL bytes, or more than a few characters that are not UTF-8."""
    if b"\0" in data:
        raise Unreadable("binary data: the text holds NUL characters")
    if len(data) > MAX_CHARACTERS:
        raise Unreadable(f"more than {MAX_CHARACTERS} bytes")
    text = data.decode("utf-8", errors="replace")
    if text.count("\ufffd") > 8 + len(text) // 100:
        raise Unreadable("binary data: not UTF-8 text")
    return text


def _read(file: str) -> str:
    try:
        if file == "-":
            return _decode(sys.stdin.buffer.read(MAX_CHARACTERS + 1))
        with Path(file).open("rb") as stream:
            return _decode(stream.read(MAX_CHARACTERS + 1))
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise Unreadable(f"cannot be read: {error}") from error


def main(argv: Sequence[str]) -> int:
    """Run ``[inspect] KIND FILE [--json]`` and return the exit code."""
    argv = argv[1:] if argv[:1] == ["inspect"] else argv
    parser = Parser(prog="gpu-conformance inspect", description="Judge one captured output by itself.", epilog=f"KIND: {', '.join(KINDS)}")
    parser.add_argument("kind", metavar="KIND")
    parser.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print {kind, verdict, reasonCode, message, facts, findings}")
    try:
        options = parser.parse_args(list(argv))
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        if options.kind not in KINDS:
            inspect(options.kind, "")
        result = inspect(options.kind, _read(options.file))
    except Unreadable as error:
        print(f"gpu-conformance inspect {_printable(options.kind)} {_printable(options.file)}: {_printable(error)}", file=sys.stderr)
        return EXIT_UNREADABLE
    print(to_json(result) if options.json else to_text(result))
    return _EXIT[result.verdict]
