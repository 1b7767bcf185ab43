"""Licences of what a run needs: ``python -m deploy.licences`` lists them, and docs/licences.md is that list."""

import re
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError

import msgspec

from deploy.distributions import LOCK, closure, locked_names

PERMITTED = frozenset({"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "PSF-2.0"})
"""What may be shipped beside code under Apache-2.0. MPL-2.0 asks for the source of its own files alone."""

_SPDX = {
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause",
    "mit license": "MIT",
    "python software foundation license": "PSF-2.0",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "isc license (iscl)": "ISC",
}
_NO_LICENCE = "Freely Distributable"  # a classifier that names none
_ROW = re.compile(r"\| ([a-z0-9-]+) \| ([^|]+) \| ([^|]*) \|")
_HEAD = """# Licences of what the suite ships

Written by `make docs` from the metadata of the installed distributions; do not edit. The suite itself is under Apache-2.0.

These are the Python distributions that a run needs, and so those in the image. `python -m deploy.licences` prints them with their
versions. `make sbom` writes them as CycloneDX, with Debian's packages of the image if it has been built. Their licence texts are in the
image: `/opt/gpu-conformance/*.dist-info/` and `/usr/share/doc/*/copyright`.

| distribution | licence (SPDX) | where from |
|---|---|---|
"""


class Licence(msgspec.Struct, frozen=True, order=True):
    """One distribution. ``expression`` is an SPDX expression, or empty if its metadata names none."""

    name: str
    version: str
    expression: str
    url: str


def licences(found: Mapping[str, Distribution] | None = None) -> list[Licence]:
    """The licence of each distribution, by name."""
    held = closure() if found is None else found
    return [Licence(name, one.version, expression(one), _url(one)) for name, one in sorted(held.items())]


def expression(one: Distribution) -> str:
    """The SPDX expression: as the metadata has it, else from its licence field, else from its classifiers."""
    if stated := _field(one, "License-Expression"):
        return stated
    named = [_field(one, "License")]
    classifiers = [
        str(text).rpartition(" :: ")[2] for text in one.metadata.get_all("Classifier") or [] if str(text).startswith("License ::")
    ]
    named += [text for text in classifiers if text != _NO_LICENCE]
    for text in named:
        spdx = _SPDX.get(text.lower(), text)
        if spdx in PERMITTED:
            return spdx
    return next((text for text in named if text and "\n" not in text), "")


def unknown(found: list[Licence]) -> list[str]:
    """What may not be shipped as it is: a licence that is not permitted, or none, a sentence each."""
    return [
        f"{one.name} {one.version}: {one.expression or 'no licence named'}"
        for one in found
        if not {part.strip("()") for part in re.split(r" (?:AND|OR) ", one.expression)} & PERMITTED
        or (" OR " not in one.expression and not {part.strip("()") for part in one.expression.split(" AND ")} <= PERMITTED)
    ]


def page(before: str) -> str:
    """docs/licences.md. What the lock has and another Python or system needs keeps the row that it had."""
    rows = {match[1]: (match[2], match[3]) for match in _ROW.finditer(before)}
    names = locked_names(LOCK.read_text(encoding="utf-8"))
    installed = {one.name: (one.expression, one.url) for one in licences()}
    kept = {name: row for name, row in rows.items() if name in names and not _is_here(name)}
    lines = [f"| {name} | {licence} | {url} |\n" for name, (licence, url) in sorted({**kept, **installed}.items())]
    return _HEAD + "".join(lines)


def _is_here(name: str) -> bool:
    try:
        Distribution.from_name(name)
    except PackageNotFoundError:
        return False
    return True


def _field(one: Distribution, name: str) -> str:
    return str(one.metadata[name]).strip() if name in one.metadata else ""


def _url(one: Distribution) -> str:
    stated = [str(text).partition(", ") for text in one.metadata.get_all("Project-URL") or []]
    urls = {label.lower(): url for label, _, url in stated}
    ranked = [urls[label] for label in ("source", "source code", "repository", "github", "homepage") if label in urls]
    found = [*ranked, _field(one, "Home-page"), *urls.values()]
    return next((url.split()[0] for url in found if url.startswith("https://") and "|" not in url), "")


def main() -> int:
    """Print the list; 1 if something in it may not be shipped."""
    found = licences()
    for one in found:
        print(f"{one.name:28} {one.version:14} {one.expression}")
    problems = unknown(found)
    for problem in problems:
        print(f"not permitted: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
