"""What a person reads of each cause: one message in ``tests/AREA/messages.yaml``, from the first defect or incident that has the cause.

``make messages`` writes the files again; their diff is what users will read anew. Other tests assert
outcome and cause.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeAlias

import yaml

from fixtures.simulator.config.scenario import Defect, defect_names, load_defect
from fixtures.verdict.findings import Finding
from tests.frozen.worlds import BY_DOCUMENTS, clock, simulated
from tests.incidents.incidents import incidents
from tests.judging import CATALOGUE, READ, judge

Messages: TypeAlias = dict[str, dict[str, str]]
"""Messages by requirement and cause."""

_TESTS = Path(__file__).resolve().parents[1]


def file_of(area: str) -> Path:
    """The file with the messages of an area, such as ``FENCE``."""
    return _TESTS / area.lower() / "messages.yaml"


def kept_messages(area: str) -> Messages:
    """The messages in an area's file; none where it has no file."""
    path = file_of(area)
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}


def messages() -> dict[str, Messages]:
    """The messages of today, by area."""
    found: dict[str, Messages] = {}
    worlds = [*map(load_defect, defect_names()), *(one.as_defect for one in incidents())]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for rows in pool.map(_messages_in, worlds, chunksize=8):
            for requirement, cause, message in rows:
                found.setdefault(requirement.partition("-")[0], {}).setdefault(requirement, {}).setdefault(cause, message)
    return found


def _messages_in(world: Defect) -> list[tuple[str, str, str]]:
    """Requirement, cause and message of each cause that a world gives."""
    kept: dict[str, list[Finding]] = {}
    with clock():
        built = simulated(world.scenario, world)
        judge(built.snapshot, built.policy, READ, kept=kept)
        judge(built.snapshot, built.policy, BY_DOCUMENTS, documents=built.documents, kept=kept)
    rows = {(id_, found.cause): found.message for id_, own in kept.items() for found in reversed(own) if found.cause}
    return sorted((*key, message) for key, message in rows.items())


if __name__ == "__main__":
    for area, now in messages().items():
        file_of(area).write_text(yaml.safe_dump(now, width=140, allow_unicode=True), encoding="utf-8")
    print(sum(len(causes) for area in CATALOGUE.areas for causes in kept_messages(area.area).values()), "messages")
