from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from conformance.policy.model import Policy
from conformance.policy.policy_file import PolicyError, build_policy, digest, policy_schema, read_policy_file
from fixtures.text import yaml_text
from tests.tables import each_row


def complaint(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "policy.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PolicyError) as caught:
        read_policy_file(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"policy {path}: ")


def test_an_empty_file_is_the_default_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("")
    assert build_policy(read_policy_file(path)) == Policy()


@each_row
def test_what_is_wrong_is_named_with_its_path_and_the_nearest_key(tmp_path: Path, text: str, expected: str) -> None:
    assert complaint(tmp_path, text).startswith(expected)


def test_text_that_is_no_yaml_is_one_line(tmp_path: Path) -> None:
    assert complaint(tmp_path, "fence: [").startswith("not YAML")
    assert complaint(tmp_path, b"\xff\xfe\x00") == "not text"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="No such file"):
        read_policy_file(tmp_path / "none.yaml")


def test_later_documents_lie_over_earlier_ones_key_by_key() -> None:
    policy = build_policy({"fence": {"taintKeys": ["a"]}, "gang": {"required": True}}, {"fence": {"taintKeys": ["b"]}})
    assert policy.fence.taint_keys == ("b",)
    assert policy.gang.required is True
    assert digest(policy) != digest(Policy())


def test_the_schema_is_a_schema_and_accepts_what_scenarios_say() -> None:
    Draft202012Validator.check_schema(policy_schema())


@each_row
def test_the_schema_has_the_word_on_whatever_the_structs_refuse(tmp_path: Path, text: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    try:
        read_policy_file(path)
        accepted = True
    except PolicyError:
        accepted = False
    assert accepted == Draft202012Validator(policy_schema()).is_valid(yaml_text.load(text))


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "-1", "1.0e+300", "'5'", "0x" + "f" * 6_000])
@pytest.mark.parametrize("place", ["requests: {pendingMinutes: V}", "probes: {windowSeconds: V}", "network: {nodes: V}"])
def test_a_number_without_sense_is_refused_in_one_line(tmp_path: Path, place: str, value: str) -> None:
    """An age compared with it would never be too old, or the window in which nothing may happen would have no length."""
    path = tmp_path / "policy.yaml"
    path.write_text(place.replace("V", value))
    with pytest.raises(PolicyError) as caught:
        read_policy_file(path)
    assert len(str(caught.value).splitlines()) == 1
