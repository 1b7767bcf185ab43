"""What unit tests of checks look at: the outcome of every subject, and what the findings say."""

from collections.abc import Iterable

from fixtures.verdict.findings import Finding, Outcome


def by_name(findings: Iterable[Finding]) -> dict[str, Outcome]:
    """Outcomes by the names of their subjects."""
    return {finding.subject.name: finding.outcome for finding in findings}


def causes(findings: Iterable[Finding]) -> dict[str, str]:
    """The cause of each finding that has one, by the name of its subject."""
    return {finding.subject.name: finding.cause for finding in findings if finding.cause}


def messages(findings: Iterable[Finding]) -> str:
    """All messages, a line each."""
    return "\n".join(finding.message for finding in findings)


def only(findings: Iterable[Finding]) -> Finding:
    """The one finding that there is."""
    (finding,) = findings
    return finding


def about(findings: Iterable[Finding], name: str) -> Finding:
    """The one finding about the subject of that name."""
    return only(finding for finding in findings if finding.subject.name == name)
