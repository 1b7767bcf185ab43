"""The image's layout: digests, user and files are what a runtime expects, and the same input gives the same bytes."""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from deploy.distributions import LOCK, closure, locked
from deploy.image import build
from fixtures.kubernetes import oci
from fixtures.kubernetes.oci import Entry
from tests.deploy.fakes import Fake

pytestmark = pytest.mark.test_all

CONTAINERFILE = Path(build.__file__).with_name("Containerfile")
EPOCH = 1_700_000_000


def blobs(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def an_archive(*entries: Entry) -> bytes:
    layers = [oci.layer(entries, EPOCH), oci.layer([Entry(path="opt/x", mode=0o644, data=b"x")], EPOCH)]
    return oci.layout([build.image(EPOCH)], layers)


FILE = Entry(path="usr/bin/a", mode=0o755, data=b"a")


def test_every_digest_is_that_of_its_blob() -> None:
    held = blobs(an_archive(FILE))
    for name, data in held.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(data).hexdigest() == name.rpartition("/")[2]

    def described(descriptor: dict[str, Any]) -> bytes:
        data = held["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
        assert len(data) == descriptor["size"]
        return data

    (listed,) = json.loads(held["index.json"])["manifests"]
    manifest = json.loads(described(listed))
    config = json.loads(described(manifest["config"]))
    layers = [gzip.decompress(described(one)) for one in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(data).hexdigest() for data in layers]
    assert len(config["history"]) == len(layers)
    assert json.loads(held["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert oci.digest_of(an_archive(FILE)) == listed["digest"]


def configuration(archive: bytes) -> dict[str, Any]:
    held = blobs(archive)
    found = [json.loads(data) for data in held.values() if data.startswith(b'{"architecture"')]
    assert len(found) == 1
    config = found[0]["config"]
    assert isinstance(config, dict)
    return config


def test_the_image_runs_as_a_user_without_privileges() -> None:
    config = configuration(an_archive(FILE))
    assert (config["User"], config["Entrypoint"]) == ("65532:65532", ["/usr/bin/gpu-conformance"])
    assert "PYTHONDONTWRITEBYTECODE=1" in config["Env"]


def test_the_containerfile_makes_the_same_image() -> None:
    text = CONTAINERFILE.read_text()
    config = configuration(an_archive(FILE))
    final = text.rpartition("\nFROM ")[2]
    environment = re.search(r"^ENV ((?:.*\\\n)*.*)$", final, re.MULTILINE)
    assert environment is not None
    assert environment[1].replace("\\\n", " ").split() == config["Env"]
    assert f"\nUSER {config['User']}\n" in final
    assert f"\nENTRYPOINT {json.dumps(config['Entrypoint'])}\n" in final
    assert f"\nWORKDIR {config['WorkingDir']}\n" in final
    assert " ".join(build.PACKAGES) in final
    for name, module in build.SCRIPTS.items():
        assert f"printf '{repr(build.script(module))[1:-1]}' > /usr/bin/{name} " in text
        assert f" /usr/bin/{name} " in final


def test_docker_s_own_checks_find_nothing_in_the_containerfile_and_a_mistake_in_each_copy(tmp_path: Path) -> None:
    """What `docker build --check` asks. Neither a builder nor a registry is here."""
    linter = CONTAINERFILE.parents[2] / ".tools" / "bin" / "containerfile-lint"
    if not linter.is_file():
        pytest.skip("containerfile-lint is not here (make linters builds it)")
    text = CONTAINERFILE.read_text()
    assert not re.findall(r"^ADD ", text, re.MULTILINE)
    mistakes = {
        "": ("", ""),
        "WorkdirRelativePath": ("WORKDIR /tmp", "WORKDIR tmp"),
        "JSONArgsRecommended": ('["/usr/bin/gpu-conformance"]', "/usr/bin/gpu-conformance"),
        "SecretsUsedInArgOrEnv": ("ARG VERSION=0.0", "ARG VERSION=0.0 API_TOKEN"),
        "unknown instruction": ("USER ", "USR "),
        "FromAsCasing": ("AS build", "as build"),
    }
    for rule, (right, wrong) in mistakes.items():
        assert right in text
        (file := tmp_path / "Containerfile").write_text(text.replace(right, wrong, 1) if right else text)
        done = subprocess.run([linter, file], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, rule in done.stdout) == (int(bool(rule)), True), done.stdout + done.stderr


def test_a_layer_belongs_to_root_and_has_no_setuid_no_devices_and_every_folder(tmp_path: Path) -> None:
    program, pipe = tmp_path / "su", tmp_path / "pipe"
    program.write_text("x")
    program.chmod(0o6755)
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to("/etc/passwd")
    made = oci.layer(oci.entries(tmp_path, "opt/deep"), EPOCH)
    with tarfile.open(fileobj=io.BytesIO(made.data), mode="r:gz") as tar:
        held = {member.name: member for member in tar}
    assert list(held) == ["opt", "opt/deep", "opt/deep/link", "opt/deep/su"]
    assert {(member.uid, member.gid, member.mtime) for member in held.values()} == {(0, 0, EPOCH)}
    assert held["opt/deep/su"].mode == 0o755
    assert held["opt/deep/link"].linkname == "/etc/passwd"


def a_root(path: Path) -> Path:
    with tarfile.open(path, "w") as tar:
        for name in (
            "./",
            "./dev",
            "./dev/null",
            "./usr/bin/python3.11",
            "./usr/bin/nsenter",
            "./usr/bin/su",
            "./usr/bin/shuf",
            "./usr/bin/id",
            "./bin/dash",
            "./bin/ls",
            "./bin/lsblk",
            "./bin/tar",
            "./sbin/agetty",
            "./usr/share/man/man1/x",
            "./usr/share/doc/x/copyright",
            "./var/lib/apt/x",
        ):
            info = tarfile.TarInfo(name)
            if name.endswith("null"):
                info.type = tarfile.CHRTYPE
            elif name.endswith(("/", "dev")):
                info.type = tarfile.DIRTYPE
            info.mode = 0o4755
            tar.addfile(info)
        hard = tarfile.TarInfo("./usr/bin/python3")
        hard.type, hard.linkname, hard.mode = tarfile.LNKTYPE, "./usr/bin/python3.11", 0o4755
        shell = tarfile.TarInfo("./bin/sh")
        shell.type, shell.linkname = tarfile.SYMTYPE, "dash"
        tar.addfile(hard)
        tar.addfile(shell)
    return path


def test_the_root_keeps_what_runs_and_the_licences(tmp_path: Path) -> None:
    held = {entry.path: entry for entry in build.base_entries(a_root(tmp_path / "root.tar"))}
    programs = {path for path in held if path.startswith(("bin/", "usr/bin/"))}
    by_probes = {"bin/sh", "bin/dash", "bin/ls", "usr/bin/id"}  # what the scripts of their pods call
    assert programs == {"usr/bin/python3", "usr/bin/python3.11", "usr/bin/nsenter", *by_probes}
    assert "usr/share/doc/x/copyright" in held
    assert not [path for path in held if path.startswith(("usr/share/man", "var/lib/apt", "dev/", "sbin/"))]
    assert held["usr/bin/python3"].mode == 0o755
    assert held["tmp"].mode == 0o1777
    assert b"65532" in held["etc/passwd"].data


# -- what goes into it -----------------------------------------------------------------------------------------------------


def test_the_image_gets_what_a_run_needs_and_no_development_tool() -> None:
    held = closure()
    assert {"pytest", "kubernetes", "msgspec", "certifi", "pytest-xdist", "grpcio"} <= set(held)
    assert not {"ruff", "mypy", "hypothesis", "import-linter", "gpu-conformance"} & set(held)
    lines = locked(set(held), LOCK.read_text())
    assert {line.partition("==")[0] for line in lines.splitlines() if "==" in line} == set(held)
    assert lines.count("--hash=sha256:") >= len(held)


def needing(*needs: str) -> Fake:
    return Fake(*(("Requires-Dist", need) for need in needs))


def test_needs_are_followed_through_extras_and_circles() -> None:
    known = {
        "a": needing("B[fast]>=1", 'windows; sys_platform == "win32"'),
        "B": needing("a", 'c; extra == "fast"', 'd; extra == "slow"'),
        "c": needing(),
    }
    assert list(closure("a", known.__getitem__)) == ["b", "c"]
