"""Chart, kustomize and Sonobuoy plugin: one source, pods that meet the restricted standard, rights that are used and no others."""

import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from conformance.catalogue import load_catalogue
from conformance.cli.commands import command_parser
from conformance.delivery.destinations import Kind
from conformance.delivery.webhook import Form
from deploy import workload
from deploy.packages import OVERLAYS, files, schema
from deploy.rights import right, rights
from deploy.templates import resolved, template
from tests.deploy.chart import CHART, by_name, documents, helm, rendered
from tests.kubectl import needs_kubectl
from tests.tables import each_row

OVERLAY_FOLDER = CHART.parents[1] / "kustomize" / "overlays"
FULL = {
    "access": "full",
    "mode": "job",
    "options": ["--strict", "--only=FENCE, \"INV\" {{ .Values.x }} 'x'"],
    "policy": {"fence": {"taintKeys": ["<&>"]}},
    "results": {
        "configMap": "",
        "claim": "results",
        "keep": 3,
        "putUrlSecret": "store",
        "webhookSecret": "hook",
        "webhookFormat": "slack",
        "caConfigMap": "ca",
    },
    "publishHours": 26,
    "image": "registry.example/a: b@sha256:0",
    "tolerations": [{"key": "a", "operator": "Exists"}],
}
CASES = {**OVERLAYS, "everything": FULL}


def expected(chosen: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    values = workload.values(**chosen)
    trees = [*workload.beside(), *workload.grants(load_catalogue()), *workload.runs()]
    return by_name([document for tree in trees if (document := resolved(tree, values)) is not None])


@pytest.mark.parametrize("chosen", CASES.values(), ids=CASES)
def test_the_chart_installs_what_the_source_says(chosen: dict[str, Any]) -> None:
    assert by_name(rendered(workload.values(**chosen))) == expected(chosen)


@pytest.mark.skipif(helm() is None, reason="helm is not here (make helm builds it; HELM names it)")
@pytest.mark.parametrize("chosen", CASES.values(), ids=CASES)
def test_helm_renders_what_the_source_says(chosen: dict[str, Any], tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(chosen))
    names = ("--namespace", "gpu-conformance", "--kube-version", "1.36.0", "--values", str(values))
    command = [str(helm()), "template", "x", str(CHART), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert by_name(documents(done.stdout)) == expected(chosen)


@pytest.mark.skipif(helm() is None, reason="helm is not here (make helm builds it; HELM names it)")
def test_helm_finds_nothing_to_complain_about() -> None:
    done = subprocess.run([str(helm()), "lint", "--strict", str(CHART)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@needs_kubectl
@pytest.mark.parametrize("name", OVERLAYS)
def test_kustomize_builds_what_the_chart_installs(name: str) -> None:
    done = subprocess.run(["kubectl", "kustomize", str(OVERLAY_FOLDER / name)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    built = by_name(documents(done.stdout))
    assert built.pop(("Namespace", "gpu-conformance")) == workload.namespace()
    assert built == by_name(rendered(workload.values(**OVERLAYS[name])))


def test_nothing_lies_in_the_generated_folders_that_is_not_generated() -> None:
    deploy = CHART.parents[1]
    found = {path.relative_to(deploy).as_posix() for part in ("helm", "kustomize", "sonobuoy") for path in (deploy / part).rglob("*.*")}
    assert found == {name for name in files(load_catalogue()) if "/" in name}


def pods(chosen: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for document in expected(chosen).values():
        spec = document.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            found.append(spec["template"]["spec"])
    return found


@pytest.mark.parametrize("chosen", CASES.values(), ids=CASES)
def test_every_pod_runs_without_any_privilege(chosen: dict[str, Any]) -> None:
    held = pods(chosen)
    assert len(held) == (chosen.get("mode") != "none") + bool(chosen.get("publishHours"))
    for pod in held:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not any(pod.get(field) for field in ("hostNetwork", "hostPID", "hostIPC"))
        assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted == {volume["name"] for volume in pod["volumes"]}
            assert container["resources"]["limits"]["memory"]


def test_the_read_only_size_reads() -> None:
    held = expected(OVERLAYS["read-only"])
    verbs = {verb for (kind, _), one in held.items() if kind == "ClusterRole" for rule in one["rules"] for verb in rule["verbs"]}
    assert verbs <= {"get", "list", "watch"}
    assert held["Role", "gpu-conformance-results"]["rules"][1]["resourceNames"] == ["gpu-conformance-result"]


def test_a_right_is_given_only_where_it_is_used() -> None:
    plain, labels = expected(OVERLAYS["read-only"]), expected(OVERLAYS["read-only-labels"])
    assert ("ClusterRole", "gpu-conformance-publish") not in plain
    patching = [rule for rule in labels["ClusterRole", "gpu-conformance-publish"]["rules"] if "patch" in rule["verbs"]]
    assert [rule["resources"] for rule in patching] == [["nodes"], ["nodes/status"]]
    assert ("Role", "gpu-conformance-results") not in expected(FULL)  # it hands on to a volume and a store
    assert ("ClusterRole", "gpu-conformance-read-only") not in expected(FULL)


@pytest.mark.parametrize("text", ["", "pods", "list", "* pods", "escalate pods", "list "])
def test_what_is_no_right_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not 'VERB RESOURCE'"):
        right(text)


def test_nobody_may_read_secrets_or_exec() -> None:
    wanted = rights(load_catalogue().by_id.values())
    assert not [entry for entry in wanted if entry[1] in {"secrets", "pods/exec", "serviceaccounts/token", "nodes/proxy"}]


def test_every_binding_names_the_account_that_the_pods_have() -> None:
    for chosen in CASES.values():
        held = expected(chosen)
        account = held["ServiceAccount", "gpu-conformance"]["metadata"]
        for (kind, _), one in held.items():
            if kind in ("RoleBinding", "ClusterRoleBinding"):
                assert one["subjects"] == [{"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}]
                assert (one["roleRef"]["kind"], one["roleRef"]["name"]) in held
        assert {pod["serviceAccountName"] for pod in pods(chosen)} == {account["name"]}


def test_nobody_reaches_the_pod_and_it_reaches_what_it_needs() -> None:
    spec = expected({})["NetworkPolicy", "gpu-conformance"]["spec"]
    assert (spec["ingress"], spec["policyTypes"]) == ([], ["Ingress", "Egress"])
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == {53, 443, 6443}
    template_labels = expected({})["CronJob", "gpu-conformance"]["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= template_labels.items()


@pytest.mark.parametrize("chosen", CASES.values(), ids=CASES)
def test_the_job_understands_its_arguments(chosen: dict[str, Any]) -> None:
    for pod in pods(chosen):
        command, *rest = pod["containers"][0]["args"]
        arguments = command_parser(command).parse_args(rest)
        assert arguments.in_cluster is True


def test_the_job_reads_the_urls_where_their_secrets_are_mounted() -> None:
    (pod,) = pods({**FULL, "publishHours": 0})
    arguments = command_parser("job").parse_args(pod["containers"][0]["args"][1:])
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    mounted = {f"{mount['mountPath']}/url": secrets.get(mount["name"]) for mount in pod["containers"][0]["volumeMounts"]}
    (store,) = (one.place for one in arguments.to if one.kind is Kind.PUT_URL_FILE)
    (hook,) = arguments.webhook
    assert (mounted[store], mounted[str(hook.file)], hook.form) == ("store", "hook", Form.SLACK)


def test_the_pod_that_ends_verdicts_is_given_no_secret_and_no_file() -> None:
    _, sweep = pods(FULL)
    assert sweep["containers"][0]["args"] == ["publish", "--sweep", "--in-cluster"]
    assert sweep["volumes"] == [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}]
    assert [one["name"] for one in sweep["containers"][0]["env"]] == ["HOME"]


@each_row
def test_the_schema_of_the_values_refuses_what_the_chart_does_not_know(values: dict[str, Any], fits: bool) -> None:
    assert jsonschema.Draft7Validator(schema()).is_valid({**workload.DEFAULTS, **values}) is fits


def test_the_sonobuoy_plugin_writes_where_sonobuoy_looks() -> None:
    plugin = yaml.safe_load((CHART.parents[1] / "sonobuoy" / "gpu-conformance.yaml").read_text())
    assert plugin["sonobuoy-config"]["result-format"] == "junit"
    assert plugin["spec"]["args"] == ["job", "--in-cluster", "--to", "sonobuoy", "--", "--read-only"]
    assert {"name": "results", "mountPath": "/tmp/sonobuoy/results"} in plugin["spec"]["volumeMounts"]


def test_text_that_looks_like_an_action_never_reaches_a_template() -> None:
    with pytest.raises(ValueError, match="look like an action"):
        template({"a": "{{ .Values.x }}"})
