"""OPS-03: no agent or controller of the stack crash-loops, or restarts more often than the policy allows, Ready in between or not.

The API keeps a container's count of restarts and how its last run ended, not when each restart was. So a rate is known only for pods
that are younger than the time restarts are counted in, and over a pod's whole life. Facts: docs/facts/kubernetes-limits.md#restarts.
"""

from collections.abc import Iterator

import msgspec

from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import moment
from fixtures.model.cluster import Scope
from fixtures.model.jobs.pod_makers import controller_of
from fixtures.model.platform.agents import agents
from fixtures.model.platform.containers import Crash, crashes
from fixtures.text.globs import matches
from fixtures.text.sentences import ask_again, duration, listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, NOT_UNDERSTOOD, About, Finding, Outcome
from fixtures.verdict.subjects import NotApplicable, Subject

STACK = (
    "*gpu-operator*", "*network-operator*", "*dra-driver*", "*device-plugin*", "*node-feature-discovery*", "nvsentinel*", "kube-amd-gpu",
    "gpu-resources", "inteldeviceplugins-system", "intel-g*-resource-driver", "intel-gpu-base-operator", "habana-system", "volcano-system",
    "koordinator-system", "kueue-system", "kai-scheduler", "runai*",
    "jobset-system", "lws-system", "kubeflow*", "kuberay-*", "mpi-operator", "training-operator",
)  # fmt: skip
"""Namespaces (globs) of the stack's controllers, where the policy calls them the platform's."""

_SHARED = ("kube-system", "default")
_SOURCE = "pod.status.containerStatuses: restartCount, lastState, state"
_STARTING = 900.0
"""How long a pod's crashes may be those of a stack that starts: the driver comes up last, and all others wait for it by failing."""
_KILLED_TOGETHER, _KILLED_SHARE = 2, 0.02
"""On how many nodes an agent must have run out of memory, and what share of its pods: one pod may have had bad luck."""

_CONTROLLERS = frozenset({"DaemonSet", "ReplicaSet", "StatefulSet"})
"""Owners of what runs for ever. Jobs of users may be in a namespace of the platform too."""


class Suspect(msgspec.Struct, frozen=True):
    """A pod and what its restarts mean."""

    pod: Pod
    why: str
    cause: str = NOT_UNDERSTOOD
    outcome: Outcome = Outcome.UNDECIDED


def check_restarts(scope: Scope) -> Iterator[Finding]:
    """One finding per agent and controller of the stack, over all of its pods. Raises :class:`NotApplicable` where there is none."""
    groups = _groups(scope)
    if not groups:
        raise NotApplicable("NoStack", "no pod of an agent or controller of a device stack is in the cluster")
    for place, pods in sorted(groups.items(), key=lambda entry: str(entry[0])):
        yield _judge(scope, place, pods)


def _groups(scope: Scope) -> dict[Subject, list[Pod]]:
    """Pods of the stack by the workload that owns them."""
    found = agents(scope)
    owners = {(agent.daemonset.namespace, agent.daemonset.metadata.uid) for agent in found}
    homes = {agent.daemonset.namespace for agent in found} - set(_SHARED)
    groups: dict[Subject, list[Pod]] = {}
    for pod in scope.snapshot.pods:
        owner = pod.controller
        if pod.finished or pod.metadata.deletion_timestamp or (scope.chosen and pod.node_name not in scope.chosen):
            continue
        of_agent = owner is not None and owner.kind == "DaemonSet" and (pod.namespace, owner.uid) in owners
        at_home = (pod.namespace in homes or matches(pod.namespace, STACK)) and scope.platform.of(pod.namespace).components
        if of_agent or (at_home and owner is not None and owner.kind in _CONTROLLERS):
            groups.setdefault(Subject(*controller_of(pod), pod.namespace), []).append(pod)
    return groups


def _judge(scope: Scope, place: Subject, pods: list[Pod]) -> Finding:
    operators, now = scope.policy.operators, scope.snapshot.taken_at
    window = operators.restart_hours * 3600
    often = f"at most {operators.max_restarts} restarts of a container in {duration(window)}"
    expected = f"no crash loop, {often}, not out of memory on several nodes"
    restarted = [(pod, found) for pod in pods if (found := crashes(pod))]
    suspects = [suspect for pod, found in restarted if (suspect := _suspect(pod, found, now, window, operators.max_restarts))]
    wrong = [suspect for suspect in suspects if suspect.outcome is Outcome.BAD]
    killed = [pod for pod, found in restarted if any(crash.oom and _within(crash, now, window) for crash in found)]
    restarts = sum(crash.count for _, found in restarted for crash in found)
    observed = f"{len(pods)} pods, {restarts} restarts in their lives"
    about = About(place, _SOURCE, expected)
    if wrong:
        observed += f"; {listed([f'{suspect.pod.name} {suspect.why}' for suspect in wrong], 3)}"
        message = f"{_where(wrong[0].pod)}: {wrong[0].why}" + (f" (and {len(wrong) - 1} more pods)" if len(wrong) > 1 else "")
        return about.bad(message, cause=wrong[0].cause, observed=observed)
    if len({pod.node_name for pod in killed}) >= max(_KILLED_TOGETHER, _KILLED_SHARE * len(pods)):
        names = listed([_where(pod) for pod in killed], 3)
        message = f"{len(killed)} of {len(pods)} pods ran out of memory within {duration(window)} ({names}): its memory limit is too low"
        return about.bad(message, cause="AgentOutOfMemory", observed=f"{observed}; OOMKilled: {names}")
    if suspects:
        return about.undecided(f"{_where(suspects[0].pod)}: {suspects[0].why}", cause=suspects[0].cause)
    if killed:
        observed += f"; OOMKilled once: {listed([pod.name for pod in killed])}"
    return about.ok(observed)


def _where(pod: Pod) -> str:
    return f"{pod.name} on {pod.node_name}" if pod.node_name else pod.name


def _within(crash: Crash, now: float, window: float) -> bool:
    return crash.ended is not None and now - crash.ended <= window


def _suspect(pod: Pod, containers: list[Crash], now: float, window: float, limit: int) -> Suspect | None:
    """What a pod's restarts mean, the worst of its containers; None where they are within the limit."""
    created = moment(pod.metadata.creation_timestamp)
    age = max(now - created, 1.0) if created is not None else None
    found = [suspect for crash in containers if (suspect := _of_container(pod, crash, age, now, window, limit))]
    return next((one for one in found if one.outcome is Outcome.BAD), found[0] if found else None)


def _of_container(pod: Pod, crash: Crash, age: float | None, now: float, window: float, limit: int) -> Suspect | None:
    often = f"how many of them in the last {duration(window)} is not known"
    if crash.looping and age is not None and age <= _STARTING and crash.count <= limit:
        return Suspect(pod, f"{crash}, and the pod has just started; {ask_again(age, _STARTING)}", CHANGE_UNDER_WAY)
    if crash.looping:
        return Suspect(pod, f"CrashLoopBackOff ({crash})", "AgentCrashLoops", Outcome.BAD)
    if crash.count <= limit:
        return None
    grown = age is not None and age > window
    mean = crash.count * window / age if age else 0.0
    if not crash.reason:  # its last run did not crash: its node may have been started again, which ends a loop
        return None if grown and mean <= limit else Suspect(pod, f"{crash}, and its last run did not crash; {often}")
    if crash.ended is None:
        return Suspect(pod, f"{crash}, and nothing tells when")
    if not _within(crash, now, window):
        return None
    ago = f"the newest {duration(now - crash.ended)} ago"
    if not grown:
        return Suspect(pod, f"{crash}, {ago}, Ready in between", "AgentRestartsOften", Outcome.BAD)
    if mean > limit:
        why = f"{crash}, about {mean:.0f} in {duration(window)} since it exists, {ago}"
        return Suspect(pod, why, "AgentRestartsOften", Outcome.BAD)
    if crash.began is not None and crash.ended - crash.began > window / max(limit, 1):
        return None  # its last run was long: the restarts are spread over its life
    return Suspect(pod, f"{crash}; {often}")
