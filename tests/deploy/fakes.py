"""Distributions that are not installed."""

from email.message import Message
from importlib.metadata import Distribution
from typing import Any


class Fake(Distribution):
    """A distribution with some metadata."""

    def __init__(self, *fields: tuple[str, str]) -> None:
        self.fields = (("Name", "fake"), ("Version", "1"), *fields)

    def read_text(self, filename: str) -> str | None:
        message = Message()
        for name, value in self.fields:
            message[name] = value
        return str(message) if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return path
