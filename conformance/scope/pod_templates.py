"""Every pod template of a cluster: built-in workloads, custom resources and live pods, in one shape.

The API server validates the templates of built-in workloads only. Whatever a custom resource embeds is
judged by nobody until its controller makes a pod of it, so the walk is generic: an object
below ``spec`` that has ``containers`` or ``tolerations`` is taken for a pod spec, wherever it is. In kinds that
the suite does not know by name, parts of pods count too, and not below ``spec`` alone (:mod:`fixtures.model.demand.pod_shapes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from conformance.scope.custom_templates import of_custom_kinds
from conformance.scope.scope import Scope
from conformance.scope.template import TOO_LARGE, Template, bounded, lacks_image, meta_of, unreadable
from fixtures.cluster.kinds import KINDS, WORKLOAD_KEYS
from fixtures.kubernetes.models import Container, DaemonSet, Json, Pod, PodSpec, Resources
from fixtures.model.demand.spec_walk import walk
from fixtures.snapshot.bare_templates import bare_templates
from fixtures.snapshot.state import Object
from fixtures.text import typed
from fixtures.verdict.findings import NotApplicable, Subject

_POD_SPEC_PARTS = frozenset(
    (
        "containers",
        "initContainers",
        "ephemeralContainers",
        "volumes",
        "tolerations",
        "affinity",
        "topologySpreadConstraints",
        "securityContext",
    )
)
_INFERENCE_COMPONENTS = ("predictor", "transformer", "explainer")
_MODEL_FIELDS = ("image", "resources", "env", "envFrom", "volumeMounts", "securityContext")


def templates(scope: Scope) -> Sequence[Template]:
    """All templates of the workload kinds, and the specs of pods that are not finished.

    A kind that is not served has none; a list that was refused is one template with ``trouble``. ReplicaSets and
    PodTemplates are looked at where they were read: requirements name them in ``hints``. Raises
    :class:`NotApplicable` when a saved snapshot holds none of the kinds, and :class:`Inconclusive` when a kind was
    not collected although the cluster is live (the requirement must name it in ``reads`` or ``optional_reads``).
    """
    return scope.cached(_templates)


def _templates(scope: Scope) -> list[Template]:
    return list(_walked(scope))


def _walked(scope: Scope) -> Iterator[Template]:
    snapshot, looked = scope.snapshot, False
    for key in (*WORKLOAD_KEYS, "pods"):
        listing = snapshot.listing(key)
        if listing.trouble:
            looked = True
            yield unreadable(Subject("resource", key), "", key, f"{key} could not be listed: {listing.message or listing.trouble}")
        elif listing.collected or not snapshot.offline:
            looked = True
            for item in snapshot.items(key):
                yield from templates_of(key, item)
    for key, item in bare_templates(snapshot):
        looked = True
        yield from bounded(templates_in(key, item))
    if not looked:
        raise NotApplicable("NotInSnapshot", "the snapshot holds neither workloads nor pods")
    yield from of_custom_kinds(snapshot.custom, offline=snapshot.offline)


def templates_of(key: str, item: Object) -> Iterator[Template]:
    """Templates of one object of a kind of workloads, or of a live pod."""
    if isinstance(item, Pod):
        if not item.finished:
            subject = Subject("Pod", item.name, item.namespace)
            yield Template(
                subject=subject,
                path="spec",
                spec=item.spec,
                namespace=item.namespace,
                annotations=item.metadata.annotation,
                labels=item.metadata.label,
                key=key,
                live=True,
                pod=item,
                claims=item.status.resource_claim_statuses or (),
            )
    elif isinstance(item, DaemonSet):
        template = item.spec.template
        subject = Subject("DaemonSet", item.name, item.namespace)
        yield Template(
            subject=subject,
            path="spec.template.spec",
            spec=template.spec,
            namespace=item.namespace,
            annotations=template.metadata.annotation,
            labels=template.metadata.label,
            key=key,
        )
    elif isinstance(item, dict):
        yield from bounded(templates_in(key, item))


def templates_in(key: str, obj: Json) -> Iterator[Template]:
    """Templates inside one object of a workload kind that is read as a dictionary. What cannot be read is a template with ``trouble``."""
    subject = _subject(key, obj)
    field = "template" if key == "podtemplates" else "spec"
    spec = obj.get(field)
    if not isinstance(spec, dict):
        yield unreadable(subject, field, key, f"the object has no {field}")
        return
    completed: tuple[str, ...] = ()
    if key == "serving.kserve.io/inferenceservices":
        spec, completed = _with_model_containers(spec)
    elif key == "trainer.kubeflow.org/trainjobs":
        yield from _trainer(key, subject, spec)
    for spot in walk(field, spec):
        if spot.beyond:
            yield unreadable(subject, spot.path, key, TOO_LARGE)
        elif _is_pod_spec(spot.value):
            template = _decode(key, subject, spot.path, spot.value, spot.parent)
            partial = spot.path in completed or not template.spec.containers or ("." in key and lacks_image(template.spec))
            yield msgspec.structs.replace(template, partial=partial) if partial else template
            spot.done = _POD_SPEC_PARTS


def _is_pod_spec(value: Json) -> bool:
    return any(isinstance(value.get(name), list) and value[name] for name in ("containers", "tolerations"))


def _decode(key: str, subject: Subject, path: str, value: Json, parent: Json) -> Template:
    try:
        spec = typed.convert(value, PodSpec, strict=False)
    except msgspec.ValidationError as error:
        return unreadable(subject, path, key, f"{path} is no pod spec: {str(error)[:200]}")
    meta, space = meta_of(parent), subject.namespace
    return Template(subject=subject, path=path, spec=spec, namespace=space, annotations=meta.annotation, labels=meta.label, key=key)


def _with_model_containers(spec: Json) -> tuple[Json, tuple[str, ...]]:
    """An InferenceService whose model servers stand among the containers of its components, and the paths of those components.

    ``predictor.model`` (and the older ``predictor.triton`` and the like) is a container in all but name, which the serving runtime
    completes, as it does the component's ``workerSpec``; the rest of the component is a pod spec inline
    (docs/facts/vendors-and-clouds.md#kserve).
    """
    changed = dict(spec)
    completed: list[str] = []
    for name in _INFERENCE_COMPONENTS:
        component = spec.get(name)
        if not isinstance(component, dict):
            continue
        models = [
            {**{field: value[field] for field in _MODEL_FIELDS if isinstance(value.get(field), dict | list | str)}, "name": part}
            for part, value in component.items()
            if isinstance(value, dict) and isinstance(value.get("resources"), dict)
        ]
        if models:
            containers = component.get("containers")
            changed[name] = {**component, "containers": [*(containers if isinstance(containers, list) else ()), *models]}
        if models or isinstance(component.get("model"), dict):
            completed += [f"spec.{name}", f"spec.{name}.workerSpec"]
    return changed, tuple(completed)


def _trainer(key: str, subject: Subject, spec: Json) -> Iterator[Template]:
    """``spec.trainer.resourcesPerNode`` of a TrainJob as the container it becomes (docs/facts/vendors-and-clouds.md#trainjobs)."""
    trainer = spec.get("trainer")
    if not isinstance(trainer, dict) or not isinstance(trainer.get("resourcesPerNode"), dict):
        return
    path = "spec.trainer"
    try:
        resources = typed.convert(trainer["resourcesPerNode"], Resources, strict=False)
    except msgspec.ValidationError as error:
        yield unreadable(subject, path, key, f"{path}.resourcesPerNode is unreadable: {str(error)[:200]}")
        return
    image = trainer.get("image")
    container = Container(name="trainer", image=image if isinstance(image, str) else "", resources=resources)
    spec_ = PodSpec(containers=[container])
    yield Template(subject=subject, path=path, spec=spec_, namespace=subject.namespace, key=key, partial=True)


def _subject(key: str, obj: Json) -> Subject:
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    kind = "VolcanoJob" if key == "batch.volcano.sh/jobs" else KINDS[key].kind
    return Subject(kind, str(meta.get("name") or ""), str(meta.get("namespace") or ""))
