"""What a run left behind in the cluster: looked for at its end, removed, and told where it stays."""

from __future__ import annotations

from conformance.plugin.session import State
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.ownership.leftovers import find_leftovers, remove
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof_record import ProofView
from fixtures.ownership.read_proofs import proof_files, read_files, read_proofs
from fixtures.text.sentences import few
from fixtures.verdict.record import Access, Verdict


def sweep(state: State, *, workers: bool) -> None:
    """Look at what the cluster shows of the run, and remove it. What then stays, or may, is residue (exit code 11).

    What the run remembers does not count: an interrupted worker's memory is lost, and what it could not remove may be gone. Only
    kinds that a selected requirement creates are looked for: for others the caller may have no right. A kind that was never
    created for lack of rights leaves nothing.
    """
    cluster = state.opened.cluster
    keys = tuple(key for key in created_keys(state) if key not in state.never_created)
    if cluster is None or state.options.access is Access.READ or not keys:
        return
    try:
        views = {state.run_id: _proof_of(state, cluster)}
        found = find_leftovers(cluster, views, state.run_id, keys=keys)
        state.residue += remove(cluster, found, views)
        look_alikes = [f"{item} carries this run's labels, and the run did not create it: left as it is" for item in found.unproven]
        state.complaints += few(look_alikes, "that carry this run's labels, and that the run did not create: left as they are")
    except ApiTrouble as trouble:
        if _may_have_created(state) if workers else state.began:
            state.residue.append(f"cannot tell what is left of run {state.run_id}: {trouble.message}")
        return
    if not state.residue:
        for file in proof_files(state.report_folder) if state.report_folder else ():
            file.unlink(missing_ok=True)  # of a worker that ended without a word


def _may_have_created(state: State) -> bool:
    """Whether a worker may have created anything. What a killed one did is not known: a requirement without a result may have begun."""
    probed = (result.access is not Access.READ and result.verdict is not Verdict.NOT_APPLICABLE for result in state.results.values())
    return any(probed) or len(state.results) < state.planned


def _proof_of(state: State, cluster: Cluster) -> ProofView:
    """The proofs of the run: its PriorityClasses, and its folder."""
    view = ProofView(run_id=state.run_id)
    if PRIORITY_CLASSES not in state.never_created:
        view = read_proofs(cluster, state.run_id).get(state.run_id, view)
    if state.report_folder is not None:
        view = view.merged(read_files(proof_files(state.report_folder))[0].get(state.run_id, ProofView(run_id=state.run_id)))
    return view


def created_keys(state: State) -> list[str]:
    """Cluster-scoped kinds that the selected requirements create, and the PriorityClass that proves what they create."""
    created = {right.removeprefix("create ") for right in state.needs.writes if right.startswith("create ")}
    return [key for key in owned.CLUSTER_SCOPED_KEYS if key in created or (created and key == PRIORITY_CLASSES)]
