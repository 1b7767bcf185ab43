"""axe-core, the accessibility checker, for tests that look at a page. npm brings it once, of one version and digest."""

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
ONCE = ("pack", "--ignore-scripts", "--fetch-retries=0", "--fetch-timeout=20000")
KEPT = Path(__file__).parents[2] / ".tools" / f"axe-core-{VERSION}.min.js"


class NoAxe(Exception):
    """axe-core cannot be had here. The message says why."""


def axe_script(folder: Path) -> str:
    """The checker's source; fetched below ``folder`` when this checkout has not kept it yet. Raises :class:`NoAxe`."""
    if KEPT.is_file():
        return KEPT.read_text(encoding="utf-8")
    npm = shutil.which("npm")
    if npm is None:
        raise NoAxe("npm is not on PATH, which brings axe-core")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run([npm, *ONCE, f"axe-core@{VERSION}"], cwd=folder, capture_output=True, check=True, timeout=60)
        [archive] = folder.glob("axe-core-*.tgz")
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        raise NoAxe(f"npm could not bring axe-core {VERSION}: {error}") from None
    if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != SHA512:
        raise AssertionError(f"axe-core {VERSION} is not the archive that this test knows")
    with tarfile.open(archive) as packed:
        member = packed.extractfile("package/axe.min.js")
        assert member
        source = member.read()
    KEPT.parent.mkdir(exist_ok=True)
    fresh = KEPT.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(source)
    fresh.replace(KEPT)
    return source.decode()
