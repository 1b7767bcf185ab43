"""One pod template, wherever it was found, and what is asked of every one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Json, Meta, Pod, PodSpec
from fixtures.model.dra.claims import DeviceDemand
from fixtures.text import typed
from fixtures.verdict.findings import Finding, Subject, not_judged, undecided

TOO_LARGE = "the object is too large or too deep to be searched for pod templates"
MAX_TEMPLATES = 200
"""Templates of one object that are looked at. A job of many roles has some ten; an object of a megabyte has room for thousands."""

MIRROR = "kubernetes.io/config.mirror"
"""The annotation by which a kubelet marks what stands for a static pod."""


class Template(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod template. ``path`` is where it lies in its object (``spec.template.spec``; a live pod's is ``spec``).

    ``annotations`` and ``labels`` are the template's own. ``pod`` is the live pod, ``claims`` the ResourceClaims that were made for it.
    ``trouble`` is one sentence when the template (or a whole kind) could not be read: ``spec`` is empty then, and whoever
    judges must call it undecided, or not judged where it was ``left_out`` (:func:`unread`).
    ``partial``: a controller completes it, so it says what its pods have, and not what they lack. ``certain``: False where only
    amounts tell that it is a part of a pod.
    """

    subject: Subject
    path: str
    spec: PodSpec
    namespace: str
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    key: str = ""
    live: bool = False
    pod: Pod | None = None
    claims: Sequence[Json] = ()
    trouble: str = ""
    left_out: bool = False
    partial: bool = False
    certain: bool = True

    @property
    def place(self) -> Subject:
        """The subject of a finding about this very template: its path tells templates of one object apart."""
        if self.live or self.path in ("", "spec.template.spec"):
            return self.subject
        return Subject(self.subject.kind, f"{self.subject.name} {self.path}", self.subject.namespace)


def demand_of(scope: Scope, template: Template) -> DeviceDemand:
    """Whether the pods of a template ask for a device. Several requirements ask it of a live pod, which is looked at once."""
    if template.pod is not None:
        return scope.device_demand_of(template.pod)
    return scope.device_demand(template.spec, template.namespace, template.claims)


def is_static(scope: Scope, pod: Pod) -> bool | None:
    """Whether a pod mirrors a static pod: by the kubelet's mark, and by its own node as its owner. None where nodes were not read.

    Anybody can write the mark and a node's name, so the owner's UID has to be that node's (docs/facts/nodes.md#static-pods).
    """
    owner = pod.controller
    if MIRROR not in pod.metadata.annotation or owner is None or (owner.kind, owner.name) != ("Node", pod.spec.node_name):
        return False
    listing = scope.snapshot.listing("nodes")
    if listing.trouble or not listing.collected:
        return None
    node = scope.snapshot.node_by_name.get(owner.name)
    return node is not None and owner.uid == node.metadata.uid


def lacks_image(spec: PodSpec) -> bool:
    """Whether a container has no image. No API server takes that for a pod, so a controller completes it."""
    return any(not container.image.strip() for container in (*spec.containers, *(spec.init_containers or ())))


def unread(template: Template) -> Finding:
    """The finding for a template with ``trouble``."""
    make = not_judged if template.left_out else undecided
    return make(template.place, message=template.trouble, source=template.path or template.key)


def unreadable(subject: Subject, path: str, key: str, trouble: str) -> Template:
    """What stands for a template, or for a whole kind, that could not be read."""
    return Template(subject=subject, path=path, spec=PodSpec(), namespace=subject.namespace, key=key, trouble=trouble)


def bounded(found: Iterator[Template]) -> Iterator[Template]:
    """The first templates of one object, and one with ``trouble`` in place of the others."""
    for count, template in enumerate(found):
        if count == MAX_TEMPLATES:
            why = f"the object holds more than {MAX_TEMPLATES} pod templates, and no more of them were read"
            yield unreadable(template.subject, template.path, template.key, why)
            return
        yield template


def meta_of(parent: Json) -> Meta:
    """The metadata of the object that holds a pod spec; empty where it cannot be read."""
    try:
        return typed.convert(parent.get("metadata") or {}, Meta, strict=False)
    except msgspec.ValidationError:
        return Meta()
