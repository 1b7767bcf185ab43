"""``gpu-conformance inspect KIND FILE``: judge one captured output by itself.

Exit codes: 0 good, 1 bad, 4 unreadable (also a missing file or an unknown kind; one line on stderr), 10 undecidable.
"""

import difflib
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from tabulate import tabulate

from conformance.cli.arguments import Parser, complain, show, show_json
from conformance.cli.commands import command_parser
from conformance.cli.inspect_node import inspect_node
from conformance.outputs.captured_text import MAX_CHARACTERS, EmptyList, Unreadable, decoded, readable_text, unwrapped
from conformance.outputs.inspect_cluster import (
    inspect_api_refusal,
    inspect_events,
    inspect_podgroup,
    inspect_pods,
    inspect_psa_rejection,
    inspect_resource_claims,
    inspect_resource_slices,
)
from conformance.outputs.inspect_device import (
    inspect_dcgm,
    inspect_kernel_log,
    inspect_mig_manager,
    inspect_nccl_log,
    inspect_nccl_tests,
    inspect_node_probe,
    inspect_nvidia_smi,
    inspect_perftest,
    inspect_vector_add,
)
from conformance.outputs.inspection import KUBERNETES, Inspection, Judged, judged_kinds, other_program
from fixtures.text import users_files

KINDS: Mapping[str, Callable[[str], Inspection]] = {
    "nccl-log": inspect_nccl_log,
    "nccl-tests": inspect_nccl_tests,
    "nvidia-smi": inspect_nvidia_smi,
    "node-probe": inspect_node_probe,
    "dcgm-metrics": inspect_dcgm,
    "node": inspect_node,
    "events": inspect_events,
    "resourceslice": inspect_resource_slices,
    "resourceclaim": inspect_resource_claims,
    "podgroup": inspect_podgroup,
    "pods": inspect_pods,
    "psa-rejection": inspect_psa_rejection,
    "api-refusal": inspect_api_refusal,
    "kernel-log": inspect_kernel_log,
    "ib-write-bw": inspect_perftest,
    "mig-manager-log": inspect_mig_manager,
    "vectoradd": inspect_vector_add,
}
EXIT_UNREADABLE = 4
_LOGS = ("nccl-log", "nccl-tests")
"""Kinds of which a line that was cut says something else than the whole line."""
_LISTS = {"events": "Event", "resourceslice": "ResourceSlice", "resourceclaim": "ResourceClaim", "podgroup": "PodGroup", "node": "Node"}
"""Kind of the objects that a kind reads."""
_LIST_KIND = re.compile(r"\bkind[\"']?\s{0,9}:\s{0,9}[\"']?([A-Za-z]{0,63})List\b")
_OBJECT_KIND = re.compile(r"\bkind[\"']?\s{0,9}:\s{0,9}[\"']?([A-Za-z]{1,63})")
_EXIT = {Judged.GOOD: 0, Judged.BAD: 1, Judged.UNDECIDABLE: 10}
_MAX_SHOWN = 40
_MAX_WIDTH = 160


def inspect(kind: str, text: str) -> Inspection:
    """Judge ``text`` as an output of ``kind`` (a key of :data:`KINDS`).

    Raises:
        Unreadable: the kind is not known, or the text is of another kind, which the message names.
    """
    reader = KINDS.get(kind)
    if reader is None:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f", did you mean {near[0]}?" if near else f", one of {', '.join(KINDS)}"
        raise Unreadable(f"unknown kind {kind[:64]!r}{hint}")
    captured = readable_text(text)
    text = unwrapped(captured)
    is_cut = text == captured and not text.endswith("\n")
    try:
        result = _of_whole_lines(reader, text) if kind in _LOGS and is_cut else reader(text)
    except EmptyList:
        if (listed := _LIST_KIND.search(text)) and listed.group(1) not in ("", _LISTS.get(kind)):
            raise Unreadable(f"it is a list of {listed.group(1)}, not {kind}") from None
        return Inspection(kind, Judged.UNDECIDABLE, "EMPTY_LIST", "the list holds no object: there is nothing to judge", {}, [])
    except Unreadable as error:
        raise Unreadable(_other_kind(kind, text) or str(error)) from None
    decided = result.verdict is not Judged.UNDECIDABLE or result.reason_code == "NO_EVIDENCE"
    if decided and kind not in judged_kinds(text) and (other := _other_kind(kind, text)):
        raise Unreadable(other)
    if result.verdict is Judged.GOOD:  # what leaves the whole good is a note
        notes = [msgspec.structs.replace(f, verdict=Judged.NOTE) if f.verdict is Judged.UNDECIDABLE else f for f in result.findings]
        return msgspec.structs.replace(result, findings=notes)
    return result


def _of_whole_lines(reader: Callable[[str], Inspection], text: str) -> Inspection:
    """The inspection of a log that ends within a line: by the lines before it, unless these decide nothing or it is a warning."""
    before_it, _, last = text.rpartition("\n")
    if "NCCL WARN" in last or not before_it.strip():
        return reader(text)
    try:
        before = reader(f"{before_it}\n")
    except Unreadable:
        return reader(text)
    return before if before.verdict is not Judged.UNDECIDABLE else reader(text)


def _other_kind(kind: str, text: str) -> str:
    """What a text is that another program wrote than the one that was named, as a clause; empty where nobody knows it."""
    for other in judged_kinds(text):
        try:
            found = other != kind and KINDS[other](text)
        except Unreadable:
            continue
        if found:
            return f"it is {other}, not {kind}: gpu-conformance inspect {other} judges it"
    program = other_program(text)
    if program == KUBERNETES:
        own = _LISTS.get(kind, "") in (name.removesuffix("List") for name in _OBJECT_KIND.findall(text))  # malformed, and no other kind
        return "" if own else f"it is {program}, not {kind}, and nothing here judges that"
    return f"it is output of {program}, not {kind}, and nothing here judges that" if program else ""


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


def _read(file: str) -> str:
    try:
        if file == "-":
            return decoded(sys.stdin.buffer.read(MAX_CHARACTERS + 1))
        return decoded(users_files.read(Path(file), MAX_CHARACTERS + 1))
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise Unreadable(f"cannot be read: {error}") from error


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print {kind, verdict, reasonCode, message, facts, findings}")


def main(argv: Sequence[str]) -> int:
    """Run ``[inspect] KIND FILE [--json]`` and return the exit code."""
    argv = argv[1:] if argv[:1] == ["inspect"] else argv
    try:
        arguments = command_parser("inspect").parse_args(list(argv))
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        if arguments.kind not in KINDS:
            inspect(arguments.kind, "")
        result = inspect(arguments.kind, _read(arguments.file))
    except Unreadable as error:
        complain(f"gpu-conformance inspect {_printable(arguments.kind)} {_printable(arguments.file)}", _printable(error))
        return EXIT_UNREADABLE
    if arguments.json:
        show_json(result)
    else:
        show(to_text(result))
    return _EXIT[result.verdict]
