"""What ``nvidia-smi -q`` says of a GPU's NVLink fabric (docs/facts/device-health.md#fabric)."""

from __future__ import annotations

from collections.abc import Mapping

_PREFIX = "fabric/"
_HEALTH = "fabric/health/"
_UNKNOWN_TO_THE_DRIVER = frozenset({"", "n/a", "[n/a]", "not supported", "[not supported]"})
_WELL: Mapping[str, frozenset[str]] = {
    "state": frozenset({"completed"}),
    "status": frozenset({"success"}),
    "summary": frozenset({"healthy"}),
    "bandwidth": frozenset({"full"}),
    "route_recovery_in_progress": frozenset({"false", "no"}),
    "route_recovery": frozenset({"false", "no"}),
    "route_unhealthy": frozenset({"false", "no"}),
    "access_timeout_recovery": frozenset({"false", "no"}),
    "incorrect_configuration": frozenset({"none", "false", "no"}),
    "gfm_state": frozenset({"connected"}),
}
_NO_HEALTH = frozenset({"cliqueid", "clusteruuid", "clique_id", "cluster_uuid", "partition_assigned", "guid", "gpu_fabric_guid"})
_PLAIN = frozenset({"false", "no", "none", "healthy", "full"})


def fabric_problems(values: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong, one text each: ``fabric Route Unhealthy is True``. ``values`` are by path: ``fabric/health/summary``."""
    found = []
    for name, value in _entries(values):
        if name in _WELL and value.lower() not in _WELL[name]:
            found.append(f"fabric {name.replace('_', ' ')} is {value}, expected {' or '.join(sorted(_WELL[name]))}")
    return tuple(found)


def fabric_doubts(values: Mapping[str, str]) -> tuple[str, ...]:
    """What the driver says of the fabric's health that nobody here knows."""
    return tuple(
        f"fabric {name.replace('_', ' ')} is {value}: not known"
        for name, value in _entries(values)
        if name not in _WELL and name not in _NO_HEALTH and value.lower() not in _PLAIN
    )


def has_fabric(values: Mapping[str, str]) -> bool:
    """Whether the driver knows the GPU's fabric at all."""
    return any(name in _WELL for name, _ in _entries(values))


def _entries(values: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (path.removeprefix(_HEALTH).removeprefix(_PREFIX), value)
        for path, value in values.items()
        if path.startswith(_PREFIX) and value.lower() not in _UNKNOWN_TO_THE_DRIVER
    ]
