"""The programs of the wheel. In a checkout there is no ``suite``: its folders are on the path already."""

from __future__ import annotations

import sys
from pathlib import Path

_SUITE = Path(__file__).resolve().with_name("suite")


def main() -> int:
    """``gpu-conformance``, and ``kubectl gpu-conformance``."""
    _find()
    from conformance.cli.main import main as command

    return command()


def kubelet_podresources() -> int:
    """``kubelet-podresources``."""
    _find()
    from fixtures.nodeprobe.pod_resources import main as command

    return command()


def _find() -> None:
    if _SUITE.is_dir():
        sys.path.insert(0, str(_SUITE))
