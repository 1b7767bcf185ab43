"""How each verdict is shown: the one table that every output takes its words, signs, colours and levels from."""

from pathlib import Path

import msgspec

from fixtures.text import yaml_text
from fixtures.verdict.record import Verdict


class Display(msgspec.Struct, frozen=True, kw_only=True):
    """``word`` in sentences and ``short`` in narrow columns; ``requirements`` and ``experiments`` are headlines of a run.

    ``letter`` and ``emoji`` can be read without colour; ``style`` is Rich's. ``allure``, ``ctrf``, ``policy`` (of PolicyReports) and
    ``sarif`` (kind and level) are the statuses of these formats, several verdicts to one where a format has fewer. ``annotation`` is
    GitHub's, empty for none.
    """

    word: str
    short: str
    requirements: str
    experiments: str
    letter: str
    emoji: str
    style: str
    allure: str
    ctrf: str
    policy: str
    sarif: tuple[str, str] | None = None
    annotation: str = ""


DISPLAY = yaml_text.packaged(Path(__file__).with_name("verdicts.yaml"), dict[Verdict, Display])

WORD: dict[Verdict, str] = {verdict: shown.word for verdict, shown in DISPLAY.items()}


_OF_PYTEST = {"dim": "light", "magenta": "purple"}


def column(verdict: Verdict, *, wide: bool = True) -> str:
    """The word for a column of a table, which has no room for two words; a shorter one where it is not ``wide``."""
    shown = DISPLAY[verdict]
    return shown.word if wide and " " not in shown.word else shown.short


def markup(verdict: Verdict) -> dict[str, bool]:
    """Its style as pytest's terminal writer takes it."""
    return {_OF_PYTEST.get(word, word): True for word in DISPLAY[verdict].style.split()}
