"""Conditions that a user gives beside an experiment's own: a PromQL query, a web page or a command, asked at a steady pace.

They come from the command line or the policy, never from a cluster. ``[not] KIND [ca-file=FILE] [token-file=FILE] WHAT``:

``http URL``: holds when the page answers 200 to 299. No redirect is followed: a token goes to nobody else.
``promql URL QUERY``: holds when Prometheus returns a series, as an alerting rule fires; a number holds unless it is 0.
``command PROGRAM [ARGUMENT…]``: holds for exit code 0 and not for 1, as in ``test`` and ``grep``. No shell reads it.

Whatever else is answered is not known (docs/facts/telemetry.md#prometheus-api).
"""

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from chaos.observe.view import NoData, Reading, Signal
from fixtures.cluster.web_page import PageTrouble, get_page
from fixtures.text import json_text
from fixtures.text.json_text import NotJson
from fixtures.text.sentences import plain

SECONDS = 5.0
"""How long one answer may take."""
MAX_BYTES = 1 << 20
"""Of an answer of Prometheus, which has to name one series only."""
PERIOD, PERIOD_SIMULATED = 5.0, 0.5
"""Seconds from one question to the next."""
_KINDS = ("http", "promql", "command")
_FILES = ("ca-file", "token-file")


class ConditionTextError(ValueError):
    """The text is no condition. The message says what was expected; it quotes no secret."""


class UserCondition(msgspec.Struct, frozen=True, kw_only=True):
    """One condition. ``url`` and ``query`` are those of a page or of Prometheus, ``argv`` those of a command."""

    kind: str
    negated: bool = False
    url: str = ""
    query: str = ""
    argv: tuple[str, ...] = ()
    ca_file: str = ""
    token_file: str = ""

    def __str__(self) -> str:
        """In words, for reports: without the query of an address and without arguments, which may hold secrets."""
        said = "not " if self.negated else ""
        if self.kind == "command":
            return f"{said}command {Path(self.argv[0]).name}"
        parts = urlsplit(self.url)
        return f"{said}{self.kind} {parts.scheme}://{parts.netloc}{parts.path}" + f" {self.query}" * bool(self.query)


def parse_user_condition(text: str) -> UserCondition:
    """Read a condition. Raises :class:`ConditionTextError`."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConditionTextError(f"quotes that do not close ({error})") from None
    negated = words[:1] == ["not"]
    kind, *rest = words[negated:] or [""]
    if kind not in _KINDS:
        raise ConditionTextError(f"expected [not] {' or '.join(_KINDS)} at its beginning, not {kind[:40]!r}")
    files: dict[str, str] = {}
    while rest and (pair := rest[0].partition("="))[1] and pair[0] in _FILES and kind != "command":
        files[pair[0]] = str(_file(pair[0], pair[2]))
        rest = rest[1:]
    if kind == "command":
        if not rest:
            raise ConditionTextError("command: expected a program")
        return UserCondition(kind=kind, negated=negated, argv=tuple(rest))
    if len(rest) < 1 + (kind == "promql") or (kind == "http" and len(rest) > 1):
        raise ConditionTextError(f"{kind}: expected an address{' and a query' if kind == 'promql' else ' and nothing behind it'}")
    _check_address(rest[0], has_token="token-file" in files)
    trusted, token = files.get("ca-file", ""), files.get("token-file", "")
    url, query = rest[0].rstrip("/"), " ".join(rest[1:])
    return UserCondition(kind=kind, negated=negated, url=url, query=query, ca_file=trusted, token_file=token)


def _file(name: str, value: str) -> Path:
    path = Path(value).expanduser().absolute()
    if not path.is_file():
        raise ConditionTextError(f"{name}={value}: no such file")
    return path


def _check_address(url: str, *, has_token: bool) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0 and url.isascii() and url.isprintable()
    except ValueError:
        good = False
    if not good:
        raise ConditionTextError("expected an address http://… or https://…")
    if "@" in parts.netloc:
        raise ConditionTextError("the address holds a user or a password, which reports would show: expected token-file=FILE")
    if has_token and parts.scheme != "https":
        raise ConditionTextError("a token goes over https only")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it holds, and by what: ``status 503``, ``3 series, the first is 7.2``, ``exit code 1``."""

    holds: bool
    value: str


def ask(condition: UserCondition) -> Answer:
    """Ask once, for at most :data:`SECONDS`. Raises :class:`NoData` when nothing tells whether it holds."""
    by_kind = {"command": _command, "http": _page, "promql": _promql}
    found = by_kind[condition.kind](condition)
    return msgspec.structs.replace(found, holds=found.holds is not condition.negated)


def _command(condition: UserCondition) -> Answer:
    """By the exit code alone: what a command prints may hold secrets, and goes nowhere."""
    try:
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(condition.argv, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    except (OSError, ValueError) as error:
        raise NoData(f"it could not be started: {getattr(error, 'strerror', None) or error}") from None
    try:
        code = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        raise NoData(f"it did not end within {SECONDS:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code not in (0, 1):
        raise NoData(f"exit code {code}; expected 0 or 1")
    return Answer(holds=code == 0, value=f"exit code {code}")


def _page(condition: UserCondition) -> Answer:
    status, _ = _get(condition, condition.url, 0)
    if 300 <= status < 400:
        raise NoData(f"status {status}: redirects are not followed")
    return Answer(holds=200 <= status < 300, value=f"status {status}")


class _Result(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[Any]


class _Reply(msgspec.Struct):
    status: str
    data: _Result | None = None
    error: str = ""
    warnings: list[str] = []


def _promql(condition: UserCondition) -> Answer:
    status, body = _get(condition, f"{condition.url}/api/v1/query?{urlencode({'query': condition.query})}", MAX_BYTES)
    try:
        reply: _Reply = json_text.decode(body, _Reply)
        if reply.status != "success" or reply.data is None:
            raise NoData(f"status {status}: {plain(reply.error)[:200] or 'no result'}")
        kind, result = reply.data.result_type, reply.data.result
        if kind == "scalar":
            return Answer(holds=float(result[1]) != 0, value=plain(str(result[1]))[:40])
        if kind != "vector":
            raise NoData(f"a {plain(kind)[:40]} is returned; expected an instant vector or a scalar")
        if not result and reply.warnings:
            raise NoData(f"no series, and a warning: {plain(reply.warnings[0])[:200]}")
        shown = f"{len(result)} series, the first is {plain(str(result[0]['value'][1]))[:40]}" if result else "no series"
        return Answer(holds=bool(result), value=shown)
    except (NotJson, msgspec.MsgspecError, ValueError, LookupError, TypeError) as error:
        if isinstance(error, NoData):
            raise
        raise NoData(f"status {status}: no answer of Prometheus") from None


def _get(condition: UserCondition, url: str, most: int) -> tuple[int, bytes]:
    """Status and body of one GET, ``most`` bytes of it. Raises :class:`NoData`."""
    try:
        return get_page(url, seconds=SECONDS, most=most, ca_file=condition.ca_file, token_file=condition.token_file)
    except PageTrouble as trouble:
        raise NoData(str(trouble)) from None


class Asking:
    """Asks each condition in a thread of its own, so that a slow one holds up neither the sampler nor another. A context manager."""

    def __init__(self, conditions: Sequence[UserCondition], period: float, ask: Callable[[UserCondition], Answer] = ask) -> None:
        self._period = period
        self._ask = ask
        self._ended = threading.Event()
        self._latest: dict[int, tuple[float, Answer | str]] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(number, one), name=f"chaos-condition-{number}", daemon=True)
            for number, one in enumerate(conditions)
        ]

    def __enter__(self) -> "Asking":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(2 * SECONDS)

    def latest(self, number: int) -> Answer:
        """The last answer. Raises :class:`NoData` where there is none, or an old one."""
        at, found = self._latest.get(number, (time.monotonic(), "it was not asked yet"))
        if isinstance(found, str):
            raise NoData(found)
        if (age := time.monotonic() - at) > self._period + 2 * SECONDS:
            raise NoData(f"no answer for {age:.0f} s")
        return found

    def _run(self, number: int, condition: UserCondition) -> None:
        while not self._ended.is_set():
            try:
                found: Answer | str = self._ask(condition)
            except Exception as error:  # not known, and said so: a thread that died would leave an old answer
                found = str(error) if isinstance(error, NoData) else type(error).__name__
            self._latest[number] = (time.monotonic(), found)
            self._ended.wait(self._period)


def signals_of_conditions(asking: Asking, stop: Mapping[str, str], others: Mapping[str, str]) -> Iterator[tuple[str, Signal]]:
    """Signals by name, in the order in which they are asked.

    One of ``stop`` is empty while it does not hold, and says its value then; one of ``others`` is true or false.
    """

    def stopping(number: int) -> Signal:
        return lambda _: found.value if (found := asking.latest(number)).holds else ""

    def truth(number: int) -> Signal:
        def holds(_: Reading) -> bool:
            return asking.latest(number).holds

        return holds

    for number, name in enumerate([*stop, *others]):
        yield name, stopping(number) if name in stop else truth(number)
