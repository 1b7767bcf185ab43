from __future__ import annotations

import pytest

from conformance.catalogue import load_catalogue
from deploy.rights import right, rights


@pytest.mark.parametrize("text", ["", "pods", "list", "* pods", "escalate pods", "list "])
def test_what_is_no_right_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not 'VERB RESOURCE'"):
        right(text)


def test_nobody_may_read_secrets_or_exec() -> None:
    wanted = rights(load_catalogue().by_id.values())
    assert not [entry for entry in wanted if entry[1] in {"secrets", "pods/exec", "serviceaccounts/token", "nodes/proxy"}]
