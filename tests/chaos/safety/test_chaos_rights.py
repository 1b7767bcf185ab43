"""The deployed rights are those that acting and undoing take, and no wildcard."""

import inspect
from typing import Any

import msgspec
import pytest
import yaml

from chaos.activities import canaries, device_taints, gangs, ranks
from chaos.ledger.bounds import REGISTRY, WORKLOAD_KINDS
from chaos.model.experiment import Experiment
from chaos.model.plan import PlanFacts, Target
from chaos.safety.admission import KEEPING, ended_components, required_rights, writes
from deploy.chaos_rights import ACTS, FILE, documents, everything, undo_rights
from fixtures.cluster.access import Right
from fixtures.ownership.proof import VERBS as PROOF_VERBS
from tests.chaos.observe.made_up_cluster import CANARIES, installed, plan
from tests.chaos.shipped import EXPERIMENTS
from tests.tables import each_row


def granted() -> set[tuple[str, str, str, str]]:
    """(namespace, group, resource, verb) of the committed file."""
    found = set()
    for document in yaml.safe_load_all(FILE.read_text(encoding="utf-8")):
        namespace = document["metadata"].get("namespace", "")
        for rule in document.get("rules") or ():
            found |= {(namespace, group, name, verb) for group in rule["apiGroups"] for name in rule["resources"] for verb in rule["verbs"]}
    return found


def named(right: Right) -> str:
    """Its resource as a role names it."""
    return f"{right.resource}/{right.subresource}" if right.subresource else right.resource


@each_row
def test_a_right_has_a_group_a_resource_and_at_most_one_subresource(words: str, parts: tuple[str, ...] | None) -> None:
    if parts is None:
        with pytest.raises(ValueError, match="not 'VERB"):
            Right.parse(words)
    else:
        right = Right.parse(words)
        assert (right.group, right.resource, right.subresource) == parts


def test_it_grants_every_act_every_undo_and_the_keeping_of_ledger_and_lease() -> None:
    allowed = granted()
    for words in {*ACTS, *undo_rights(), *KEEPING}:
        right = Right.parse(words)
        assert {(space, right.group, named(right), right.verb) for space in ("", right.namespace)} & allowed, words


def test_what_is_read_by_name_may_be_listed_too() -> None:
    """An object is absent only where a list does not show it either."""
    allowed = granted()
    for namespace, group, name, verb in allowed:
        if verb == "get" and "/" not in name:
            assert {("", group, name, "list"), (namespace, group, name, "list")} & allowed, name


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_the_gate_asks_for_the_list_of_what_it_reads_by_name(experiment: Experiment) -> None:
    """Else the lack shows in the middle: whoever may not list cannot tell that an object is absent."""
    asked = {(right.namespace, right.key, right.verb) for right in required_rights(experiment, plan())}
    for namespace, key, verb in asked:
        if verb == "get" and key != "pods/log":
            assert {("", key, "list"), (namespace, key, "list")} & asked, key


@pytest.mark.parametrize("undo", sorted(set(REGISTRY) - {"workload.env", "breaker.closed"}))
def test_the_gate_asks_for_the_act_of_every_fault_and_for_nothing_that_is_not_granted(undo: str) -> None:
    """``workload.env`` and ``breaker.closed`` are armed on the simulated cluster only, where the account may do more."""
    found = installed()
    targets = [
        Target(
            kind=kind,
            namespace="gpu",
            name="x",
            uid="u",
            node="a",
            facts={"owner_kind": "apps/deployments", "owner": "x", "owner_uid": "u"},
        )
        for kind in ("pods", "nodes", "services")
    ]
    experiment = next(iter(EXPERIMENTS.values()))
    experiment = msgspec.structs.replace(experiment, extension=msgspec.structs.replace(experiment.extension, undo=(undo,)))
    rights = required_rights(experiment, plan(*targets, facts=PlanFacts(components={"device-plugin": found})))
    acts = [right for right in rights if right.verb in ("create", "patch", "delete") and right.namespace != "gpu-conformance-chaos"]
    assert acts, "nothing is asked for before this fault"
    allowed = granted()
    for right in acts:
        assert ("", right.group, named(right), right.verb) in allowed, str(right)


def test_what_an_experiment_sets_up_is_asked_for_before_and_granted() -> None:
    allowed, seen = granted(), set[str]()
    for experiment in EXPERIMENTS.values():
        for right in required_rights(experiment, plan()):
            if right.namespace == "gpu-conformance-chaos-run-canaries" or right.resource == "priorityclasses":
                seen.add(f"{experiment.id} {right.verb} {named(right)}")
                assert ("", right.group, named(right), right.verb) in allowed, f"{experiment.id}: {right}"
    assert {"N6 create deployments", "N6 create jobs", "N6 delete priorityclasses", "A1 create pods", "S3 create jobs"} <= seen


def test_every_experiment_asks_for_what_its_proof_takes() -> None:
    """Without it nothing that the run wrote would count on another machine."""
    for experiment in EXPERIMENTS.values():
        verbs = {right.verb for right in required_rights(experiment, plan(facts=PlanFacts())) if right.resource == "priorityclasses"}
        assert verbs == set(PROOF_VERBS), experiment.id


def test_every_function_that_creates_a_workload_is_known_to_the_gate() -> None:
    """An activity that calls ``own_namespace``, itself or by ``_create``, sets something up."""
    found = set()
    for module in (canaries, device_taints, gangs, ranks):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                found |= {name for words in ("own_namespace()", "_create(") if words in inspect.getsource(function)}
    assert found == set(WORKLOAD_KINDS)


def test_nothing_is_a_wildcard_a_secret_or_a_way_to_more_rights() -> None:
    for _, group, resource, verb in granted():
        assert "*" not in (group, resource, verb)
        assert not resource.startswith("secrets")
        assert group != "rbac.authorization.k8s.io"
        assert verb in ("get", "list", "watch", "create", "patch", "delete")


def test_leases_are_read_and_written_in_the_shared_namespace_alone() -> None:
    assert {namespace for namespace, group, *_ in granted() if group == "coordination.k8s.io"} == {"gpu-conformance-chaos"}


def test_each_document_is_bound_to_the_account_of_experiments() -> None:
    kinds: dict[str, Any] = {document["kind"]: document for document in documents()}
    admission = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert set(kinds) == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Namespace", "Role", "RoleBinding"} | admission
    assert kinds["RoleBinding"]["roleRef"]["kind"] == "Role"
    bindings = [document for document in documents() if document["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    assert {subject["name"] for document in bindings for subject in document["subjects"]} == {"gpu-conformance-chaos"}
    assert {document["roleRef"]["name"] for document in bindings} == {"gpu-conformance-chaos", "gpu-conformance-read-only"}
    assert [str(right) for right in everything()] == sorted(str(right) for right in everything())


def test_whatever_is_created_is_kept_in_namespaces_of_its_own() -> None:
    """Only nodes are made elsewhere without the policy's look; killing pods and wiping slices is what experiments are for."""
    policy = next(document for document in documents() if document["kind"] == "ValidatingAdmissionPolicy")
    bounded = {
        (group, resource, operation)
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }
    changes = {("CREATE", "create"), ("DELETE", "delete")}
    free = {
        (group, resource, verb)
        for namespace, group, resource, verb in granted()
        for operation, word in changes
        if not namespace and verb == word and (group, resource, operation) not in bounded
    }
    nodes = {("", "nodes", "create"), ("", "nodes", "delete"), ("resource.k8s.io", "resourceslices", "delete")}
    assert free == nodes | {("", "pods", "delete")}
    patched = {(group, resource) for namespace, group, resource, verb in granted() if not namespace and verb == "patch"}
    unbounded = {(group, resource) for group, resource in patched if (group, resource, "UPDATE") not in bounded}
    assert unbounded == {("", "nodes"), ("", "nodes/status")}


def test_a_scaled_pods_owner_is_written_and_not_the_pod() -> None:
    """No account may patch pods: asking for it would keep the operator experiment from ever running."""
    owner = {"owner_kind": "apps/deployments", "owner": "gpu-operator", "owner_uid": "uid-operator"}
    pod = Target(kind="pods", name="gpu-operator-1", namespace="gpu-operator", uid="uid-pod", facts=owner)
    scaling = next(one for one in EXPERIMENTS.values() if "workload.replicas" in one.extension.undo)
    required_rights = {(verb, target.kind, target.name, target.uid) for verb, target in writes(scaling, plan(pod))}
    assert required_rights == {
        ("delete", "pods", "gpu-operator-1", "uid-pod"),
        ("patch", "apps/deployments", "gpu-operator", "uid-operator"),
    }
    assert ("", "apps", "deployments", "patch") in granted()


def test_a_drain_asks_for_evictions() -> None:
    node = Target(kind="nodes", name="a", uid="u", node="a")
    draining = [one for one in EXPERIMENTS.values() if "drain" in one.functions]
    assert {one.id for one in draining} == {"N6", "N7"}
    for one in EXPERIMENTS.values():
        evicting = [str(right) for right in required_rights(one, plan(node)) if right.subresource == "eviction"]
        assert evicting == ([f"create pods/eviction in {CANARIES}"] if one in draining else []), one.id


def test_the_pods_of_every_component_that_is_ended_are_known_to_the_gate() -> None:
    """Who has to forget the fault, and beside them what an experiment ends by name, in whatever namespace that is."""
    named = {"A11": "toolkit", "A12": "driver", "A13": "mig-manager", "R3": "drainer"}
    found = {name: msgspec.structs.replace(installed(), component=name, namespace=name) for name in {"device-plugin", *named.values()}}
    planned = plan(facts=PlanFacts(components=found))
    for one in EXPERIMENTS.values():
        wanted = {name for name in ("device-plugin",) if "agent.restarted" in one.extension.undo} | {*filter(None, [named.get(one.id)])}
        assert {each.component for each in ended_components(one, planned)} == wanted, one.id
        assert {f"delete pods in {name}" for name in wanted} <= {str(right) for right in required_rights(one, planned)}, one.id


def test_the_account_taints_one_named_device_at_a_time() -> None:
    policy = next(document for document in documents() if document["kind"] == "ValidatingAdmissionPolicy")
    (rule,) = [one["expression"] for one in policy["spec"]["validations"] if "devicetaintrules" in one["expression"]]
    assert all(f"has(object.spec.deviceSelector{part})" in rule for part in ("", ".driver", ".pool", ".device"))
    assert "devicetaintrules" in policy["spec"]["variables"][0]["expression"]
