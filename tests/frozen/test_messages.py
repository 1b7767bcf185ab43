from tests.frozen.messages import kept_messages, messages


def test_each_cause_is_worded_as_its_file_has_it() -> None:
    """After a change of words: ``make messages``, and read the diff."""
    today = messages()
    assert today == {area: kept_messages(area) for area in today}
