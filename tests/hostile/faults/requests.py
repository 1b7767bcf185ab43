"""What a request to an API server asks, told from its method and path."""

from collections.abc import Mapping

import msgspec

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Asked(msgspec.Struct, frozen=True, order=True):
    """A verb as RBAC names it (or ``version``, ``discovery``) and the plural of the resource; its subresource after a slash."""

    verb: str
    resource: str = ""


def asked(method: str, path: str, query: Mapping[str, str]) -> Asked:
    """Read a request line: ``GET /api/v1/namespaces/x/pods/y/log`` is ``get`` of ``pods/log``."""
    parts = [part for part in path.split("/") if part]
    if parts in (["version"], ["healthz"], ["readyz"], ["livez"]):
        return Asked("version")
    root = 2 if parts[:1] == ["api"] else 3
    if parts[:1] not in (["api"], ["apis"]) or len(parts) <= root:
        return Asked("discovery")
    rest = parts[root:]
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource = "/".join([rest[0], *rest[2:]])
    if method != "GET":
        return Asked(_VERBS.get(method, method.lower()), resource)
    if query.get("watch") in ("true", "1"):
        return Asked("watch", resource)
    return Asked("get" if len(rest) > 1 else "list", resource)
