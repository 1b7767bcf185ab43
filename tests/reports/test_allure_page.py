"""The page that Allure 3 makes of the results, looked at in a browser. `make allure-page` installs Allure into .tools first."""

import asyncio
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report
from reports.formats import allure
from tests.reports.browser import Page, find_browser
from tests.reports.chaos_samples import mixed_chaos
from tests.reports.sample_report import HOSTILE, hostile_report, sample_report

PROGRAM = Path(__file__).parents[2] / ".tools" / "allure" / "node_modules" / "allure" / "cli.js"
ANALYTICS = "https://www.googletagmanager.com/"
pytestmark = [
    pytest.mark.test_all,
    pytest.mark.skipif(find_browser() is None, reason="no chromium or google-chrome on PATH"),
    pytest.mark.skipif(shutil.which("node") is None, reason="no node on PATH"),
]


@pytest.fixture(autouse=True)
def _installed() -> None:
    """Asked when a test begins: it may be installed while others run."""
    if not PROGRAM.is_file():
        pytest.skip("Allure 3 is not installed: make allure-page")


APPEARS = """new Promise((resolve, reject) => {
  const end = performance.now() + 30000
  const look = () => {
    if (%s) resolve(true)
    else if (performance.now() > end) reject(document.body.innerText.slice(0, 2000))
    else requestAnimationFrame(look)
  }
  look()
})"""
STEP = "document.querySelector('[data-testid=test-result-steps-root],[data-testid=test-result-step]')"
TEXTS = "[...document.querySelectorAll('[data-testid={0}]')].map(element => element.innerText.trim())"


def rendered(folder: Path, made: Report, chaos: ChaosReport | None = None) -> Path:
    """The folder of a report's page. It is several files: the one-file form of Allure 3.18 at times shows nothing when it is slow."""
    allure.write(made, folder / "results", chaos, environ={})
    options = {"reportLanguage": "en", "groupBy": ["epic"]}
    categories = json.loads((folder / "results" / "categories.json").read_text())
    config = {"name": "GPU", "output": "./page", "categories": categories, "plugins": {"awesome": {"options": options}}}
    (folder / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        ["node", str(PROGRAM), "generate", "--config", "config.json", "results"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "page"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder's page on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/index.html"
        finally:
            server.shutdown()
            thread.join()


def elsewhere(page: Page) -> list[str]:
    """What the page asked of other machines."""
    return [url[:200] for url in page.requests if url.startswith("http") and not url.startswith("http://127.0.0.1:")]


async def opened(page: Page, address: str) -> None:
    await page.open(address)
    await page.run(APPEARS % "document.querySelector('[data-testid=tree-leaf-title]')")


async def texts(page: Page, mark: str) -> list[str]:
    return list(await page.run(TEXTS.format(mark)))


def test_the_page_shows_verdicts_steps_links_and_the_banner(tmp_path: Path) -> None:
    folder = rendered(tmp_path, sample_report(), mixed_chaos())

    async def look(address: str) -> dict[str, Any]:
        async with Page(str(find_browser()), tmp_path / "profile") as page:
            await opened(page, address)
            await page.run("[...document.querySelectorAll('[data-testid=tree-section]')].find(e => e.innerText.startsWith('REQ')).click()")
            await page.run(APPEARS % "[...document.querySelectorAll('[data-testid=tree-leaf]')].some(e => e.innerText.includes('REQ-02'))")
            seen: dict[str, Any] = {"titles": await texts(page, "tree-leaf-title"), "page": await page.run("document.body.innerText")}
            seen["counts"] = {
                name: (await texts(page, f"metadata-item-{name}"))[0].split("\n")[-1] for name in ("failed", "broken", "skipped")
            }
            await page.run("[...document.querySelectorAll('[data-testid=tree-leaf]')].find(e => e.innerText.includes('FENCE-01')).click()")
            await page.run(APPEARS % STEP)
            seen["test"] = await page.run("document.body.innerText")
            seen["links"] = await page.run("[...document.querySelectorAll('a[href^=http]')].map(a => a.href)")
            seen["asked"] = elsewhere(page)
            return seen

    with served(folder) as address:
        seen = asyncio.run(look(address))
    assert "FENCE-10 No temporary taint outlives the policy's age [warned]" in seen["titles"]
    assert "REQ-02 Every pod template asks for whole devices with request == limit [waived]" in seen["titles"]
    assert "INV-02 Every accelerator node was judged [inconclusive]" in seen["titles"]
    assert "SIMULATED CLUSTER" in seen["page"]
    assert "node gpu-003: no taint" in seen["test"]
    assert "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/" in seen["links"]
    assert all(url.startswith(ANALYTICS) for url in seen["asked"]), "docs/reports.md says which address the page asks"


def test_hostile_text_runs_nothing_on_the_page(tmp_path: Path) -> None:
    folder = rendered(tmp_path, hostile_report())

    async def look(address: str) -> tuple[list[str], Any, list[str]]:
        async with Page(str(find_browser()), tmp_path / "profile") as page:
            await opened(page, address)
            titles = await texts(page, "tree-leaf-title")
            for index in range(len(titles)):
                await page.run(f"document.querySelectorAll('[data-testid=tree-leaf]')[{index}].click()")
                await page.run(APPEARS % STEP)
                await page.run("history.back()")
                await page.run(APPEARS % f"document.querySelectorAll('[data-testid=tree-leaf]').length === {len(titles)}")
            asked = elsewhere(page)
            return titles, await page.run("typeof window.pwned"), asked

    with served(folder) as address:
        titles, pwned, asked = asyncio.run(look(address))
    assert len([title for title in titles if title.startswith("REQ-")]) == len(HOSTILE)
    assert any("<script>window.pwned=1</script>" in title for title in titles), "shown as text"
    assert pwned == "undefined"
    assert all(url.startswith(ANALYTICS) for url in asked)
