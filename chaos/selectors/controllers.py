"""Selectors whose target is no node's: a controller's pod, or an object that an operator keeps."""

from __future__ import annotations

from chaos.components import pods_of
from chaos.sampling.signals.agents import POLICIES
from chaos.sampling.signals.view import dig, is_ready, items_of, name_of, namespace_of, node_of, number_of, text_of, uid_of
from chaos.selectors.base import Choice, Field, NotApplicable, PlanRefused
from chaos.target import Target
from conformance.platform_namespaces import operators_of
from fixtures.models import Json

OPERAND_KINDS = ("services", "configmaps")
"""Kinds of operands that can be missed for a moment without anything stopping."""


def choose_controller(field: Field) -> Choice:
    """The first ready pod of a controller, by name."""
    found = field.components.get(field.wanted.component)
    if found is None:
        raise NotApplicable("ComponentAbsent", field.components.absent.get(field.wanted.component, f"no {field.wanted.component}"))
    pods = sorted((pod for pod in pods_of(field.view, found) if is_ready(pod)), key=name_of)
    if not pods:
        raise PlanRefused("NoReadyPod", f"no pod of {found} is ready")
    workload = field.view.find(found.key, found.name, found.namespace)
    about = {
        "owner_kind": found.key,
        "owner": found.name,
        "owner_uid": found.uid,
        "replicas": number_of(dig(workload or {}, "spec").get("replicas")),
        "on": node_of(pods[0]),
    }
    target = Target(kind="pods", name=name_of(pods[0]), namespace=namespace_of(pods[0]), uid=uid_of(pods[0]), facts=about)
    return Choice(targets=(target,), eligible=len(pods))


def choose_operand(field: Field) -> Choice:
    """An object that a ClusterPolicy owns, where its operator runs: a Service or a ConfigMap, the first by kind and name.

    Whoever may write an object can name the policy's UID as its owner: the namespace says whose it is.
    """
    operators = operators_of(("ClusterPolicy", item) for item in field.view.select(POLICIES))
    homes = {operator.uid: operator.homes for operator in operators if operator.uid}
    if not homes:
        raise NotApplicable("NoClusterPolicy", "there is no ClusterPolicy whose operands could be deleted")
    kinds = (field.wanted.kind,) if field.wanted.kind else OPERAND_KINDS
    found = [
        (key, item)
        for key in kinds
        for item in sorted(field.view.select(key), key=name_of)
        if any(
            namespace_of(item) in homes.get(text_of(owner.get("uid")), {}) and owner.get("controller") is True
            for owner in items_of(dig(item, "metadata").get("ownerReferences"))
        )
    ]
    if not found:
        raise NotApplicable("NoOperand", f"no {' or '.join(kinds)} is owned by a ClusterPolicy")
    key, item = found[0]
    return Choice(targets=(_object_target(key, item),), eligible=len(found))


def _object_target(key: str, item: Json) -> Target:
    return Target(kind=key, name=name_of(item), namespace=namespace_of(item), uid=uid_of(item))
