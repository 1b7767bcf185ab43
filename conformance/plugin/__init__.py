"""The pytest plugin: pytest is the interface of the suite.

Options select target, policy and requirements; fixtures hand a requirement what it judges; the
record of the run becomes reports and an exit code. Modules: ``options`` (command line), ``opening``
(target and snapshot), ``judging`` (fixtures and verdicts), ``progress`` (terminal), ``hooks`` (the
order of things), ``gate`` (exit code).
"""

from __future__ import annotations

from conformance.plugin.hooks import (
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_configure_node,
    pytest_report_header,
    pytest_report_teststatus,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_sessionfinish,
    pytest_sessionstart,
    pytest_terminal_summary,
    pytest_unconfigure,
)
from conformance.plugin.judging import cluster, judge, needs, now, policy, scope, snapshot, workspace

__all__ = [
    "cluster",
    "judge",
    "needs",
    "now",
    "policy",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_report_header",
    "pytest_report_teststatus",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_sessionfinish",
    "pytest_sessionstart",
    "pytest_terminal_summary",
    "pytest_unconfigure",
    "scope",
    "snapshot",
    "workspace",
]
