"""``gpu-conformance list``, also as the shell command that saves all that requirements read, and ``gpu-conformance explain ID``."""

import textwrap
from collections.abc import Sequence

from tabulate import tabulate

from conformance.catalogue import Catalogue, CatalogueError, load_catalogue
from conformance.causes import met
from conformance.cli.arguments import Parser, complain, show, show_json
from conformance.cli.commands import command_parser
from conformance.requirement import Requirement
from fixtures.cluster.kinds import KINDS, kubectl_name
from fixtures.snapshot.folder import INCOMPLETE, SERVED, TAKEN_AT
from fixtures.verdict.findings import COMPARISON
from fixtures.verdict.record import Access

FOLDER = "dump"
_WIDTH = 128


def options(parser: Parser, command: str) -> None:
    """Give the parser the arguments of ``list`` or of ``explain``."""
    if command == "explain":
        parser.add_argument("id", metavar="ID|AREA", help="a requirement, for example FENCE-01, or an area, for example GANG")
        parser.add_argument("--json", action="store_true", help="print the entry of the catalogue as JSON")
        return
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the catalogue as JSON")
    form.add_argument("--snapshot-command", action="store_true", help="print the shell command that saves a snapshot of all they read")


def main(argv: Sequence[str]) -> int:
    """Print all requirements, or one of them."""
    arguments = command_parser(argv[0]).parse_args(argv[1:])
    try:
        catalogue = load_catalogue()
        if argv[0] == "list":
            requirements = list(catalogue.by_id.values())
            if arguments.snapshot_command:
                show(snapshot_command(catalogue))
            elif arguments.json:
                show_json(requirements)
            else:
                show(_table(requirements))
            return 0
        ids = catalogue.choose(arguments.id)
        requirement = catalogue.get(ids[0])
    except CatalogueError as error:
        return complain("gpu-conformance", error)
    if arguments.id.upper() == requirement.area:
        held = [catalogue.get(id_) for id_ in ids]
        if arguments.json:
            show_json(held)
            return 0
        title = next(area.title for area in catalogue.areas if area.area == requirement.area)
        show(f"{requirement.area}: {title}\n")
        show(_table(held))
        show(f"\ngpu-conformance explain {requirement.id} says what it asserts, why, and what to do")
        return 0
    if arguments.json:
        show_json(requirement)
        return 0
    show(f"{requirement.id}  {requirement.title}")
    show(f"{requirement.level}, access {requirement.access}\n")
    show(f"why:\n{_block(requirement.rationale)}\n")
    if requirement.causes:
        show("what it finds, and what to do:")
    for cause in met(requirement.causes):
        show(f"  {cause.title}:")
        show("\n".join(textwrap.indent(_block(line), "  ") for line in cause.lines) + "\n")
    show("reads: " + (", ".join(requirement.lists) or "nothing"))
    show("does:  " + (", ".join(requirement.writes) or "nothing but reading"))
    show(_how_to_run(requirement))
    show("references:")
    for reference in requirement.references:
        show(f"  {reference}")
    return 0


def _table(requirements: Sequence[Requirement]) -> str:
    return tabulate([(r.id, r.level, r.access, r.title) for r in requirements], headers=("id", "level", "access", "title"))


def _block(text: str) -> str:
    return textwrap.indent(textwrap.fill(" ".join(text.split()), 96, break_long_words=False, break_on_hyphens=False), "  ")


def _how_to_run(requirement: Requirement) -> str:
    """The command that judges just this requirement. The comparison of two runs is about all others, and is nothing alone."""
    judge = "pytest conformance --kubeconfig FILE"
    if requirement.id == COMPARISON:
        return f"run it with the others, which it compares with an earlier run's:\n  {judge} --baseline REPORT"
    ceiling = "--read-only" if requirement.access is Access.READ else f"--access {requirement.access}"
    return f"run it alone:\n  {judge} --only {requirement.id} {ceiling}"


def snapshot_keys(catalogue: Catalogue) -> list[str]:
    """Resource keys that ``read`` requirements read, in the order of :data:`KINDS`."""
    read = {"nodes", "pods", "namespaces"}
    for requirement in catalogue.by_id.values():
        if requirement.access is Access.READ:
            read.update(requirement.lists)
    return [key for key in KINDS if key in read]


def snapshot_command(catalogue: Catalogue) -> str:
    """The command, for a POSIX shell; lines end with a backslash. It fails at once where its folder is there already.

    A kind that the cluster does not serve is left out by name, for kubectl refuses the whole command that names one. A list that
    is refused leaves an empty file, which says nothing of its kind.
    """
    names = textwrap.wrap(" ".join(kubectl_name(key) for key in snapshot_keys(catalogue)), _WIDTH, break_on_hyphens=False)
    lines = [
        f"mkdir {FOLDER} && date -u +%FT%TZ > {FOLDER}/{TAKEN_AT} &&",
        f"{{ kubectl api-resources --verbs=list -o name || echo {INCOMPLETE}; }} > {FOLDER}/{SERVED} &&",
        "for kind in",
        *(f"  {line}" for line in names),
        f"; do if grep -Fqx $kind {FOLDER}/{SERVED}; then",
        f"  kubectl get $kind -A --show-managed-fields -o json > {FOLDER}/$kind.json; fi; done",
    ]
    return " \\\n".join(lines)
