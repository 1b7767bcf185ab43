"""``make screenshots``: the pictures of README.md, of what the suite prints and of the report it writes. Needs Chromium.

They show a simulated cluster with two faults, and say so.
"""

import asyncio
import base64
import html
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.reports.browser import Page, find_browser

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
SPEC = "showcase,fence-untainted-gpu-node,adv-seven-of-eight"
WIDTH = 1100
"""Pixels of a picture: what GitHub shows without shrinking it."""

COLUMNS = 118
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #10151c; color: #dde3ea; }}
pre {{ margin: 0; padding: 16px 20px; font: 13px/1.42 "DejaVu Sans Mono", "Liberation Mono", monospace; }}
.prompt {{ color: #7fb4ff; }}
</style><pre><span class="prompt">$ {command}</span>
{output}</pre>"""


def main() -> int:
    """Write the pictures. Exit 3 where there is no browser."""
    browser = find_browser()
    if browser is None:
        print("make screenshots: no chromium or google-chrome on PATH", file=sys.stderr)
        return 3
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-") as temporary:
        folder = Path(temporary)
        doctor = _terminal(folder, "doctor", "--simulate", "showcase")
        run = ["run", "--simulate", SPEC, "--read-only", "--report-dir", str(folder / "report")]
        _output(*run)
        pages = {"doctor.png": (doctor, 0), "report.png": (folder / "report" / "report.html", 1060)}
        for name, (page, height) in pages.items():
            data = asyncio.run(_picture(browser, folder / f"profile-{name}", page, height))
            (IMAGES / name).write_bytes(data)
            print(f"written: docs/images/{name}, {len(data) // 1024} KiB")
    return 0


def _terminal(folder: Path, *arguments: str) -> Path:
    """A page that shows a command and what it prints, in its colours."""
    console = Console(file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True)
    console.print(Text.from_ansi(_output(*arguments)))
    shown = console.export_html(inline_styles=True, code_format="{code}")
    page = folder / f"{arguments[0]}.html"
    page.write_text(PAGE.format(command=html.escape(f"gpu-conformance {' '.join(arguments)}"), output=shown), encoding="utf-8")
    return page


def _output(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "conformance.cli.main", *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout


async def _picture(browser: str, profile: Path, page: Path, height: int) -> bytes:
    """The page as PNG, from its top. A ``height`` of 0 is the page's own."""
    async with Page(browser, profile) as tab:
        await tab.send("Emulation.setDeviceMetricsOverride", width=WIDTH, height=height or 600, deviceScaleFactor=1, mobile=False)
        await tab.open(page.as_uri())
        tall = height or int(await tab.run("Math.ceil(document.querySelector('pre').getBoundingClientRect().height)"))
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": tall, "scale": 1}
        answer = await tab.send("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    return base64.b64decode(answer["data"])


if __name__ == "__main__":
    sys.exit(main())
