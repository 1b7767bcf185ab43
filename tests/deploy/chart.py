"""Renders the chart's templates: with helm where it can be had, and with the few actions that the generator writes."""

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy.templates import look

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "gpu-conformance"
_IF = re.compile(r'\s*\{\{- if (?:eq )?(\.[\w.]+)(?: ("[^"]*"))? \}\}')
_RANGE = re.compile(r"(\s*)\{\{- range (\.[\w.]+) \}\}")
_END = re.compile(r"\s*\{\{- end \}\}")
_ACTION = re.compile(r'\{\{ (?:printf ("[^"]*") )?((?:\.[\w.]+ ?)+)\| toJson( \| toJson)? \}\}')


def helm() -> str | None:
    """The helm program: of ``$HELM``, else the one that ``make helm`` built, else on PATH."""
    built = CHART.parents[2] / ".tools" / "bin" / "helm"
    return os.environ.get("HELM") or (str(built) if built.is_file() else shutil.which("helm"))


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def by_name(found: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Objects by kind and name; a policy is compared as data, because Helm and Python write JSON differently."""
    named = {}
    for document in found:
        if "policy.yaml" in document.get("data", {}):
            document["data"]["policy.yaml"] = json.loads(document["data"]["policy.yaml"])
        named[document["kind"], document["metadata"]["name"]] = document
    assert len(named) == len(found)
    return named


def rendered(values: Mapping[str, Any], folder: Path = CHART) -> list[dict[str, Any]]:
    """What the templates install. An action that this does not know is left and fails as YAML or in the comparison."""
    return [one for file in sorted((folder / "templates").glob("*.yaml")) for one in documents(_render(file.read_text(), values))]


def _render(text: str, values: Mapping[str, Any]) -> str:
    shown: list[str] = []
    hidden: list[bool] = []
    lines = iter(text.splitlines())
    for line in lines:
        if match := _IF.fullmatch(line):
            found = look(values, match[1])
            hidden.append(not (found == json.loads(match[2]) if match[2] else found))
        elif match := _RANGE.fullmatch(line):
            assert next(lines).strip() == "- {{ . | toJson }}"
            assert _END.fullmatch(next(lines))
            shown += [] if any(hidden) else [f"{match[1]}- {json.dumps(item)}" for item in look(values, match[2])]
        elif _END.fullmatch(line):
            hidden.pop()
        elif not any(hidden):
            shown.append(_ACTION.sub(lambda match: _value(match, values), line))
    assert not hidden
    return "\n".join(shown)


def _value(match: re.Match[str], values: Mapping[str, Any]) -> str:
    found = [look(values, path) for path in match[2].split()]
    text = json.dumps(json.loads(match[1]).replace("%v", "%s") % tuple(found) if match[1] else found[0])
    return json.dumps(text) if match[3] else text
