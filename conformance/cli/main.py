"""The console script ``gpu-conformance``: everything that is not a run of pytest."""

import difflib
import sys
from collections.abc import Sequence

from conformance.cli.arguments import Parser, complain
from conformance.cli.commands import COMMANDS, module_of
from conformance.version import VERSION
from fixtures.system import private_files

PUBLIC = ("docs", "completion")
"""What is written for everybody: pages of a checkout, a shell's completion."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; its modules are imported only then. Returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] and arguments[0] in COMMANDS:
        if arguments[0] not in PUBLIC:
            private_files.keep_private()
        try:
            return int(module_of(arguments[0]).main(arguments))
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
        examples=("gpu-conformance doctor --kubeconfig FILE", "gpu-conformance run --kubeconfig FILE --read-only"),
        epilog="commands:\n" + "\n".join(f"  {name:<{width}}  {command.about}" for name, command in COMMANDS.items()),
    )
    parser.add_argument("--version", action="version", version=f"gpu-conformance {VERSION}")
    parser.parse_args(arguments)
    parser.print_help()
    return 4


if __name__ == "__main__":
    sys.exit(main())
