"""README ("Rights"): the commands that let an account list custom kinds do what they say, on real Kubernetes."""

import os
import subprocess

import pytest

from fixtures.cluster.client import Cluster
from fixtures.localcluster.local_cluster import LocalCluster
from tests import readme
from tests.kubectl import needs_kubectl

pytestmark = pytest.mark.test_all

NAME = "gpu-conformance-custom-kinds"


@needs_kubectl
@pytest.mark.xdist_group("healthy")
def test_the_commands_of_the_readme_give_the_right_to_list_custom_kinds(healthy: LocalCluster) -> None:
    mine = f"{NAME}-of-the-readme"
    environment = {**os.environ, "KUBECONFIG": str(healthy.admin_kubeconfig)}
    cluster = Cluster.from_kubeconfig(healthy.admin_kubeconfig)
    try:
        done = subprocess.run(
            ["sh", "-euc", readme.GRANTING.replace(NAME, mine)], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        definitions = cluster.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions").json()["items"]
        custom = {item["spec"]["names"]["plural"] for item in definitions if item["spec"]["scope"] == "Namespaced"}
        rules = cluster.request("GET", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{mine}").json()["rules"]
        assert custom
        assert {resource for rule in rules for resource in rule["resources"]} == custom
        assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
        binding = cluster.request("GET", f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{mine}").json()
        assert [(one["kind"], one["namespace"], one["name"]) for one in binding["subjects"]] == [
            ("ServiceAccount", "gpu-conformance", "gpu-conformance")
        ]
    finally:
        for kind in ("clusterroles", "clusterrolebindings"):
            cluster.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/{mine}", body={})
