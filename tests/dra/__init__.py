"""Objects of dynamic resource allocation (resource.k8s.io/v1) for tests."""

from collections.abc import Mapping, Sequence

from fixtures.kubernetes.models import Json

DRIVER = "gpu.nvidia.com"


def a_device(name: str, *, driver: str = DRIVER, taints: Sequence[Mapping[str, str]] = (), kind: str = "gpu", **more: object) -> Json:
    """A whole H100 as NVIDIA's driver publishes it."""
    attributes = {
        "type": {"string": kind},
        "uuid": {"string": f"GPU-{name}"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
    }
    found: Json = {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "81559Mi"}}, **more}
    return {**found, "taints": [dict(taint) for taint in taints]} if taints else found


def _whole(node: str, index: int) -> Json:
    """A device with an identity of its own in the cluster."""
    found = a_device(f"gpu-{index}")
    found["attributes"]["uuid"] = {"string": f"GPU-{node}-{index}"}
    return found


def a_slice(
    node: str,
    driver: str = DRIVER,
    devices: Sequence[Json] | int = 1,
    *,
    generation: int = 1,
    slices: int = 1,
    pool: str = "",
    name: str = "",
) -> Json:
    """A ResourceSlice; a number of devices means so many whole H100."""
    every = [_whole(node, index) for index in range(devices)] if isinstance(devices, int) else list(devices)
    return {
        "metadata": {"name": name or f"{node}-{driver}-{generation}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool or node, "generation": generation, "resourceSliceCount": slices},
            "devices": every,
        },
    }


def a_class(name: str = DRIVER, driver: str = DRIVER, *, expression: str = "", extended: str = "") -> Json:
    """A DeviceClass of one driver's devices."""
    spec: Json = {"selectors": [{"cel": {"expression": expression or f"device.driver == '{driver}'"}}]}
    return {"metadata": {"name": name}, "spec": {**spec, **({"extendedResourceName": extended} if extended else {})}}


def claim_spec(device_class: str = DRIVER, count: int = 1, **more: object) -> Json:
    """What a claim asks for."""
    return {"devices": {"requests": [{"name": "devices", "exactly": {"deviceClassName": device_class, "count": count, **more}}]}}


def a_claim(
    name: str,
    driver: str = DRIVER,
    *,
    device: str = "",
    pool: str = "gpu-0",
    device_class: str = DRIVER,
    namespace: str = "team-a",
    **result: object,
) -> Json:
    """A ResourceClaim, allocated where a device is named; ``result`` are further fields of the allocation's result."""
    claim: Json = {"metadata": {"name": name, "namespace": namespace}, "spec": claim_spec(device_class)}
    if device:
        given = {"request": "devices", "driver": driver, "pool": pool, "device": device, **result}
        claim["status"] = {"allocation": {"devices": {"results": [given]}}}
    return claim


def a_template(name: str, device_class: str = DRIVER, *, namespace: str = "team-a", count: int = 1) -> Json:
    """A ResourceClaimTemplate."""
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"spec": claim_spec(device_class, count)}}
