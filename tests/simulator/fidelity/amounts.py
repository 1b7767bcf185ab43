"""How much is compared: some by default in tests, all with ``make fidelity`` or ``GPU_CONFORMANCE_FIDELITY=all``."""

import os

import msgspec


class Amounts(msgspec.Struct, frozen=True):
    """Requests that are answered, pods that are really created, and drivers whose devices are claimed, by seven claims each."""

    requests: int
    pods: int
    drivers: int


ALL = Amounts(requests=2500, pods=60, drivers=10)
SOME = Amounts(requests=600, pods=60, drivers=4)
TESTED = ALL if os.environ.get("GPU_CONFORMANCE_FIDELITY") == "all" else SOME
