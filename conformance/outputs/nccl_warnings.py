"""What a warning of NCCL or of its network plugin weighs (docs/facts/nccl.md#warnings).

Nobody knows them all: some 700 are in NCCL, as many in libfabric's plugin. Those that are known fail the run or do not; of the others
the words decide, and one that speaks of an error leaves the run undecided.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Weight(StrEnum):
    """What a warning means for the run."""

    FAILING = "failing"
    DOUBTFUL = "doubtful"
    HARMLESS = "harmless"


_FAILING = re.compile(
    "|".join(
        (
            r"mixed local (?:Net|CollNet) device counts",
            r"async fatal event",
            r"async (?:error )?event ?: ?port error",
            r"Got completion",
            r"Call to ibv_",
            r"Unable to register memory",
            r"No IP interface found",
            r"Attempted to connect incompatible devices",
            r"Cuda failure",
            r"HIP failure",
            r"Failed to bind NVLink SHARP",
            r"Failed to initialize any NET plugin",
            r"Error: network ",
            r"GDR disabled on GDR-supported instance type",
            r"no socket interface found",
            r"Connection refused",
            r"failed to extend /dev/shm",
            r"No space left on device",
            # a device is given to two ranks: NCCL refuses the communicator
            r"Duplicate GPU detected",
            r"Multiple Ranks are using the same GPU",
            # NVLink domain without IMEX
            r"MNNVL .{0,40}is available but not working",
            r"[Mm]ismatched NCCL version|NCCL version mismatch with remote peer",
            r"NET/OFI .{0,400}?(?:completed with error|\bRC: ?-?[1-9]|Couldn't |Unable to |[Ff]ailed\b|Invalid |Unexpected )",
            r"No transport found for rank",
            r"Message truncated",
            r"Failed to (?:CUDA|cuMem|malloc)",
        )
    )
)
_HARMLESS = re.compile(
    r"iommu=pt|NUMA auto balancing|RCCL_USE_AMD_SMI_LIB|HSA_FORCE_FINE_GRAIN_PCIE|Missing \"|\bACS\b|Abort COMPLETE|in abort state"
    r"|Could not find real path of|Failed to open libibverbs|Failed to open libnvidia-ml|GID table changed"
    r"|[Gg]ot (?:non-fatal )?async event"
)
_OF_AN_ERROR = re.compile(
    r"\b(?:fail(?:ed|ure|s|ing)?|error|unable|cannot|can't|couldn't|could not|timed out|timeout|not working|refused|invalid|lost|fatal"
    r"|corrupt\w*|incompatible|mismatch\w*|unreachable|broken|bad|denied|exceed\w*|unexpected|leaking)\b",
    re.IGNORECASE,
)


def weight(warning: str) -> Weight:
    """What one ``NCCL WARN`` weighs, by its text without the prefix."""
    if _FAILING.search(warning):
        return Weight.FAILING
    if _HARMLESS.search(warning) or not _OF_AN_ERROR.search(warning):
        return Weight.HARMLESS
    return Weight.DOUBTFUL
