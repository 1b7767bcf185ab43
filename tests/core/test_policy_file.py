from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from fixtures.policy.model import Policy
from fixtures.policy.policy_file import MAX_LINES, PolicyError, build_policy, digest, policy_schema, policy_text, read_policy_file
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


# -- policy text


def test_defaults_have_no_changes_and_are_reported_in_full() -> None:
    text = policy_text(Policy())
    assert text.changed == ""
    assert build_policy(yaml.safe_load(text.whole)) == Policy()


@each_row
def test_what_was_changed_gives_the_same_policy_again(document: dict[str, object]) -> None:
    policy = build_policy(document)
    text = policy_text(policy)
    assert build_policy(yaml.safe_load(text.changed)) == policy
    assert build_policy(yaml.safe_load(text.whole)) == policy
    assert len(text.changed) < len(text.whole) / 4


def test_what_may_be_a_credential_is_never_reported() -> None:
    conditions = {key: ["command ./slo hush", "http https://shop.example/?token=hush"] for key in ("stopIf", "steadyIf", "detectIf")}
    text = policy_text(build_policy({"network": {"env": {"NGC_TOKEN": "hush-hush"}}, "chaos": conditions}))
    assert "NGC_TOKEN" in text.changed
    assert text.changed.count("not shown") == 7
    assert "hush" not in text.changed + text.whole


def test_a_huge_policy_is_cut_and_says_so() -> None:
    text = policy_text(build_policy({"tenants": {"isolated": [f"team-{i}" for i in range(5_000)] + ["x" * 10_000]}}))
    lines = text.changed.splitlines()
    assert len(lines) == MAX_LINES + 1
    assert lines[-1].startswith("# 4")
    assert max(map(len, lines)) < 500
