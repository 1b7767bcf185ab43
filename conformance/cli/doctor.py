"""``gpu-conformance doctor``: can a run reach this cluster, may it ask what it has to, and what would it judge?

Exit codes: 0 ready, 4 usage or the cluster cannot be opened, 10 opened, and a run would be inconclusive, 3 internal error.
"""

import argparse
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from tabulate import tabulate

from conformance.cli.arguments import Parser, add_columns, complain, show, show_json, width
from conformance.cli.commands import command_parser
from conformance.cli.diagnosis import CannotOpen, Diagnosis, LeftOut, MissingRight, TrialFailed, examine
from fixtures.text.sentences import listed
from fixtures.verdict.record import Access, TargetKind
from reports import phrases
from reports.safe_text import NAME_LIMIT, ascii_only, one_line, visible

PROGRAM = "gpu-conformance doctor"
USAGE, INTERNAL_ERROR = 4, 3
VALUES = ("kubeconfig", "context", "snapshot", "simulate", "local", "local_bin", "policy", "platform")
"""Options that are pytest's, with their values."""

LOCAL_DEFAULT = "default"

MAX_ROWS = 15
"""Rights, nodes and reasons that are named; --json has all of them."""

MAX_IDS = 12


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments. The target is named as in a run."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="a live cluster, by its kubeconfig (never taken from the environment)")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig; default: its current context")
    parser.add_argument("--in-cluster", action="store_true", help="the cluster that this process runs in")
    parser.add_argument("--snapshot", metavar="PATH", help="a file or folder of 'kubectl get' output")
    parser.add_argument("--simulate", metavar="SCENARIO[,DEFECT...]", help="the embedded simulated cluster")
    parser.add_argument("--local", metavar="MINOR", nargs="?", const=LOCAL_DEFAULT, help="real Kubernetes processes on this machine")
    parser.add_argument("--local-bin", metavar="DIR", help="folder with the programs for --local")
    parser.add_argument("--policy", metavar="FILE", help="what you expect of the cluster (YAML)")
    parser.add_argument("--platform", metavar="NAME[,NAME]", help="presets by name; default: the cluster's own marks choose")
    ceiling = parser.add_mutually_exclusive_group()
    ceiling.add_argument("--read-only", action="store_true", help="ask about rights and requirements of a run with --read-only")
    ceiling.add_argument("--access", choices=[str(one) for one in Access], help="the most that the run may do; default: workload")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_columns(parser)


def main(argv: Sequence[str]) -> int:
    """Examine and print."""
    arguments = command_parser("doctor").parse_args(argv[1:])
    ceiling = Access.READ if arguments.read_only else Access(arguments.access or Access.WORKLOAD)
    try:
        found = examine(_for_pytest(arguments), ceiling, read_only=arguments.read_only)
    except CannotOpen as error:
        return _end(arguments.json, USAGE, f"{error}{_hint(arguments, str(error))}")
    except TrialFailed as error:
        return _end(arguments.json, INTERNAL_ERROR, str(error))
    if arguments.json:
        show_json(_safe(msgspec.to_builtins(found)))
        return found.exit_code
    show(render(found, width=width(arguments.columns, 60)), end="")
    return found.exit_code


def _for_pytest(arguments: argparse.Namespace) -> list[str]:
    """The options that a run would be given; pytest's own checks of them apply."""
    given = ["--in-cluster"] if arguments.in_cluster else []
    for name in VALUES:
        value = getattr(arguments, name)
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            given.append(option if (name, value) == ("local", LOCAL_DEFAULT) else f"{option}={value}")
    return given


def _hint(arguments: argparse.Namespace, trouble: str) -> str:
    """What asks the same question without the suite, where a server did not answer as it should."""
    if not arguments.kubeconfig or not trouble.startswith("server "):
        return ""
    context = f" --context {arguments.context}" if arguments.context else ""
    return f" (kubectl --kubeconfig {arguments.kubeconfig}{context} get --raw /version asks the same)"


def _end(as_json: bool, code: int, message: str) -> int:
    if as_json:
        show_json(_safe({"schemaVersion": "1.0", "ready": False, "exitCode": code, "message": message}))
        return code
    complain(PROGRAM, message)
    return code


def _safe(value: Any) -> Any:
    """A JSON value whose texts hold no credential and nothing that moves or hides text."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(str(key)): _safe(item) for key, item in value.items()}
    return [_safe(item) for item in value] if isinstance(value, list | tuple) else value


def render(found: Diagnosis, *, width: int) -> str:
    """The whole text, ending in a newline. Nothing that comes from a cluster can move the cursor or break a line."""
    lines: list[str] = []
    for line in _lines(found):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        shown = ascii_only(line)
        table = "\n" in shown or len(shown) <= width
        lines += shown.split("\n") if table else textwrap.wrap(shown, width, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _lines(found: Diagnosis) -> Iterator[str]:
    yield from _target(found)
    yield ""
    yield from _rights(found)
    yield ""
    yield from _devices(found)
    yield ""
    yield from _outlook(found)
    for note in found.notes:
        yield f"Note: {_short(note)}"
    yield ""
    yield from (f"In the way: {_short(text)}" for text in found.obstacles[:MAX_ROWS])
    if len(found.obstacles) > MAX_ROWS:
        yield f"In the way: {len(found.obstacles) - MAX_ROWS} more; --json names all"
    words = "READY: a run can start" if found.ready else "NOT READY: a run would end with exit code 10 at best"
    yield f"{words} ({found.seconds:.1f} s since the target answered); exit code {found.exit_code}"


def _target(found: Diagnosis) -> Iterator[str]:
    target = found.target
    if banner := phrases.banner(target):
        yield _short(banner)
    context = f", context {_short(target.context)}" if target.context else ""
    yield f"Cluster: {_short(target.server) or 'unnamed'}{context} ({phrases.target_name(target)})"
    if target.kind is not TargetKind.SNAPSHOT:
        drivers = f"; NVIDIA drivers {_versions(found.drivers)}" if found.drivers else ""
        kubelets = _versions(found.kubelets) or "not known"
        yield f"Versions: Kubernetes {_short(target.kubernetes_version)}; kubelets {kubelets}{drivers}; suite {found.suite_version}"
    if found.presets:
        yield "Presets: " + "; ".join(map(_short, found.presets))


def _rights(found: Diagnosis) -> Iterator[str]:
    rights = found.rights
    if not rights.asked:
        yield "Rights: not asked, a saved snapshot has none"
        return
    yield f"Rights: {rights.asked - len(rights.missing)} of the {rights.asked} that access {found.access} needs"
    for one in rights.missing[:MAX_ROWS]:
        yield f"  {_right(one)}"
    if len(rights.missing) > MAX_ROWS:
        yield f"  and {len(rights.missing) - MAX_ROWS} more; --json names all"
    if rights.missing:
        role = "clusterrole-read-only.yaml" if found.access is Access.READ else "clusterrole-full.yaml"
        yield f"  Do: bind the role of deploy/{role} to the account, or lower the access (--read-only)"


def _right(one: MissingRight) -> str:
    words = "no answer about" if one.unknown else "may not"
    why = f" ({_short(one.reason, 160)})" if one.reason else ""
    return f"{words} {_short(one.right)}{why}: {listed(one.needed_by, 4)}"


def _devices(found: Diagnosis) -> Iterator[str]:
    out = found.nodes_left_out
    yield f"Devices: {found.accelerator_nodes} accelerator nodes, {len(out)} of them out of a probe's reach"
    if found.pools:
        rows = [
            (_short(one.product, 40), _short(one.resource, 60), f"{one.usable_nodes}/{one.nodes}", f"{one.free}/{one.devices}")
            for one in found.pools[:MAX_ROWS]
        ]
        headers = ("product", "resource", "usable nodes", "free devices")
        yield textwrap.indent(tabulate(rows, headers=headers, disable_numparse=True, colalign=("left", "left", "right", "right")), "  ")
    if len(found.pools) > MAX_ROWS:
        yield f"  and {len(found.pools) - MAX_ROWS} more; --json names all"
    yield from _reasons(out, "nodes")


def _outlook(found: Diagnosis) -> Iterator[str]:
    outlook = found.outlook
    yield f"Requirements: {outlook.requirements}"
    yield f"  {len(outlook.judged)} would be judged by reading: tried now, each has something to judge"
    if outlook.probed:
        names = listed(outlook.probed, MAX_IDS)
        yield f"  {len(outlook.probed)} need probe pods or dry-run requests; nothing seen would stop them ({names})"
    if outlook.not_judged:
        yield f"  {len(outlook.not_judged)} would not be judged:"
        yield from (f"  {line}" for line in _reasons(outlook.not_judged, "reasons"))


def _reasons(left_out: tuple[LeftOut, ...], what: str) -> Iterator[str]:
    """A line for each reason, with everything that it leaves out."""
    grouped: dict[str, list[str]] = {}
    for one in left_out:
        grouped.setdefault(_short(one.because, 240), []).append(_short(one.name, 80))
    ordered = sorted(grouped.items(), key=lambda entry: -len(entry[1]))
    for because, names in ordered[:MAX_ROWS]:
        yield f"  {listed(names, MAX_IDS)}: {because}"
    if len(ordered) > MAX_ROWS:
        yield f"  and {len(ordered) - MAX_ROWS} more {what}; --json names all"


def _versions(found: dict[str, int]) -> str:
    return listed(f"{_short(version, 60)} on {count}" for version, count in found.items())


def _short(text: str, limit: int = NAME_LIMIT) -> str:
    return one_line(text, limit)
