"""The commands of ``gpu-conformance``: where each lives, what it is for, and two examples of it.

A command's module has ``options(parser, command)``, which gives a parser its arguments, and ``main(argv)``, whose first word is the
command's name. So help, completion and the command itself rest on one parser.
"""

from __future__ import annotations

import importlib
from types import ModuleType

import msgspec

from conformance.cli.arguments import Parser


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command. ``about`` is its line in the list of commands, ``details`` what its own help says besides."""

    module: str
    about: str
    examples: tuple[str, str]
    details: str = ""


COMMANDS = {
    "run": Command(
        module="conformance.cli.run",
        about="run the suite: pytest with its options, without a checkout",
        examples=("gpu-conformance run --simulate healthy --read-only", "gpu-conformance run --kubeconfig FILE --only FENCE"),
        details="Every option of pytest works as well; pytest --help lists them.",
    ),
    "doctor": Command(
        module="conformance.cli.doctor.command",
        about="can a run reach this cluster, and what would it judge? Reads only",
        examples=("gpu-conformance doctor --kubeconfig ~/.kube/config --context prod", "gpu-conformance doctor --simulate healthy --json"),
        details="exit codes: 0 ready, 4 usage or the cluster cannot be opened, 10 a run would be inconclusive",
    ),
    "list": Command(
        module="conformance.cli.explain",
        about="list the requirements",
        examples=("gpu-conformance list", "gpu-conformance list --snapshot-command"),
    ),
    "explain": Command(
        module="conformance.cli.explain",
        about="what a requirement asserts, why, and how to meet it",
        examples=("gpu-conformance explain FENCE-01", "gpu-conformance explain GANG-02 --json"),
    ),
    "policy": Command(
        module="conformance.cli.policy_command",
        about="draft a policy from a cluster or a saved snapshot: policy init",
        examples=("gpu-conformance policy init --kubeconfig FILE", "gpu-conformance policy init --snapshot dump --platform eks"),
    ),
    "inspect": Command(
        module="conformance.cli.inspect",
        about="judge one captured output by itself",
        examples=("gpu-conformance inspect nccl-log run.log", "gpu-conformance inspect nvidia-smi - --json"),
    ),
    "probe": Command(
        module="conformance.cli.probe",
        about="what the drivers of this machine say of its devices. Reads only",
        examples=("gpu-conformance probe", "gpu-conformance probe --json"),
        details="exit codes: 0 a driver enumerates devices, 4 usage, 10 none does",
    ),
    "show": Command(
        module="conformance.cli.show",
        about="what is known of a node, pod or device: may it take work, who holds it, why it waits. Reads only",
        examples=("gpu-conformance show node gpu-0 --kubeconfig FILE", "gpu-conformance show pod team-a/train-0 --snapshot dump --json"),
        details="exit codes: 0 shown, 4 usage or no such name, 10 what was asked for could not be read",
    ),
    "owners": Command(
        module="conformance.cli.owners",
        about="who holds which device: by the exporter, the kubelet, claims and pods. Reads only",
        examples=("gpu-conformance owners --kubeconfig FILE", "gpu-conformance owners --in-cluster --node gpu-0 --json"),
        details="exit codes: 0 they agree, 1 somewhere they do not, 4 usage, 10 no page of metrics or no answer",
    ),
    "compute": Command(
        module="conformance.cli.compute",
        about="do the devices of this machine or container compute? Copies, kernels and a matrix multiply, all compared",
        examples=("gpu-conformance compute", "gpu-conformance compute --json --seconds 10"),
        details="""exit codes: 0 every device computes, 1 one does not, 4 usage, 10 no device to ask, or stopped

Figures are those of the check's own kernels: FP32 without tensor cores, and copies in one stream.
SIGTERM ends it within two seconds.""",
    ),
    "simulate": Command(
        module="conformance.cli.simulate",
        about="serve the simulated cluster and print a kubeconfig",
        examples=("gpu-conformance simulate rdma-training", "gpu-conformance simulate --list"),
    ),
    "matrix": Command(
        module="conformance.cli.matrix",
        about="prove that each defect turns exactly its requirements red",
        examples=("gpu-conformance matrix --json out/matrix.json", "gpu-conformance matrix --requirement FENCE-01"),
    ),
    "diff": Command(
        module="conformance.cli.reports",
        about="compare two reports",
        examples=("gpu-conformance diff before/report.json after/report.json", "gpu-conformance diff before after --accept-not-judged NET"),
    ),
    "gate": Command(
        module="conformance.cli.reports",
        about="may an upgrade stay? Compare the reports before and after it",
        examples=("gpu-conformance gate before/report.json after/report.json", "gpu-conformance gate before after --min-judged 40"),
    ),
    "report": Command(
        module="conformance.cli.reports",
        about="write the views of a report again",
        examples=("gpu-conformance report out/latest", "gpu-conformance report archive/2026-11-01"),
    ),
    "merge": Command(
        module="conformance.cli.merge",
        about="one report of many clusters, worst first",
        examples=("gpu-conformance merge reports/*/report.json", "gpu-conformance merge east=out/a west=out/b --max-age 26 --gate"),
    ),
    "cncf": Command(
        module="conformance.cli.cncf",
        about="fill in CNCF's AI conformance checklist from a run on a live cluster",
        examples=(
            "gpu-conformance cncf out/latest",
            "gpu-conformance cncf out/latest --checklist AIConformance-1.36.yaml",
        ),
        details="Statuses are those that the run showed. What the suite does not judge stays empty.",
    ),
    "job": Command(
        module="conformance.cli.job",
        about="run inside the cluster and hand the results on: ConfigMap, volume, object store, metrics",
        examples=(
            "gpu-conformance job --in-cluster --to configmap=gpu-conformance/gpu-conformance-result -- --read-only",
            "gpu-conformance job --in-cluster --to folder=/results --publish 26 -- --policy /etc/gpu-conformance/policy.yaml",
        ),
        details="""destinations:
  configmap=NAMESPACE/NAME  summary.json, report.md and report.json.gz in a ConfigMap of the suite's own
  folder=DIR                the report folder as DIR/<run id>, and DIR/latest.json
  put-url-file=FILE         the report folder as .tar.gz to the presigned PUT URL in FILE
  textfile=DIR              metrics as DIR/gpu_conformance.prom for node_exporter
  sonobuoy[=DIR]            results.tar.gz and the file done, as Sonobuoy expects them

The last line of the output is {"gpuConformance": {...}}.""",
    ),
    "publish": Command(
        module="conformance.cli.publish",
        about="label nodes with the verdict of a report, until a time",
        examples=("gpu-conformance publish out/latest --hours 26 --kubeconfig FILE", "gpu-conformance publish --sweep --in-cluster"),
        details="labels: gpu-conformance.io/verdict=passed|failed|unknown, gpu-conformance.io/verdict-until=UNIX SECONDS",
    ),
    "docs": Command(
        module="conformance.cli.pages",
        about="write the generated pages of docs/: requirements, policy, schema",
        examples=("gpu-conformance docs docs", "gpu-conformance docs /tmp/pages"),
    ),
    "chaos": Command(
        module="chaos.surface.cli",
        about="break a cluster on purpose and put it back: plan, run, halt, recover, status",
        examples=("gpu-conformance chaos list", "gpu-conformance chaos plan --simulate resilience"),
    ),
    "cleanup": Command(
        module="conformance.cli.cleanup",
        about="remove what a killed run left in a cluster",
        examples=(
            "gpu-conformance cleanup --kubeconfig FILE --dry-run",
            "gpu-conformance cleanup --kubeconfig FILE --chaos-cluster UID --yes",
        ),
    ),
    "completion": Command(
        module="conformance.cli.completion",
        about="print the completion of these commands for a shell",
        examples=('eval "$(gpu-conformance completion bash)"', "gpu-conformance completion fish"),
    ),
}


def module_of(name: str) -> ModuleType:
    """The module of a command; it is imported only when its command is used."""
    return importlib.import_module(COMMANDS[name].module)


def command_parser(name: str) -> Parser:
    """The parser of what follows a command's name."""
    command = COMMANDS[name]
    parser = Parser(
        prog=f"gpu-conformance {name}",
        description=f"{command.about[0].upper()}{command.about[1:]}.",
        epilog=command.details or None,
        examples=command.examples,
    )
    module_of(name).options(parser, name)
    return parser
