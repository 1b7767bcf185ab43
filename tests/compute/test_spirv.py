"""The module that Level Zero gets: what is in it, that its C compiles to it, and what it computes on a processor by OpenCL."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from fixtures.compute.kernels import KERNELS, THREADS, TILE, Matrices, filled, spirv
from tests.development import spirv as build

_ENTRY_POINT, _EXECUTION_MODE, _LOCAL_SIZE = 15, 16, 17
_TRANSLATOR = build.PROGRAMS[1]


def test_the_module_has_three_kernels_of_so_many_threads() -> None:
    magic, version, _, bound, _, *words = struct.unpack(f"<{len(spirv()) // 4}I", spirv())
    assert (magic, version) == (0x07230203, 0x00010000)
    names: dict[int, str] = {}
    sizes: dict[int, list[int]] = {}
    at = 0
    while at < len(words):
        length, code = divmod(words[at], 1 << 16)
        if code == _ENTRY_POINT:
            names[words[at + 2]] = struct.pack(f"<{length - 3}I", *words[at + 3 : at + length]).split(b"\0")[0].decode()
        elif code == _EXECUTION_MODE and words[at + 2] == _LOCAL_SIZE:
            sizes[words[at + 1]] = words[at + 3 : at + 6]
        at += length
    assert (at, tuple(names.values())) == (len(words), KERNELS)
    assert sizes == {kernel: [THREADS, 1, 1] for kernel in names}
    assert bound > max(names)


@pytest.mark.skipif(bool(build.missing()), reason=f"{', '.join(build.missing())} is not on PATH")
def test_the_module_is_what_its_source_compiles_to() -> None:
    assert build.compiled() == spirv(), "the source has changed: make spirv"


@pytest.mark.skipif(shutil.which("spirv-val") is None, reason="spirv-val (spirv-tools) is not on PATH")
def test_the_module_is_valid(tmp_path: Path) -> None:
    (tmp_path / "kernels.spv").write_bytes(spirv())
    subprocess.run(["spirv-val", "--target-env", "spv1.0", str(tmp_path / "kernels.spv")], check=True, timeout=60)


class OpenCl:
    """The module on the first processor that OpenCL finds. Skips the test where none takes it."""

    def __init__(self, folder: Path) -> None:
        try:
            self.library = ctypes.CDLL("libOpenCL.so.1")
        except OSError:
            pytest.skip("libOpenCL.so.1 is not there (ocl-icd-libopencl1, pocl-opencl-icd)")
        for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer", "clCreateKernel", "clCreateProgramWithIL"):
            getattr(self.library, name).restype = c_void_p
        self.library.clCreateProgramWithBinary.restype = c_void_p
        platforms, count, self.device = (c_void_p * 16)(), c_uint(), c_void_p()
        self.library.clGetPlatformIDs(16, platforms, byref(count))
        found = [
            c_void_p(one)
            for one in platforms[: count.value]
            if not self.library.clGetDeviceIDs(c_void_p(one), c_uint64(2), 1, byref(self.device), None)
        ]
        if not found:
            pytest.skip("OpenCL finds no processor (pocl-opencl-icd)")
        self.library.clGetDeviceIDs(found[0], c_uint64(2), 1, byref(self.device), None)
        self.context = c_void_p(self.made("clCreateContext", None, 1, byref(self.device), None, None))
        self.queue = c_void_p(self.made("clCreateCommandQueue", self.context, self.device, c_uint64(0)))
        self.program = self._program(folder)
        self.call("clBuildProgram", self.program, 1, byref(self.device), b"", None, None)

    def _program(self, folder: Path) -> c_void_p:
        """The module as it is, or for a PoCL without SPIR-V as the LLVM bitcode that a translator makes of it."""
        stated = ctypes.create_string_buffer(256)
        self.library.clGetDeviceInfo(self.device, 0x105B, c_size_t(256), stated, None)  # CL_DEVICE_IL_VERSION
        if b"SPIR-V" in stated.value:
            return c_void_p(self.made("clCreateProgramWithIL", self.context, spirv(), c_size_t(len(spirv()))))
        if shutil.which(_TRANSLATOR) is None:
            pytest.skip(f"OpenCL takes no SPIR-V here, and {_TRANSLATOR} is not on PATH")
        (folder / "kernels.spv").write_bytes(spirv())
        subprocess.run([_TRANSLATOR, "-r", "kernels.spv", "-o", "kernels.bc"], cwd=folder, check=True, timeout=60)
        code = (folder / "kernels.bc").read_bytes()
        lengths, codes = (c_size_t * 1)(len(code)), (c_char_p * 1)(code)
        return c_void_p(self.made("clCreateProgramWithBinary", self.context, 1, byref(self.device), lengths, codes, None))

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, name)(*arguments)
        assert code == 0, (name, code)

    def made(self, name: str, *arguments: object) -> int:
        code = c_int()
        handle = int(getattr(self.library, name)(*arguments, byref(code)) or 0)
        assert code.value == 0, (name, code.value)
        return handle

    def run(self, kernel: str, grid: tuple[int, int], *arguments: bytes | ctypes._SimpleCData[int]) -> list[bytes]:
        """What is in the memory that a kernel gets, afterwards: bytes become memory."""
        handle = c_void_p(self.made("clCreateKernel", self.program, kernel.encode()))
        memory = []
        for position, argument in enumerate(arguments):
            value: ctypes._SimpleCData[Any]
            if isinstance(argument, bytes):
                value = c_void_p(self.made("clCreateBuffer", self.context, c_uint64(1 << 5), c_size_t(len(argument)), argument))
                memory.append((value, len(argument)))
            else:
                value = argument
            self.call("clSetKernelArg", handle, position, c_size_t(ctypes.sizeof(value)), byref(value))
        threads = ((c_size_t * 2)(grid[0] * THREADS, grid[1]), (c_size_t * 2)(THREADS, 1))
        self.call("clEnqueueNDRangeKernel", self.queue, handle, 2, None, *threads, 0, None, None)
        found = []
        for buffer, size in memory:
            out = ctypes.create_string_buffer(size)
            self.call("clEnqueueReadBuffer", self.queue, buffer, 1, c_size_t(0), c_size_t(size), out, 0, None, None)
            found.append(out.raw)
        return found


@pytest.mark.test_all  # PoCL takes seconds to compile it
def test_the_module_computes_what_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    device = OpenCl(tmp_path)
    words = 70_001
    [pattern] = device.run("fill", (3, 1), bytes(4 * words + 400), c_uint64(words), c_uint(65_521), c_uint(99))
    assert pattern == filled(4 * words, 99) + bytes(400)
    altered = bytearray(pattern)
    for at in (777, 1_501, words - 1):
        altered[4 * at] ^= 1
    for other, expected in ((pattern, (0, 2**64 - 1)), (bytes(altered), (3, 777))):
        *_, found = device.run("differ", (3, 1), pattern, other, c_uint64(words), struct.pack("<QQ", 0, 2**64 - 1))
        assert struct.unpack("<QQ", found) == expected
    rows = 2 * TILE
    matrices = Matrices(rows)
    *_, product = device.run("multiply", (2, 2), matrices.left, matrices.right, b"\x01" * (4 * rows * rows), c_uint(rows))
    assert product == matrices.product
