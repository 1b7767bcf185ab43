"""Selectors of targets that belong to no node: a controller's pod, or an object that an operator owns."""

from __future__ import annotations

from chaos.ledger.undos.objects import OPERAND_KINDS
from chaos.model.plan import Target
from chaos.observe.components import pods_of
from chaos.observe.signals.agents import POLICIES
from chaos.observe.view import dig, is_ready, items_of, name_of, namespace_of, node_of, number_of, text_of, uid_of
from chaos.plan.selectors.base import Choice, NotApplicable, PlanningView, PlanRefused
from fixtures.kubernetes.models import Json
from fixtures.model.platform.namespaces import operators_of


def choose_controller(planning: PlanningView) -> Choice:
    """The first ready pod of a controller, by name."""
    found = planning.components.get(planning.wanted.component)
    if found is None:
        raise NotApplicable("ComponentAbsent", planning.components.absent.get(planning.wanted.component, f"no {planning.wanted.component}"))
    pods = sorted((pod for pod in pods_of(planning.view, found) if is_ready(pod)), key=name_of)
    if not pods:
        raise PlanRefused("NoReadyPod", f"no pod of {found} is ready")
    workload = planning.view.find(found.key, found.name, found.namespace)
    about = {
        "owner_kind": found.key,
        "owner": found.name,
        "owner_uid": found.uid,
        "replicas": number_of(dig(workload or {}, "spec").get("replicas")),
        "on": node_of(pods[0]),
    }
    target = Target(kind="pods", name=name_of(pods[0]), namespace=namespace_of(pods[0]), uid=uid_of(pods[0]), facts=about)
    return Choice(targets=(target,), eligible=len(pods))


def choose_operand(planning: PlanningView) -> Choice:
    """An object that a ClusterPolicy owns, where its operator runs: a Service or a ConfigMap, the first by kind and name.

    Whoever may write an object can name the policy's UID as its owner: the namespace says whose it is.
    """
    operators = operators_of(("ClusterPolicy", item) for item in planning.view.select(POLICIES))
    homes = {operator.uid: operator.homes for operator in operators if operator.uid}
    if not homes:
        raise NotApplicable("NoClusterPolicy", "there is no ClusterPolicy whose operands could be deleted")
    kinds = (planning.wanted.kind,) if planning.wanted.kind else OPERAND_KINDS
    found = [
        (key, item)
        for key in kinds
        for item in sorted(planning.view.select(key), key=name_of)
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
