"""Every generated file is as ``make docs`` writes it, and ``make docs`` mends one that is not."""

from pathlib import Path

import pytest

from tests.development.generated import ROOT, generated, stale, write


def test_every_generated_file_is_fresh() -> None:
    assert not [str(path.relative_to(ROOT)) for path in stale()], "run make docs"


def test_every_kind_of_generated_file_is_on_the_list() -> None:
    marked = {path for folder in ("docs", "deploy", "reports/schema") for path in (ROOT / folder).iterdir() if _says_make_docs(path)}
    files = set(generated())
    assert marked <= files
    assert set((ROOT / "deploy").glob("*.yaml")) | set((ROOT / "reports/schema").glob("*.json")) <= files


def _says_make_docs(path: Path) -> bool:
    if not path.is_file():
        return False
    head = path.read_text(encoding="utf-8").split("\n", 3)[:3]
    return any("`make docs`" in line and "do not edit" in line for line in head)


@pytest.mark.test_all
def test_what_is_stale_or_missing_is_written_and_nothing_else(tmp_path: Path) -> None:
    files = generated()
    for path, text in files.items():
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    assert write(tmp_path) == []
    (tmp_path / "docs" / "requirements.md").unlink()
    (tmp_path / "deploy" / "clusterrole-full.yaml").write_text("stale")
    readme = tmp_path / "README.md"
    begin, _, rest = readme.read_text().partition("```sh\nmkdir dump")
    readme.write_text(f"{begin}```sh\nstale{rest}")
    assert {str(path.relative_to(tmp_path)) for path in stale(tmp_path)} == {
        "README.md",
        "deploy/clusterrole-full.yaml",
        "docs/requirements.md",
    }
    assert write(tmp_path) == sorted(tmp_path / name for name in ("README.md", "deploy/clusterrole-full.yaml", "docs/requirements.md"))
    assert {tmp_path / path.relative_to(ROOT): text for path, text in files.items()} == generated(tmp_path)
    assert write(tmp_path) == []
