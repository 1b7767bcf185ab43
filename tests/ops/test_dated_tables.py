"""Dated tables: every file is known, versions can be read, and old ones are named."""

import pytest

from conformance.cli.main import main
from fixtures.model.platform.versions import version_of
from fixtures.tables.dated import FOLDER, Table
from fixtures.tables.rows import ALL, FLOORS, SUPPORT


def test_every_file_of_the_folder_is_a_table_that_somebody_reads() -> None:
    assert {file.stem for file in FOLDER.glob("*.yaml")} == {one.name for one in ALL}
    assert all(one.rows and one.table.about for one in ALL)


def test_every_version_can_be_read_and_first_versions_without_a_fault_are_in_order() -> None:
    for row in FLOORS.rows:
        fixed = [version_of(text) for text in row.fixed]
        assert None not in fixed
        assert fixed == sorted(one for one in fixed if one)
    assert all(version_of(row.below) for row in SUPPORT.rows)


@pytest.mark.parametrize(("date", "months"), [("2026-11", 0), ("2026-05", 6), ("2025-12", 11), ("2024-11", 24)])
def test_months(date: str, months: int) -> None:
    assert Table(date=date, about="", sources=["here"], rows=[]).months_old(2026, 11) == months


def test_the_command_names_each_table_with_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables"]) == 0
    text = capsys.readouterr().out
    assert all(one.name in text and one.table.date in text and one.table.sources[0] in text for one in ALL)
