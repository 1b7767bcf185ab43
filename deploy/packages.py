"""The generated files of roles, kustomize, the Helm chart and the Sonobuoy plugin, by their paths below ``deploy/``."""

import json
from typing import Any

import yaml

from conformance.catalogue import Catalogue
from conformance.delivery.node_labels import MAX_HOURS
from conformance.delivery.webhook import Form
from conformance.version import VERSION
from deploy import account_policy, rights, workload
from deploy.rights import FULL, NAMESPACE, READ_ONLY
from deploy.templates import Json, resolved, template
from deploy.workload import CRON, NONE, ONCE, READS, WRITES

ROLES_HEADER = "# Written by `make docs` from conformance/*/catalogue.yaml; do not edit.\n"
HEADER = "# Written by `make docs` from deploy/workload.py; do not edit.\n"
CHART = "helm/gpu-conformance"

OVERLAYS: dict[str, Json] = {
    "read-only": {"access": READS, "mode": CRON},
    "full": {"access": WRITES, "mode": CRON},
    "read-only-once": {"access": READS, "mode": ONCE},
    "full-once": {"access": WRITES, "mode": ONCE},
    "read-only-labels": {"access": READS, "mode": CRON, "publishHours": 26},
    "sweep": {"access": READS, "mode": NONE, "publishHours": 26, "results": {**workload.DEFAULTS["results"], "configMap": ""}},
}
"""What kustomize builds: the values that differ from the defaults."""


def files(catalogue: Catalogue) -> dict[str, str]:
    """Text of each file by its path."""
    reads, everything = workload.read_only(catalogue), list(catalogue.by_id.values())
    full = [rights.cluster_role(FULL, rights.rights(everything)), rights.binding(FULL), *account_policy.documents()]
    found = {
        "serviceaccount.yaml": _dump(rights.account(), ROLES_HEADER),
        "clusterrole-read-only.yaml": _dump(
            [rights.cluster_role(READ_ONLY, rights.rights(reads)), rights.binding(READ_ONLY)], ROLES_HEADER
        ),
        "clusterrole-full.yaml": _dump(full, ROLES_HEADER),
        "kustomize/base/kustomization.yaml": _kustomization(["namespace.yaml", "beside.yaml"]),
        "kustomize/base/namespace.yaml": _dump([workload.namespace()]),
        "kustomize/base/beside.yaml": _dump(_plain(workload.beside(), {})),
        "sonobuoy/gpu-conformance.yaml": _dump([resolved(workload.sonobuoy(), workload.values())]),
        f"{CHART}/Chart.yaml": _dump([_chart()]),
        f"{CHART}/values.yaml": _values(),
        f"{CHART}/values.schema.json": json.dumps(schema(), indent=2) + "\n",
        f"{CHART}/templates/beside.yaml": HEADER + template(*workload.beside()),
        f"{CHART}/templates/rights.yaml": HEADER + template(*workload.grants(catalogue)),
        f"{CHART}/templates/runs.yaml": HEADER + template(*workload.runs()),
    }
    for name, chosen in OVERLAYS.items():
        folder = f"kustomize/overlays/{name}"
        found[f"{folder}/kustomization.yaml"] = _kustomization(["../../base", "rights.yaml", "runs.yaml"])
        found[f"{folder}/rights.yaml"] = _dump(_plain(workload.grants(catalogue), chosen))
        found[f"{folder}/runs.yaml"] = _dump(_plain(workload.runs(), chosen))
    return found


def schema() -> Json:
    """What the chart's values may be; a value that it does not know is refused."""
    kinds: dict[type, str] = {str: "string", int: "integer", dict: "object", list: "array"}
    properties: Json = {
        name: {"type": kinds[type(value)], "description": workload.DESCRIPTIONS[name]} for name, value in workload.DEFAULTS.items()
    }
    properties["access"]["enum"] = [READS, WRITES]
    properties["mode"]["enum"] = [CRON, ONCE, NONE]
    properties["image"]["minLength"] = 1
    properties["deadlineSeconds"]["minimum"] = 60
    properties["publishHours"] |= {"minimum": 0, "maximum": MAX_HOURS}
    properties["options"]["items"] = {"type": "string"}
    results = {name: {"type": kinds[type(value)]} for name, value in workload.DEFAULTS["results"].items()}
    results["webhookFormat"]["enum"] = list(Form)
    webhook, claim = ({"properties": {name: {"minLength": 1}}, "required": [name]} for name in ("webhookSecret", "claim"))
    properties["results"] |= {"properties": results, "additionalProperties": False, "if": webhook, "then": claim}
    properties["global"] = {"type": "object"}  # Helm hands it to every chart
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": properties,
        "required": ["image", "access", "mode"],
        "additionalProperties": False,
    }


def _plain(trees: list[Any], chosen: Json) -> list[Json]:
    values = workload.values(**chosen)
    return [document for tree in trees if (document := resolved(tree, values)) is not None]


def _chart() -> Json:
    return {
        "apiVersion": "v2",
        "name": workload.NAME,
        "description": "Judges the GPU nodes of a cluster by a catalogue of requirements, on a schedule or once",
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
        "kubeVersion": ">=1.30.0-0",
    }


def _values() -> str:
    parts = [HEADER]
    for name, value in workload.DEFAULTS.items():
        parts += [f"# {workload.DESCRIPTIONS[name]}\n", yaml.safe_dump({name: value}, sort_keys=False, width=140)]
    return "".join(parts)


def _kustomization(resources: list[str]) -> str:
    document = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources}
    return _dump([{**document, "namespace": NAMESPACE} if "../../base" not in resources else document])


class _Plain(yaml.SafeDumper):
    """Without anchors: people read these files."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _dump(documents: list[Json], header: str = HEADER) -> str:
    return header + "---\n".join(yaml.dump(document, Dumper=_Plain, sort_keys=False, width=140) for document in documents)
