"""Amounts that only a scheduler counts, and what shows that a cluster has such a scheduler.

No kubelet counts what its node lacks. So anybody binds a pod that holds any name, by ``spec.nodeName``, and that a bound pod holds an
amount shows no scheduler. A mark on a node does, which no tenant can write, and so does the owner's word.

Facts: docs/facts/scheduler-amounts.md#amounts.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from conformance.policy.model import Requests
from conformance.scope.scope import Scope, matches
from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.untyped import mappings
from fixtures.text.json_text import NotJson, decode
from fixtures.text.sentences import listed

USUAL = Requests().scheduler_amounts
"""The default's names. None of them stands for a device where no node offers it: their schedulers want a device beside it."""

MARKS = {
    "hami.io/node-nvidia-register": "nvidia.com/*",
    "4pd.io/node-nvidia-register": "nvidia.com/*",
    "volcano.sh/node-vgpu-register": "volcano.sh/vgpu-*",
}
"""Annotations by which a device plugin tells its scheduler what a node has, with the names (glob) that this scheduler counts."""


_SPLITS = {
    "hami.io/node-nvidia-register": "nvidia.com/gpu",
    "4pd.io/node-nvidia-register": "nvidia.com/gpu",
    "hami.io/node-amd-register": "amd.com/gpu",
    "volcano.sh/node-vgpu-register": "volcano.sh/vgpu-number",
}
"""Annotations in which device plugins of HAMi and Volcano write as how many units they offer each device, with the resource."""


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin of HAMi or Volcano says of a node: the units of each device as which it offers ``resource``.

    ``doubt`` says why that is not known.
    """

    key: str
    resource: str
    units: tuple[int, ...] = ()
    doubt: str = ""

    @property
    def factor(self) -> int:
        """Units of one device, the most of any."""
        return max(self.units, default=0)

    @property
    def formula(self) -> str:
        """``8 × 10``, or ``10 + 8`` where devices differ."""
        alike = len(set(self.units)) == 1
        return f"{len(self.units)} \N{MULTIPLICATION SIGN} {self.factor}" if alike else " + ".join(map(str, self.units))


def split_of(node: Node) -> Split | None:
    """How HAMi or Volcano split the devices of a node, by their own annotation; None where no plugin of theirs registers them.

    JSON, and in older releases ``ID,count,…`` for each device with ``:`` behind it (docs/facts/scheduler-amounts.md#splits).
    """
    annotations = node.metadata.annotation
    key = next((key for key in _SPLITS if annotations.get(key)), "")
    if not key:
        return None
    split, text = Split(key=key, resource=_SPLITS[key]), annotations[key].strip()
    try:
        devices = mappings(decode(text)) if text.startswith("[") else [_of_old_form(part) for part in text.split(":") if part]
    except NotJson as error:
        return msgspec.structs.replace(split, doubt=f"its annotation {key} cannot be read ({error})")
    units = tuple(count for device in devices if isinstance(count := device.get("count"), int) and 0 < count < _MOST_UNITS)
    if len(units) != len(devices) or not units:
        return msgspec.structs.replace(split, doubt=f"its annotation {key} does not say as how many units each device is offered")
    if any("mig" in str(device.get("mode")).lower() for device in devices):
        return msgspec.structs.replace(split, doubt=f"its devices are cut by MIG as pods ask for it ({key})")
    return msgspec.structs.replace(split, units=units)


def _of_old_form(part: str) -> Json:
    fields = part.split(",")
    return {"count": int(fields[1])} if len(fields) > 1 and fields[1].isascii() and fields[1].isdigit() and len(fields[1]) < 6 else {}


_MOST_UNITS = 100_000


def counted(scope: Scope, name: str) -> bool:
    """Whether a name is an amount that only a scheduler of this cluster counts: no node offers it."""
    if _unread(scope, "nodes") or not matches(name, scope.policy.requests.scheduler_amounts):
        return False
    return name not in scope.cached(_offered) and _proven(scope, name)


def doubted(scope: Scope, name: str) -> str:
    """Why it is not known whether a scheduler counts a name that bound pods hold, as a sentence; empty where it is known."""
    if not matches(name, scope.policy.requests.scheduler_amounts):
        return ""
    unread = [key for key in ("nodes", "pods") if _unread(scope, key)]
    if "nodes" not in unread and (name in scope.cached(_offered) or _proven(scope, name)):
        return ""
    if unread:
        return f"whether a scheduler counts {name} is not known: {listed(unread)} were not read"
    if name not in scope.cached(_held):
        return ""
    marks = listed([mark for mark, glob in MARKS.items() if matches(name, (glob,))], 2)
    lacking = f"no node has the annotation of its scheduler ({marks})" if marks else "no node shows its scheduler"
    advice = "if a scheduler counts it, write a list of your own with it (policy requests.schedulerAmounts)"
    return f"bound pods hold {name}, no node offers it, and {lacking}; {advice}"


def of_owner(scope: Scope, name: str) -> bool:
    """Whether the owner added an amount to the usual ones: a pod asks for a device by it, as far as he says."""
    return matches(name, scope.policy.requests.scheduler_amounts) and not matches(name, USUAL)


def may_give_alone(scope: Scope, node: Node, name: str) -> bool:
    """Whether a scheduler may have given a node's device for an amount alone: Volcano does so for memory, Koordinator for its own names."""
    if name.startswith("koordinator.sh/"):  # its manager takes the amounts from a node whose Device object goes
        return any(other.startswith("koordinator.sh/") for other in scope.capacity_names)
    return name == "volcano.sh/vgpu-memory" and "volcano.sh/node-vgpu-register" in node.metadata.annotation


def _unread(scope: Scope, key: str) -> bool:
    listing = scope.snapshot.listing(key)
    return bool(listing.trouble) or not listing.collected


def _proven(scope: Scope, name: str) -> bool:
    names = scope.policy.requests.scheduler_amounts
    stated = names[len(USUAL) :] if names[: len(USUAL)] == USUAL else names  # what extends the default says nothing of its names
    return matches(name, stated) or any(matches(name, (MARKS[mark],)) for mark in scope.cached(_marks))


def _marks(scope: Scope) -> Collection[str]:
    return {mark for node in scope.snapshot.nodes for mark in MARKS.keys() & node.metadata.annotation.keys()}


def _offered(scope: Scope) -> Collection[str]:
    return {name for node in scope.snapshot.nodes for name in node.status.capacity}


def _held(scope: Scope) -> Collection[str]:
    return {name for row in scope.held.values() for name, count in row.items() if count}
