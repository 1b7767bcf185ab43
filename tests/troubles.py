"""Faults of the simulated API server, on demand of a test."""

import dataclasses
from collections.abc import Awaitable

import msgspec
from aiohttp import web

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.server.request import Api
from fixtures.simulator.server.store import watch_line

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclasses.dataclass
class Trouble:
    """Answers ``times`` matching requests with a fault instead.

    ``verb`` is an API verb (``list``, ``watch``, ``get``, ``create``, …) or ``*``; ``resource`` a storage key
    (``pods``, ``apps/daemonsets``) or ``*``; ``status`` an HTTP status, ``drop`` (the connection breaks) or ``hang``
    (no answer, ever). ``user`` limits it to one caller: the cluster's own programs are clients too.
    """

    verb: str = "*"
    resource: str = "*"
    status: int | str = 500
    times: int = 1
    retry_after: int | None = None
    message: str = ""
    user: str = "*"

    def __call__(self, api: Api, http: web.BaseRequest, verb: str, resource: str, user: str) -> Awaitable[web.StreamResponse] | None:
        """The answer, if the request is one of those that it is for, which are counted down."""
        wanted = self.verb in ("*", verb) and self.resource in ("*", resource) and self.user in ("*", user)
        if not wanted or self.times <= 0:
            return None
        self.times -= 1
        return self._answer(api, http, verb)

    async def _answer(self, api: Api, http: web.BaseRequest, verb: str) -> web.StreamResponse:
        """What the client gets. Raises what the server answers with, or ends the connection."""
        if self.status == "hang":
            await api.stopping.wait()
            raise ConnectionResetError("never answered, on demand")
        if self.status == "drop":
            if http.transport is not None:
                http.transport.abort()
            raise ConnectionResetError("dropped on demand")
        code = int(self.status)
        details = {"retryAfterSeconds": self.retry_after} if self.retry_after else None
        error = ApiError(code, _REASONS.get(code, ""), self.message or f"fault ordered for this test: {code}", details)
        if verb == "watch" and code == 410:
            return web.Response(body=watch_line("ERROR", msgspec.json.encode(error.status())), headers={"Content-Type": "application/json"})
        raise error
