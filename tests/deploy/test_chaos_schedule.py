"""The CronJob of experiments: it touches nothing before somebody allows a cluster, and never acts twice at once or again."""

from pathlib import Path
from typing import Any

import yaml

from chaos.surface.cli import options
from conformance.cli.arguments import Parser
from fixtures.policy.allowlist import not_allowed
from fixtures.policy.policy_file import build_policy

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def documents(name: str) -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")) if one}


FOUND = documents("chaos/cronjob.yaml")
JOB = FOUND["CronJob"]["spec"]["jobTemplate"]["spec"]
POD = JOB["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_the_policy_that_it_ships_allows_no_cluster_and_no_level_above_agents() -> None:
    policy = build_policy(yaml.safe_load(FOUND["ConfigMap"]["data"]["policy.yaml"]))
    assert not_allowed("6f1c0c3e-7a54-4c57-9b0a-8d1f6d3c2b1a", "", policy.chaos.clusters)
    assert policy.chaos.max_level == 1
    assert policy.chaos.namespace_uid  # its account has rights in the namespace of clusterrole-chaos.yaml, and in no other one


def test_one_run_at_a_time_that_is_never_repeated_and_has_time_to_undo() -> None:
    assert FOUND["CronJob"]["spec"]["concurrencyPolicy"] == "Forbid"
    assert (JOB["backoffLimit"], POD["restartPolicy"]) == (0, "Never")
    assert POD["terminationGracePeriodSeconds"] >= 300


def test_it_runs_as_the_account_of_chaos_with_options_that_there_are() -> None:
    assert POD["serviceAccountName"] == documents("clusterrole-chaos.yaml")["ServiceAccount"]["metadata"]["name"]
    parser = Parser()
    options(parser, "chaos")
    command, *arguments = CONTAINER["args"]
    assert command == "chaos"
    known, unknown = parser.parse_known_args(arguments)
    assert known.in_cluster
    assert [one.partition("=")[0] for one in unknown] == ["--policy", "--report-dir"]  # pytest's own
    mounted = {one["mountPath"] for one in CONTAINER["volumeMounts"]}
    assert {"/etc/gpu-conformance", "/results", "/tmp"} <= mounted
