"""REQ-08, 10 and 15 to 17: what tenants' device pods ask for beside devices, and what they name: images, priorities, shared memory."""

from collections.abc import Callable, Iterator

from conformance.common_findings import unread
from conformance.req.checks import amounts_of, judged_amounts
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Container
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import HUGEPAGES, units, written
from fixtures.model.demand.pod_templates import live_pods_of, of_tenants
from fixtures.model.demand.shared_memory import devices_of, holders, shared_memory
from fixtures.model.demand.template import Template, demand_of
from fixtures.model.devices.mig_nodes import MIG_RESOURCE
from fixtures.model.jobs.gang_jobs import gang_jobs
from fixtures.model.platform.containers import unpinned
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, undecided
from fixtures.verdict.subjects import NotApplicable


def _judged(scope: Scope, judge: Callable[[Scope, Template], Iterator[Finding]]) -> Iterator[Finding]:
    """What is found of each template and live pod of tenants that asks for a device."""
    for template in of_tenants(scope):
        if template.trouble:
            yield unread(template)
        elif (demand := demand_of(scope, template)).devices:
            yield from judge(scope, template)
        elif demand.unknown:
            message = f"whether it asks for a device is not known: {demand.unknown}"
            yield undecided(template.place, message=message, source=template.path)


# -- REQ-08 --------------------------------------------------------------------------------------------


def check_cpu_and_memory(scope: Scope) -> Iterator[Finding]:
    """One finding per live device pod of a tenant: its containers with devices ask for CPU and memory. A LimitRange completes templates."""
    return _judged(scope, _cpu_and_memory)


def _cpu_and_memory(scope: Scope, template: Template) -> Iterator[Finding]:
    if template.pod is None:
        return
    guaranteed = matches(template.namespace, scope.policy.requests.guaranteed)
    about = About(template.place, "resources of spec and containers, status.qosClass", "requests for CPU and memory")
    about = about if not guaranteed else About(about.subject, about.source, f"{about.expected}, QoS class Guaranteed")
    asked = [written(part.requests, part.limits) for part in (*(one.resources for one in holders(scope, template)), *template.whole)]
    lacking = [name for name in ("cpu", "memory") if not any((quantity.known(amounts.get(name)) or 0) > 0 for amounts in asked)]
    class_ = template.pod.qos_class
    observed = f"no request for {' and '.join(lacking)}" if lacking else f"requests for both, QoS class {class_ or 'not reported'}"
    if lacking:
        message = f"{observed}: other pods may use them up beside its devices, and the kubelet evicts it first where memory runs short"
        yield about.bad(message, cause="RequestsMissing", observed=observed)
    elif guaranteed and not class_:
        yield about.undecided("its status has no qosClass")
    elif guaranteed and class_ != "Guaranteed":
        yield about.bad(f"it is {class_}, and policy requests.guaranteed names its tenant", cause="NotGuaranteed", observed=observed)
    else:
        yield about.ok(observed)


# -- REQ-10 --------------------------------------------------------------------------------------------


def check_names_together(scope: Scope) -> Iterator[Finding]:
    """One finding per template or pod with devices or RDMA: no container mixes MIG and whole devices, and further amounts are valid."""
    for template in of_tenants(scope):
        if template.trouble:
            yield unread(template)
            continue
        about = About(template.place, f"{template.path}.*.resources", "slices of one size or whole devices in a container, valid amounts")
        if mixed := listed([text for container in template.containers if (text := _mixed(scope, container))], 3):
            message = f"{mixed}: the plugin sets the same variable for each of them, and the container gets the devices of one"
            yield about.bad(message, cause="ContainerMixesDevices", observed=mixed)
        elif amounts := amounts_of(template, lambda name: scope.is_rdma(name) or scope.is_device(name) or name.startswith(HUGEPAGES)):
            beside = [one for one in amounts if not scope.is_device(one[1])]
            yield judged_amounts(about, template, beside, ", ".join(sorted({name for _, name, _, _ in amounts})))


def _mixed(scope: Scope, container: Container) -> str:
    """Slices of MIG and other devices of NVIDIA's that one container asks for, or slices of several sizes; else empty."""
    own, amounts = container.resources, scope.policy.requests.scheduler_amounts
    names = [name for name, amount in written(own.requests, own.limits).items() if units(amount) and scope.is_device(name)]
    ours = sorted(name for name in names if name.startswith("nvidia.com/") and not matches(name, amounts))
    slices = [name for name in ours if name.startswith(MIG_RESOURCE)]
    return f"container {container.name} asks for {' and '.join(ours)}" if slices and len(ours) > 1 else ""


# -- REQ-16 --------------------------------------------------------------------------------------------


def check_images(scope: Scope) -> Iterator[Finding]:
    """One finding per template or live pod of a tenant that asks for a device: all its images are pinned."""
    return _judged(scope, _images)


def _images(scope: Scope, template: Template) -> Iterator[Finding]:
    about = About(template.place, f"{template.path}.*.image", "a digest, or a tag that policy requests.imageTagsForbidden does not name")
    images = sorted({container.image for container in template.containers if container.image})
    problems = listed([text for image in images if (text := unpinned(image, scope.policy.requests.image_tags_forbidden))], 3)
    if not images:
        yield about.not_judged("it has no image: a controller completes it")
    elif problems and not template.live and (pods := live_pods_of(scope, template)):
        yield about.not_judged(f"{problems}; its {pods} live pods are judged, for an admission webhook may have pinned the image")
    elif problems:
        yield about.bad(f"{problems}: its next pod may run another program than this one", cause="PodImageMoves", observed=problems)
    else:
        yield about.ok(listed(images))


# -- REQ-17 --------------------------------------------------------------------------------------------


def check_priorities(scope: Scope) -> Iterator[Finding]:
    """One finding per template or live pod of a tenant that asks for a device: its PriorityClass is approved, and so is that it preempts.

    Raises :class:`NotApplicable` where the policy names no class.
    """
    if not (scope.policy.requests.priority_classes or scope.policy.requests.preempting):
        raise NotApplicable("NotDeclared", "policy requests.priorityClasses and requests.preempting name no PriorityClass")
    return _judged(scope, _priority)


def _priority(scope: Scope, template: Template) -> Iterator[Finding]:
    approved, preempting = scope.policy.requests.priority_classes, scope.policy.requests.preempting
    name, observed = template.priority_class, template.priority_class or "no PriorityClass"
    expected = f"one of {listed(approved)}" if approved else "any"
    about = About(template.place, f"{template.path}.priorityClassName, .preemptionPolicy", expected, observed)
    if not name and not template.live:
        yield about.not_judged("it names no PriorityClass: admission gives its pods the default one")
    elif approved and not matches(name, approved):
        message = f"it has {observed}, and policy requests.priorityClasses approves {listed(approved)}"
        yield about.bad(message, cause="PriorityNotApproved")
    elif template.live and preempting and template.preempts and not matches(name, preempting):
        message = f"it has {observed} and may end pods of lower priority; policy requests.preempting lets {listed(preempting)} do that"
        yield about.bad(message, cause="PreemptionNotApproved")
    else:
        yield about.ok()


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
            yield _judged_shared_memory(scope, template, devices)
    if not judged:
        raise NotApplicable("NoSeveralDevices", "no template and no pod asks for several devices, and no job has several device pods")


def _judged_shared_memory(scope: Scope, template: Template, devices: int) -> Finding:
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
