"""What a cluster said beside its lists is asked once, kept without credentials and within bounds, and given again."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.plugin.again import read_answers
from conformance.plugin.answers import Answers
from conformance.requirement import Form
from fixtures.cluster.trouble import ApiTrouble
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from reports.evidence import bundle
from tests import judging

TEXTS = Form(dict[str, str], keep=dict, give=dict)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    bundle.prepare(tmp_path, wanted=True)
    return tmp_path


def ask(answers: Answers, run: Path | None, answer: Callable[[], dict[str, str]], question: str = "GET /page") -> dict[str, str]:
    return answers.ask("OBS-01", question, answer, TEXTS, run)


def said(run: Path, **texts: str) -> Answers:
    """The answers that a run keeps in which the cluster said this."""
    assert ask(Answers(), run, lambda: texts) == texts
    return read_answers(run / bundle.NAME)


def fail() -> dict[str, str]:
    raise AssertionError("asked")


def test_an_answer_is_asked_for_once_and_given_again_in_its_order(run: Path) -> None:
    answers = Answers()
    first = ask(answers, run, lambda: {"b": "1", "a": "2\n"})
    assert ask(answers, run, fail) == first
    again = read_answers(run / bundle.NAME)
    assert (list(ask(again, None, fail).items()), again.gaps) == ([("b", "1"), ("a", "2\n")], {})


@pytest.mark.parametrize(
    "error", [ApiTrouble("Timeout", "no answer"), Inconclusive("Forbidden", "no right"), NotApplicable("None", "no page")]
)
def test_what_was_raised_is_raised_again(error: Inconclusive | NotApplicable, run: Path) -> None:
    def refuse() -> dict[str, str]:
        raise error

    with pytest.raises(type(error), match=error.message):
        ask(Answers(), run, refuse)
    ask(Answers(), run, dict)  # another process of the run asks later: the first answer stays
    with pytest.raises(type(error), match=error.message):
        ask(read_answers(run / bundle.NAME), None, fail)


def test_a_credential_is_not_kept_and_named_as_missing(run: Path) -> None:
    token = "Bearer " + "abcdefgh" * 4
    again = said(run, page=f"up 1\nAuthorization: {token}\nup 2\n")
    assert token.split()[1] not in "".join(path.read_text() for path in run.rglob("*.json"))
    assert ask(again, None, fail)["page"].startswith("up 1\n")
    assert again.gaps == {"OBS-01": "an answer that it rests on is not kept whole: GET /page"}


def test_an_answer_beyond_the_bound_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_ANSWER_BYTES", 200)
    with pytest.raises(NotApplicable, match=r"not kept whole: GET /page .it has 3.. bytes, and 200 are kept"):
        ask(said(run, page="x" * 300), None, fail)


def test_an_answer_that_is_not_there_is_not_asked_for_again(run: Path) -> None:
    with pytest.raises(NotApplicable, match="it is not there"):
        ask(read_answers(run / bundle.NAME), None, fail)


def test_a_question_of_any_form_is_the_name_of_one_file(run: Path) -> None:
    for question in ("../../out", "/etc", "a" * 500, "a" * 501):
        ask(Answers(), run, dict, question)
    kept = sorted((run / bundle.NAME / bundle.ANSWERS).iterdir())
    assert {json.loads(path.read_text())["question"] for path in kept} == {"../../out", "/etc", "a" * 500, "a" * 501}


@pytest.mark.parametrize("id_", judging.READ)
def test_a_requirement_that_reads_asks_a_cluster_only_by_what_keeps_the_answer(id_: str) -> None:
    test = judging.tests_by_id()[id_]
    assert not {"cluster", "once", "workspace", "documents"} & inspect.signature(test).parameters.keys()
    assert 'getfixturevalue("cluster")' not in inspect.getsource(test)
