"""Every citation of a page leads to a page and a heading that exist, and every fact is cited."""

from pathlib import Path

import pytest

from tests.development.citations import ROOT, lost, problems, texts, uncited, unlisted

LABELS = "# Labels\n\n## Product label\n\ntext\n\n## What `R.count` is, and [why](x.md)\n\n```\n# no heading\n```\n"
CITING = {"a.py": '"""Reads it (docs/facts/labels.md#product-label)."""\n# docs/facts/labels.md#what-rcount-is-and-why\n'}


@pytest.fixture(scope="module")
def tree() -> dict[str, str]:
    """The project's texts, but for this file: its examples are bad on purpose."""
    return {path: text for path, text in texts().items() if path != Path(__file__).relative_to(ROOT).as_posix()}


def test_every_citation_resolves(tree: dict[str, str]) -> None:
    assert problems(tree) == []


def test_every_fact_is_cited(tree: dict[str, str]) -> None:
    assert uncited(tree) == []


def test_every_file_that_a_page_names_exists(tree: dict[str, str]) -> None:
    assert lost(tree, lambda path: (ROOT / path).exists()) == []


@pytest.mark.parametrize("folder", ["docs/facts", "docs/decisions"])
def test_a_folder_of_pages_lists_them_all(tree: dict[str, str], folder: str) -> None:
    assert unlisted(tree, folder) == []


@pytest.mark.parametrize(
    "text",
    [
        "see docs/facts/labels.md",
        "see docs/facts/labels.md#product-label.",
        "see labels.md",
        "https://example.org/nowhere.md#part",
        "writes report/report.md",
        'path = folder / "note.md"',
        "five facts, node 3 of 4, in style",
    ],
)
def test_what_resolves_is_no_problem(text: str) -> None:
    assert problems({"docs/facts/labels.md": LABELS.replace("(x.md)", "(labels.md)"), "conformance/a.py": text}) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("see docs/facts/label.md", "there is no page docs/facts/label.md"),
        ("see DESIGN.md", "there is no page DESIGN.md"),
        ("\n(local.md, Building)", "there is no page local.md"),
        ("docs/facts/labels.md#products", "docs/facts/labels.md has no heading products"),
        ("in the code (facts 2.3)", "'facts 2.3' is a citation by number: cite the page and its heading"),
        ("Facts 2.1 row by row", "'Facts 2.1' is a citation by number: cite the page and its heading"),
        ("titles (style 3.7)", "'style 3.7' is a citation by number: cite the page and its heading"),
        ("only costs (ecosystem b)", "'ecosystem b' is a citation by number: cite the page and its heading"),
        ("as chaos 1.2 says", "'chaos 1.2' is a citation by number: cite the page and its heading"),
    ],
)
def test_what_leads_nowhere_is_named_with_its_line(text: str, sentence: str) -> None:
    tree = {"docs/facts/labels.md": LABELS.replace("(x.md)", "(labels.md)"), "conformance/a.py": text}
    line = text.count("\n") + 1
    assert problems(tree) == [f"conformance/a.py:{line}: {sentence}"]


def test_a_fact_that_nobody_cites_is_named() -> None:
    tree = {"docs/facts/labels.md": LABELS + "\n## Dead\n\n[here](#dead)\n", **CITING}
    assert uncited(tree) == ["docs/facts/labels.md#dead"]
    assert uncited({"docs/facts/labels.md": LABELS, **CITING}) == []
    assert uncited({"docs/facts/README.md": "# Facts\n\n## How\n", "docs/other.md": "# O\n\n## P\n"}) == []
