"""Takes a role of ``deploy/`` from the suite's account on the local control plane."""

from fixtures.cluster.client import Cluster
from fixtures.localcluster.control_plane.account import shipped
from fixtures.localcluster.control_plane.control_plane import ControlPlane

_BINDINGS = "rbac.authorization.k8s.io/clusterrolebindings"


def unbind(plane: ControlPlane, role: str) -> None:
    """Take it again; a role that the account does not have is no trouble."""
    name = next(item["metadata"]["name"] for item in shipped(role) if item["kind"] == "ClusterRoleBinding")
    answer = Cluster.from_kubeconfig(plane.kubeconfig).delete(_BINDINGS, name)
    assert answer.ok or answer.status == 404, f"ClusterRoleBinding {name}: {answer.status} {answer.message}"
