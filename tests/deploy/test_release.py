"""What is published: one package with all files, programs that work in an empty environment, and a plugin that krew takes."""

import base64
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.metadata import Metadata

from conformance.cli.commands import command_parser
from conformance.version import VERSION
from deploy import release
from tests.endtoend.runs import environment

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("chaos", "conformance", "fixtures", "reports")
PAGE = ROOT / "deploy" / "wheel" / "README.md"
SUITE = "gpu_conformance/suite/"
pytestmark = [pytest.mark.test_all, pytest.mark.skipif(not release.UV.is_file(), reason="uv is not here (make setup brings it)")]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as at the tag of this version. The wheel is made of the sdist."""
    folder = tmp_path_factory.mktemp("packages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SETUPTOOLS_SCM_PRETEND_VERSION", VERSION)
        assert release.main(["--into", str(folder), "--tag", f"v{VERSION}"]) == 0
    return folder


@pytest.fixture(scope="module")
def programs(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("empty") / "environment"
    (wheel,) = packages.glob("*.whl")
    with tarfile.open(packages / "kubectl-gpu_conformance.tar.gz") as tar:
        tar.extract("requirements.txt", folder.parent)
    uv = [str(release.UV), "--quiet"]
    for command in (
        [*uv, "venv", "--python", sys.executable, str(folder)],
        [*uv, "pip", "sync", "--python", str(folder), "--require-hashes", str(folder.parent / "requirements.txt")],
        [*uv, "pip", "install", "--python", str(folder), "--no-index", "--no-deps", str(wheel)],
    ):
        subprocess.run(command, check=True, timeout=600)
    return folder / "bin"


def outside() -> dict[str, str]:
    """Variables of which none leads to the checkout."""
    return {name: value for name, value in environment().items() if not name.startswith("PYTHON")}


def started(programs: Path, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(programs / "gpu-conformance"), *words]
    return subprocess.run(command, cwd=folder, env=outside(), capture_output=True, text=True, timeout=300, check=False)


def tracked(*folders: str) -> set[str]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "--", *folders], capture_output=True, text=True, check=True).stdout
    return set(listed.split())


def test_the_wheel_takes_one_name_and_has_every_file(packages: Path) -> None:
    (wheel,) = packages.glob("*.whl")
    assert wheel.name == f"gpu_conformance-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as held:
        names = set(held.namelist())
        version = held.read(f"{SUITE}conformance/version.py").decode()
    assert {name.partition("/")[0] for name in names} == {"gpu_conformance", f"gpu_conformance-{VERSION}.dist-info"}
    assert {name.removeprefix(SUITE) for name in names if name.startswith(SUITE)} == tracked(*FOLDERS)
    assert version == (ROOT / "conformance" / "version.py").read_text()


def test_the_wheels_own_record_has_every_file_with_its_digest(packages: Path) -> None:
    (wheel,) = packages.glob("*.whl")
    with zipfile.ZipFile(wheel) as held:
        listed = f"gpu_conformance-{VERSION}.dist-info/RECORD"
        rows = list(csv.reader(held.read(listed).decode().splitlines()))
        found = {name: base64.urlsafe_b64encode(hashlib.sha256(held.read(name)).digest()).decode().rstrip("=") for name in held.namelist()}
    assert {name: digest.removeprefix("sha256=") for name, digest, _ in rows} == {**found, listed: ""}


def test_an_index_takes_the_metadata_and_can_show_the_page(packages: Path) -> None:
    """PyPI reads it with this library. A relative link or picture would lead nowhere on its page."""
    (wheel,), (sdist,) = packages.glob("*.whl"), packages.glob("gpu_conformance-*.tar.gz")
    with zipfile.ZipFile(wheel) as held, tarfile.open(sdist) as tar:
        read = tar.extractfile(f"gpu_conformance-{VERSION}/PKG-INFO")
        assert read is not None
        texts = held.read(f"gpu_conformance-{VERSION}.dist-info/METADATA"), read.read()
        licences = [name for name in held.namelist() if "/licenses/" in name]
    found, packed = (Metadata.from_email(text, validate=True) for text in texts)
    assert (found.name, str(found.version)) == (packed.name, str(packed.version)) == ("gpu-conformance", VERSION)
    assert [name.partition("/licenses/")[2] for name in licences] == found.license_files
    assert (found.description, found.description_content_type) == (PAGE.read_text(), "text/markdown")
    assert not re.findall(r"\]\((?!https://)[^)]*\)", PAGE.read_text())


def test_the_suite_understands_the_commands_of_the_page() -> None:
    commands = re.findall(r"^gpu-conformance (.*?)(?: #.*)?$", PAGE.read_text(), re.MULTILINE)
    commands += re.findall(r"`gpu-conformance (.*?)`", PAGE.read_text())
    assert len(commands) == 5
    for name, *rest in map(str.split, commands):
        command_parser(name).parse_args(rest)


def test_the_first_commands_of_readme_work_in_an_empty_environment(programs: Path, tmp_path: Path) -> None:
    """They name a cluster, and here it is one that the wheel simulates. No variable leads to the checkout."""
    block = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    commands = [line.split() for line in block.splitlines() if "gpu-conformance" in line]
    assert [command[1] for command in commands] == ["doctor", "run"]
    config = tmp_path / "kubeconfig"
    serving = subprocess.Popen(
        [programs / "gpu-conformance", "simulate", "healthy", "--folder", tmp_path], cwd=tmp_path, env=outside(), stdout=subprocess.PIPE
    )
    try:
        assert serving.stdout is not None
        assert serving.stdout.readline()
        for command in commands:
            words = [str(config) if word == "~/.kube/config" else word for word in command[1:]]
            done = started(programs, words, tmp_path)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    finally:
        serving.terminate()
        serving.wait(30)
    assert "Requirements" in (tmp_path / "out" / "latest" / "report.html").read_text()


def test_its_workers_and_children_find_the_suite(programs: Path, tmp_path: Path) -> None:
    """Workers of pytest-xdist, the process that calls drivers' libraries, and the run of a job."""
    for words in (
        ["run", "--simulate", "healthy", "--read-only", "--only", "FENCE,REQ", "-n", "2"],
        ["compute", "--json"],
        ["job", "--help"],
    ):
        done = started(programs, words, tmp_path)
        assert "ModuleNotFoundError" not in done.stdout + done.stderr
        assert done.returncode in ((10,) if words[0] == "compute" else (0,)), done.stdout[-2000:] + done.stderr


def test_a_tag_of_another_version_builds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        release.main(["--into", str(tmp_path / "none"), "--tag", "v99.0.0"])
    assert "tag v99.0.0" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_files_without_git_build_too(tmp_path: Path) -> None:
    """A copy has no version; `git archive` writes that of its commit, as GitHub's archives and checkouts of actions have it."""
    copy = tmp_path / "copy"
    for name in sorted(tracked(*FOLDERS, "deploy/wheel", "pyproject.toml", "LICENSE", "README.md")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    described = (ROOT / ".git_archival.txt").read_text()
    for text, version in (("", "0.0"), (re.sub(r"describe-name: .*", f"describe-name: v{VERSION}", described), VERSION)):
        (copy / ".git_archival.txt").write_text(text)
        subprocess.run(
            [str(release.UV), "build", "--quiet", "--wheel", "--out-dir", str(tmp_path / "built"), str(copy)], check=True, timeout=600
        )
        assert (tmp_path / "built" / f"gpu_conformance-{version}-py3-none-any.whl").is_file()


def krew() -> Path | None:
    built = ROOT / ".tools" / "bin" / "krew"
    return built if built.is_file() else None


@pytest.mark.skipif(krew() is None or shutil.which("kubectl") is None, reason="krew or kubectl is not here (make linters builds krew)")
def test_krew_installs_the_plugin_and_kubectl_finds_it(packages: Path, programs: Path, tmp_path: Path) -> None:
    """Krew validates the manifest before it installs. The environment is that of the other tests: a first call needs an index."""
    manifest, archive = packages / "gpu-conformance.yaml", packages / "kubectl-gpu_conformance.tar.gz"
    (platform,) = yaml.safe_load(manifest.read_text())["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    variables = {**os.environ, "KREW_ROOT": str(tmp_path), "KREW_NO_UPGRADE_CHECK": "1", "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    installing = [str(krew()), "install", "--manifest", str(manifest), "--archive", str(archive)]
    done = subprocess.run(installing, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (store,) = (tmp_path / "store" / "gpu-conformance").iterdir()
    assert {path.name for path in store.iterdir()} >= {"LICENSE", "requirements.txt", "kubectl-gpu_conformance"}
    (store / "environment").symlink_to(programs.parent)
    done = subprocess.run(
        ["kubectl", "gpu-conformance", "--version"], env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (f"gpu-conformance {VERSION}\n", "")


@pytest.mark.parametrize(("right", "wrong", "code"), [("", "", 0), ("v0.1.0", "0.1.0", 255), ("'0", "'z", 255)])
def test_the_linter_of_krews_index_takes_the_manifest(right: str, wrong: str, code: int, tmp_path: Path) -> None:
    linter = ROOT / ".tools" / "bin" / "validate-krew-manifest"
    if not linter.is_file():
        pytest.skip("the linter of krew's index is not here (make linters builds it)")
    text = release.manifest("0.1.0", "https://example.com/suite", "0" * 64)
    assert right in text
    (file := tmp_path / "gpu-conformance.yaml").write_text(text.replace(right, wrong, 1) if right else text)
    done = subprocess.run([linter, "-manifest", file, "-skip-install"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("version", "says"),
    [("0.1.0", "v0.1.0"), ("0.1.dev1559+gd376c8f43", "v0.1.0-dev1559+gd376c8f43"), ("1.2.3rc1", "v1.2.3-rc1"), ("2.0", "v2.0.0")],
)
def test_krews_manifest_has_a_version_of_three_numbers(version: str, says: str) -> None:
    assert yaml.safe_load(release.manifest(version, "https://example.com/suite", "0" * 64))["spec"]["version"] == says


def test_the_plugin_says_which_python_it_needs(tmp_path: Path) -> None:
    program = Path(shutil.copy(release.PLUGIN, tmp_path))
    variables = {**os.environ, "GPU_CONFORMANCE_PYTHON": "false"}
    done = subprocess.run([program, "doctor"], env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "Python 3.11 or later with venv is needed" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [program.name]
