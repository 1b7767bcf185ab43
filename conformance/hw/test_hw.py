"""HW: health of devices."""

from __future__ import annotations

from conformance.hw.answers import check_answers, check_refused
from conformance.probes.node_documents import NodeDocuments, judged
from conformance.requirement import requirement
from conformance.scope.scope import Scope
from fixtures.verdict.findings import Evidence


@requirement("HW-03")
def test_the_library_is_of_the_drivers_version_and_every_device_answers(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """The driver's library is of the driver's version, and every device answers."""
    judge(judged(scope, documents, check_answers, check_refused))
