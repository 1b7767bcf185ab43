"""Licences, bill of materials and signatures: what may not be shipped is found, and an edited file does not verify."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.distributions import closure
from deploy.image import build
from deploy.licences import Licence, expression, licences, page, unknown
from deploy.sbom import Package, main, packages, problem
from fixtures.kubernetes import oci
from fixtures.kubernetes.oci import Entry
from tests.deploy.fakes import Fake
from tests.tables import each_row

DOCS = Path(__file__).parents[2] / "docs"


@each_row
def test_a_licence_is_read_from_what_a_distribution_says(fields: list[tuple[str, str]], expected: str) -> None:
    assert expression(Fake(*fields)) == expected


@each_row
def test_what_may_not_be_shipped_is_named(stated: str, permitted: bool) -> None:
    assert bool(unknown([Licence("a", "1", stated, "")])) is not permitted


def test_everything_that_a_run_needs_may_be_shipped() -> None:
    found = licences()
    assert unknown(found) == []
    assert {"kubernetes", "pytest"} <= {one.name for one in found}


def test_the_page_lists_what_is_installed_and_keeps_what_another_python_needs() -> None:
    text = page("| exceptiongroup | MIT | x |\n| gone-long-ago | MIT | x |\n| ruff | MIT | x |\n")
    assert "| kubernetes | Apache-2.0 |" in text
    assert "gone-long-ago" not in text
    assert "| ruff |" not in text  # installed here, and no run needs it


def an_image(path: Path) -> Path:
    reported = "Package: libc6\nVersion: 2.36-9+deb12u10\nArchitecture: amd64\nDescription: x\n Package: liar\n"
    layer = oci.layer([Entry(path=f"{build.STATUS}libc6", mode=0o644, data=reported.encode())], 0)
    path.write_bytes(oci.layout([build.image(0)], [layer]))
    return path


def test_the_bill_is_valid_and_names_every_part_with_its_needs(tmp_path: Path) -> None:
    assert packages(an_image(tmp_path / "image.tar")) == [Package("libc6", "2.36-9+deb12u10", "amd64")]
    into = tmp_path / "out" / "sbom.json"
    assert main(["--image", str(tmp_path / "image.tar"), "--into", str(into)]) == 0
    text = into.read_text()
    assert problem(text) == ""
    held = json.loads(text)
    components = {one["bom-ref"]: one for one in held["components"]}
    assert set(components) == {f"pypi:{name}" for name in closure()} | {"deb:libc6:amd64"}
    assert components["deb:libc6:amd64"]["purl"].startswith("pkg:deb/debian/libc6@2.36-9")
    assert components["pypi:pytest"]["licenses"] == [{"license": {"id": "MIT"}}]
    needs = {one["ref"]: one.get("dependsOn", []) for one in held["dependencies"]}
    assert "pypi:certifi" in needs["pypi:kubernetes"]
    assert len(needs["gpu-conformance"]) == len(components)


def documented(program: str) -> list[str]:
    """The blocks of commands that the page on security gives for one program."""
    section = (DOCS / "security.md").read_text().partition("## Sign and verify")[2]
    return [block for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL) if program in block]


def run_in(folder: Path, script: str) -> int:
    done = subprocess.run(["sh", "-ec", script], cwd=folder, capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    return done.returncode


@pytest.mark.skipif(shutil.which("minisign") is None, reason="minisign is not here")
def test_what_minisign_has_signed_verifies_until_it_is_edited(tmp_path: Path) -> None:
    (block,) = documented("minisign")
    make, sign, verify = block.splitlines()
    (tmp_path / "report.json").write_text('{"verdict": "failed"}')
    assert [run_in(tmp_path, command) for command in (make, sign, verify)] == [0, 0, 0]
    (tmp_path / "report.json").write_text('{"verdict": "passed"}')
    assert run_in(tmp_path, verify) != 0


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not here")
def test_the_documented_commands_sign_and_an_edited_file_does_not_verify(tmp_path: Path) -> None:
    make, sign, verify = documented("ssh-keygen")

    def run(script: str) -> int:
        return run_in(tmp_path, script)

    (tmp_path / "report.json").write_text('{"verdict": "failed"}')
    (tmp_path / "image.digest").write_text("sha256:0\n")
    assert run(make + sign) == 0
    assert run(verify) == 0
    for name, edited in (("report.json", '{"verdict": "passed"}'), ("image.digest", "sha256:1\n")):
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text(edited)
        assert run(verify) != 0, name
        (tmp_path / name).write_text(before)
    assert run(verify) == 0
    assert run(verify.replace("-I release@", "-I other@")) != 0
    assert run(verify.replace("-n gpu-conformance", "-n git")) != 0
