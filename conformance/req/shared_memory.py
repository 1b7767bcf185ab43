"""REQ-15: processes that share devices' work need shared memory."""

from collections.abc import Iterator

from conformance.common_findings import unread
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_templates import live_pods_of, of_tenants
from fixtures.model.demand.shared_memory import devices_of, shared_memory
from fixtures.model.demand.template import Template
from fixtures.model.jobs.gang_jobs import gang_jobs
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable

_MIB = 2**20


def check_shared_memory(scope: Scope) -> Iterator[Finding]:
    """One finding per template or live pod of a tenant with several devices, and per live device pod of a job of several."""
    members = {name for job in gang_jobs(scope) if not job.unsure for name in job.names}
    judged = False
    for template in of_tenants(scope):
        if template.trouble:
            yield unread(template)
            continue
        devices = devices_of(scope, template)
        if devices > 1 or (devices and template.live and (template.namespace, template.subject.name) in members):
            judged = True
            yield _judged(scope, template, devices)
    if not judged:
        raise NotApplicable("NoSeveralDevices", "no template and no pod asks for several devices, and no job has several device pods")


def _judged(scope: Scope, template: Template, devices: int) -> Finding:
    least = scope.policy.requests.shared_memory_mib
    about = About(template.place, f"{template.path}.volumes, .containers.volumeMounts, .hostIPC", f"at least {least} MiB at /dev/shm")
    found = shared_memory(scope, template)
    small = {name: memory for name, memory in found.items() if memory.size is not None and memory.size < least * _MIB}
    observed = listed([f"{name}: {memory.words}" for name, memory in (small or found).items()], 3)
    if not small:
        return about.ok(observed)
    if template.partial:
        return about.not_judged(f"{observed}; a controller completes this template, and what it adds is not known")
    if not template.live and (pods := live_pods_of(scope, template)):
        return about.not_judged(f"{observed}; its {pods} live pods are judged, for an admission webhook may have added a volume to them")
    message = f"{observed}: NCCL and data loaders of {devices} devices run out of it (No space left on device, Bus error)"
    return about.bad(message, cause="SharedMemorySmall", observed=observed)
