"""``make spirv``: compile ``fixtures/compute/kernels.spv``, the kernels that Level Zero takes, from their C."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from fixtures.compute import kernels

LLVM = "15"
"""Another version writes other words. Debian 12 has this one: ``clang-15`` and ``llvm-spirv-15``."""

PROGRAMS = (f"clang-{LLVM}", f"llvm-spirv-{LLVM}")
_FLAGS = ("-x", "cl", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header", "-target", "spir64", "-O2", "-emit-llvm", "-c")


def missing() -> list[str]:
    """Programs that are not on PATH."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def compiled() -> bytes:
    """The module as the compiler writes it. Raises :class:`subprocess.CalledProcessError` where the C has an error."""
    clang, translator = PROGRAMS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernels.cl").write_text(kernels.source(), encoding="ascii")
        subprocess.run([clang, *_FLAGS, "kernels.cl", "-o", "kernels.bc"], cwd=folder, check=True, timeout=120)
        subprocess.run([translator, "--spirv-max-version=1.0", "kernels.bc", "-o", "kernels.spv"], cwd=folder, check=True, timeout=120)
        return (folder / "kernels.spv").read_bytes()


if __name__ == "__main__":
    Path(kernels.__file__).with_name("kernels.spv").write_bytes(compiled())
