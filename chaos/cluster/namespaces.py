"""The namespaces of chaos: those of each run for its pods, and one that all runs share for Lease and ledgers.

A tenant may create a namespace of any name and label. So a namespace counts only when its creation by a run is proven
(:mod:`fixtures.ownership.proof`): whatever is put into another one could be read, changed and entered by whoever made it. Those of a
run have names that nobody can guess, and are found by the proof. The shared one has a proof of its own, the PriorityClass
:data:`ANCHOR`, which also says what it is called: where somebody has taken its usual name, it has another, and nobody is kept from
working.
"""

import re
import secrets
import threading
import time
from collections.abc import Iterator

from chaos.cluster.requests import Reviewer, accepted, await_object, read
from chaos.model.plan import CANARIES
from fixtures.cluster.access import Right
from fixtures.cluster.answer import UNREADABLE
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.objects import is_going, name_of, uid_of
from fixtures.ownership import owned
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof import NOT_KEPT, Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX, CreatedItem, ProofView, proofs_of
from fixtures.ownership.read_proofs import find_leftovers, read_proofs
from fixtures.probes import namespace_limits
from fixtures.text.sentences import plain

SHARED = "gpu-conformance-chaos"
"""Lease and ledgers. It carries no run's label: cleaning up after a run must not take another run's ledger along."""

SHARING = "shared"
"""The run id under which the shared namespace is proven. No run has it."""

ANCHOR = f"{CHAOS_PREFIX}-{SHARING}"
"""The PriorityClass that proves the shared namespace."""

GONE_SECONDS = 60.0
ROUNDS = 3
"""How often the shared namespace is made. A tenant may take a name, and another run's end may take the namespace along. What undoes it
more often is something on the way that answers in the API server's place."""

_PAUSE = 0.5
"""Seconds before the second round. The next pause is twice as long."""

AGREE_SECONDS = 10.0
"""For how long a run waits for a namespace that another one has announced, before it takes that one for dead."""

PODS = 100
"""Pods at a time in a namespace of a run of experiments."""

RIGHTS = (f"create {namespace_limits.NETWORK_POLICIES}", f"create {namespace_limits.QUOTAS}")
"""What bounding a namespace takes; its removal takes them along."""

_KEY = "namespaces"
_MARK_BYTES = 4
_ADMINISTRATORS = "administrators-namespaces"
"""Key in the proof of a namespace that an administrator made, and that the policy names by UID: it is used, and never removed."""

_KEPT = ("create configmaps", "patch configmaps", "create coordination.k8s.io/leases", "patch coordination.k8s.io/leases")


def is_run(text: str) -> bool:
    """Whether the text can be the id of a run: :data:`SHARING` is not."""
    return owned.is_run_id(text) and text != SHARING


def new_mark() -> str:
    """A part of a name that nobody can guess."""
    return secrets.token_hex(_MARK_BYTES)


def of_run(run_id: str, mark: str = "") -> str:
    """A name for a namespace of the run's own, for injector pods. Without a mark it is one that anybody can guess."""
    return "-".join(filter(None, (SHARED, run_id, mark)))


def is_name_of_run(name: str, run_id: str) -> bool:
    """Whether a namespace of the run may have this name. So may anybody's: the name proves nothing."""
    return _is_for_pods(name.removesuffix(CANARIES), run_id)


def _is_for_pods(name: str, run_id: str) -> bool:
    """The same for the namespace of injector pods. Runs of older versions gave it no mark."""
    return re.fullmatch(f"{re.escape(of_run(run_id))}(-[0-9a-f]{{{2 * _MARK_BYTES}}})?", name) is not None


# -- the shared one --------------------------------------------------------------------------------------


def find_shared(cluster: Cluster) -> str:
    """Name of the shared namespace; empty when none is there that is proven to be ours. Raises ApiTrouble."""
    return shared_state(cluster)[0]


def shared_state(cluster: Cluster) -> tuple[str, bool]:
    """Its name, as :func:`find_shared` gives it, and whether it is being deleted. Raises ApiTrouble."""
    anchor = _proof(cluster)
    return _found(cluster, anchor) if anchor is not None else ("", False)


def has_anchor(cluster: Cluster) -> bool:
    """Whether anything of the shared namespace, or its proof alone, is there. Raises ApiTrouble."""
    return _proof(cluster) is not None


def ensure_shared(cluster: Cluster, administrators: str = "") -> str:
    """The shared namespace, created unless it is there; its name.

    ``administrators`` is the UID of a namespace of the usual name that an administrator has made (``chaos.namespaceUid``). Somebody
    else's is left as it is. Raises ApiTrouble when none can be had.
    """
    deadline = time.monotonic() + GONE_SECONDS
    turn, made, awaited = _Turn(), 0, 0
    while True:
        usual = read(cluster, _KEY, SHARED)  # before the proof: what a run created by now is announced in what is read next
        anchor = _anchor(cluster)
        name, going = _found(cluster, anchor.view)
        if name and not going:
            return name
        if name:
            awaited += 1
            if awaited > ROUNDS:
                raise ApiTrouble("Terminating", f"namespace {name} was gone {ROUNDS} times, and is there again, being deleted")
            _await_gone(cluster, name)
            continue
        if usual is not None and administrators and uid_of(usual) == administrators:
            anchor.created(_ADMINISTRATORS, SHARED, administrators)
            return SHARED
        wanted = SHARED if usual is None else f"{SHARED}-{SHARING}-{secrets.token_hex(4)}"
        if usual is not None and (denied := Reviewer(cluster).denied([Right.parse(f"{text} in {wanted}") for text in _KEPT])):
            text = f"namespace {SHARED} (UID {uid_of(usual)}) is not known to be ours, and this account may not {denied[0].verb} "
            text += f"{denied[0].key} in another; where an administrator made it, name it in chaos.namespaceUid"
            anchor.close()
            raise ApiTrouble("Forbidden", text)
        labels = {owned.MANAGED_BY: owned.SUITE}
        try:
            if turn.has_come(cluster, anchor, wanted):
                uid = _created(cluster, anchor, wanted, labels, "restricted")
                if uid and _found(cluster, _anchor(cluster).view) == (wanted, False):
                    return wanted
                if uid:
                    _take_back(cluster, wanted, uid)  # another run's end took it along
                    anchor.not_created(_KEY, wanted)
                made += 1
                if made == ROUNDS:
                    raise ApiTrouble(NOT_KEPT, f"namespace {wanted} was made {made} times, and the cluster never showed it with its proof")
                threading.Event().wait(_PAUSE * 2 ** (made - 1))
        except ApiTrouble as trouble:
            raise ApiTrouble(trouble.code, trouble.message + _left(anchor)) from trouble
        if time.monotonic() > deadline:
            raise ApiTrouble("Timeout", f"namespace {wanted} could not be made within {GONE_SECONDS:g} s{_left(anchor)}")


def _left(anchor: Proof) -> str:
    """Remove the proof of the shared namespace unless it proves something, for another run perhaps; what is to be said if it stays."""
    why = anchor.close()
    return f"; {why if ANCHOR in why else f'PriorityClass {ANCHOR} may be left behind: {why}'}" if why else ""


class _Turn:
    """Runs that start at once make one namespace, not two: each of two would hold a Lease."""

    def __init__(self) -> None:
        self._awaited, self._since = "", 0.0

    def has_come(self, cluster: Cluster, anchor: Proof, wanted: str) -> bool:
        """Announce the namespace; whether no other is there or was announced before. Else take it back and wait a little.

        Raises ApiTrouble.
        """
        anchor.will_create(_KEY, wanted)
        view = anchor.view  # with what others announced by now
        first = next((name for key, name in view.announced if key == _KEY), wanted)
        if first == wanted and not _found(cluster, view)[0]:
            return True
        anchor.not_created(_KEY, wanted)
        if first != self._awaited:
            self._awaited, self._since = first, time.monotonic()
        elif time.monotonic() - self._since > AGREE_SECONDS:
            _forget(cluster, anchor, first)
        threading.Event().wait(0.2)
        return False


def _forget(cluster: Cluster, anchor: Proof, name: str) -> None:
    """Whoever announced the namespace has died: remove it. Nobody may use it: whoever saw its token may have made another by now.

    The announcement goes first. So whoever lives and only paused has either written down the UID before, and the namespace stays, or
    finds the announcement gone, and does not use it. Raises ApiTrouble.
    """
    found = read(cluster, _KEY, name)
    announced = found is not None and anchor.view.created_this(_KEY, found)
    anchor.not_there(_KEY, name)
    if announced and not anchor.view.has_uid(uid_of(found)):
        owned.remove(cluster, [owned.Leftover(_KEY, name, "", uid_of(found), SHARING)], seconds=AGREE_SECONDS)


def remove_shared(cluster: Cluster) -> list[str]:
    """Remove the shared namespace if a run created it, and then its proof; what of them is still there. Raises ApiTrouble.

    An administrator's stays, and is forgotten. Each call begins with what the cluster shows: a call whose answers got lost is
    repeated, and the proof goes although the namespace is gone already. A proof that another run needs by now is nothing that is left.
    """
    view = _proof(cluster)
    if view is None:
        return []
    names = [name for key, name in view.names if key == _KEY]
    ours = [found for name in names if (found := read(cluster, _KEY, name)) is not None and view.created_this(_KEY, found)]
    going = [owned.Leftover(_KEY, name_of(found), "", uid_of(found), SHARING) for found in ours]
    if staying := owned.remove(cluster, going, seconds=GONE_SECONDS):
        return [f"{item.key} {item.name}" for item in staying]
    anchor = _anchor(cluster)
    before = _items(anchor)
    uids = {uid for key, name, uid in anchor.view.created if key == _ADMINISTRATORS or uid_of(read(cluster, _KEY, name)) != uid}
    anchor.removed(uids)
    unmade = set()
    for key, name in anchor.view.names:
        found = read(cluster, key, name) if key == _KEY else None
        if found is None or not anchor.view.created_this(key, found):
            anchor.not_there(key, name)
            unmade.add((key, name))
    dropped = {item for item in before if (item.uid in uids if item.uid else (item.key, item.name) in unmade)}
    why = anchor.close()  # a server that did not take what was dropped shows it again, and nothing that another run has written
    return [f"priorityclasses {ANCHOR}: {why}"] if why and _items(anchor) <= dropped else []


def _items(anchor: Proof) -> set[CreatedItem]:
    """What the proof of the shared namespace holds, as it was last read."""
    return {item for record in anchor.view.records for item in record.created}


def foreign_namespace(cluster: Cluster) -> str:
    """What is said of a namespace of the usual name whose creation nothing proves; empty when there is none. Raises ApiTrouble."""
    found = read(cluster, _KEY, SHARED)
    view = _proof(cluster) if found is not None else None
    if found is None or (view is not None and view.has_uid(uid_of(found))):
        return ""
    if view is not None and view.created_this(_KEY, found):
        return f"namespace {SHARED} (UID {plain(uid_of(found))}): the run that announced it wrote down no UID, so nothing in it counts"
    text = f"namespace {SHARED} (UID {plain(uid_of(found))}) was made by somebody else: nothing in it counts"
    return f"{text}; where an administrator made it, the policy says so (chaos.namespaceUid)"


def _proof(cluster: Cluster) -> ProofView | None:
    """The proof of the shared namespace; None where neither a list nor a read by name shows it. Raises ApiTrouble.

    An emptied list would end a halt that goes on.
    """
    for _ in range(2):  # another run may create it between the two reads
        if (view := read_proofs(cluster, SHARING).get(SHARING)) is not None:
            return view
        if not proofs_of(filter(None, [read(cluster, PRIORITY_CLASSES, ANCHOR)])):
            return None
    raise ApiTrouble(UNREADABLE, f"list {PRIORITY_CLASSES}: it does not show {ANCHOR}, which a read by name shows")


def _anchor(cluster: Cluster) -> Proof:
    return Proof.open(cluster, SHARING, prefix=CHAOS_PREFIX, renewing=False)


def _found(cluster: Cluster, view: ProofView) -> tuple[str, bool]:
    """Name of the namespace that the anchor proves by UID, and whether it is being deleted. A token that was announced proves nothing."""
    for name in dict.fromkeys(name for _, name, _ in view.created):
        found = read(cluster, _KEY, name)
        if view.has_uid(uid_of(found)):
            return name, is_going(found)
    return "", False


# -- a run's own -------------------------------------------------------------------------------------------


def uid_of_shared(cluster: Cluster) -> str:
    """UID of the shared namespace, empty when there is none. Raises ApiTrouble."""
    return uid_of(read(cluster, "namespaces", SHARED))


def find_run(cluster: Cluster, run_id: str) -> str:
    """Name of the run's own namespace; empty when none is there that its proof has the UID of. Raises ApiTrouble."""
    return next((name for name, found in _proven(cluster, run_id) if not owned.is_going(found)), "")


def find_all_of_run(cluster: Cluster, run_id: str) -> list[str]:
    """The same of all that the run has, those too that are being deleted: their pods may still act. Raises ApiTrouble."""
    return [name for name, _ in _proven(cluster, run_id)]


def _proven(cluster: Cluster, run_id: str) -> Iterator[tuple[str, Json]]:
    """Namespaces for injector pods that the run's proof has the UIDs of. Raises ApiTrouble."""
    view = read_proofs(cluster, run_id).get(run_id)
    names = [name for key, name, _ in view.created if key == _KEY and _is_for_pods(name, run_id)] if view is not None else []
    for name in dict.fromkeys(names):
        found = read(cluster, _KEY, name)
        if view is not None and found is not None and view.has_uid(uid_of(found)):
            yield name, found


def ensure_run(cluster: Cluster, run_id: str, *, name: str = "", undoing: bool = False) -> str:
    """The run's own namespace, created unless it is there; its name.

    A new one gets the given ``name``, and another one where somebody's namespace has that: nothing is put into his, and it stays as it
    is. One that cannot be bounded is used only for ``undoing``. One that a process had no time to write down is not used: by now
    somebody who saw its token may have made another. Raises ApiTrouble when none can be had.
    """
    if not (own := find_run(cluster, run_id)):
        proof = Proof.open(cluster, run_id, prefix=CHAOS_PREFIX, renewing=False)
        labels = owned.labels(run_id)
        names = [name or of_run(run_id, new_mark()), *(of_run(run_id, new_mark()) for _ in range(ROUNDS - 1))]
        own = next((wanted for wanted in names if _created(cluster, proof, wanted, labels, "privileged")), "")
        if not own:
            text = f"no namespace could be made for run {run_id}: {', '.join(names)} are said to be there already"
            raise ApiTrouble("AlreadyExists", f"{text}; nobody can guess these names, so look for what answers in the API server's place")
    limit(cluster, own, run_id, namespace_limits.quota(PODS, {}), needed=not undoing)
    return own


def require_own(cluster: Cluster, found: Json, run_id: str) -> None:
    """Raises ApiTrouble unless the run's proof has the namespace's UID: labels say nothing, and a token may have been copied."""
    view = read_proofs(cluster, run_id).get(run_id)
    if view is None or not view.has_uid(uid_of(found)):
        why = "it is left as it is, and nothing is put into it; start the experiment again, and it gets another name"
        raise ApiTrouble("AlreadyExists", f"namespace {name_of(found)} is there, and not proven to be of run {run_id}: {why}")


def limit(cluster: Cluster, namespace: str, run_id: str, quota: Json, *, needed: bool = True) -> None:
    """Close a namespace of the run to all traffic, and bound what it may hold. Raises ApiTrouble when that is refused and ``needed``."""
    for key, obj in ((namespace_limits.NETWORK_POLICIES, namespace_limits.closed()), (namespace_limits.QUOTAS, quota)):
        wanted = {**obj, "metadata": {**obj["metadata"], "labels": owned.labels(run_id)}}
        answer = cluster.create(key, wanted, namespace=namespace)
        if needed and answer.status != 409:  # it is the run's own namespace
            accepted(answer, f"create {key} in namespace {namespace}")


def remove_run(cluster: Cluster, run_id: str, *, seconds: float = GONE_SECONDS) -> list[owned.Leftover]:
    """Remove what the run created cluster-wide, as its proof knows it, its namespaces with all that is in them; what is still there.

    Its proof stays, which vouches for what could not be undone, and no longer for what is gone.
    """
    views = read_proofs(cluster, run_id)
    found = find_leftovers(cluster, views, run_id)
    left = owned.remove(cluster, list(found.objects), seconds=seconds)
    if any(view.has_class(CHAOS_PREFIX) for view in views.values()):
        proof = Proof.open(cluster, run_id, prefix=CHAOS_PREFIX, renewing=False)
        proof.settle({(item.key, item.name) for item in left})
    return left


# -- making them -----------------------------------------------------------------------------------------


def _created(cluster: Cluster, proof: Proof, name: str, labels: dict[str, str], level: str) -> str:
    """Create a namespace that the proof knows of first; its UID, empty when somebody else's has the name. Raises ApiTrouble."""
    more, annotations = namespace_limits.marks(level)
    metadata = {"name": name, "labels": {**labels, **more}, "annotations": {**annotations, **proof.will_create(_KEY, name)}}
    answer = cluster.create(_KEY, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    try:
        if uid := proof.confirm(_KEY, name, answer):
            return uid
    except ApiTrouble as trouble:
        if answer.ok:  # whoever deleted the proof meanwhile would leave it to nobody
            _take_back(cluster, name, uid_of(answer.json()), f" ({trouble.message})")
        raise
    if answer.ok:  # this run paused, and another took it for dead
        _take_back(cluster, name, uid_of(answer.json()))
    elif answer.status != 409:
        accepted(answer, f"create namespace {name}")
    return ""


def _take_back(cluster: Cluster, name: str, uid: str, why: str = "") -> None:
    """Remove a namespace that was created just now. Raises ApiTrouble when that is not known to have succeeded."""
    if owned.remove(cluster, [owned.Leftover(_KEY, name, "", uid, SHARING)], seconds=GONE_SECONDS):
        text = f"namespace {name} (UID {uid}) was created, its proof could not be written{why}, and it may be left behind"
        raise ApiTrouble("NotProvable", text)


def _await_gone(cluster: Cluster, name: str) -> None:
    if await_object(cluster, _KEY, name, "", time.monotonic() + GONE_SECONDS, lambda found: "it is there" if found else ""):
        raise ApiTrouble("Terminating", f"namespace {name} is still being deleted after {GONE_SECONDS:g} s")
