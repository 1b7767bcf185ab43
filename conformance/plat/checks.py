"""AI operators, etcd, and namespaces that go.

PLAT-01: each webhook is asked by server-side dry-run with an object that the schema lets pass (``operators.yaml``): nothing is stored.
PLAT-04: whether etcd keeps up, by what the API server says of it since its start: its own checks, and how long its requests to etcd took.
Facts: https://kubernetes.io/docs/reference/using-api/health-checks/, https://kubernetes.io/docs/reference/instrumentation/metrics/.
"""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from conformance.common_findings import overdue
from conformance.probes.admission import UNREACHABLE
from conformance.probes.server_metrics import ETCD, PATH, ServerMetrics
from conformance.requirement import Asks, Form
from fixtures.cluster.answer import Answer
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import KINDS, kubectl_name
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.platform.definitions import Definition, definitions
from fixtures.model.platform.deployments import Deployment, deployments
from fixtures.model.platform.going_namespaces import homes
from fixtures.model.platform.webhooks import Webhook, webhooks
from fixtures.policy.model import Policy
from fixtures.probes.workspace import Workspace
from fixtures.text.globs import matches
from fixtures.text.sentences import ask_again, listed
from fixtures.text.yaml_text import packaged
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject


def check_namespaces(scope: Scope) -> Iterator[Finding]:
    """One finding per namespace that holds pods with devices, claims, agents or objects of the stack's kinds."""
    found = list(homes(scope))
    if not found:
        raise NotApplicable("NoHome", "no namespace holds devices, claims or agents")
    limit = scope.policy.operators.terminating_minutes * 60
    for one in found:
        about = About(Subject("Namespace", one.name), "metadata.deletionTimestamp, status.conditions", "Active, or gone in time", one.holds)
        if not one.going:
            yield about.ok()
            continue
        cause = "ApiGroupUnanswered" if one.undiscovered else "NamespaceStuck"
        rest = f": {one.kept_by}" if one.kept_by else ""
        late = overdue(about, one.since, scope.snapshot.taken_at, limit, "it is being deleted", cause=cause, rest=rest)
        why = rest or ": nothing says what keeps it"
        message = f"it has been in its deletion for longer than {limit / 60:g} minutes and holds {one.holds}{why}"
        yield late if isinstance(late, Finding) else about.bad(message, cause=cause)


CHECKS = "/readyz"
_BYTES = 1 << 20
_SECONDS = 60.0
_CHECK = re.compile(r"\[([+-])\](etcd[\w-]*)")
_FEWEST = 1000
"""Requests of which a hundredth is more than a few that a start made slow."""
_QUANTILE = 0.99


def read_checks(cluster: Cluster) -> dict[str, bool]:
    """The API server's checks of etcd by name, and whether each passes. Raises :class:`Inconclusive` where the caller may not ask."""
    try:
        answer = cluster.request("GET", CHECKS, query={"verbose": "1"}, accept="*/*", attempts=1, seconds=_SECONDS, cut_at=_BYTES)
    except ApiTrouble as trouble:
        if not _CHECK.search(trouble.message):
            raise
        text = trouble.message  # a failed check makes it a 500, whose body begins with the checks
    else:
        if not answer.ok:
            raise Inconclusive(answer.reason, f"GET {CHECKS}: {answer.status} {answer.message}")
        text = answer.body.decode(errors="replace")
    return {name: sign == "+" for sign, name in _CHECK.findall(text)}


def etcd_checks(asks: Asks) -> dict[str, bool]:
    """Those checks of the run's API server."""
    return asks(f"GET {CHECKS}?verbose", read_checks, Form(dict[str, bool]))


def buckets_of(metrics: ServerMetrics) -> dict[float, float]:
    """The buckets of all requests to etcd, whatever they were about: upper bound in seconds → number."""
    found: dict[float, float] = defaultdict(float)
    for labels, number in metrics.of(ETCD):
        try:
            found[float(labels.get("le", ""))] += number
        except ValueError:
            continue
    return dict(found)


def _slowest(buckets: Mapping[float, float]) -> tuple[float, float]:
    """Between which two bounds, in seconds, the 99th percentile is: nothing finer is known. The upper one may be infinite."""
    below = 0.0
    for bound in sorted(buckets):
        if buckets[bound] >= _QUANTILE * buckets[math.inf]:
            return below, bound
        below = bound
    return below, math.inf


def check_storage(checks: Mapping[str, bool], metrics: ServerMetrics, policy: Policy) -> Iterator[Finding]:
    """One finding about the checks of etcd by name, one about the requests."""
    about = About(Subject("API server", "checks of etcd"), f"GET {CHECKS}?verbose", "every check of etcd ok")
    if failed := [name for name, good in checks.items() if not good]:
        message = "the API server does not reach its etcd in time: requests fail, and a load balancer takes the server out"
        yield about.bad(message, cause="EtcdNotReady", observed=f"{listed(failed)} failed")
    elif checks:
        yield about.ok(f"{listed(list(checks))} ok")
    else:
        yield about.not_judged("this API server's readiness has no check of etcd")
    limit, buckets = policy.operators.etcd_seconds, buckets_of(metrics)
    about = About(Subject("API server", "requests to etcd"), f"GET {PATH}: {ETCD}", f"99 of 100 within {limit:g} s")
    requests = int(buckets.get(math.inf, 0))
    if metrics.trouble:
        yield about.undecided(f"the API server's figures could not be read: {metrics.trouble}", cause=metrics.code)
    elif requests < _FEWEST:
        yield about.not_judged(f"{requests} requests since this API server started: fewer than {_FEWEST} say nothing of the slowest")
    else:
        low, high = _slowest(buckets)
        observed = f"the 99th percentile of {requests} requests since its start is between {low:g} and {high:g} s"
        if low >= limit:
            message = f"{observed}: leases and bindings wait for etcd, and nodes go NotReady that are sound"
            yield about.bad(message, cause="EtcdSlow", observed=observed)
        else:
            yield about.ok(observed)


class Operator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operator: the resource key that shows it, names (globs) of its Deployments, an invalid object and what is wrong with it."""

    name: str
    key: str
    controllers: list[str]
    broken: str
    object: Json

    def invalid(self, served: Collection[str]) -> Json:
        """The object in the version that is served."""
        kind = KINDS[self.key]
        version = next((one for one in kind.versions if one in served), kind.versions[0])
        return {"apiVersion": f"{kind.group}/{version}", "kind": kind.kind, **self.object}


@cache
def operators() -> list[Operator]:
    """Those of the table."""
    return packaged(Path(__file__).with_name("operators.yaml"), list[Operator])


def probe_operators(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """Findings of each installed operator. Raises :class:`NotApplicable` where none is."""
    defined = {one.name: one for one in definitions(scope)}
    installed = [(one, defined[kubectl_name(one.key)]) for one in operators() if kubectl_name(one.key) in defined]
    if not installed:
        raise NotApplicable("NoAiOperator", f"none is installed of {listed([one.name for one in operators()], 9)}")
    every = list(webhooks(scope))
    for operator, definition in installed:
        yield check_definition(operator, definition)
        yield check_controllers(scope, operator)
        about = About(Subject("Operator", f"{operator.name} webhook"), "answer to a server-side dry-run", f"refused: {operator.broken}")
        if own := own_webhooks(scope, operator, every):
            yield judge_answer(about, own, _ask(workspace, operator, definition))
        else:
            yield about.not_judged(f"no webhook of its own guards {kubectl_name(operator.key)}")


def check_definition(operator: Operator, definition: Definition) -> Finding:
    """The kind is established."""
    about = About(Subject("CustomResourceDefinition", definition.name), "status.conditions", "Established True")
    if definition.state("Established") == "True":
        return about.ok("Established True")
    state = f"Established {definition.state('Established') or 'not set'} {definition.words('Established')}".rstrip()
    return about.bad(f"{state}: nobody can use {operator.name}", cause="DefinitionNotEstablished", observed=state[:80])


def check_controllers(scope: Scope, operator: Operator) -> Finding:
    """Each Deployment with the name of one of its controllers has a pod that is available."""
    about = About(Subject("Operator", f"{operator.name} controllers"), "Deployments' status", "a pod of each controller available")
    found = [one for one in _controllers(scope, operator) if not scope.is_tenant(one.namespace)]
    if not found:
        return about.not_judged(f"no Deployment of the platform is named {' or '.join(operator.controllers)}")
    if away := [one for one in found if not one.works]:
        state, limit = listed([one.text for one in away]), scope.policy.operators.rollout_minutes * 60
        longest = max(scope.snapshot.taken_at - one.gone_since if one.gone_since is not None else limit for one in away)
        if longest < limit:
            return about.undecided(f"{state}: {ask_again(longest, limit)}", cause=CHANGE_UNDER_WAY)
        return about.bad(f"{state}: nobody acts on objects of {operator.name}", cause="OperatorNotWorking", observed=state[:200])
    return about.ok(listed([one.text for one in found]))


def _controllers(scope: Scope, operator: Operator) -> list[Deployment]:
    return [one for one in deployments(scope) if matches(one.name, operator.controllers)]


def own_webhooks(scope: Scope, operator: Operator, every: Sequence[Webhook]) -> list[str]:
    """Names of webhooks that the operator itself serves for its kind; none where none of them validates.

    Others guard the kind too, Kueue the RayClusters and a policy engine whatever it likes, and let pass what is not theirs to refuse.
    """
    homes = {one.namespace for one in _controllers(scope, operator)}
    own = [one for one in every if operator.key in one.guards and _serves(operator, homes, one)]
    names = [one.place.name.rpartition(" ")[2] for one in own]
    return names if any(one.place.kind.startswith("Validating") for one in own) else []


def _serves(operator: Operator, homes: Collection[str], webhook: Webhook) -> bool:
    """Whether a controller of the operator answers for a webhook. Where no pod is left, its namespace tells whose it is."""
    if webhook.pods:
        return any(matches(pod.name, operator.controllers) for pod in webhook.pods)
    return webhook.server[0] in homes


def _ask(workspace: Workspace, operator: Operator, definition: Definition) -> Answer | ApiTrouble:
    """The answer to the invalid object; a webhook that does not answer makes it an error of the API server's."""
    try:
        return workspace.ask(
            operator.key, operator.invalid(definition.served), workspace.namespace() if KINDS[operator.key].namespaced else ""
        )
    except ApiTrouble as trouble:
        if UNREACHABLE not in trouble.message:
            raise
        return trouble


def judge_answer(about: About, own: Sequence[str], answer: Answer | ApiTrouble) -> Finding:
    """What the answer to an invalid object says of the webhooks that the operator serves, which are called ``own``."""
    named = next((name for name in own if f'webhook "{name}"' in answer.message), "")
    if named and (isinstance(answer, ApiTrouble) or UNREACHABLE in answer.message):
        message = f"nobody answers for {named}, so that no object of the kind can be written: {answer.message[:300]}"
        return about.bad(message, cause="OperatorWebhookDead", observed=UNREACHABLE)
    if isinstance(answer, Answer) and answer.ok:
        message = f"{listed(own)}: the object was accepted, so that mistakes show only when a job does not start"
        return about.bad(message, cause="OperatorLetsThrough", observed=f"{answer.status} accepted")
    if isinstance(answer, Answer) and named and answer.denied_by_policy:
        return about.ok(f"{answer.status}: {answer.message[:300]}")
    refusal = f"{answer.status} {answer.reason}: " if isinstance(answer, Answer) else ""
    message = f"refused, and not by a webhook of the operator's: {refusal}{answer.message[:300]}"
    return about.undecided(message, cause="RefusedForAnotherReason")
