"""On clusters whose devices DRA offers as many requirements judge as with a device plugin, but for those that docs/dra.md lists."""

import re
from pathlib import Path

import pytest

from tests.endtoend.runs import ROOT, run_for_record

pytestmark = pytest.mark.test_all

_ROW = re.compile(r"\| ([A-Z]+-\d\d) \| [^|]+ \| (both|`[a-z-]+`) \|")
_SLICES = ("--only", "SHARE,MIG")


def listed(scenario: str) -> set[str]:
    """Requirements that the page says a scenario leaves out."""
    text = (ROOT / "docs/dra.md").read_text().partition("## What a cluster without a device plugin leaves unjudged")[2]
    return {id_ for id_, where in _ROW.findall(text.partition("\n## ")[0]) if where.strip("`") in ("both", scenario)}


def judged(folder: Path, scenario: str, *options: str) -> frozenset[str]:
    done = run_for_record(folder, "--simulate", scenario, *options)
    return frozenset(result.id for result in done.record.results if result.judged)


@pytest.fixture(scope="module")
def by_plugin(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    return judged(tmp_path_factory.mktemp("healthy"), "healthy")


@pytest.mark.parametrize("scenario", ["dra", "dra-extended"])
def test_as_many_requirements_judge_without_a_device_plugin(tmp_path: Path, by_plugin: frozenset[str], scenario: str) -> None:
    by_dra = judged(tmp_path, scenario)
    assert by_plugin - by_dra == listed(scenario)
    assert len(by_dra) >= len(by_plugin) - len(listed(scenario)), (sorted(by_plugin), sorted(by_dra))


def test_shares_and_slices_are_judged_without_a_device_plugin(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("showcase", "dra-shared")}
    for folder in folders.values():
        folder.mkdir()
    by_plugin, by_dra = (judged(folder, name, *_SLICES) for name, folder in folders.items())
    assert {"SHARE-03", "MIG-07"} <= by_dra
    assert by_plugin - by_dra == listed("dra-shared") - listed("neither")
