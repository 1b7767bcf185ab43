"""The turns of a run: each experiment once, or on each node of a pool one after the other; and those that an earlier run has passed."""

import hashlib
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from chaos.model.experiment import Experiment
from chaos.observe.user_conditions import UserCondition
from chaos.safety.admission import node_states
from chaos.verdict import artefacts
from chaos.verdict.artefacts import ArtefactError, Artefacts
from chaos.verdict.judge import judge, result_of
from fixtures.kubernetes.models import Json
from fixtures.model.objects import labels_of, name_of
from fixtures.policy.model import Policy
from fixtures.system.file_search import find_files
from fixtures.text.sentences import in_order
from fixtures.verdict.chaos_record import ChaosResult
from fixtures.verdict.record import TargetKind, Verdict

PER_NODE = ("daemon-pod", "node", "gpu")
"""Selectors that choose by node: an experiment with another one has one turn, however many nodes there are."""

CARRIED = "carried"
"""Folder of a report with the artefacts of turns that earlier runs have passed."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment, on the node that it has to act on; without one the plan chooses."""

    experiment: Experiment
    node: str = ""
    node_uid: str = ""

    @property
    def id(self) -> str:
        """``A1``, or ``A1@h100-0``."""
        return f"{self.experiment.id}@{self.node}" if self.node else self.experiment.id


def turns(experiments: Sequence[Experiment], nodes: Mapping[str, str] | None = None) -> list[Turn]:
    """Each experiment once; with ``nodes`` (UIDs by name), node by node all experiments, those that choose no node first."""
    if nodes is None:
        return [Turn(experiment=one) for one in experiments]
    per_node = [one for one in experiments if one.extension.target.get("select") in PER_NODE]
    once = [Turn(experiment=one) for one in experiments if one not in per_node]
    return [*once, *(Turn(experiment=one, node=node, node_uid=uid) for node, uid in nodes.items() for one in per_node)]


def pool(nodes: Collection[Json], devices: Sequence[str], label: str, most: int | None) -> dict[str, str]:
    """Names and UIDs of GPU nodes that carry ``LABEL=VALUE`` (or the label alone), in order, ``most`` of them.

    None is of the control plane.
    """
    key, has_value, value = label.partition("=")
    states = node_states(nodes, (), devices)
    wanted = (lambda labels: labels.get(key) == value) if has_value else (lambda labels: not key or key in labels)
    labelled = {name_of(node) for node in nodes if wanted(labels_of(node))}
    found = (name for name, state in states.items() if state.gpu and not state.control_plane and name in labelled)
    return {name: states[name].uid for name in in_order(found)[:most]}


def expectations(
    experiment: Experiment, policy: Policy, stop: Iterable[UserCondition], steady: Iterable[UserCondition], detect: Iterable[UserCondition]
) -> frozenset[str]:
    """SHA-256, in hex, of each thing that a run goes by: what the experiment does and expects, and what the policy and the user add.

    A run that had more of them, such as one more condition, has shown all that one with fewer would.
    """
    document = {key: experiment.document.get(key) for key in ("method", "rollbacks", "extensions")}
    given: list[object] = [document, ["slowStartSeconds", float(policy.probes.slow_start_seconds)]]
    given += [[kind, one] for kind, found in (("stop", stop), ("steady", steady), ("detect", detect)) for one in found]
    return frozenset(hashlib.sha256(msgspec.json.encode(one, order="deterministic")).hexdigest() for one in given)


class Carried(msgspec.Struct, kw_only=True):
    """Turns that an earlier run has passed, by id, the folders that show it, and what is to be said of them."""

    results: dict[str, ChaosResult] = {}
    folders: dict[str, Path] = {}
    notes: list[str] = []

    def keep(self, folder: Path) -> None:
        """Copy what shows them into a report's folder, so that a run which goes on with that one finds it. Raises OSError.

        Links stay links: what they lead to outside of the folder is nobody's to hand on.
        """
        for id_, source in self.folders.items():
            shutil.copytree(source, folder / CARRIED / id_, symlinks=True, dirs_exist_ok=True)


def passed_before(
    folder: Path, wanted: Sequence[Turn], cluster_uid: str, kind: TargetKind, expected: Callable[[Experiment], frozenset[str]]
) -> Carried:
    """What an earlier run has passed of the turns, by its artefacts alone: of this cluster, by what is ``expected`` now, on the same node.

    A node that has the name of another one, or registered anew, is not the same. What earlier runs handed on counts too.
    Of a turn that was carried out several times, the last time counts.
    """
    found, latest = Carried(), dict[str, float]()
    by_id = {turn.id: turn for turn in wanted}
    paths, unread = find_files(folder, artefacts.ENGINE)
    for path in paths:
        stored = Artefacts(path.parent)
        try:
            engine, plan, experiment = stored.engine(), stored.plan(), stored.experiment()
        except ArtefactError as error:
            found.notes.append(f"{path.parent}: {error}; it is carried out again")
            continue
        turn = by_id.get(engine.turn or engine.experiment)
        if turn is None or plan.cluster_uid != cluster_uid:
            continue
        if not expected(turn.experiment).issubset(engine.expectations):
            found.notes.append(f"{turn.id}: run {plan.run_id} did not go by all that is expected of it now; it is carried out again")
            continue
        if plan.node_uids.get(turn.node, "") != turn.node_uid:
            found.notes.append(f"{turn.id}: {turn.node} is not the node that it was in run {plan.run_id}; it is carried out again")
            continue
        if engine.started < latest.get(turn.id, engine.started):
            continue
        latest[turn.id] = engine.started
        found.results.pop(turn.id, None)
        found.folders.pop(turn.id, None)
        verdict = judge(path.parent)
        if verdict.verdict is Verdict.PASSED:
            result = result_of(path.parent, verdict, experiment, kind)
            result.id, result.artefacts, result.message = turn.id, "", f"passed in run {plan.run_id}, which this run goes on with"
            found.results[turn.id], found.folders[turn.id] = result, path.parent
    found.notes += [*unread, f"{len(found.results)} of {len(wanted)} were passed before and are not carried out again"]
    return found
