"""Every pod template of a cluster: built-in workloads, custom resources and live pods, in one shape.

The API server validates the templates of built-in workloads only. Whatever a custom resource embeds is
judged by nobody until its controller makes a pod of it (peers B2), so the walk is generic: an object
below ``spec`` that has ``containers`` or ``tolerations`` is taken for a pod spec, wherever it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from conformance.scope import Scope
from fixtures.evidence import Finding, NotApplicable, Subject, undecided
from fixtures.kinds import KINDS, WORKLOAD_KEYS
from fixtures.models import Container, DaemonSet, Json, Meta, PodSpec, Resources

MAX_DEPTH = 24
"""Levels below ``spec`` that are searched. The deepest known template (a JobSet's) lies at 6."""

MAX_VISITED = 20_000
"""Objects and lists of one workload that are searched."""

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


class Template(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod template. ``path`` is where it lies in its object (``spec.template.spec``; a live pod's is ``spec``).

    ``annotations`` are the template's own, ``claims`` the ResourceClaims that were made for a live pod.
    ``trouble`` is one sentence when the template (or a whole kind) could not be read: ``spec`` is empty then, and whoever
    judges must call it undecided (:func:`unread`).
    """

    subject: Subject
    path: str
    spec: PodSpec
    namespace: str
    annotations: Mapping[str, str] = {}
    key: str = ""
    live: bool = False
    claims: Sequence[Json] = ()
    trouble: str = ""

    @property
    def place(self) -> Subject:
        """The subject of a finding about this very template: its path tells templates of one object apart."""
        if self.live or self.path in ("", "spec.template.spec"):
            return self.subject
        return Subject(self.subject.kind, f"{self.subject.name} {self.path}", self.subject.namespace)


def templates(scope: Scope, *, live: bool = True) -> Iterator[Template]:
    """All templates of the workload kinds and, unless ``live`` is False, the specs of pods that are not finished.

    A kind that is not served has none; a list that was refused is one template with ``trouble``. Raises
    :class:`NotApplicable` when a saved snapshot holds none of the kinds, and :class:`Inconclusive` when a kind was
    not collected although the cluster is live (the requirement must name it in ``reads`` or ``optional_reads``).
    """
    snapshot, looked = scope.snapshot, False
    for key in (*WORKLOAD_KEYS, *(("pods",) if live else ())):
        listing = snapshot.listing(key)
        if listing.trouble:
            looked = True
            yield _unreadable(Subject("resource", key), "", key, f"{key} could not be listed: {listing.message or listing.trouble}")
        elif listing.collected or not snapshot.offline:
            looked = True
            for item in snapshot.items(key):
                yield from _of(key, item)
    if not looked:
        raise NotApplicable("NotInSnapshot", "the snapshot holds neither workloads nor pods")


def unread(template: Template) -> Finding:
    """The finding for a template with ``trouble``."""
    return undecided(template.place, template.trouble, template.path or template.key)


def _of(key: str, item: Any) -> Iterator[Template]:
    if key == "pods":
        if not item.finished:
            subject = Subject("Pod", item.name, item.namespace)
            yield Template(
                subject=subject,
                path="spec",
                spec=item.spec,
                namespace=item.namespace,
                annotations=item.metadata.annotation,
                key=key,
                live=True,
                claims=item.status.resource_claim_statuses or (),
            )
    elif isinstance(item, DaemonSet):
        template = item.spec.template
        subject = Subject("DaemonSet", item.name, item.namespace)
        annotations = template.metadata.annotation
        yield Template(
            subject=subject, path="spec.template.spec", spec=template.spec, namespace=item.namespace, annotations=annotations, key=key
        )
    else:
        yield from templates_in(key, item)


def templates_in(key: str, obj: Json) -> Iterator[Template]:
    """Templates inside one object of a workload kind that is read as a dictionary. What cannot be read is a template with ``trouble``."""
    subject = _subject(key, obj)
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        yield _unreadable(subject, "spec", key, "the object has no spec")
        return
    if key == "serving.kserve.io/inferenceservices":
        spec = _with_model_containers(spec)
    elif key == "trainer.kubeflow.org/trainjobs":
        yield from _trainer(key, subject, spec)
    visited = 0
    pending: list[tuple[str, Any, Json, int]] = [("spec", spec, obj, 0)]
    while pending:
        path, value, parent, depth = pending.pop()
        visited += 1
        if depth > MAX_DEPTH or visited > MAX_VISITED:
            yield _unreadable(subject, path, key, "the object is too large or too deep to be searched for pod templates")
            return
        if isinstance(value, dict):
            found = _is_pod_spec(value)
            if found:
                yield _decode(key, subject, path, value, parent if path.endswith(".spec") else {})
            pending += [
                (f"{path}.{name}", child, value, depth + 1)
                for name, child in reversed(value.items())
                if isinstance(child, (dict, list)) and not (found and name in _POD_SPEC_PARTS)
            ]
        elif isinstance(value, list):
            pending += [
                (f"{path}[{_name(child, index)}]", child, {}, depth + 1)
                for index, child in reversed(list(enumerate(value)))
                if isinstance(child, (dict, list))
            ]


def _is_pod_spec(value: Json) -> bool:
    return any(isinstance(value.get(name), list) and value[name] for name in ("containers", "tolerations"))


def _decode(key: str, subject: Subject, path: str, value: Json, parent: Json) -> Template:
    try:
        spec = msgspec.convert(value, PodSpec, strict=False)
    except msgspec.ValidationError as error:
        return _unreadable(subject, path, key, f"{path} is no pod spec: {str(error)[:200]}")
    try:
        annotations = msgspec.convert(parent.get("metadata") or {}, Meta, strict=False).annotation
    except msgspec.ValidationError:
        annotations = {}
    return Template(subject=subject, path=path, spec=spec, namespace=subject.namespace, annotations=annotations, key=key)


def _with_model_containers(spec: Json) -> Json:
    """An InferenceService whose model servers stand among the containers of its components.

    ``predictor.model`` (and the older ``predictor.triton`` and the like) is a container in all but name; the rest of the
    component is a pod spec inline (KServe v1beta1, PredictorSpec).
    """
    changed = dict(spec)
    for name in _INFERENCE_COMPONENTS:
        component = spec.get(name)
        if not isinstance(component, dict):
            continue
        models = [
            {"name": part, "image": str(value.get("image") or ""), "resources": value["resources"]}
            for part, value in component.items()
            if isinstance(value, dict) and isinstance(value.get("resources"), dict)
        ]
        if models:
            containers = component.get("containers")
            changed[name] = {**component, "containers": [*(containers if isinstance(containers, list) else ()), *models]}
    return changed


def _trainer(key: str, subject: Subject, spec: Json) -> Iterator[Template]:
    """``spec.trainer.resourcesPerNode`` of a TrainJob as the container it becomes."""
    trainer = spec.get("trainer")
    if not isinstance(trainer, dict) or not isinstance(trainer.get("resourcesPerNode"), dict):
        return
    path = "spec.trainer"
    try:
        resources = msgspec.convert(trainer["resourcesPerNode"], Resources, strict=False)
    except msgspec.ValidationError as error:
        yield _unreadable(subject, path, key, f"{path}.resourcesPerNode is unreadable: {str(error)[:200]}")
        return
    image = trainer.get("image")
    container = Container(name="trainer", image=image if isinstance(image, str) else "", resources=resources)
    yield Template(subject=subject, path=path, spec=PodSpec(containers=[container]), namespace=subject.namespace, key=key)


def _unreadable(subject: Subject, path: str, key: str, trouble: str) -> Template:
    return Template(subject=subject, path=path, spec=PodSpec(), namespace=subject.namespace, key=key, trouble=trouble)


def _subject(key: str, obj: Json) -> Subject:
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    kind = "VolcanoJob" if key == "batch.volcano.sh/jobs" else KINDS[key].kind
    return Subject(kind, str(meta.get("name") or ""), str(meta.get("namespace") or ""))


def _name(item: Any, index: int) -> str:
    """What tells an entry of a list apart: its name where it has one (``replicatedJobs[workers]``)."""
    if isinstance(item, dict):
        for field in ("name", "groupName"):
            name = item.get(field)
            if isinstance(name, str) and 0 < len(name) <= 63:
                return name
    return str(index)
