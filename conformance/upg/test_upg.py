"""UPG: a run beside the run before the upgrade."""

from __future__ import annotations

from conformance.requirement import requirement
from fixtures.verdict.findings import AT_THE_END
from fixtures.verdict.subjects import NotApplicable


@requirement("UPG-05")
def test_nothing_is_worse_than_in_the_baseline(has_baseline: bool) -> None:
    """Nothing that held in the baseline is worse now, and no allocation of devices is stranded."""
    if not has_baseline:
        raise NotApplicable("NoBaseline", "no --baseline was given")
    raise NotApplicable(AT_THE_END, "judged at the end of the run, over the results of all other requirements")
