import shutil
from pathlib import Path

import msgspec
import pytest

from fixtures.localcluster.install.build import BuildError, build, build_own, check_disk, main
from fixtures.localcluster.install.release import COMPONENTS, Release, cache_folder, release
from tests.simulator.localcluster.fakes import fake_component

GO = """#!/bin/sh
# a stand-in for Go: says its version, and builds a program that states the version it was told to
case "$1 $2" in
"env GOVERSION") echo {version};;
"env GOMODCACHE") echo {folder}/mod;;
"env GOCACHE") echo {folder}/build;;
build*)
  while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; [ "$1" = -ldflags ] && stamps=$2; shift; done
  echo "$1" >> {folder}/built
  case "$1" in
  *etcd*) states=v3.7.0;;
  *) states=$(echo "$stamps" | sed 's/.*gitVersion=\\([^ ]*\\).*/\\1/');;
  esac
  case "$1" in *{fails}) echo "go: downloading x"; echo "{fails}: no space left on device" >&2; exit 1;; esac
  printf '#!/bin/sh\\necho %s\\n' "$states" > "$out"; chmod +x "$out";;
esac
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose PATH has a stand-in for Go first, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'go'}:/usr/bin:/bin")
    monkeypatch.delenv("JOBS", raising=False)
    return tmp_path


def install_go(machine: Path, version: str = "go1.26.8", fails: str = "-nothing") -> None:
    (machine / "go").mkdir(exist_ok=True)
    (machine / "go/go").write_text(GO.format(version=version, folder=machine, fails=fails))
    (machine / "go/go").chmod(0o755)


def pinned_folder() -> tuple[Release, Path]:
    pinned = release("1.37")
    return pinned, cache_folder(pinned.version)


def test_a_program_of_the_project_is_built_anew_when_its_sources_or_modules_change(machine: Path) -> None:
    install_go(machine)
    pinned, _ = pinned_folder()
    modules, sources = machine / "modules", machine / "program"
    shutil.copytree(pinned.folder, modules)
    pinned = msgspec.structs.replace(pinned, folder=modules)
    sources.mkdir()
    (sources / "main.go").write_text("package main\n")
    first = build_own(pinned, sources)
    assert first.name.startswith("program-")
    (sources / "main_test.go").write_text("package main\n")
    assert build_own(pinned, sources) == first
    assert (machine / "built").read_text().splitlines() == ["."], "a test changes no program"
    (sources / "main.go").write_text("package main // changed\n")
    second = build_own(pinned, sources)
    (modules / "go.sum").write_text("changed\n")
    assert len({first, second, build_own(pinned, sources)}) == 3
    assert not list(first.parent.glob(".*"))


def test_a_program_that_does_not_compile_leaves_the_words_of_go_and_no_draft(machine: Path) -> None:
    install_go(machine, fails=".")
    pinned, folder = pinned_folder()
    (machine / "program").mkdir()
    with pytest.raises(BuildError, match=r"program: go build ended with exit status 1.*\n.*no space left"):
        build_own(pinned, machine / "program")
    assert not list(folder.iterdir())


def test_everything_is_built_into_the_cache_and_reported(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install_go(machine)
    assert main(["1.37"]) == 0
    folder = machine / "cache/gpu-conformance/kubernetes-1.37.2"
    assert sorted(path.name for path in folder.iterdir()) == sorted(COMPONENTS)
    reported = capsys.readouterr().out
    assert "[2/4] kube-apiserver v1.37.2 …" in reported
    assert reported.splitlines()[-1] == f"Kubernetes v1.37.2 is built: {folder}"
    assert main([]) == 0
    assert len((machine / "built").read_text().splitlines()) == 4, "a second run builds nothing"


def test_an_interrupted_build_goes_on_where_it_was(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install_go(machine, fails="kube-scheduler")
    assert main(["1.37"]) == 1
    error = capsys.readouterr().err
    assert "kube-scheduler: go build ended with exit status 1" in error
    assert "no space left on device" in error
    pinned, folder = pinned_folder()
    assert not list(folder.glob(".*")), "no draft is left"
    install_go(machine)
    build(pinned, folder, say=lambda _: None)
    built = (machine / "built").read_text().splitlines()
    assert built.count("k8s.io/kubernetes/cmd/kube-scheduler") == 2
    assert built.count("k8s.io/kubernetes/cmd/kube-apiserver") == 1


def test_a_binary_of_another_version_in_the_cache_is_built_anew(machine: Path) -> None:
    install_go(machine)
    pinned, folder = pinned_folder()
    for name in COMPONENTS:
        fake_component(folder / name, pinned.component_version(name))
    fake_component(folder / "kube-scheduler", "v1.36.1")
    build(pinned, folder, say=lambda _: None)
    assert (machine / "built").read_text() == "k8s.io/kubernetes/cmd/kube-scheduler\n"


def test_a_machine_without_go_gets_one_line(machine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine / "none"))
    assert main([]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "Go is missing: Kubernetes v1.37.2 needs Go 1.26.0 or later" in error
    assert "$GPU_CONFORMANCE_LOCAL_BIN" in error


def test_too_little_disk_is_reported_before_anything_is_built(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_go(machine)
    usage = shutil.disk_usage(machine)
    monkeypatch.setattr("fixtures.localcluster.install.build.shutil.disk_usage", lambda _: usage._replace(free=3_000_000_000))
    pinned, folder = pinned_folder()
    with pytest.raises(BuildError, match=r"needs 8\.7 GB under \S+, 3\.0 GB are free; make room, or set GOCACHE") as error:
        build(pinned, folder, say=lambda _: None)
    assert "\n" not in str(error.value)
    assert not (machine / "built").exists()


def test_what_the_caches_hold_already_is_not_asked_for_again(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_go(machine)
    usage = shutil.disk_usage(machine)
    monkeypatch.setattr("fixtures.localcluster.install.build.shutil.disk_usage", lambda _: usage._replace(free=3_000_000_000))
    (machine / "build").mkdir()
    with (machine / "build/object").open("wb") as file:
        file.truncate(7_000_000_000)  # sparse
    check_disk(str(machine / "go/go"), machine / "cache")


@pytest.mark.parametrize("arguments", [["1.20"], ["1.37", "1.35"]])
def test_wrong_arguments_are_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 4
    assert capsys.readouterr().err.count("\n") == 1
