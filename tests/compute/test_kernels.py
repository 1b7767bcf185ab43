"""The PTX text, run instruction by instruction on the host: it does what the mocked drivers do in C."""

import re
import struct
from collections.abc import Callable, Iterator

import pytest

from fixtures.compute.kernels import THREADS, Matrices, filled, ptx

MASK = {"u32": 2**32 - 1, "b32": 2**32 - 1, "u64": 2**64 - 1, "b64": 2**64 - 1}
Number = float
Thread = dict[str, Number]


class Machine:
    """One block after the other, all threads of a block in step: each runs to the next barrier before another does."""

    def __init__(self, kernel: str, memory: bytearray, arguments: dict[str, int]) -> None:
        text = ptx().split(f".entry {kernel}(")[1].split("{", 1)[1].split("\n}\n")[0]
        self.lines = [line.strip().rstrip(";") for line in text.splitlines() if line.strip() and not line.strip().startswith(".")]
        self.labels = {line[:-1]: at for at, line in enumerate(self.lines) if line.endswith(":")}
        self.global_memory, self.shared, self.arguments = memory, bytearray(8192), arguments

    def run(self, grid: tuple[int, int], threads: int = THREADS) -> None:
        for x in range(grid[0]):
            for y in range(grid[1]):
                block: list[Thread] = [
                    {"%tid.x": t, "%ctaid.x": x, "%ctaid.y": y, "%ntid.x": threads, "%nctaid.x": grid[0], "left": 0, "right": 4096}
                    for t in range(threads)
                ]
                going = [self.thread(one) for one in block]
                while going:
                    going = [one for one in going if next(one, None) is not None]

    def thread(self, registers: Thread) -> Iterator[bool]:
        at = 0
        while True:
            line = self.lines[at]
            at += 1
            if line.startswith("@"):
                predicate, line = line[1:].split(" ", 1)
                if not registers[predicate]:
                    continue
            name, _, rest = line.partition(" ")
            if line.endswith(":") or name.startswith("cvta"):
                continue
            if name == "ret":
                return
            if name == "bra":
                at = self.labels[rest]
            elif name == "bar.sync":
                yield True
            else:
                self.step(name.split("."), re.findall(r"\{[^}]*\}|[^,\s]+", rest), registers)

    def step(self, name: list[str], words: list[str], registers: Thread) -> None:
        def value(word: str) -> Number:
            if word.startswith("0f"):
                return float(struct.unpack(">f", bytes.fromhex(word[2:]))[0])
            return registers[word] if word in registers else int(word)

        if name[0] in ("ld", "st", "red"):
            self.access(name, words, registers, value)
            return
        operations: dict[str, Callable[..., Number]] = {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "and": lambda a, b: int(a) & int(b),
            "shl": lambda a, b: int(a) << int(b),
            "shr": lambda a, b: int(a) >> int(b),
            "mul": lambda a, b: a * b,
            "rem": lambda a, b: a % b,
            "mov": lambda a: a,
            "cvt": lambda a: a,
            "mad": lambda a, b, c: a * b + c,
            "fma": lambda a, b, c: a * b + c,
            "setp": lambda a, b: {"ge": a >= b, "ne": a != b, "lt": a < b}[name[1]],
        }
        found = operations[name[0]](*map(value, words[1:]))
        kind = "u64" if "wide" in name else "f32" if name[0] == "setp" else name[-1] if name[0] != "cvt" else name[1]
        registers[words[0]] = int(found) & MASK[kind] if kind in MASK else found

    def access(self, name: list[str], words: list[str], registers: Thread, value: Callable[[str], Number]) -> None:
        place = next(word for word in words if word.startswith("["))
        if name[1] == "param":
            registers[words[0]] = self.arguments[place[1:-1]]
            return
        base, _, offset = place[1:-1].partition("+")
        address, memory = int(value(base)) + int(offset or 0), self.shared if name[1] == "shared" else self.global_memory
        form = {"f32": "f", "u32": "I", "u64": "Q"}[name[-1]]
        size = struct.calcsize(form)
        parts = [part.strip() for part in (words[0] if name[0] == "ld" else words[1]).strip("{}").split(",")]
        for number, part in enumerate(parts):
            old = struct.unpack_from(form, memory, address + number * size)[0]
            if name[0] == "ld":
                registers[part] = old
            else:
                new = value(part)
                struct.pack_into(form, memory, address + number * size, {"add": old + new, "min": min(old, new)}.get(name[2], new))


def test_fill_writes_the_pattern() -> None:
    memory, words = bytearray(4 * 5_000), 4_900
    Machine("fill", memory, {"p": 0, "n": words, "period": 65_521, "seed": 99}).run((3, 1), 64)
    assert memory == filled(4 * words, 99) + bytes(400)
    Machine("fill", memory, {"p": 0, "n": words, "period": 7, "seed": 99}).run((3, 1), 64)
    assert memory[:28] == filled(28, 99) == memory[28:56]


@pytest.mark.parametrize("altered", [[], [4 * 777], [4 * 777, 4 * 1_501]])
def test_differ_counts_and_finds_the_first(altered: list[int]) -> None:
    memory = bytearray(filled(8_000, 1) * 2 + bytes(8) + b"\xff" * 8)
    for at in altered:
        memory[8_000 + at] ^= 1
    Machine("differ", memory, {"a": 0, "b": 8_000, "n": 2_000, "found": 16_000}).run((2, 1), 64)
    assert struct.unpack_from("QQ", memory, 16_000) == (len(altered), min(altered) // 4 if altered else 2**64 - 1)


@pytest.mark.test_all  # 128 rows take half a minute; the other file asks its arithmetic of the mocked drivers
def test_multiply_gives_the_product() -> None:
    rows = 128
    matrices, size = Matrices(rows), 4 * rows * rows
    memory = bytearray(matrices.left + matrices.right + bytes(size))
    Machine("multiply", memory, {"at": 0, "b": size, "c": 2 * size, "n": rows}).run((rows // 128, rows // 128))
    assert memory[2 * size :] == matrices.product
