"""YAML of others ends nothing: the outcome is plain values or one exception, in time linear in the text."""

from pathlib import Path

import pytest

from chaos.catalogue import KnownNames, load_experiment
from chaos.model.experiment import ExperimentError
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ClusterUnreachable
from fixtures.policy.policy_file import PolicyError, read_policy_file
from fixtures.policy.waivers import WaiverError, read_waiver_file
from fixtures.snapshot.files import SnapshotError, load_files
from fixtures.text import limits, yaml_text
from fixtures.text.yaml_text import NotYaml, RepeatedKey
from fixtures.verdict.subjects import Inconclusive
from tests.steps import steps
from tests.tables import table

TABLE = table(__file__)

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + level)}: &{chr(98 + level)} [" + ",".join(f"*{chr(97 + level)}" for _ in range(9)) + "]\n" for level in range(8)
)
HOSTILE = {
    "brackets": "[" * 50_000,
    "braces": "{" * 50_000,
    "braces with keys": "{a: " * 50_000,
    "brackets in a value": "a: b\nc: " + "[" * 50_000,
    "dashes": "- " * 50_000,
    "questions": "? " * 50_000,
    "a staircase": "".join(f"{' ' * depth}a:\n" for depth in range(1_000)),
    "whole and deep": "[" * 1_500 + "]" * 1_500,
    "laughs": LAUGHS,
    "merged laughs": LAUGHS.replace("[", "{<<: [", 1).replace("]", "]}", 1),
    "itself": "a: &a [*a]",
    "itself as a key": "&a {*a : 1}",
    "no truth": "!!bool x",
    "a long number": "a: " + "9" * 6_000,
    "a long number of base 16": "a: 0x" + "f" * 6_000,
    "a long number of base 60": "a: 1" + ":59" * 300_000,
    "a number that is too large": "a: 0x" + "f" * 300,
    "infinity": "a: -.inf",
    "no number": "a: .nan",
    "bytes": "a: !!binary QUJD",
    "a set": "a: !!set {b}",
    "pairs": "a: !!pairs [b: 1]",
    "a key that is nothing": "null: a",
    "an object of Python": "!!python/object/apply:os.system [id]",
    "a key that is a list": "? [a]\n: b",
    "control characters": "a: \x00",
    "two documents": "a: 1\n---\nb: 2",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_exception_and_soon(name: str) -> None:
    def load() -> None:
        with pytest.raises(NotYaml):
            yaml_text.load(HOSTILE[name])

    assert steps(load) < 20 * (limits.YAML_NODES + len(HOSTILE[name]))


def test_keys_are_text_and_numbers_have_64_bits_as_in_kubernetes() -> None:
    """So no reader sorts texts and numbers together, and no writer meets a number that it cannot write."""
    text = "{2: a, true: b, 1.5: c, d: 18446744073709551615, e: 18446744073709551616, f: -9223372036854775809}"
    assert repr(yaml_text.load(text)) == repr(
        {"2": "a", "true": "b", "1.5": "c", "d": 2**64 - 1, "e": float(2**64), "f": float(-(2**63) - 1)},
    )


def test_times_are_text_as_in_kubernetes() -> None:
    """An object has them as text, so that a saved file with and without quotes is the same cluster."""
    text = "{a: 2026-01-01T00:00:00Z, b: 2026-01-01, c: 2025-99-99, 2026-01-01: d}"
    assert yaml_text.load(text) == {"a": "2026-01-01T00:00:00Z", "b": "2026-01-01", "c": "2025-99-99", "2026-01-01": "d"}


@pytest.mark.parametrize("name", TABLE["twice"])
def test_a_key_that_stands_twice_in_a_file_of_the_user_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(TABLE["twice"][name])
    with pytest.raises(RepeatedKey, match=r"^line \d+: the key '(gate|areas|a|b|1)' stands twice in one mapping$"):
        yaml_text.read(path)
    yaml_text.load(TABLE["twice"][name])  # a cluster's own text is taken as Kubernetes takes it


def test_a_key_that_stands_twice_ends_a_policy_waivers_a_kubeconfig_and_an_experiment(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("required: [FENCE-01]\nrequired: [FENCE-02]\n")
    with pytest.raises(PolicyError, match=r"policy .*: line 2: the key 'required' stands twice"):
        read_policy_file(path)
    path.write_text("waivers: []\nwaivers: []\n")
    with pytest.raises(WaiverError, match="line 2: the key 'waivers' stands twice"):
        read_waiver_file(path, 0.0)
    with pytest.raises(ExperimentError, match="line 2: the key 'waivers' stands twice"):
        load_experiment(path, KnownNames())
    path.write_text("clusters: []\nusers: []\nclusters: []\n")
    with pytest.raises(ClusterUnreachable, match=r"a key stands twice in one mapping \(line 3\)"):
        Cluster.from_kubeconfig(path)


def test_merge_keys_and_the_same_key_in_several_mappings_are_no_repetition(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    base = "one: &one {a: 1, b: 2}\ntwo: &two {<<: *one, a: 3}\n"
    path.write_text(f"{base}three: {{<<: [*one, *two], a: 4}}\nfour: {{<<: *two, <<: *one}}\nfive: {{<<: *two, b: 5}}\n")
    loaded = yaml_text.read(path)
    assert [loaded[name] for name in ("two", "three", "five")] == [{"a": 3, "b": 2}, {"a": 4, "b": 2}, {"a": 3, "b": 5}]


def test_what_people_write_is_loaded() -> None:
    text = "base: &base {a: 1, b: [x, y]}\nother:\n  <<: *base\n  b: 2025-01-01\nagain: [*base, *base]\nempty:\n"
    loaded = yaml_text.load(text)
    assert loaded["other"]["a"] == 1
    assert loaded["again"] == [{"a": 1, "b": ["x", "y"]}] * 2
    assert loaded["empty"] is None
    assert yaml_text.load("") is None
    assert yaml_text.load("# nothing\n") is None
    assert yaml_text.load_all("a: 1\n---\nb: 2\n---\n") == [{"a": 1}, {"b": 2}, None]
    deep = "[" * limits.YAML_DEPTH + "]" * limits.YAML_DEPTH
    assert str(yaml_text.load(deep)) == deep
    with pytest.raises(NotYaml, match="levels"):
        yaml_text.load(f"[{deep}]")


def test_a_text_may_not_be_larger_than_its_reader_wants() -> None:
    assert yaml_text.load("a: bcd", most=6) == {"a": "bcd"}
    with pytest.raises(NotYaml, match="larger"):
        yaml_text.load("a: bcde", most=6)


def test_the_line_is_named_and_the_text_is_not(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("users:\n- token: s3cret\n" + "- [" * 200)
    with pytest.raises(ClusterUnreachable) as caught:
        Cluster.from_kubeconfig(path)
    assert "line 3" in str(caught.value)
    assert "s3cret" not in str(caught.value)


# -- snapshots -------------------------------------------------------------------------------------------

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
PODS = '{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"p","namespace":"d"}}]}'


def test_a_million_comments_before_a_snapshot_are_read_once(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("# a\n" * 1_000_000 + "$ kubectl get nodes -o yaml\n" + NODE)
    assert [node.name for node in load_files(file).nodes] == ["n"]
    file.write_text("#" * 4_000_000)
    with pytest.raises(SnapshotError):
        load_files(file)


@pytest.mark.parametrize(
    "text",
    [
        PODS[: len(PODS) // 2],
        PODS.replace('{"name":"p","namespace":"d"}', "true"),
        PODS.replace('{"metadata":{"name":"p","namespace":"d"}}', "1"),
        PODS.replace('"namespace"', '"labels":' + "[" * 2_000 + "]" * 2_000 + ',"namespace"'),
        PODS.replace('"namespace"', '"labels":[1],"namespace"'),
        "apiVersion: v1\nkind: Pod\nmetadata: [name]\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: " + "[" * 50_000,
    ],
    ids=["cut", "metadata true", "no objects", "deep", "odd labels", "metadata a list", "brackets"],
)
def test_a_file_that_cannot_be_read_is_no_shorter_list(tmp_path: Path, text: str) -> None:
    """Beside another file of the same kind it would leave a list that looks whole."""
    (tmp_path / "nodes.yaml").write_text(NODE)
    (tmp_path / "a-pods.json").write_text(PODS.replace('"p"', '"q"'))
    (tmp_path / "b-pods.json").write_text(text)
    snapshot = load_files(tmp_path)
    assert [node.name for node in snapshot.nodes] == ["n"]
    with pytest.raises(Inconclusive) as caught:
        _ = snapshot.pods
    assert caught.value.code == "Unreadable"


def test_a_file_that_names_no_kind_is_nobodys_loss(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(NODE)
    (tmp_path / "values.yaml").write_text("a: [")
    assert [node.name for node in load_files(tmp_path).nodes] == ["n"]
