"""Signals of the ComputeDomain whose daemon the experiment takes away."""

from __future__ import annotations

from chaos.model.conditions import JsonValue
from chaos.model.plan_facts import InstalledComponent, PlanFacts
from chaos.observe.components import pods_of
from chaos.observe.compute_domains import COMPONENT, domain_of
from chaos.observe.sample import NoData, Reading
from chaos.observe.view import View, dig, items_of, node_of, text_of, uid_of
from fixtures.kubernetes.models import Json
from fixtures.model.platform.components import DAEMON_SETS


def state(reading: Reading) -> JsonValue:
    """``status.status`` of the domain: Ready or NotReady."""
    return text_of(dig(_domain(reading), "status").get("status"))


def members(reading: Reading) -> JsonValue:
    """``{node: status}`` of the domain's members."""
    return {text_of(item.get("name")): text_of(item.get("status")) for item in _members(reading)}


def strays(reading: Reading) -> JsonValue:
    """Members without a daemon: no pod of the domain's DaemonSet is on that node with that address; sorted."""
    pods = {(node_of(pod), text_of(dig(pod, "status").get("podIP"))) for pod in pods_of(View.at(reading), _daemons(reading))}
    found = ((text_of(item.get("name")), text_of(item.get("ipAddress"))) for item in _members(reading))
    return sorted(name for name, address in found if (name, address) not in pods)


def _members(reading: Reading) -> list[Json]:
    return items_of(dig(_domain(reading), "status").get("nodes"))


def _daemons(reading: Reading) -> InstalledComponent:
    found = PlanFacts.of(reading.plan).components.get(COMPONENT)
    if found is None:
        raise NoData(f"{COMPONENT} was not found when the experiment was planned")
    return found


def _domain(reading: Reading) -> Json:
    found, view = _daemons(reading), View.at(reading)
    item = view.find(DAEMON_SETS, found.name, found.namespace)
    domain = domain_of(view, item) if item is not None and uid_of(item) == found.uid else None
    if domain is None:
        raise NoData(f"{found} is gone or belongs to no ComputeDomain")
    return domain


SIGNALS = {"domain.state": state, "domain.members": members, "domain.strays": strays}
