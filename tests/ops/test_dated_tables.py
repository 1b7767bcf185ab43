"""Dated tables: every file is known, versions can be read, and old ones are named."""

from __future__ import annotations

import msgspec
import pytest

from conformance.cli.main import main
from fixtures.model.platform.versions import version_of
from fixtures.tables.dated import ALL, FLOORS, FOLDER, SUPPORT, months_old


def test_every_file_of_the_folder_is_a_table_that_somebody_reads() -> None:
    assert {file.stem for file in FOLDER.glob("*.yaml")} == set(ALL)


def test_every_version_can_be_read_and_first_versions_without_a_fault_are_in_order() -> None:
    for row in FLOORS.rows:
        fixed = [version_of(text) for text in row.fixed]
        assert None not in fixed
        assert fixed == sorted(one for one in fixed if one)
    assert all(version_of(row.below) for row in SUPPORT.rows)


@pytest.mark.parametrize(("date", "months"), [("2026-11", 0), ("2026-05", 6), ("2025-12", 11), ("2024-11", 24)])
def test_months(date: str, months: int) -> None:
    assert months_old(msgspec.structs.replace(FLOORS, date=date), 2026, 11) == months


def test_the_command_names_each_table_with_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables"]) == 0
    text = capsys.readouterr().out
    assert all(name in text and table.date in text and table.sources[0] in text for name, table in ALL.items())
