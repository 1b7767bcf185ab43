"""Stands for the suite where experiments are tried alone."""

from collections.abc import Iterable

from chaos.verdict.artefacts import Conformance


class NoConformance:
    """Judges nothing before and after an experiment."""

    def judge(self, areas: Iterable[str], own: Iterable[str] = ()) -> Conformance:
        return Conformance(at="2026-01-01T00:00:00+00:00")

    def forget(self) -> None:
        """Nothing is remembered."""
