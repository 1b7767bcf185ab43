"""Which presets a run applies, and where it says so."""

from pathlib import Path

import pytest

from tests.endtoend.runs import Finished, run_suite

pytestmark = pytest.mark.test_all


def applied(done: Finished) -> dict[str, str]:
    return {preset.name: preset.why for preset in done.record.run.presets}


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_the_clusters_marks_choose_presets_and_every_report_says_why(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run_suite(tmp_path, "--simulate", "amd", "--only", "INV-01,ISO-01", *workers)
    found = applied(done)
    assert list(found) == ["amd"]
    assert found["amd"] == "the API group amd.com is served"
    assert f"platform: amd ({found['amd']})" in done.output
    assert f"amd ({found['amd']})" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
