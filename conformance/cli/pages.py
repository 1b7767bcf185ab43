"""``gpu-conformance docs FILE``: the requirement pages, generated from the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance.catalogue import Catalogue, load_catalogue
from conformance.cli.arguments import Parser
from fixtures.simulator.scenario import defect_names, load_defect


def page(catalogue: Catalogue) -> str:
    """Markdown of all requirements, with the defects that prove they can fail."""
    tripping: dict[str, list[str]] = {}
    for name in defect_names():
        for id_ in load_defect(name).trips:
            tripping.setdefault(id_, []).append(name)
    lines = ["# Requirements", "", "Generated from the catalogue by `make docs`; do not edit.", ""]
    for area in catalogue.areas:
        lines += [f"## {area.area}: {area.title}", ""]
        for requirement in area.requirements:
            lines += [
                f"### {requirement.id} {requirement.title}",
                "",
                f"{requirement.level}, access `{requirement.access}`. Proven able to fail by: "
                + (", ".join(f"`{name}`" for name in tripping.get(requirement.id, [])) or "nothing yet")
                + ".",
                "",
                " ".join(requirement.rationale.split()),
                "",
                f"**Remediation.** {' '.join(requirement.remediation.split())}",
                "",
                "References: " + "; ".join(requirement.references),
                "",
            ]
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Write the page."""
    parser = Parser(prog="gpu-conformance docs")
    parser.add_argument("command")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args(argv)
    arguments.file.write_text(page(load_catalogue()), encoding="utf-8")
    return 0
