"""``gpu-conformance doctor``: can a run reach this cluster, may it ask what it has to, and what would it judge?

Exit codes: 0 ready, 4 usage or the cluster cannot be opened, 10 opened, and a run would be inconclusive, 3 internal error.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from typing import Any

import msgspec

from conformance.cli.arguments import Parser, complain, show, show_json
from conformance.cli.commands import command_parser
from fixtures.verdict.record import Access

PROGRAM = "gpu-conformance doctor"
USAGE, INTERNAL_ERROR = 4, 3
VALUES = ("kubeconfig", "context", "snapshot", "simulate", "local", "local_bin", "policy", "platform")
"""Options that are pytest's, with their values."""

LOCAL_DEFAULT = "default"


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


def main(argv: Sequence[str]) -> int:
    """Examine and print."""
    arguments = command_parser("doctor").parse_args(argv[1:])
    from conformance.cli.doctor.trial import CannotOpen, TrialFailed, examine  # imported late: --help needs no pytest

    ceiling = Access.READ if arguments.read_only else Access(arguments.access or Access.WORKLOAD)
    try:
        found = examine(_for_pytest(arguments), ceiling)
    except CannotOpen as error:
        return _end(arguments.json, USAGE, f"{error}{_hint(arguments, str(error))}")
    except TrialFailed as error:
        return _end(arguments.json, INTERNAL_ERROR, str(error))
    if arguments.json:
        show_json(_safe(msgspec.to_builtins(found)))
        return found.exit_code
    from conformance.cli.doctor.text import render

    show(render(found, width=max(shutil.get_terminal_size((100, 24)).columns, 60)), end="")
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
    from reports.safe_text import visible

    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(str(key)): _safe(item) for key, item in value.items()}
    return [_safe(item) for item in value] if isinstance(value, list | tuple) else value
