"""Healthy clusters that offer devices by claim, as drivers' documents, charts and public outputs describe them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from fixtures.kubernetes.models import Json
from tests.platforms.clusters import BUILDERS, HERE, Builders, Cluster, cluster_of
from tests.platforms.objects import daemonset, meta

PCI = "resource.kubernetes.io/pciBusID"


def typed(named: Mapping[str, Any] | None = None, /, **values: Any) -> Json:
    """Attributes by name; versions begin with ``v=``."""
    found: Json = {}
    for name, value in {**values, **(named or {})}.items():
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
        version = isinstance(value, str) and value.startswith("v=")
        found[name] = {"version": value.removeprefix("v=")} if version else {kind: value}
    return found


def device(name: str, attributes: Json, capacity: Mapping[str, str | Json] | None = None, **more: Any) -> Json:
    """A device of v1; capacities are plain amounts."""
    amounts = {key: value if isinstance(value, dict) else {"value": value} for key, value in (capacity or {}).items()}
    return {"name": name, "attributes": attributes, **({"capacity": amounts} if amounts else {}), **more}


def a_slice(
    where: str, driver: str, devices: Sequence[Json], *, version: str = "v1", generation: int = 1, of: int = 1, tail: str = "", **more: Any
) -> Json:
    """A slice as the API server stores it; of v1beta1 each device has a ``basic``."""
    old = version == "v1beta1"
    shown = (
        [{"name": one["name"], "basic": {key: value for key, value in one.items() if key != "name"}} for one in devices]
        if old
        else list(devices)
    )
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": meta(f"{where}-{driver}{tail}", resourceVersion="7"),
        "spec": {
            "driver": driver,
            "nodeName": where,
            "pool": {"name": where, "generation": generation, "resourceSliceCount": of},
            **({"devices": shown} if shown else {}),
            **more,
        },
    }


def a_class(name: str, driver: str, kind: str = "", **more: Any) -> Json:
    """A DeviceClass as charts write it."""
    also = f" && device.attributes['{driver}'].type == '{kind}'" if kind else ""
    spec = {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'{also}"}}], **more}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta(name), "spec": spec}


def a_claim(
    name: str, space: str, requests: Sequence[Json], results: Sequence[Json], user: str, *, version: str = "v1", **devices: Any
) -> Json:
    """A claim that a living pod uses."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": meta(name, space),
        "spec": {"devices": {"requests": list(requests), **devices}},
        "status": {
            "allocation": {"devices": {"results": list(results)}},
            "reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{space}-{user}"}],
        },
    }


def claiming(made: Json, *claims: str) -> Json:
    """A pod with claims by name."""
    made["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in claims]
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": name} for name in claims]
    return made


def gpu(tray: int, index: int, product: str = "NVIDIA H100 80GB HBM3", memory: str = "81559Mi", kind: str = "gpu", **more: Any) -> Json:
    attributes = typed(
        {PCI: f"0000:{index:02x}:00.0"},
        type=kind,
        uuid=f"GPU-{tray:08x}-0000-0000-0000-{index:012x}",
        productName=product,
        brand="Nvidia",
        driverVersion="v=580.95.5",
    )
    return device(f"gpu-{index}", attributes, {"memory": memory}, **more)


def for_machines(whole: Json) -> Json:
    """A GPU in its shape for virtual machines, whose UUID the driver makes of the PCI address alone."""
    address = whole["attributes"][PCI]["string"]
    named = {
        "uuid": str(uuid5(NAMESPACE_DNS, address)),
        "productName": "GH100 [H100 SXM5 80GB]",
        "deviceID": "0x2330",
        "vendorID": "0x10de",
    }
    own = typed({PCI: address}, type="vfio", iommuFDEnabled=False, **named)
    return device(whole["name"].replace("gpu-", "gpu-vfio-"), own, {"addressableMemory": "128Gi"})


def _devices(entries: Sequence[Json]) -> Iterator[Json]:
    """Devices of a file: one of NVIDIA's by its builder, or a name with plain attributes and amounts."""
    for entry in entries:
        more = {key: value for key, value in entry.items() if key not in ("gpu", "for_machines", "name", "attributes", "capacity")}
        if "gpu" in entry:
            yield {**gpu(**entry["gpu"]), **more, **({"capacity": entry["capacity"]} if "capacity" in entry else {})}
        elif "for_machines" in entry:
            yield for_machines(gpu(**entry["for_machines"]))
        else:
            yield device(entry["name"], typed(entry["attributes"]), entry.get("capacity"), **more)


def _slice(where: str, driver: str, devices: Sequence[Json], **more: Any) -> Json:
    return a_slice(where, driver, list(_devices(devices)), **more)


def _agents(*, claims: Sequence[Sequence[str]] = (), **more: Any) -> list[Json]:
    """An agent whose pods have claims."""
    made = daemonset(**more)
    for one, names in zip(made[1:], claims, strict=False):
        one["spec"] = deepcopy(one["spec"])
        claiming(one, *names)
    return made


def _claiming(builder: str, *, claims: Sequence[str] = (), **more: Any) -> Json:
    made = BUILDERS[builder](**more)
    assert isinstance(made, dict)
    return claiming(made, *claims) if claims else made


OFFERED_BY_CLAIM: Builders = {
    **BUILDERS,
    "claim": a_claim,
    "class": a_class,
    "daemonset": _agents,
    "job": partial(_claiming, "job"),
    "pod": partial(_claiming, "pod"),
    "slice": _slice,
}
DRA_CLUSTERS: dict[str, Callable[[], Cluster]] = {
    path.stem: partial(cluster_of, path, OFFERED_BY_CLAIM) for path in sorted((HERE / "claimed").glob("*.yaml"))
}
