"""A plugin for ``-p``: another program writes the run's kubeconfig anew before workers read it.

``GPU_CONFORMANCE_TEST_KUBECONFIG`` names the file, and what stands there with ``.later`` is put into its place. Without that, the program
removes the file.
"""

import os
from pathlib import Path

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node() -> None:
    path = Path(os.environ["GPU_CONFORMANCE_TEST_KUBECONFIG"])
    later = path.with_suffix(".later")
    if later.exists():
        later.replace(path)
    else:
        path.unlink(missing_ok=True)
