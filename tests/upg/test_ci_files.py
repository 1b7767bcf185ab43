"""``deploy/ci``: each file is one that its system takes, calls the one script in the right order, and fails until the upgrade is filled in.

GitHub's and GitLab's files are checked with their published schemas (check-jsonschema carries them). Argo's and Tekton's are judged by
the code of these systems (``make linters`` builds it). Jenkins' own linter is a part of its server, so its file is parsed by the Groovy
that Jenkins has and held to the syntax of its manual (``linters/declarative.groovy``).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "deploy" / "ci"
DECLARATIVE = Path(__file__).parent / "linters" / "declarative.groovy"
BUILT_IN = {
    "github-actions.yaml": "vendor.github-workflows",
    "release.yaml": "vendor.github-workflows",
    "action/action.yml": "vendor.github-actions",
    "gitlab-ci.yaml": "vendor.gitlab-ci",
    "gitlab-component.yaml": "vendor.gitlab-ci",
}
LINTER = {"argo-workflows.yaml": "argo", "tekton.yaml": "tekton", "tekton-run.yaml": "tekton"}
CALL = "upgrade-gate.sh"
PUBLISHED = ["upgrade-gate/before", "upgrade-gate/after", "upgrade-gate/gate.txt", "upgrade-gate/summary.md"]


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((KIT / name).read_text(encoding="utf-8")))


def spoiled(name: str, right: str, wrong: str, folder: Path) -> Path:
    """A copy of the file with one mistake."""
    text = (KIT / name).read_text(encoding="utf-8")
    assert right in text
    copy = folder / name
    copy.write_text(text.replace(right, wrong), encoding="utf-8")
    return copy


# -- GitHub, GitLab: schemas --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_published_schema_takes_the_file(name: str, tmp_path: Path) -> None:
    """GitLab reads the two documents of a component one after the other, each by the same schema."""
    for number, document in enumerate((KIT / name).read_text(encoding="utf-8").split("\n---\n")):
        (file := tmp_path / f"{number}.yaml").write_text(document)
        done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", BUILT_IN[name], str(file)])
        assert done.exit_code == 0, done.output


USES_THE_ACTION = """on: push
jobs:
  judge:
    runs-on: ubuntu-24.04
    steps:
      - id: judge
        uses: ./deploy/ci/action
        with: {kubeconfig: k, %s: --read-only}
      - run: echo "${{ steps.judge.outputs.exit-code }}"
"""


def test_actionlint_takes_workflows_and_one_that_uses_the_action(tmp_path: Path) -> None:
    """It lints the action by its use: an input that there is not is a mistake. With shellcheck on the path, scripts are linted too."""
    actionlint = ROOT / ".tools" / "bin" / "actionlint"
    if not actionlint.is_file():
        pytest.skip("actionlint is not here (make linters builds it)")
    (tmp_path / ".git").mkdir()
    shutil.copytree(KIT / "action", tmp_path / "deploy" / "ci" / "action")
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    for name in ("github-actions.yaml", "release.yaml"):
        shutil.copy(KIT / name, folder)
    for option, code in (("options", 0), ("option", 1)):
        (folder / "use.yaml").write_text(USES_THE_ACTION % option)
        command = [str(actionlint), "-no-color", "-ignore", 'label "cluster-admin" is unknown', *map(str, folder.iterdir())]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr


def test_actions_are_pinned_by_commit() -> None:
    """A tag can be moved to other code, which then reads the kubeconfig."""
    used = [
        re.findall(r"uses: (actions/\S+)(.*)", (KIT / name).read_text(encoding="utf-8")) for name in ("github-actions.yaml", "release.yaml")
    ]
    assert [len(found) for found in used] == [2, 1]
    for action, version in chain(*used):
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", version)


# -- Argo, Tekton: their own validation -----------------------------------------------------------------------


def ci_lint(system: str, file: Path) -> tuple[int, str]:
    built = ROOT / ".tools" / "bin" / "ci-lint"
    if not built.is_file():
        pytest.skip("ci-lint is not here (make linters builds it)")
    done = subprocess.run([built, system, file], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name", LINTER)
def test_the_system_s_own_validation_takes_the_file(name: str) -> None:
    assert ci_lint(LINTER[name], KIT / name) == (0, "")


# -- Jenkins: its Groovy, and the syntax of its manual --------------------------------------------------------

MISTAKES = {
    "a section that there is not": ("stages {", "stagess {"),
    "no agent": ("agent { label 'cluster-admin' }", ""),
    "a condition that there is not": ("always {", "allways {"),
    "a parameter that the step has not": ("testResults:", "testResult:"),
    "a word of another directive": ("message 'Upgrade", "massage 'Upgrade"),
    "a step outside steps": (
        "            steps {\n                sh 'sh deploy/ci/upgrade-gate.sh after'\n            }",
        "            sh 'true'",
    ),
    "a quote that is not closed": ("label 'cluster-admin'", "label 'cluster-admin"),
}


@pytest.mark.test_all
def test_the_jenkinsfile_keeps_to_declarative_syntax_and_no_mistake_does(tmp_path: Path) -> None:
    """One start of Groovy judges all: it takes longer than the judging."""
    groovy, java = shutil.which("groovy"), shutil.which("java")
    if groovy is None or java is None:
        pytest.skip("groovy is not here (a package of most distributions; CI installs it where Java is)")
    files = {"right": KIT / "Jenkinsfile"}
    for number, (mistake, (right, wrong)) in enumerate(MISTAKES.items()):
        (folder := tmp_path / str(number)).mkdir()
        files[mistake] = spoiled("Jenkinsfile", right, wrong, folder)
    home = str(Path(java).resolve().parents[1])
    done = subprocess.run(
        [groovy, DECLARATIVE, *files.values()], capture_output=True, text=True, check=False, env={**os.environ, "JAVA_HOME": home}
    )
    refused = {line.partition(": ")[0] for line in done.stdout.splitlines()}
    assert {name for name, file in files.items() if str(file) in refused} == set(MISTAKES), done.stdout + done.stderr


# -- what they do ----------------------------------------------------------------------------------------


def github() -> Iterator[tuple[str, str]]:
    (job,) = documents("github-actions.yaml")[0]["jobs"].values()
    yield from ((step.get("id", ""), step["run"]) for step in job["steps"] if "run" in step)


def gitlab() -> Iterator[tuple[str, str]]:
    (pipeline,) = documents("gitlab-ci.yaml")
    jobs = [(name, job) for name, job in pipeline.items() if isinstance(job, dict) and "script" in job]
    for name, job in sorted(jobs, key=lambda item: pipeline["stages"].index(item[1]["stage"])):
        yield name, "\n".join(job["script"])


def jenkins() -> Iterator[tuple[str, str]]:
    text = (KIT / "Jenkinsfile").read_text(encoding="utf-8")
    for name, body in re.findall(r"stage\('(\w+)'\) \{(.*?)\n        \}", text, flags=re.DOTALL):
        yield name.lower(), "\n".join(re.findall(r"sh '([^']*)'", body))


def argo() -> Iterator[tuple[str, str]]:
    spec = documents("argo-workflows.yaml")[0]["spec"]
    templates = {template["name"]: template for template in spec["templates"]}
    for group in templates[spec["entrypoint"]]["steps"]:
        (step,) = group
        template = templates[step["template"]]
        given = {parameter["name"]: parameter["value"] for parameter in step.get("arguments", {}).get("parameters", [])}
        command = " ".join(template["container"]["command"]) if "container" in template else template["script"]["source"]
        yield step["name"], command.replace("{{inputs.parameters.phase}}", given.get("phase", ""))


def tekton() -> Iterator[tuple[str, str]]:
    found = documents("tekton.yaml")
    tasks = {one["metadata"]["name"]: one["spec"] for one in found if one["kind"] == "Task"}
    (pipeline,) = (one["spec"] for one in found if one["kind"] == "Pipeline")
    done: list[str] = []
    for task in pipeline["tasks"]:
        assert task.get("runAfter", []) == done[-1:]
        done.append(task["name"])
    for task in [*pipeline["tasks"], *pipeline["finally"]]:
        spec = tasks[task["taskRef"]["name"]]
        given = {parameter["name"]: parameter["value"] for parameter in task["params"]}
        assert set(given) == {parameter["name"] for parameter in spec["params"]}
        bound = {one["name"] for one in task.get("workspaces", [])}
        assert bound == {one["name"] for one in spec.get("workspaces", [])}
        (step,) = spec["steps"]
        command = step.get("script") or " ".join([*step["command"], *step["args"]])
        yield task["name"], command.replace("$(params.phase)", given.get("phase", "")).replace("$(workspaces.kit.path)", "/kit")


SYSTEMS = {"github": github, "gitlab": gitlab, "jenkins": jenkins, "argo": argo, "tekton": tekton}


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_cluster_is_judged_before_and_after_the_upgrade_by_the_one_script(system: str) -> None:
    commands = [(name, text) for name, text in SYSTEMS[system]() if CALL in text or "upgrade" in name]
    (first, before), (second, placeholder), (third, after) = commands
    assert before.endswith(f"{CALL} before")
    assert after.endswith(f"{CALL} after")
    assert [name.rpartition("-")[2] for name in (first, second)] == ["before", "upgrade"]
    assert third != second
    assert "replace this" in placeholder


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_placeholder_of_the_upgrade_is_never_green(system: str) -> None:
    (placeholder,) = (text for _, text in SYSTEMS[system]() if "replace this" in text)
    done = subprocess.run(["sh", "-ec", placeholder], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "replace this" in done.stderr


def test_a_cluster_is_judged_after_an_upgrade_that_failed_too() -> None:
    """It is the cluster that most needs it. That the build stays red is a matter of each system."""
    (job,) = documents("github-actions.yaml")[0]["jobs"].values()
    (after,) = (step["if"] for step in job["steps"] if step.get("run", "").endswith(f"{CALL} after"))
    assert after == "${{ !cancelled() && steps.before.outcome == 'success' && steps.upgrade.outcome != 'skipped' }}"
    assert documents("gitlab-ci.yaml")[0]["judge-after-failure"] == {"extends": "judge-after", "when": "on_failure"}
    jenkinsfile = (KIT / "Jenkinsfile").read_text(encoding="utf-8")
    assert re.search(r"catchError\(buildResult: 'FAILURE', stageResult: 'FAILURE', [^)]*\) \{\s*sh 'echo \"replace this", jenkinsfile)
    (template, *_) = documents("argo-workflows.yaml")
    (steps,) = (one["steps"] for one in template["spec"]["templates"] if one["name"] == "gated-upgrade")
    assert [step["name"] for (step,) in steps if "continueOn" in step] == ["upgrade"]
    assert steps[-1][0]["when"] == "{{steps.upgrade.status}} != Succeeded"
    (pipeline,) = (one["spec"] for one in documents("tekton.yaml") if one["kind"] == "Pipeline")
    assert [task["name"] for task in pipeline["finally"]] == ["after"]


def test_reports_are_published_whatever_the_gate_decides() -> None:
    (job,) = documents("github-actions.yaml")[0]["jobs"].values()
    assert [step["if"] for step in job["steps"] if "upload-artifact" in step.get("uses", "")] == ["always()"]
    assert documents("gitlab-ci.yaml")[0][".gate"]["artifacts"]["when"] == "always"
    assert re.search(r"always \{\s*archiveArtifacts", (KIT / "Jenkinsfile").read_text(encoding="utf-8"))


def test_what_is_published_has_neither_credentials_nor_raw_objects() -> None:
    (job,) = documents("github-actions.yaml")[0]["jobs"].values()
    (upload,) = (step["with"]["path"] for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    assert upload.split() == PUBLISHED
    assert documents("gitlab-ci.yaml")[0][".gate"]["artifacts"]["paths"] == PUBLISHED
    (archived,) = re.findall(r"archiveArtifacts artifacts: '([^']*)'", (KIT / "Jenkinsfile").read_text(encoding="utf-8"))
    assert [path.removesuffix("/**") for path in archived.split(", ")] == PUBLISHED


def test_no_text_of_an_input_becomes_a_part_of_a_command() -> None:
    """GitHub pastes expressions into commands as they are: they go through variables here."""
    (job,) = documents("release.yaml")[0]["jobs"].values()
    scripts = [step["run"] for step in [*job["steps"], *documents("action/action.yml")[0]["runs"]["steps"]] if "run" in step]
    for text in [*scripts, *(text for _, text in github())]:
        assert "${{" not in text


def test_a_glob_among_the_options_of_the_action_names_no_file(tmp_path: Path) -> None:
    for name in ("FENCE-01", "out"):
        (tmp_path / name).touch()
    (script,) = (step["run"] for step in documents("action/action.yml")[0]["runs"]["steps"] if step.get("id") == "judge")
    given = {
        "PROGRAM": "echo",
        "KUBECONFIG_FILE": "config",
        "REPORT": "report",
        "OPTIONS": "--accept-not-judged FENCE-*",
        "GITHUB_OUTPUT": "out",
    }
    done = subprocess.run(["bash", "-e", "-c", script], env=given, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "run --kubeconfig config --report-dir report --accept-not-judged FENCE-*\n"


def test_what_the_cluster_runs_meets_pod_security_restricted() -> None:
    template = documents("argo-workflows.yaml")[0]["spec"]
    (run,) = (one["spec"] for one in documents("tekton-run.yaml"))
    for pod in (template["securityContext"], run["taskRunTemplate"]["podTemplate"]["securityContext"]):
        assert pod["runAsNonRoot"] is True
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    containers = [one.get("container") or one.get("script") for one in template["templates"] if "steps" not in one]
    containers += [step for one in documents("tekton.yaml") if one["kind"] == "Task" for step in one["spec"]["steps"]]
    for container in containers:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_script_is_executable_and_plain_posix() -> None:
    script = KIT / CALL
    assert script.stat().st_mode & 0o111
    assert script.read_text(encoding="utf-8").startswith("#!/bin/sh\n")
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
