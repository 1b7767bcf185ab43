"""Asks the API server whether a DeviceClass's selectors compile: a claim with the same selectors, by server-side dry-run.

Facts: docs/facts/dra.md#selectors.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fixtures.cluster.client import Answer
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.dra.device_classes import DeviceClass
from fixtures.model.dra.kinds import BY_CLASS, CLAIMS
from fixtures.model.dra.written_claims import claim_of
from fixtures.probes.workspace import Workspace

_NAMESPACE = "default"
_CONTROL = 'device.driver != ""'


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """Whether selectors compile; None when nobody can tell. ``words`` are the API server's, or why it was not asked."""

    yes: bool | None
    words: str = ""


def not_asked(_: DeviceClass) -> Compiled:
    """For runs that only read."""
    return Compiled(yes=None, words="this run may not ask it, because it only reads")


def ask_selectors(workspace: Workspace, known: DeviceClass) -> Compiled:
    """What the API server answers. Nothing is created."""
    try:
        return read_answer(_ask(workspace, known, known.expressions), lambda: _ask(workspace, known, (_CONTROL,)))
    except ApiTrouble as trouble:
        return Compiled(yes=None, words=trouble.message)


def _ask(workspace: Workspace, known: DeviceClass, expressions: tuple[str, ...]) -> Answer:
    version = workspace.cluster.path(CLAIMS).split("/")[3]
    claim = claim_of(f"{BY_CLASS}{known.name}", 1, version)
    request: Json = claim["spec"]["devices"]["requests"][0]
    (request if version == "v1beta1" else request["exactly"])["selectors"] = [{"cel": {"expression": text}} for text in expressions]
    return workspace.ask(CLAIMS, {**claim, "metadata": {"generateName": "gpu-conformance-"}}, _NAMESPACE)


def read_answer(answer: Answer, control: Callable[[], Answer]) -> Compiled:
    """What an answer says of selectors. ``control`` asks the same with a selector that every API server compiles."""
    if answer.ok:
        return Compiled(yes=True)
    about = [str(cause.get("message")) for cause in answer.causes if "selectors" in str(cause.get("field"))]
    if answer.status == 422 and about and control().ok:
        return Compiled(yes=False, words=about[0][:300])
    return Compiled(yes=None, words=f"it refuses to be asked: {answer.status} {answer.message[:300]}")
