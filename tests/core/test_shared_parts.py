"""Pods of one page hold their equal parts once, and are otherwise what a plain decoder makes of them."""

from typing import Any

import msgspec
import msgspec.inspect
import pytest

from fixtures.kubernetes.models import Json, Pod
from fixtures.snapshot.shared_parts import WirePod, share
from fixtures.text.json_text import NotJson
from tests.tables import each_row


def _pod(name: str, **more: Any) -> Json:
    token = f"kube-api-access-{name}"
    sources = [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "kube-root-ca.crt"}}]
    container = {
        "name": "main",
        "image": "registry.test/app:1",
        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": 2}},
        "env": [{"name": "A", "value": "\u00e9"}],
        "volumeMounts": [{"name": token, "mountPath": "/token"}, {"name": "data", "mountPath": "/data"}],
    }
    spec = {
        "nodeName": "gpu-0",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [container],
        "initContainers": [{"name": "first", "securityContext": {"privileged": True}}],
        "volumes": [{"name": token, "projected": {"sources": sources}}, {"name": "data", "emptyDir": {}}],
    }
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-15T09:40:24Z"}]
    statuses = [{"name": "main", "ready": True, "restartCount": 1, "state": {"running": {"startedAt": "2026-11-15T09:40:20Z"}}}]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}
    return {"metadata": {"name": name, "namespace": "team", "labels": {"app": "x"}}, "spec": {**spec, **more}, "status": status}


def _shared(pods: list[Json]) -> list[Pod]:
    found: list[Pod] = msgspec.json.decode(msgspec.json.encode(pods), type=list[WirePod], strict=False)
    share(found)
    return found


def _content(pods: list[Pod]) -> object:
    """What workers get of pods."""
    return msgspec.to_builtins(msgspec.json.decode(msgspec.json.encode(pods), type=list[Pod]))


@each_row
def test_a_pod_is_what_a_plain_decoder_makes_of_it(more: Json) -> None:
    pods: list[Json] = [_pod("a"), _pod("b", **more), {"metadata": {"name": "bare", "namespace": "team"}}]
    plain = msgspec.json.decode(msgspec.json.encode(pods), type=list[Pod], strict=False)
    assert _content(_shared(pods)) == _content(plain)
    assert all(isinstance(pod, Pod) for pod in _shared(pods))


def test_equal_parts_are_held_once_and_others_are_not_mixed_up() -> None:
    first, second, third = _shared([_pod("a"), _pod("b"), _pod("c", tolerations=[{"operator": "Exists"}])])
    assert first.spec.tolerations is second.spec.tolerations
    assert first.spec.containers[0].resources is second.spec.containers[0].resources
    assert first.spec.volumes is not None
    assert second.spec.volumes is not None
    # the volume of the token has another name in each pod, and the same sources
    assert first.spec.volumes[0]["projected"] is second.spec.volumes[0]["projected"]
    assert [volume["name"] for volume in second.spec.volumes] == ["kube-api-access-b", "data"]
    assert [str(one) for one in third.spec.tolerations or ()] == ["*:*"]


def test_values_of_free_shape_are_text_until_their_depth_was_checked() -> None:
    """A page of pods is decoded as it came: what its decoder makes a value of must end by its type."""
    assert "AnyType" not in str(msgspec.inspect.type_info(WirePod))
    assert "AnyType" in str(msgspec.inspect.type_info(Pod))


@each_row
def test_a_part_of_the_wrong_type_is_refused_as_a_plain_decoder_does(more: Json) -> None:
    body = msgspec.json.encode([_pod("a", **more)])
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=list[Pod], strict=False)
    with pytest.raises((NotJson, msgspec.ValidationError)):
        share(msgspec.json.decode(body, type=list[WirePod], strict=False))
