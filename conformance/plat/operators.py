"""PLAT-01: AI operators that are installed work: their kinds are served, their controllers run, and their webhooks refuse what is invalid.

Each webhook is asked by server-side dry-run with an object that the schema lets pass (``operators.yaml``): nothing is stored.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec

from conformance.probes.admission import UNREACHABLE
from fixtures.cluster.answer import Answer
from fixtures.cluster.kinds import KINDS, kubectl_name
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.platform.definitions import Definition, definitions
from fixtures.model.platform.deployments import Deployment, deployments
from fixtures.model.platform.webhooks import Webhook, webhooks
from fixtures.probes.workspace import Workspace
from fixtures.text.globs import matches
from fixtures.text.sentences import ask_again, listed
from fixtures.text.yaml_text import packaged
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject


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
    return packaged(Path(__file__).with_suffix(".yaml"), list[Operator])


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
