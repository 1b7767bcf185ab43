"""The console script ``gpu-conformance``: everything that is not a run of pytest."""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys
from collections.abc import Sequence

from conformance.cli.arguments import Parser, complain
from conformance.version import VERSION
from fixtures.system import private_files

COMMANDS = {
    "run": ("conformance.cli.run", "run the suite: pytest with its options, without a checkout"),
    "list": ("conformance.cli.explain", "list the requirements"),
    "explain": ("conformance.cli.explain", "what a requirement asserts, why, and how to meet it"),
    "policy": ("conformance.cli.policy_command", "draft a policy from a cluster or a saved snapshot: policy init"),
    "inspect": ("conformance.cli.inspect", "judge one captured output by itself"),
    "simulate": ("conformance.cli.simulate", "serve the simulated cluster and print a kubeconfig"),
    "matrix": ("conformance.cli.matrix", "prove that each defect turns exactly its requirements red"),
    "diff": ("conformance.cli.reports", "compare two reports"),
    "gate": ("conformance.cli.reports", "may an upgrade stay? Compare the reports before and after it"),
    "report": ("conformance.cli.reports", "write the views of a report again"),
    "docs": ("conformance.cli.pages", "write the generated pages of docs/: requirements, policy, schema"),
    "chaos": ("chaos.surface.cli", "break a cluster on purpose and put it back: plan, run, halt, recover, status"),
    "cleanup": ("conformance.cli.cleanup", "remove what a killed run left in a cluster"),
}

PUBLIC = ("docs",)
"""What is written for everybody: pages of a checkout."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; its modules are imported only then. Returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] and arguments[0] in COMMANDS:
        if arguments[0] not in PUBLIC:
            private_files.keep_private()
        module = importlib.import_module(COMMANDS[arguments[0]][0])
        try:
            return int(module.main(arguments))
        except KeyboardInterrupt:
            return 2
        except BrokenPipeError:  # `gpu-conformance list | head`
            sys.stderr.close()
            return 0
    width = max(map(len, COMMANDS))
    if arguments[:1] and not arguments[0].startswith("-"):
        near = difflib.get_close_matches(arguments[0], COMMANDS, n=1)
        return complain(
            "gpu-conformance",
            f"no command {arguments[0]!r}" + (f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(COMMANDS)}"),
        )
    parser = Parser(
        prog="gpu-conformance",
        usage="gpu-conformance COMMAND ...",
        description="Conformance suite for GPU clusters. A run is pytest: `pytest conformance --kubeconfig FILE`.",
        epilog="commands:\n" + "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gpu-conformance {VERSION}")
    parser.parse_args(arguments)
    parser.print_help()
    return 4


if __name__ == "__main__":
    sys.exit(main())
