"""Roles of ``deploy/`` as sets of rights, and as objects with one right less."""

import copy
from collections.abc import Iterable

from deploy.rights import Right, cluster_role
from fixtures.kubernetes.models import Json
from fixtures.localcluster.control_plane.account import shipped


def rights_of_role(role: str) -> frozenset[Right]:
    """Every (group, resource, verb) that a shipped role gives."""
    return frozenset(
        (group, resource, verb)
        for rule in _role(shipped(role))["rules"]
        for group in rule.get("apiGroups", [""])
        for resource in rule.get("resources") or rule["nonResourceURLs"]
        for verb in rule["verbs"]
    )


def objects_of_role(role: str, rights: Iterable[Right]) -> list[Json]:
    """What ``deploy/`` ships for a role, with other rights in it."""
    objects = copy.deepcopy(shipped(role))
    found = _role(objects)
    found["rules"] = cluster_role(found["metadata"]["name"], rights)["rules"]
    return objects


def text_of(right: Right) -> str:
    """``list pods``, ``get pods/log``, ``create kueue.x-k8s.io/clusterqueues``."""
    group, resource, verb = right
    return f"{verb} {group}/{resource}" if group else f"{verb} {resource}"


def key_of(right: Right) -> str:
    """Resource key of the kind that a right is about."""
    group, resource, _ = right
    plural = resource.partition("/")[0]
    return f"{group}/{plural}" if group else plural


def _role(objects: Iterable[Json]) -> Json:
    return next(item for item in objects if item["kind"] == "ClusterRole")
