import yaml

from conformance.policy.model import Policy
from conformance.policy.policy_file import build_policy
from conformance.policy.policy_text import MAX_LINES, policy_text
from tests.tables import each_row


def test_defaults_have_no_changes_and_are_told_in_full() -> None:
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


def test_values_of_variables_are_never_told() -> None:
    text = policy_text(build_policy({"network": {"env": {"NGC_TOKEN": "hush-hush"}}}))
    assert "NGC_TOKEN" in text.changed
    assert "hush" not in text.changed + text.whole


def test_a_huge_policy_is_cut_and_says_so() -> None:
    text = policy_text(build_policy({"tenants": {"isolated": [f"team-{i}" for i in range(5_000)] + ["x" * 10_000]}}))
    lines = text.changed.splitlines()
    assert len(lines) == MAX_LINES + 1
    assert lines[-1].startswith("# 4")
    assert max(map(len, lines)) < 500
