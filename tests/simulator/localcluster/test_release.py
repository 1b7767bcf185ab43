import re
from pathlib import Path

import pytest

from fixtures.localcluster.install.build import flags
from fixtures.localcluster.install.release import (
    COMPONENTS,
    DEFAULT_MINOR,
    UnknownMinor,
    cache_folder,
    minor_of,
    minors,
    release,
    short_minor,
)


def test_the_newest_minor_and_two_before_are_pinned() -> None:
    assert minors() == ["1.37", "1.36", "1.35"]
    assert minors()[0] == DEFAULT_MINOR


@pytest.mark.parametrize("minor", ["1.36", "v1.36", "1.36.3", " 1.36 "])
def test_a_minor_is_named_in_several_ways(minor: str) -> None:
    assert release(minor).version == "v1.36.3"


@pytest.mark.parametrize("minor", ["", "1", "1.99", "latest", "../v1.36", "1.36\n1.35", "v1.36/../v1.35", "x" * 1000])
def test_an_unknown_minor_is_one_line_that_says_what_there_is(minor: str) -> None:
    with pytest.raises(UnknownMinor) as error:
        release(minor)
    assert "1.37, 1.36, 1.35" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("minor", ["1.37", "1.36", "1.35"])
def test_every_staging_module_has_the_release_of_its_kubernetes(minor: str) -> None:
    """k8s.io/kubernetes v1.N.P goes with its staging modules at v0.N.P, and with no other.

    Facts: docs/facts/local-control-plane.md#staging-modules.
    """
    pinned = release(minor)
    text = (pinned.folder / "go.mod").read_text()
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) == {"1.37": 33, "1.36": 33, "1.35": 31}[minor]
    assert {version for _, _, version in replaced} == {pinned.version.replace("v1.", "v0.")}
    assert all(module == target for module, target, _ in replaced)
    assert all(f"\t{pinned.package(name)}\n" in text.partition("tool (")[2].partition(")")[0] for name in COMPONENTS)
    assert (pinned.folder / "go.sum").is_file()


def test_the_build_stamps_the_version_that_clients_look_at() -> None:
    stamps = flags(release("1.35"))[-1]
    assert "-X k8s.io/component-base/version.gitVersion=v1.35.4 " in stamps
    assert "version.gitMajor=1 " in stamps
    assert "version.gitMinor=35 " in stamps


def test_minors_of_versions() -> None:
    assert minor_of("v1.36.3") == "1.36"
    assert minor_of("nothing") == ""
    assert short_minor("1.36.3") == "1.36"
    assert short_minor("1.36.3.4") == ""


def test_the_cache_is_where_xdg_says_when_it_is_an_absolute_path(tmp_path: Path) -> None:
    assert cache_folder("v1.36.3", {"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "gpu-conformance/kubernetes-1.36.3"
    assert cache_folder("v1.36.3", {"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache/gpu-conformance/kubernetes-1.36.3"
