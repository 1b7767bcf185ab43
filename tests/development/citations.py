"""Citations in the tree's text: pages that are cited, headings that they have, and what resolves to nothing.

A citation is a path to a page, with or without a heading: ``docs/facts/labels.md#product-label``. A heading's anchor is made as GitHub
makes it. Functions take texts by path, relative to the tree's root with forward slashes.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("chaos", "conformance", "deploy", "docs", "fixtures", "reports", "tests")
SUFFIXES = frozenset({".py", ".yaml", ".yml", ".md", ".toml", ".j2"})
FACTS = "docs/facts/"
WRITTEN = frozenset({"report.md", "summary.md"})
"""Pages that a run, the gate or a test writes; they are in no tree."""

_URL = re.compile(r"\w+://[^\s)\"'>]+")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_PAGE = re.compile(r"(?<![\w/.-])((?:\.\./)*[\w.-]+(?:/[\w.-]+)*\.md)\b(?:#([\w-]+))?")
_WITHIN = re.compile(r"\]\(#([\w-]+)\)")
_HEADING = re.compile(r"^(#{1,6}) +(.+?)\s*$", re.MULTILINE)
_ANCHOR = re.compile(r"<a id=\"([\w-]+)\">")
_SOURCE = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`")
_NUMBERED = re.compile(
    r"\b(?:facts|style|ecosystem|verdicts|incidents|peers|platforms) (?:part )?\d+(?:\.\d+)?\b"
    r"|\becosystem [a-h]\b|\b(?:chaos|local|node) \d+\.\d+\b",
    re.IGNORECASE,
)


def texts(root: Path = ROOT) -> dict[str, str]:
    """Every text that may cite: of the project's folders, and the files at its top."""
    top = [path for path in root.iterdir() if path.is_file() and (path.suffix in SUFFIXES or path.name == "Makefile")]
    below = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES and path.is_file()]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in (*top, *below)}


def anchors(page: str) -> list[str]:
    """The anchors of a page's headings and of its ``<a id>``, in order. The title comes first."""
    prose = _FENCE.sub("", page)
    return [_slug(match[2]) for match in _HEADING.finditer(prose)] + _ANCHOR.findall(prose)


def _slug(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def cited(path: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Line, page and anchor of every citation in a text: the page as it is written, empty for one of the same page's headings.

    A string of code that is nothing but a name (``"note.md"``) is the name of a file that the code reads or writes, and cites nothing.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if ".md" in line:
            plain = _URL.sub("", line)
            for match in _PAGE.finditer(plain):
                if plain[match.start() - 1 : match.start()] + plain[match.end() : match.end() + 1] != '""':
                    yield number, match[1], match[2] or ""
        if path.endswith(".md"):
            for match in _WITHIN.finditer(line):
                yield number, "", match[1]


def page_of(path: str, page: str, tree: Mapping[str, str]) -> str | None:
    """Which text of the tree a citation in ``path`` means: beside it, from the root, in ``docs`` (code writes links of the pages there),
    or the only page of that name. None for no text.
    """
    if not page:
        return path
    for candidate in (posixpath.normpath(posixpath.join(posixpath.dirname(path), page)), page, f"docs/{page}"):
        if candidate in tree:
            return candidate
    same = [name for name in tree if "/" not in page and name.rpartition("/")[2] == page]
    return same[0] if len(same) == 1 or page == "README.md" else None


def problems(tree: Mapping[str, str]) -> list[str]:
    """What is wrong with the citations of a tree, as ``path:line: sentence``."""
    found = []
    known = {name: set(anchors(text)) for name, text in tree.items() if name.endswith(".md")}
    for path, text in sorted(tree.items()):
        for number, page, anchor in cited(path, text):
            if page.rpartition("/")[2] in WRITTEN:
                continue
            meant = page_of(path, page, tree)
            if meant is None:
                found.append(f"{path}:{number}: there is no page {page}")
            elif anchor and anchor not in known.get(meant, ()):
                found.append(f"{path}:{number}: {meant} has no heading {anchor}")
        for number, line in enumerate(text.splitlines(), 1):
            if match := _NUMBERED.search(line):
                found.append(f"{path}:{number}: {match[0]!r} is a citation by number: cite the page and its heading")
    return found


def uncited(tree: Mapping[str, str]) -> list[str]:
    """Headings of facts that no other file cites: ``docs/facts/labels.md#product-label``."""
    used = set()
    for path, text in tree.items():
        for _, page, anchor in cited(path, text):
            meant = page_of(path, page, tree)
            if anchor and meant is not None and meant != path:
                used.add(f"{meant}#{anchor}")
    facts = {path: text for path, text in tree.items() if path.startswith(FACTS) and path != f"{FACTS}README.md"}
    return [place for path, text in sorted(facts.items()) for anchor in anchors(text)[1:] if (place := f"{path}#{anchor}") not in used]


def lost(tree: Mapping[str, str], exists: Callable[[str], bool]) -> list[str]:
    """Files and folders of the project that pages name in code font and that do not exist, as ``path:line: sentence``."""
    return [
        f"{path}:{number}: there is no {match[1]}"
        for path, text in sorted(tree.items())
        if path.endswith(".md")
        for number, line in enumerate(text.splitlines(), 1)
        for match in _SOURCE.finditer(line)
        if not exists(match[1])
    ]


def unlisted(tree: Mapping[str, str], folder: str) -> list[str]:
    """Pages of a folder that its README does not link."""
    readme = f"{folder}/README.md"
    linked = {page_of(readme, page, tree) for _, page, _ in cited(readme, tree[readme])}
    return [path for path in sorted(tree) if path.startswith(f"{folder}/") and path.endswith(".md") and path not in {readme, *linked}]
