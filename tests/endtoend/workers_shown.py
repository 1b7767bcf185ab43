"""A plugin for ``-p``: writes which worker judged each requirement that asks the cluster something, and from when to when."""

from pathlib import Path

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and (node := getattr(report, "node", None)) is not None:
        name = report.nodeid.rpartition("::")[2].partition("@")[0]
        with Path("workers.txt").open("a", encoding="utf-8") as file:
            file.write(f"{name} {node.gateway.id} {report.start} {report.stop}\n")
