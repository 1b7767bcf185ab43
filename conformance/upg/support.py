"""UPG-04: parts of the stack support the Kubernetes version that runs, the one that is next, and each other."""

from collections.abc import Iterator

from fixtures.model.cluster import Scope
from fixtures.model.dra.nvidia_driver import DRA_DRIVER
from fixtures.model.nodes.peers import driver_version
from fixtures.model.platform.kubernetes_version import running_and_target
from fixtures.model.platform.versions import Installed, installed, version_of
from fixtures.tables.rows import OF_NODES, SUPPORT, Support
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject


def check_support(scope: Scope) -> Iterator[Finding]:
    """One finding per node or workload and part of which the table knows a limit."""
    parts = [one for one in installed(scope) if any(row.part == one.part for row in SUPPORT.rows)]
    if not parts:
        raise NotApplicable("NoKnownPart", "no part is installed of which a limit is known")
    running, target = running_and_target(scope, ahead=0)
    for one in parts:
        yield _judge(scope, one, running, target)


def _judge(scope: Scope, one: Installed, running: int | None, target: int) -> Finding:
    source = f"status.nodeInfo, tags of images, tables of {SUPPORT.table.date}"
    place = Subject(one.place.kind, f"{one.place.name} {one.part}", one.place.namespace)
    expected = f"a version that supports Kubernetes 1.{target}"
    about = About(place, source, expected, observed=f"{one.part} {one.text or 'of no version'}")
    if one.version is None:
        say = about.undecided if one.part in OF_NODES else about.not_judged  # a digest is no fault, and no job depends on what is tested
        return say(f"the version of {one.part} is not known: {one.text or 'it is empty'}")
    rows = [(limit, row) for row in SUPPORT.rows if row.part == one.part and (limit := version_of(row.below)) and one.version < limit]
    row = min(rows, key=lambda pair: pair[0])[1] if rows else None  # the one of its release
    return (_beyond(scope, about, one, row, running, target) if row else None) or about.ok()


def _beyond(scope: Scope, about: About, one: Installed, row: Support, running: int | None, target: int) -> Finding | None:
    """What goes beyond the limits of a row."""
    named = f"{one.part} {one.text}"
    if running and running < row.least:
        message = f"{named} needs Kubernetes 1.{row.least} or newer, and 1.{running} runs"
        return about.bad(message, cause="NotSupportedByTarget")
    if row.until and target > row.until and row.tested:
        message = f"{named} is tested with Kubernetes up to 1.{row.until}, and 1.{target} runs or is next: newer releases go further"
        return about.advised(message, cause="NotTestedWithTarget")
    if row.until and target > row.until:
        message = f"{named} supports Kubernetes up to 1.{row.until}, and 1.{target} runs or is next: its kubelet will not start"
        return about.bad(message, cause="NotSupportedByTarget")
    for node in scope.accelerator_nodes if row.driver else ():
        text = driver_version(scope, node) if any(device.driver == DRA_DRIVER for device in scope.dra_inventory.get(node.name, ())) else ""
        driver, needed = version_of(text), version_of(row.driver)
        if driver and needed and driver < needed:
            message = f"{named} needs NVIDIA's driver {row.driver} or newer, and node {node.name} has {text}"
            return about.advised(message, cause="DriverTooOldForPart")
    return None
