"""Killing pods of agents and controllers, which their owners replace."""

from typing import Any

from chaos.activities.base import kill_pods


def kill(grace: int | None = None) -> list[dict[str, Any]]:
    """Delete the plan's pods, each only if it still is that very pod. ``grace``: seconds; None leaves it to the pod."""
    return kill_pods(grace)
