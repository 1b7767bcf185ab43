from pathlib import Path

import pytest

from fixtures.localcluster.install.release import COMPONENTS, KUBEBUILDER, LOCAL_BIN, BinariesMissing, find
from tests.simulator.localcluster.fakes import fake_set


def everywhere(tmp_path: Path) -> dict[str, str]:
    """An environment in which every place has a whole set."""
    fake_set(tmp_path / "cache/gpu-conformance/kubernetes-1.37.2")
    return {
        LOCAL_BIN: str(fake_set(tmp_path / "named")),
        KUBEBUILDER: str(fake_set(tmp_path / "assets")),
        "PATH": str(fake_set(tmp_path / "path")),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def test_places_are_tried_in_order(tmp_path: Path) -> None:
    environment = everywhere(tmp_path)
    option = fake_set(tmp_path / "option")
    found = find("1.37", option, environment=environment)
    assert found.paths["kube-apiserver"] == option / "kube-apiserver"
    assert found.source == f"--local-bin {option}"
    for place, variable in (("named", LOCAL_BIN), ("assets", KUBEBUILDER), ("path", "PATH")):
        found = find("1.37", environment=environment)
        assert {path.parent for path in found.paths.values()} == {tmp_path / place}
        assert set(found.paths) == set(COMPONENTS)
        del environment[variable]
    found = find("1.37", environment=environment)
    assert found.source == f"cache {tmp_path}/cache/gpu-conformance/kubernetes-1.37.2"
    assert (found.version, found.minor) == ("v1.37.2", "1.37")


def test_a_named_folder_that_lacks_something_is_an_error_and_nothing_else_is_tried(tmp_path: Path) -> None:
    environment = everywhere(tmp_path)
    (tmp_path / "named/kube-scheduler").unlink()
    with pytest.raises(BinariesMissing, match=rf"^\${LOCAL_BIN} {tmp_path}/named lacks kube-scheduler$"):
        find("1.37", environment=environment)
    with pytest.raises(BinariesMissing, match=r"^--local-bin \S+/none lacks kube-apiserver, kube-controller-manager, kube-scheduler$"):
        find("1.37", tmp_path / "none", environment=environment)


def test_envtest_assets_without_a_scheduler_are_passed_over(tmp_path: Path) -> None:
    """Assets of envtest have etcd, kube-apiserver and kubectl only."""
    environment = everywhere(tmp_path)
    del environment[LOCAL_BIN]
    for name in ("kube-scheduler", "kube-controller-manager"):
        (tmp_path / "assets" / name).unlink()
    assert find("1.37", environment=environment).source == "PATH"


def test_another_minor_on_path_is_passed_over_and_in_a_named_folder_refused(tmp_path: Path) -> None:
    environment = everywhere(tmp_path)
    fake_set(tmp_path / "path", "v1.33.1")
    fake_set(tmp_path / "named", "v1.33.1")
    with pytest.raises(BinariesMissing, match=r"has Kubernetes v1\.33\.1, not 1\.37$"):
        find("1.37", environment=environment)
    assert find(environment=environment).version == "v1.33.1", "a named folder is taken as it is when no minor was asked for"
    del environment[LOCAL_BIN], environment[KUBEBUILDER]
    assert find(environment=environment).source.startswith("cache ")


def test_a_program_that_does_not_run_is_named(tmp_path: Path) -> None:
    folder = fake_set(tmp_path / "named")
    (folder / "kube-scheduler").write_bytes(b"\x7fELF of another machine")
    with pytest.raises(BinariesMissing, match=r"kube-scheduler cannot be run on this machine$"):
        find(bin_dir=folder, environment={"XDG_CACHE_HOME": str(tmp_path)})


def test_a_machine_with_nothing_gets_one_line_that_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(BinariesMissing) as error:
        find(environment={"XDG_CACHE_HOME": str(tmp_path)})
    text = str(error.value)
    assert "\n" not in text
    for hint in ("make local", "--local-bin", f"${LOCAL_BIN}", "PATH lacks", "kube-scheduler", "1.37"):
        assert hint in text
