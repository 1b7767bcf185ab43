"""The ServiceAccount and the ClusterRoles that the suite needs, from the catalogue (:mod:`deploy.packages` writes the files).

``gpu-conformance-read-only`` is what requirements of access ``read`` need, ``gpu-conformance-full`` what all of them need:
no right that no requirement names, and nothing of a wildcard.
"""

from collections import defaultdict
from collections.abc import Iterable

from conformance.requirement import Requirement
from deploy.templates import Json
from fixtures.cluster.kinds import KINDS

NAMESPACE = "gpu-conformance"
ACCOUNT = "gpu-conformance"
READ_ONLY = "gpu-conformance-read-only"
FULL = "gpu-conformance-full"
RESULTS = "gpu-conformance-result"
RELEASE, CONFIG_MAP = ".Release.Namespace", ".Values.results.configMap"
"""Where a template finds what a chart's owner chose for :data:`NAMESPACE` and :data:`RESULTS`."""

Right = tuple[str, str, str]
"""API group, resource with its subresource as in RBAC (``pods/log``) or a path that is none (``/metrics``), verb."""

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")


def right(text: str) -> Right:
    """The right that a catalogue's ``"VERB RESOURCE-KEY"`` or ``"get /PATH"`` names. Raises ValueError when it names none."""
    verb, _, key = text.partition(" ")
    if verb not in _VERBS or not key:
        raise ValueError(f"{text!r}: not 'VERB RESOURCE', with a verb of {', '.join(_VERBS)}")
    if key.startswith("/"):
        return "", key, verb
    first, _, rest = key.partition("/")
    group, resource = ("", key) if (key not in KINDS and first in KINDS) or not rest else (first, rest)
    return group, resource, verb


def read_rights(requirement: Requirement) -> set[Right]:
    """What reading a requirement's kinds needs: each is listed once."""
    return {right(f"list {key}") for key in requirement.lists}


def rights(requirements: Iterable[Requirement]) -> set[Right]:
    """Every right that the requirements need."""
    found: set[Right] = set()
    for requirement in requirements:
        found |= read_rights(requirement)
        found |= {right(text) for text in requirement.writes}
    return found


def cluster_role(name: str, wanted: Iterable[Right]) -> Json:
    """A ClusterRole: one rule for each group and set of verbs, and one for all paths outside resources, which are only read."""
    verbs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for group, resource, verb in wanted:
        verbs[group, resource].add(verb)
    rules: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    paths = sorted(resource for _, resource in verbs if resource.startswith("/"))
    for (group, resource), given in sorted(verbs.items()):
        if resource not in paths:
            rules[group, tuple(verb for verb in _VERBS if verb in given)].append(resource)
    of_resources = [{"apiGroups": [group], "resources": names, "verbs": list(given)} for (group, given), names in sorted(rules.items())]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": of_resources + ([{"nonResourceURLs": paths, "verbs": ["get"]}] if paths else []),
    }


def binding(role: str, *, account: str = ACCOUNT, name: str = "") -> Json:
    """The ClusterRoleBinding that gives a ServiceAccount of the suite a role. ``name`` is its own, the role's unless told."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name or role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }


def account() -> list[Json]:
    """The namespace and the ServiceAccount. The suite's own pod meets the restricted Pod Security Standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
    ]


def admission_policy(name: str, spec: Json) -> list[Json]:
    """A ValidatingAdmissionPolicy and the binding that enforces it."""
    version, bound = "admissionregistration.k8s.io/v1", {"policyName": name, "validationActions": ["Deny"]}
    return [
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": bound},
    ]
