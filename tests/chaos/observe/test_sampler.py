"""The sampler: whatever a signal does, the others have their say, and silence is seen as silence."""

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chaos.model.conditions import parse_condition
from chaos.observe.sampler import MAX_VALUE, Sampler, await_sample, steady_since
from chaos.observe.view import NoData, Reading, Sample
from fixtures.cluster.trouble import ApiTrouble


def reading() -> Reading:
    return object.__new__(Reading)


@pytest.mark.parametrize(
    "bad",
    [NoData("not served"), ApiTrouble("Timeout", "no answer"), KeyError("hostile"), "x" * MAX_VALUE, object()],
)
def test_a_signal_without_data_is_an_error_of_the_sample_and_no_value(tmp_path: Path, bad: object) -> None:
    def signal(reading: Reading) -> Any:
        if isinstance(bad, Exception):
            raise bad
        return bad

    with Sampler(reading, {"bad": signal, "good": lambda _: {"n": 1}}, tmp_path / "samples.jsonl", 0.01) as sampler:
        assert sampler.wait(lambda samples: len(samples) >= 3, 30)
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert all(line["values"] == {"good": {"n": 1}} for line in lines)
    assert all(0 < len(line["errors"]["bad"]) <= 300 for line in lines)


def test_a_sampler_that_dies_says_so_and_wakes_who_waits(tmp_path: Path) -> None:
    def broken() -> Reading:
        raise OSError("disk")

    with Sampler(broken, {}, tmp_path / "samples.jsonl", 0.01) as sampler:
        assert not sampler.wait(lambda samples: False, 30)
        assert "disk" in sampler.failure


def test_a_wait_ends_at_its_deadline(tmp_path: Path) -> None:
    held = threading.Event()
    with Sampler(reading, {"slow": lambda _: held.wait(60)}, tmp_path / "samples.jsonl", 0.01) as sampler:
        assert not sampler.wait(lambda samples: bool(samples), sampler.now + 0.2)
        held.set()


def test_its_pace_is_the_period_or_what_the_slowest_of_its_last_samples_took(tmp_path: Path) -> None:
    sampler = Sampler(reading, {}, tmp_path / "samples.jsonl", 0.25)
    assert sampler.pace == 0.25
    for took, pace in ((0.1, 0.25), (4.0, 4.0), (0.1, 4.0), (0.1, 4.0), (0.1, 4.0), (0.1, 4.0), (0.1, 0.25)):
        sampler.samples.append(Sample(t=0.0, at="", took=took))
        assert sampler.pace == pace


def test_what_was_brought_about_is_waited_for_until_a_later_sample_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    assert not await_sample(path, 0.1)
    old, new = (json.dumps({"at": f"20{year}-01-01T00:00:00+00:00"}) + "\n" for year in (20, 90))
    path.write_text(old)
    assert not await_sample(path, 0.1)
    path.write_text(old + new[:-1])
    assert not await_sample(path, 0.1)
    path.write_text(old + new)
    assert await_sample(path, 30)
    path.write_text(old)
    assert await_sample(path, 30, datetime(2019, 1, 1, tzinfo=UTC))


def test_a_running_sampler_is_seen(tmp_path: Path) -> None:
    with Sampler(reading, {}, tmp_path / "samples.jsonl", 0.01):
        assert await_sample(tmp_path / "samples.jsonl", 30)


def test_the_steady_stretch_begins_after_the_last_sample_that_was_not() -> None:
    steady = parse_condition({"signal": "n", "equals": "baseline"})
    samples = [Sample(t=float(t), at="", took=0.0, values={} if n is None else {"n": n}) for t, n in enumerate([1, 2, 1, None, 1, 1])]
    assert steady_since(samples, steady, {"n": 1}) == 4.0
    assert steady_since(samples[:4], steady, {"n": 1}) is None
    assert steady_since([], steady, {"n": 1}) is None
