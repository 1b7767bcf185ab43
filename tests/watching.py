"""Waiting in a test's own loop for what an object is to become."""

import asyncio
from collections.abc import Callable
from typing import Any

from fixtures.simulator.api.client import ApiClient
from fixtures.simulator.api.objects import Json

PATIENCE = 180.0
"""Seconds for what has to come. No test waits so long: a machine that is ten times slower than ours fails none for it."""


async def seen(client: ApiClient, path: str, true: Callable[[Json], Any], seconds: float = PATIENCE) -> Json:
    """Watch one object until ``true``; raises ``TimeoutError`` with its metadata, spec and status as they were last."""
    folder, name = path.rsplit("/", 1)
    last: Json = {}

    async def wait() -> Json:
        nonlocal last
        async for event, obj in client.list_and_watch(folder, {"fieldSelector": f"metadata.name={name}"}):
            if event in ("ADDED", "MODIFIED"):
                last = obj
                if true(obj):
                    return obj
        raise AssertionError("the watch ended")

    try:
        return await asyncio.wait_for(wait(), seconds)
    except TimeoutError:
        metadata = last.get("metadata", {})
        stated = {key: metadata.get(key) for key in ("labels", "annotations", "uid")}
        raise TimeoutError(f"{path} was last {stated} {last.get('spec')} {last.get('status')}") from None
