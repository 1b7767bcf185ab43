"""The check of a device's persistence mode: only a list of devices that says so counts as restored."""

from __future__ import annotations

import pytest

from chaos.ledger.undos.host import DeviceArgs, HostPersistence

UUID, OTHER = "GPU-1234", "GPU-5678"


def restored(output: str) -> bool:
    """Whether the prior state is there, on a host whose ``nvidia-smi`` prints this."""
    programs = HostPersistence().programs(DeviceArgs(name="n", uid="u", machine="m", uuid=UUID))
    return programs.read(output).strip() == programs.expected


@pytest.mark.parametrize(("mode", "there"), [("Enabled", True), ("Disabled", False), ("[Unknown Error]", False), ("", False)])
def test_a_device_that_is_there_says_its_mode(mode: str, there: bool) -> None:
    assert restored(f"{OTHER}, Enabled\n{UUID}, {mode}\n") is there


@pytest.mark.parametrize(
    "output",
    [
        "Failed to initialize NVML: Driver/library version mismatch",
        "Unable to determine the device handle for GPU0000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "No devices were found",
        f"{OTHER}, Enabled\nUnable to determine the device handle for GPU0000:1B:00.0: Unknown Error",
        "",
    ],
)
def test_a_driver_that_does_not_answer_says_nothing(output: str) -> None:
    """The undo was taken for done without having been run, exactly when the driver was ill."""
    assert not restored(output)
