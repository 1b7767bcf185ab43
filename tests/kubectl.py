"""Stock kubectl as the tests run it, and what those before client-go 0.34 get wrong.

They read a command's frames before they have made the streams for them, so a command that ends at once may end unheard
(kubernetes/kubernetes, client-go, tools/remotecommand/websocket.go).
"""

import re
import shutil

import pytest

KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH (Debian: kubernetes-client)")

ATTEMPTS = 3
"""Times a command is asked of a kubectl that did not hear its end: about one in a thousand under load."""

_EARLY = re.compile(r"^E\d{4} .*websocket\.go:\d+\] Unknown stream id \d, discarding message\n", re.MULTILINE)
_UNHEARD = re.compile(r"^error: closed all streams$|^E\d{4} .*\] Unknown stream id 3, discarding message$", re.MULTILINE)


def missed(err: str) -> bool:
    """Whether this kubectl threw away the command's status (stream 3), by what it wrote to standard error: its own status says nothing."""
    return _UNHEARD.search(err) is not None


def reported(err: str) -> str:
    """Standard error without the lines about a first, empty frame of output that came early. Output is compared all the same."""
    return _EARLY.sub("", err)
