"""A browser that shows reports, for plain tests."""

import asyncio
from pathlib import Path
from typing import Any

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report
from reports.formats import html
from tests.reports.browser import Page


class Browser:
    """A page and the loop it lives in, for plain tests."""

    def __init__(self, runner: asyncio.Runner, page: Page, folder: Path) -> None:
        self._runner = runner
        self.page = page
        self._folder = folder

    def open(self, report: Report, fragment: str = "", chaos: ChaosReport | None = None) -> str:
        return self.show(html.render(report, chaos), fragment)

    def show(self, text: str, fragment: str = "") -> str:
        """Open any page."""
        file = self._folder / "report.html"
        file.write_text(text, encoding="utf-8")
        self._runner.run(self.page.open("about:blank"))
        self._runner.run(self.page.open(file.as_uri() + fragment))
        return file.as_uri()

    def run(self, expression: str) -> Any:
        return self._runner.run(self.page.run(expression))

    def send(self, method: str, **params: object) -> Any:
        return self._runner.run(self.page.send(method, **params))

    def choose(self, control: str, value: str) -> None:
        self.run(
            f"(() => {{ const c = document.getElementById('filters').elements.{control}; c.value = {value!r};"
            " c.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({selector!r}).click()")
