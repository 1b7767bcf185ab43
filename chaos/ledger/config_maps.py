"""Ledgers in the cluster: one ConfigMap for each run, so that any machine can undo what the run has changed.

For each experiment there are two keys: ``<id>.jsonl`` with the lines of its open entries, and ``<id>.verified`` with the numbers of
those that are closed (``1-14,16``), which is all that is kept of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from chaos.cluster import namespaces
from chaos.cluster.requests import accepted, field, read, uid_of
from chaos.ledger.file import ExperimentView, parse
from chaos.model.errors import LedgerError
from chaos.model.ledger_lines import Entry, State, number_of_change
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.ownership import owned
from fixtures.ownership.proof_record import ProofView
from fixtures.ownership.read_proofs import read_proofs
from fixtures.text.sentences import plain

LINES = ".jsonl"
CLOSED = ".verified"
PREFIX = "gpu-conformance-chaos-"
"""What the name of a run's ledger has before the run's id."""

COMPONENT = {"app.kubernetes.io/component": "chaos-ledger"}

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MOST_NUMBERS = 100_000
"""Closed entries of one ConfigMap. Whoever writes the ranges decides how many there would be."""

_FEW = 8
"""How many unproven ledgers are read, to report them. Written in escapes, each of them may be a body of several megabytes."""


def config_map_name(run_id: str) -> str:
    """Name of a run's ConfigMap."""
    return f"{PREFIX}{run_id}"


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run's ConfigMap."""

    run_id: str
    uid: str
    version: str
    experiments: tuple[ExperimentView, ...]

    @property
    def open_entries(self) -> list[Entry]:
        """Open entries of all its experiments."""
        return [entry for parse_run in self.experiments for entry in parse_run.open_entries]

    def of(self, experiment: str) -> ExperimentView:
        """One experiment; an empty view of one that it does not hold."""
        return next(
            (parse_run for parse_run in self.experiments if parse_run.experiment == experiment), ExperimentView(experiment=experiment)
        )


def parse_run(config_map: Json) -> RunView:
    """Read a ConfigMap. Raises :class:`LedgerError` when it is no ledger, or its name, its label and its entries do not agree on whose:

    nobody may guess what it said. That it can be read says nothing of who wrote it (:mod:`chaos.ledger.authentic`).
    """
    name = plain(str(field(config_map, "metadata", "name") or ""))
    run_id = str(field(config_map, "metadata", "labels", owned.RUN_LABEL) or "")
    if not owned.is_run_id(run_id) or name != config_map_name(run_id):
        raise LedgerError(f"ConfigMap {name}: its label says run {plain(run_id)!r}, which is not the run of its name")
    data = field(config_map, "data") or {}
    if not isinstance(data, dict):
        raise LedgerError(f"ConfigMap {name}: its data are no object")
    texts = {str(key): str(value) for key, value in data.items()}
    names = dict.fromkeys(key.removesuffix(suffix) for key in texts for suffix in (LINES, CLOSED) if key.endswith(suffix))
    experiments: list[ExperimentView] = []
    left = _MOST_NUMBERS
    for experiment in names:
        experiments.append(_experiment(name, experiment, texts, left))
        left -= len(experiments[-1].closed)
    found = RunView(
        run_id=run_id,
        uid=uid_of(config_map),
        version=str(field(config_map, "metadata", "resourceVersion") or ""),
        experiments=tuple(experiments),
    )
    for known in found.experiments:
        for entry in known.open_entries:
            if (entry.run_id, entry.experiment) != (run_id, known.experiment):
                whose = plain(f"{entry.experiment} of run {entry.run_id}")
                raise LedgerError(f"ConfigMap {name}: {plain(known.experiment)}{LINES} holds an entry of {whose}")
    return found


def _experiment(where: str, experiment: str, data: Mapping[str, str], most: int) -> ExperimentView:
    content = data.get(experiment + LINES, "").encode()
    lines, kept = parse(content, f"ConfigMap {where}")
    if kept < len(content):
        raise LedgerError(f"ConfigMap {where}: {experiment}{LINES} ends within a line")
    entries = [line.seq for line in lines if line.entry is not None]
    armed = set(entries)
    if len(armed) < len(entries):
        raise LedgerError(f"ConfigMap {where}: {experiment}{LINES} holds two entries of one number")
    if any(line.seq not in armed or line.state is State.VERIFIED for line in lines):
        raise LedgerError(f"ConfigMap {where}: {experiment}{LINES} has lines of entries that it does not hold open")
    return ExperimentView(experiment=experiment, lines=tuple(lines), closed=parse_ranges(data.get(experiment + CLOSED, ""), most))


def parse_ranges(text: str, most: int = _MOST_NUMBERS) -> frozenset[int]:
    """``1-3,7`` as numbers, ``most`` at most, each range counted in full. Raises :class:`LedgerError` for anything else."""
    found: set[int] = set()
    left = most
    for part in filter(None, text.strip().split(",")):
        match = _RANGE.fullmatch(part)
        numbered = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        left -= len(numbered)
        if not numbered or left < 0:
            raise LedgerError(f"closed entries: {plain(text[:60])!r} is no list of numbers")
        found.update(numbered)
    return frozenset(found)


def format_ranges(closed: Iterable[int]) -> str:
    """Numbers as ``1-3,7``."""
    parts: list[list[int]] = []
    for number in sorted(closed):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def readable_runs(cluster: Cluster, space: str) -> tuple[list[RunView], dict[str, str]]:
    """What look like ledgers in a namespace and can be read, and what is wrong with each that cannot, by the run that its name says.

    Anybody who can write ConfigMaps may have made any of them. Raises ApiTrouble.
    """
    return _sorted(_listed(cluster, space))


def find_run(cluster: Cluster, run_id: str) -> list[str]:
    """The run's ledger in the shared namespace, as a line for people; none when it is not there. Raises ApiTrouble."""
    space, name = namespaces.find_shared(cluster), config_map_name(run_id)
    return [f"configmaps {space}/{name}"] if space and read(cluster, "configmaps", name, space) is not None else []


def are_needed(cluster: Cluster, space: str) -> bool:
    """Whether a ledger of the shared namespace has open entries or has lost some, or cannot be read. Raises ApiTrouble."""
    runs, unreadable = readable_runs(cluster, space)
    proofs = read_proofs(cluster)
    return bool(unreadable) or any(_is_needed(run, proofs) for run in runs)


def _is_needed(run: RunView, proofs: Mapping[str, ProofView]) -> bool:
    """Whether something of the run is open. Where its proof lists an entry that is gone, the ledger still tells what is closed."""
    if run.open_entries or run.run_id not in proofs:
        return bool(run.open_entries)
    changes = proofs[run.run_id].changes
    listed = (number_of_change(changes.get(one, "")) for one in proofs[run.run_id].digests)
    return any(number not in run.of(experiment).closed for experiment, number in listed)


def foreign_config_maps(cluster: Cluster, space: str, runs: Collection[str]) -> tuple[list[RunView], dict[str, str]]:
    """The same in a namespace that is not known to be ours: the ledgers of some runs, and the first few of any others.

    Whoever made it may put as much into it as he likes. Raises ApiTrouble.
    """
    named = [found for run in sorted(runs) if (found := read(cluster, "configmaps", config_map_name(run), space)) is not None]
    names = {str(field(item, "metadata", "name")) for item in named}
    few = _listed(cluster, space, limit=_FEW)[:_FEW]
    return _sorted([*named, *(item for item in few if field(item, "metadata", "name") not in names)])


def _listed(cluster: Cluster, space: str, limit: int = 0) -> list[Json]:
    selector = ",".join(f"{key}={value}" for key, value in {owned.MANAGED_BY: owned.SUITE, **COMPONENT}.items())
    query = {"labelSelector": selector, **({"limit": str(limit)} if limit else {})}
    answer = cluster.request("GET", cluster.path("configmaps", space), query=query)
    return [] if answer.status == 404 else list(accepted(answer, "list ledgers").json().get("items") or ())


def _sorted(items: Iterable[Json]) -> tuple[list[RunView], dict[str, str]]:
    found, unreadable = [], {}
    for item in items:
        try:
            found.append(parse_run(item))
        except LedgerError as error:
            unreadable[str(field(item, "metadata", "name") or "").removeprefix(PREFIX)] = str(error)
    return found, unreadable


def remove_clean(cluster: Cluster, space: str, run_id: str = "") -> None:
    """Delete ledgers that nobody needs (of one run, or of all) from the shared namespace. Raises ApiTrouble."""
    proofs = read_proofs(cluster)
    for run in readable_runs(cluster, space)[0]:
        if not _is_needed(run, proofs) and run_id in ("", run.run_id):
            answer = cluster.delete("configmaps", config_map_name(run.run_id), space, uid=run.uid)
            if answer.status not in (404, 409):
                accepted(answer, f"delete ledger of run {run.run_id}")
