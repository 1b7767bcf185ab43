"""How little a run may rest on, from options and the policy's ``gate``: an option overrides the policy."""

from __future__ import annotations

from fixtures.policy.model import Gate
from fixtures.verdict.floor import Floor, Most
from fixtures.verdict.record import Verdict


def floor_of(
    gate: Gate,
    *,
    required: tuple[str, ...] = (),
    min_judged: int | None = None,
    max_inconclusive: int | None = None,
    max_not_applicable: int | None = None,
) -> Floor:
    """The floor of a run, or of the later run of a gate. An option that was not given is None; what nobody names is not bounded."""
    most = []
    for verdict, flag, option, key, in_policy in (
        (Verdict.INCONCLUSIVE, "--max-inconclusive", max_inconclusive, "gate.maxInconclusive", gate.max_inconclusive),
        (Verdict.NOT_APPLICABLE, "--max-not-applicable", max_not_applicable, "gate.maxNotApplicable", gate.max_not_applicable),
    ):
        if option is not None:
            most.append(Most(verdict=verdict, count=option, source=flag))
        elif in_policy is not None:
            most.append(Most(verdict=verdict, count=in_policy, source=key))
    minimum, source = gate.minimum_judged, "gate.minimumJudged"
    if min_judged is not None:
        minimum, source = min_judged, "--min-judged"
    return Floor(
        minimum=minimum,
        areas=gate.areas,
        source=source,
        most=tuple(most),
        required=required,
        not_in_snapshot=gate.max_not_in_snapshot,
    )
