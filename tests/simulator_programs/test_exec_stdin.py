"""Standard input of commands: who reads it, and how it comes."""

from __future__ import annotations

import asyncio

import pytest

from fixtures.simulator.nodes.filters import reads_stdin
from fixtures.simulator.nodes.terminal import Terminal
from fixtures.simulator.stdin import UNREAD_LIMIT, Stdin, StdinOverflow


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("cat", True),
        ("cat -", True),
        ("cat -n", True),
        ("cat /etc/hostname", False),
        ("cat /etc/hostname -", True),
        ("cat -- -x", False),
        ("grep -c x", True),
        ("grep x file", False),
        ("grep -e x", True),
        ("grep -e x file", False),
        ("grep -A 3 x", True),
        ("sed -n s/a/b/p", True),
        ("sed -f script file", False),
        ("awk -F : {print}", True),
        ("head -n 5", True),
        ("head -5 file", False),
        ("tail -c 3 file", False),
        ("sort -k 2", True),
        ("wc -l", True),
        ("tr a b", True),
        ("tee file", True),
        ("xargs echo", True),
        ("echo", False),
        ("sleep 1", False),
        ("nvidia-smi -L", False),
    ],
)
def test_a_filter_that_no_file_is_named_to_reads_its_input(command: str, reads: bool) -> None:
    program, *args = command.split()
    assert reads_stdin(program, args) is reads


def test_input_comes_in_chunks_lines_and_whole() -> None:
    async def body() -> None:
        stdin = Stdin()
        stdin.feed(b"one\ntwo")
        assert await stdin.line() == b"one\n"
        late = asyncio.create_task(stdin.line())
        await asyncio.sleep(0)
        assert not late.done()
        stdin.feed(b"\nthree")
        assert (await late, await stdin.chunk()) == (b"two\n", b"three")
        stdin.feed(b"fo")
        stdin.feed(b"ur")
        stdin.close()
        stdin.feed(b"after the end")
        assert [await stdin.rest(), await stdin.line(), await stdin.chunk(), await stdin.rest()] == [b"four", b"", b"", b""]

    asyncio.run(asyncio.wait_for(body(), 10))


def test_input_that_waits_is_bounded() -> None:
    async def body() -> None:
        stdin = Stdin()
        stdin.feed(bytes(UNREAD_LIMIT))
        with pytest.raises(StdinOverflow):
            stdin.feed(b"x")
        assert len(await stdin.chunk()) == UNREAD_LIMIT
        stdin.feed(b"x")

    asyncio.run(asyncio.wait_for(body(), 10))


@pytest.mark.parametrize(
    ("keys", "lines", "shown"),
    [
        (b"ab\r\x04", [b"ab\n", b""], b"ab\r\n"),
        (b"a\x7f\x7fb\n\x04", [b"b\n", b""], b"a\b \bb\r\n"),
        (b"no\x03yes\r\x04", [b"yes\n", b""], b"no^C\r\nyes\r\n"),
        (b"a\x04b\r\x04", [b"ab\n", b""], b"ab\r\n"),
        (b"cut off", [b"cut off", b""], b"cut off"),
    ],
)
def test_a_terminal_edits_and_echoes_lines(keys: bytes, lines: list[bytes], shown: bytes) -> None:
    async def body() -> None:
        screen, typed = bytearray(), Stdin()
        source = Terminal(screen.extend).typed(typed)
        typed.feed(keys)
        typed.close()
        assert [await source.line() for _ in lines] == lines
        assert bytes(screen) == shown

    asyncio.run(asyncio.wait_for(body(), 10))
