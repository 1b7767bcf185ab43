"""A run's hold on the cluster: the Lease taken, renewed by a thread, and given back."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from chaos.cluster import namespaces
from chaos.cluster.requests import accepted, read
from chaos.ledger import authentic, config_maps
from chaos.model.records import Aborted, LeaseRefused, now
from chaos.safety.lease import KEY, NAME, SECONDS, Holder, LeaseView, parse_lease, read_lease
from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.model.objects import uid_of
from fixtures.ownership import owned

RENEW_SECONDS = 5.0


class LeaseKeeper:
    """One run's hold on the cluster. ``stop`` is called once, with the reason, when the run must stop: halted, or the hold is lost."""

    def __init__(
        self,
        cluster: Cluster,
        run_id: str,
        stop: Callable[[str], None],
        *,
        seconds: int = SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        administrators: str = "",
    ) -> None:
        self._cluster = cluster
        self._run_id = run_id
        self._me = str(Holder.me(run_id))
        self._stop = stop
        self._seconds = seconds
        self._renew_seconds = renew_seconds
        self._version = ""
        self._administrators = administrators
        self._space = ""
        self._uid = ""  # of the Lease that this run has taken
        self._stopped = False
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost = ""
        self.forged: tuple[str, ...] = ()  # what looks like an earlier run's ledger, and nothing vouches for

    # -- acquiring -------------------------------------------------------------------------------------

    def acquire(self, *, recovering: bool = False) -> None:
        """Take the Lease and keep it by a thread until :meth:`release`.

        Raises :class:`LeaseRefused` when another run holds it, and, unless ``recovering``, when it is halted or an earlier run's
        ledger has open entries. Raises ApiTrouble.
        """
        self._space = namespaces.ensure_shared(self._cluster, self._administrators)
        found = read_lease(self._cluster)
        if found is not None:
            if found.halted and not recovering:
                raise LeaseRefused(f"halted by {found.halted}; end the halt with `gpu-conformance chaos halt --off`")
            self._must_be_free(found)
        if not recovering:
            ledgers = authentic.read_ledgers(self._cluster)
            self.forged = ledgers.forged
            if left := ledgers.earlier():
                raise LeaseRefused(
                    f"{sum(left.values())} changes of run {', '.join(sorted(left))} are not known to be undone; "
                    "first `gpu-conformance chaos recover`"
                )
        self._take(found)
        self._thread = threading.Thread(target=self._renew, daemon=True, name="chaos-lease")
        self._thread.start()

    def _must_be_free(self, found: LeaseView) -> None:
        held = found.held()
        if held is False or found.identity == self._me:
            return
        whose = f"{found.identity} holds the Lease {self._space}/{NAME}"
        if held:
            raise LeaseRefused(f"{whose}, renewed {_seconds(found.age())} ago; one run acts on a cluster at a time")
        if self._renewed_within(found):
            raise LeaseRefused(f"{whose} and renews it, by another clock than this machine's; one run acts on a cluster at a time")

    def _renewed_within(self, found: LeaseView) -> bool:
        """Whether anybody writes to it during one more of its durations: clocks of two machines may differ."""
        with Observation(self._cluster, KEY, self._space, fields=f"metadata.name={NAME}") as observation:
            for objects in observation.until(time.monotonic() + found.seconds):
                if any(parse_lease(lease).renewed != found.renewed for lease in objects.values()):
                    return True
        return False

    def _spec(self, found: LeaseView | None) -> Json:
        moment = now()
        taken = {} if found is not None and found.identity == self._me else {"acquireTime": moment}
        return {"holderIdentity": self._me, "leaseDurationSeconds": self._seconds, "renewTime": moment, **taken}

    def _take(self, found: LeaseView | None) -> None:
        if found is None:
            labels = {owned.MANAGED_BY: owned.SUITE}
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": NAME, "labels": labels},
                "spec": self._spec(None),
            }
            answer = self._cluster.create(KEY, body, namespace=self._space)
        else:
            patch = {"metadata": {"resourceVersion": found.version}, "spec": self._spec(found)}
            answer = self._cluster.patch(KEY, NAME, patch, self._space)
        if answer.status == 409:
            raise LeaseRefused(f"another run has just taken the Lease {self._space}/{NAME}; one run acts on a cluster at a time")
        taken = parse_lease(accepted(answer, "take the Lease").json())
        if taken.identity != self._me:
            raise ApiTrouble("NotKept", f"the Lease {self._space}/{NAME} came back with another holder: {taken.identity or 'nobody'}")
        self._version, self._uid = taken.version, taken.uid

    # -- keeping ---------------------------------------------------------------------------------------

    def _renew(self) -> None:
        renewed = time.monotonic()
        while not self._ending.wait(self._renew_seconds):
            try:
                self._renew_once()
                renewed = time.monotonic()
            except ApiTrouble as trouble:
                if time.monotonic() - renewed > self._seconds:
                    self.lost = f"the Lease could not be renewed for {self._seconds} s: {trouble.message}"
            except Aborted as lost:
                self.lost = str(lost)
            if self.lost:
                self._stop_once(self.lost)
                return

    def _renew_once(self) -> None:
        answer = self._patched()
        if answer.status in (404, 409):
            current = read_lease(self._cluster)
            if current is None or current.identity != self._me:
                raise Aborted(f"the Lease was lost to {current.identity if current else 'nobody: it was deleted'}")
            self._version = current.version  # an annotation was written, or a renewal without an answer took place
            answer = self._patched()
        current = parse_lease(accepted(answer, "renew the Lease").json())
        self._version = current.version
        if current.halted:
            self._stop_once(f"halted by {current.halted}")  # still ours, so that what was done can be undone

    def _patched(self) -> Answer:
        path, spec = self._cluster.path(KEY, self._space, NAME), {"holderIdentity": self._me, "renewTime": now()}
        body = {"metadata": {"resourceVersion": self._version}, "spec": spec}
        merge = "application/merge-patch+json"
        return self._cluster.request("PATCH", path, body=body, content_type=merge, attempts=1, seconds=self._renew_seconds)

    def _stop_once(self, reason: str) -> None:
        if not self._stopped:
            self._stopped = True
            self._stop(reason)

    # -- releasing -------------------------------------------------------------------------------------

    def release(self) -> list[str]:
        """Let go, and remove what nobody needs any more: clean ledgers, and the namespace when a run created it. What is left of that.

        While anything is open, or the cluster is halted, Lease and namespace stay. Each call begins with what the cluster shows, not
        with what an earlier one was told: the answer to a deletion that took place may be lost. Raises ApiTrouble.
        """
        self.abandon()
        space, going = namespaces.shared_state(self._cluster)
        if space and not going and not self._may_remove(space):
            return []
        left = namespaces.remove_shared(self._cluster)
        if not left:
            self._remove_lease()
        return left

    def withdraw(self) -> list[str]:
        """After :meth:`acquire` was refused: leave nothing of the attempt, and what is others' alone. What is left of it.

        Raises ApiTrouble, LedgerError.
        """
        self.abandon()
        current = read_lease(self._cluster)
        if current is not None and current.identity != self._me:
            return []
        return self.release()

    def _may_remove(self, space: str) -> bool:
        """Whether nobody needs the namespace any more. Then this run holds the Lease in it, so that nobody begins meanwhile."""
        current = read_lease(self._cluster)
        if current is not None and current.identity not in ("", self._me):  # somebody else's by now, who may be writing ledgers
            config_maps.remove_clean(self._cluster, space, self._run_id)
            return False
        if current is None or not current.identity:  # let go by an earlier call, or deleted
            if (current is not None and current.halted) or config_maps.are_needed(self._cluster, space):
                return False
            self._space = space
            try:
                self._take(current)
            except LeaseRefused:
                return False
            current = read_lease(self._cluster)
            if current is None or current.identity != self._me:
                return self._not_kept(current)
        self._space, self._uid = space, current.uid
        config_maps.remove_clean(self._cluster, space)
        if not current.halted and not any(config_maps.readable_runs(self._cluster, space)):
            return True
        self._let_go(current)
        return False

    def _not_kept(self, current: LeaseView | None) -> bool:
        """False when another run has the Lease by now, or has removed the namespace. Else nobody removes it: raises ApiTrouble."""
        if (current is None or not current.identity) and namespaces.shared_state(self._cluster) == (self._space, False):
            stays = f"namespace {self._space} and PriorityClass {namespaces.ANCHOR}"
            raise ApiTrouble("NotKept", f"{stays} stay: the Lease was taken by the answer, and the cluster does not show it")
        return False

    def _let_go(self, current: LeaseView) -> None:
        patch = {"metadata": {"resourceVersion": current.version}, "spec": {"holderIdentity": None}}
        answer = self._cluster.patch(KEY, NAME, patch, self._space)
        if answer.status not in (404, 409):
            accepted(answer, "release the Lease")

    def _remove_lease(self) -> None:
        """An administrator's namespace stays: this run's own Lease goes alone, or is let go where it may not be deleted."""
        if not self._uid:
            return
        try:
            owned.ask_deletion(self._cluster, KEY, NAME, self._space, self._uid)
        except ApiTrouble as trouble:
            if trouble.code != "Forbidden":
                raise
            found = read(self._cluster, KEY, NAME, self._space)
            if found is not None and uid_of(found) == self._uid and parse_lease(found).identity == self._me:
                self._let_go(parse_lease(found))
        self._uid = ""

    def abandon(self) -> None:
        """Renew it no more, and leave it to expire."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(self._renew_seconds + self._seconds)
            self._thread = None


def _seconds(age: timedelta | None) -> str:
    return "an unknown time" if age is None else f"{age.total_seconds():.0f} s"
