"""How each verdict is shown: the one table that every output takes its words, signs, colours and levels from."""

from __future__ import annotations

import msgspec

from fixtures.verdict.record import Verdict


class Display(msgspec.Struct, frozen=True, kw_only=True):
    """``word`` in sentences and ``short`` in narrow columns; ``requirements`` and ``experiments`` are headlines of a run.

    ``letter`` and ``emoji`` can be read without colour; ``style`` is Rich's. ``allure``, ``ctrf`` and ``sarif`` (kind and level) are the
    statuses of these formats, several verdicts to one where a format has fewer. ``annotation`` is GitHub's, empty for none.
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
    sarif: tuple[str, str] | None = None
    annotation: str = ""


DISPLAY: dict[Verdict, Display] = {
    Verdict.PASSED: Display(
        word="passed",
        short="pass",
        requirements="Conformant",
        experiments="Experiments passed",
        letter="✓",
        emoji="✅",
        style="green",
        allure="passed",
        ctrf="passed",
    ),
    Verdict.FAILED: Display(
        word="failed",
        short="fail",
        requirements="Not conformant",
        experiments="Experiments failed",
        letter="✗",
        emoji="❌",
        style="bold red",
        allure="failed",
        ctrf="failed",
        sarif=("fail", "error"),
        annotation="error",
    ),
    Verdict.WARNED: Display(
        word="warned",
        short="warn",
        requirements="Conformant with warnings",
        experiments="Experiments passed with warnings",
        letter="!",
        emoji="⚠️",
        style="yellow",
        allure="passed",
        ctrf="passed",
        sarif=("fail", "warning"),
        annotation="warning",
    ),
    Verdict.WAIVED: Display(
        word="waived",
        short="waiv",
        requirements="Conformant with waivers",
        experiments="Experiments passed with waivers",
        letter="w",
        emoji="🏳️",
        style="magenta",
        allure="passed",
        ctrf="passed",
        sarif=("fail", "note"),
    ),
    Verdict.NOT_APPLICABLE: Display(
        word="not applicable",
        short="n.a.",
        requirements="Nothing judged",
        experiments="No experiment applies",
        letter="-",
        emoji="\u2796",
        style="dim",
        allure="skipped",
        ctrf="skipped",
    ),
    Verdict.INCONCLUSIVE: Display(
        word="inconclusive",
        short="inc.",
        requirements="Inconclusive",
        experiments="Experiments inconclusive",
        letter="?",
        emoji="❔",
        style="cyan",
        allure="broken",
        ctrf="other",
        sarif=("open", "none"),
        annotation="warning",
    ),
    Verdict.ERROR: Display(
        word="error",
        short="err.",
        requirements="Error",
        experiments="Experiments ended in error",
        letter="E",
        emoji="💥",
        style="bold magenta",
        allure="broken",
        ctrf="other",
        sarif=("open", "none"),
        annotation="error",
    ),
}

WORD: dict[Verdict, str] = {verdict: shown.word for verdict, shown in DISPLAY.items()}


_OF_PYTEST = {"dim": "light", "magenta": "purple"}


def column(verdict: Verdict, *, wide: bool = True) -> str:
    """The word for a column of a table, which has no room for two words; a shorter one where it is not ``wide``."""
    shown = DISPLAY[verdict]
    return shown.word if wide and " " not in shown.word else shown.short


def markup(verdict: Verdict) -> dict[str, bool]:
    """Its style as pytest's terminal writer takes it."""
    return {_OF_PYTEST.get(word, word): True for word in DISPLAY[verdict].style.split()}
