import asyncio
from collections.abc import Iterator

import pytest

from tests.reports.axe import NoAxe, axe_script
from tests.reports.browser import Page, find_browser
from tests.reports.report_browser import Browser


@pytest.fixture(scope="package")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    executable = find_browser()
    assert executable
    folder = tmp_path_factory.mktemp("browser")
    with asyncio.Runner() as runner:
        page = runner.run(Page(executable, folder / "profile").__aenter__())
        try:
            yield Browser(runner, page, folder)
        finally:
            runner.run(page.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        return axe_script(tmp_path_factory.mktemp("axe"))
    except NoAxe as error:
        pytest.skip(str(error))


@pytest.fixture
def browser(started: Browser) -> Iterator[Browser]:
    """Whoever uses it shares the group ``browser``, and with it one browser. What it pretends to be ends with each test."""
    yield started
    started.send("Emulation.setEmulatedMedia", media="", features=[])
    started.send("Emulation.clearDeviceMetricsOverride")
