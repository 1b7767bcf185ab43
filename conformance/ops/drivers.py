"""OPS-05: each node has its driver from one source."""

from collections.abc import Iterator

from conformance.common_findings import unless_settling
from fixtures.model.cluster import Scope, subject
from fixtures.model.platform.drivers import DriverSource, driver_sources
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable

_SOURCE = "node labels, pods of driver DaemonSets"


def check_driver_sources(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node whose driver comes from a known source."""
    found = list(driver_sources(scope))
    if not found:
        raise NotApplicable("NoDriverSource", "no node has a driver container, and no label says that a machine brings its driver")
    yield from unless_settling(scope, map(_judge, found))


def _judge(one: DriverSource) -> Finding:
    about = About(subject(one.node), _SOURCE, "a driver of the machine, or a driver container, and never both")
    name = one.pod.name if one.pod is not None else ""
    if one.host and name:
        message = f"its label says that the machine brings a driver ({one.host}), and {name} installs another one over it"
        return about.bad(message, cause="TwoDrivers", observed=f"{one.host}, pod {name}")
    # a driver that was built for one kernel has the branch alone in its tag
    if one.ready and one.loaded and one.contained[:1].isdigit() and not f"{one.loaded}.".startswith(f"{one.contained}."):
        message = (
            f"{name} installs {one.contained[:40]}, and the driver that is loaded is {one.loaded[:40]}: the machine brings one of its own"
        )
        return about.bad(message, cause="TwoDrivers", observed=f"loaded {one.loaded[:40]}, container {one.contained[:40]}")
    return about.ok(f"a driver of the machine ({one.host})" if one.host else f"driver container {name}")
