"""The command line of the suite. What is wrong on it is one line and exit code 4."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from conformance.catalogue import Catalogue, CatalogueError
from fixtures.localcluster.release import DEFAULT_MINOR
from fixtures.record import Access, Level

GROUP = "gpu-conformance"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run, decoded."""

    kubeconfig: str = ""
    context: str | None = None
    in_cluster: bool = False
    snapshot: str = ""
    simulate: str = ""
    local: str = ""
    local_bin: str = ""
    policy: str = ""
    access: Access = Access.WORKLOAD
    level: Level = Level.SHOULD
    strict: bool = False
    require: tuple[str, ...] = ()
    report_dir: str = ""


def add_options(parser: pytest.Parser) -> None:
    """Register the options. ``--strict`` is pytest's own flag, read here as "a SHOULD fails too"."""
    group = parser.getgroup(GROUP, "GPU cluster conformance")
    group.addoption("--kubeconfig", metavar="FILE", default="", help="a live cluster: its kubeconfig (never taken from the environment)")
    group.addoption("--context", metavar="NAME", default=None, help="context of the kubeconfig; default: its current context")
    group.addoption("--in-cluster", action="store_true", help="the cluster this process runs in, as its ServiceAccount")
    group.addoption("--snapshot", metavar="PATH", default="", help="offline: file or folder of 'kubectl get -o json|yaml' output")
    group.addoption("--simulate", metavar="SCENARIO[,DEFECT...]", default="", help="the embedded simulated cluster; default: healthy")
    group.addoption(
        "--local",
        metavar="MINOR",
        nargs="?",
        const=DEFAULT_MINOR,
        default="",
        help=f"real Kubernetes as local processes (default: {DEFAULT_MINOR}), nodes as in --simulate; 'make local' builds it",
    )
    group.addoption(
        "--local-bin",
        metavar="DIR",
        default="",
        help="folder with etcd and the Kubernetes programs for --local; Volcano's or Kueue's run from there too, instead of look-alikes",
    )
    group.addoption("--policy", metavar="FILE", default="", help="what the owner expects of the cluster (YAML)")
    group.addoption("--read-only", action="store_true", help="'read' requirements only: nothing is created, not even as dry-run")
    group.addoption("--access", choices=[str(a) for a in Access], default=None, help="ceiling of access; default: workload")
    group.addoption("--level", choices=["must", "should"], default="should", help="'must' leaves the SHOULD requirements out")
    group.addoption("--require", metavar="ID[,ID...]", action="append", default=[], help="these must judge something, or fail")
    group.addoption("--report-dir", metavar="DIR", default="", help="default: out/<run id>, with out/latest pointing at it")


def read_options(config: pytest.Config, catalogue: Catalogue) -> Options:
    """Decode and check the options. Raises :class:`pytest.UsageError` with one line."""
    option = config.option
    targets = [
        name
        for name, value in (
            ("--kubeconfig", option.kubeconfig),
            ("--in-cluster", option.in_cluster),
            ("--snapshot", option.snapshot),
            ("--local", option.local),
            ("--simulate", option.simulate and not option.local),  # beside --local it names the scenario of the nodes
        )
        if value
    ]
    if len(targets) > 1:
        raise pytest.UsageError(f"{' and '.join(targets)}: one target at a time")
    if option.context is not None and not option.kubeconfig:
        raise pytest.UsageError("--context needs --kubeconfig: no kubeconfig is taken from the environment")
    if option.local_bin and not option.local:
        raise pytest.UsageError("--local-bin needs --local")
    access = Access(option.access) if option.access else Access.WORKLOAD
    if option.read_only:
        if option.access and access is not Access.READ:
            raise pytest.UsageError(f"--read-only contradicts --access {option.access}")
        access = Access.READ
    required = tuple(id_.strip() for text in option.require for id_ in text.split(",") if id_.strip())
    try:
        for id_ in required:
            catalogue.get(id_)
    except CatalogueError as error:
        raise pytest.UsageError(f"--require: {error}") from None
    return Options(
        kubeconfig=str(Path(option.kubeconfig).expanduser()) if option.kubeconfig else "",
        context=option.context,
        in_cluster=option.in_cluster,
        snapshot=option.snapshot,
        simulate=option.simulate,
        local=option.local,
        local_bin=str(Path(option.local_bin).expanduser().resolve()) if option.local_bin else "",
        policy=option.policy,
        access=access,
        level=Level.MUST if option.level == "must" else Level.SHOULD,
        strict=bool(config.getoption("strict", False)),
        require=required,
        report_dir=option.report_dir,
    )
