"""What ``listing("…")`` and ``items("…")`` promise to a type checker is how the items of each kind are decoded."""

from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, get_overloads, get_type_hints

import pytest

from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Json
from fixtures.snapshot.state import Listing, Object, Snapshot


@pytest.mark.parametrize("method", [Snapshot.listing, Snapshot.items], ids=["listing", "items"])
def test_overloads_are_the_shapes_of_the_kinds(method: Callable[..., Any]) -> None:
    promised: dict[str, object] = {}
    others: list[object] = []
    for overload in get_overloads(method):
        hints = get_type_hints(overload)
        (item,) = get_args(hints["return"])
        if get_origin(hints["key"]) is Literal:
            promised |= dict.fromkeys(get_args(hints["key"]), item)
        else:
            others.append(item)
    assert promised == {key: kind.shape for key, kind in KINDS.items() if kind.shape != dict[str, Any]}
    assert others == [Object]
    assert set(get_args(Object)) == {*promised.values(), Json}


def test_objects_are_items_without_a_struct_of_their_own() -> None:
    queue = {"metadata": {"name": "a"}}
    snapshot = Snapshot([Listing(key="kueue.x-k8s.io/clusterqueues", items=[queue])], taken_at=0.0)
    assert snapshot.listing("kueue.x-k8s.io/clusterqueues").objects == snapshot.objects("kueue.x-k8s.io/clusterqueues") == [queue]
