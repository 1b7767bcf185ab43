"""Manifests of the initial state: what is filled in, what is made of them, and that all of them are used."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fixtures.simulator.builder import hardware_of, installation
from fixtures.simulator.builder.objects import Stamp
from fixtures.simulator.builder.pods import Cluster
from fixtures.simulator.config.scenario import load_scenario


@pytest.fixture
def cluster() -> Cluster:
    scenario = load_scenario("healthy")
    return Cluster(scenario, Stamp(datetime(2026, 1, 9, tzinfo=UTC)), hardware_of(scenario))


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    monkeypatch.setattr(installation, "FOLDER", folder)
    installation.raw.cache_clear()
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def test_what_is_none_and_what_lacks_its_parameter_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    one = "{a: '${none}', b: null, l: [1, '${none}', {if: '${none}', c: 2}, {if: '${yes}', c: 3}], m: {if: '${none}', c: 4}}"
    written(tmp_path, monkeypatch, a=f"{one}\n---\nif: ${{none}}\nc: 5\n")
    assert installation.read(cluster, "a.yaml", none=None, yes=True) == [{"b": None, "l": [1, {"c": 3}]}]


@pytest.mark.parametrize("text", ["{a: '${unknown}'}", "{a: '${image:unknown}'}", "{a: '${unknown:kueue}'}"])
def test_an_unknown_parameter_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster, text: str) -> None:
    written(tmp_path, monkeypatch, a=text)
    with pytest.raises(KeyError, match="unknown"):
        installation.read(cluster, "a.yaml")


def test_every_manifest_is_used_by_somebody() -> None:
    builder = Path(installation.__file__).parent
    sources = [*builder.rglob("*.py"), *installation.FOLDER.rglob("*.yaml")]
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    for file in installation.FOLDER.rglob("*.yaml"):
        assert any(file.name in text for path, text in texts.items() if path != file), f"nobody reads {file.name}"
