from fixtures.model.since import Since, said


def test_an_age_counts_from_the_latest_moment_and_is_never_negative() -> None:
    assert Since(latest=100.0).age(160.0) == 60.0
    assert Since(latest=200.0).age(160.0) == 0.0
    assert Since().age(160.0) is None


def test_text_of_the_cluster_is_short_and_harmless() -> None:
    assert said("a\x1b[2J\n b") == "a\\x1b[2J b"
    assert len(said("x" * 100_000)) == 161
