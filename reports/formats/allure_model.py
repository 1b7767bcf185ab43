"""What an ``*-result.json`` of Allure holds. Fields that are empty are not written, as Allure's own adaptors do it.

The adaptors' model has the same fields (a test compares them). It takes a run as long to import as a hundred results take to write.
"""

from __future__ import annotations

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of what a result holds."""


class StatusDetails(Part, frozen=True, kw_only=True):
    """Why the status is what it is; ``trace`` is shown below the message, as it is."""

    message: str = ""
    trace: str = ""


class Parameter(Part, frozen=True, kw_only=True):
    """A named value; one that is excluded makes no other test of it."""

    name: str
    value: str
    excluded: bool = False


class Label(Part, frozen=True, kw_only=True):
    """A mark that pages are ordered by."""

    name: str
    value: str = ""


class Link(Part, frozen=True, kw_only=True):
    """An address beside the test."""

    type: str
    url: str
    name: str


class Attachment(Part, frozen=True, kw_only=True):
    """A file of the same folder."""

    name: str
    source: str
    type: str


class TestStepResult(Part, frozen=True, kw_only=True):
    """A part of a test. ``start`` and ``stop`` are milliseconds since 1970."""

    __test__ = False  # pytest takes a class of this name for tests

    name: str
    status: str
    status_details: StatusDetails | None = None
    stage: str = ""
    parameters: list[Parameter] = []
    start: int = 0
    stop: int = 0


class TestResult(Part, frozen=True, kw_only=True):
    """One test. ``start`` and ``stop`` are milliseconds since 1970."""

    __test__ = False  # pytest takes a class of this name for tests

    uuid: str
    history_id: str
    test_case_id: str
    full_name: str
    name: str
    title_path: list[str] = []
    status: str
    status_details: StatusDetails
    stage: str = ""
    description: str = ""
    steps: list[TestStepResult] = []
    parameters: list[Parameter] = []
    labels: list[Label] = []
    links: list[Link] = []
    attachments: list[Attachment] = []
    start: int = 0
    stop: int = 0
