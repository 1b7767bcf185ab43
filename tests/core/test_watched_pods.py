"""Pods of a watch: what did not change is not decoded again."""

import pytest

from fixtures.cluster.trouble import ApiTrouble
from fixtures.probes.watched_pods import WatchedPods


def test_what_is_no_pod_is_trouble() -> None:
    with pytest.raises(ApiTrouble, match="pod: "):
        WatchedPods().among({"run/first": {"metadata": {"name": "first"}, "spec": "none"}}, ["run/first"])
