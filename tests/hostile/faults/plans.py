"""Which faults befall a run: chosen by a seed, so that a run can be had again."""

from collections.abc import Iterable
from random import Random

import msgspec

from tests.hostile.faults import effects
from tests.hostile.faults.effects import SIGN_IN, Effect
from tests.hostile.faults.proxy import Fault
from tests.hostile.faults.requests import Asked
from tests.tables import table

SCENARIOS = ("healthy", "rdma-training", "mig-mixed", "dra", "h100-exclusive")
DEFECTS = (
    "healthy,fence-untainted-gpu-node",
    "healthy,fence-web-pod-on-gpu-node",
    "healthy,adv-seven-of-eight",
    "healthy,iso-plugin-hands-out-all",
)
ALWAYS = 1_000_000

_REFUSALS: dict[str, Effect] = {
    "401": effects.refused(401, "Unauthorized"),
    "403": effects.refused(403, "Forbidden"),
    "429": effects.refused(429, "TooManyRequests", {"Retry-After": "0"}),
    "429 with an odd Retry-After": effects.refused(429, "TooManyRequests", {"Retry-After": "²"}),
    "500": effects.refused(500, "InternalError"),
    "503": effects.refused(503, "ServiceUnavailable"),
    "lost request": effects.dropped(arrives=False),
    "lost answer": effects.dropped(arrives=True),
    "half an answer": effects.half,
    "late answer": effects.late,
}
TABLE_OF_ROWS = b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[],"rows":[]}'
_CHANGED: dict[str, Effect] = {
    "203": effects.with_status(203),
    "204": effects.with_status(204),
    "206": effects.with_status(206),
    "304": effects.with_status(304),
    "compressed": effects.packed,
    "byte order mark": effects.rewritten(lambda body: b"\xef\xbb\xbf" + body),
    "two documents": effects.rewritten(lambda body: body + b"\n" + body),
    "tail": effects.rewritten(lambda body: body + b"<!-- served by proxy-7 -->"),
    "table": effects.rewritten(lambda body: TABLE_OF_ROWS),
    "metadata alone": effects.rewritten(effects.metadata_alone),
    "another namespace": effects.rewritten(effects.elsewhere),
    "protobuf": effects.replaced(200, b"k8s\x00\n\x0c\n\x02v1", "application/vnd.kubernetes.protobuf"),
}
ODD_HEADERS = effects.headed(Warning=f'299 - "{"²" * 4_000}"', Location="//²", Content_Type="²", Date="²", Retry_After="soon")
_UNWANTED: dict[str, Effect] = {
    "endless body": effects.endless,
    "odd headers": ODD_HEADERS,
    "odd coding": effects.headed(Content_Encoding="²"),
}
_LIES: dict[str, Effect] = {
    "sign-in page": effects.replaced(200, SIGN_IN, "text/html"),
    "sign-in page said to be JSON": effects.replaced(200, SIGN_IN),
    "empty body": effects.replaced(200, b""),
    "null": effects.replaced(200, b"null"),
    "empty object": effects.replaced(200, b"{}"),
    "array": effects.replaced(200, b"[]"),
    "success": effects.replaced(200, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}'),
    "page that says not found": effects.replaced(404, b"<html><body>default backend - 404</body></html>", "text/html"),
    "redirect to a sign-in page": effects.replaced(302, SIGN_IN, "text/html"),
    "cut body": effects.rewritten(lambda body: body[: len(body) // 2]),
    "another kind": effects.rewritten(effects.other_kind),
    "no items or metadata": effects.rewritten(effects.without_items),
    "no objects": effects.rewritten(effects.no_objects),
    "deep nest": effects.rewritten(effects.deep),
}
_GET_LIES: dict[str, Effect] = {
    "not found": effects.refused(404, "NotFound"),
}
_LIST_LIES: dict[str, Effect] = {
    "not found": effects.refused(404, "NotFound"),
    "the first answer again": effects.kept,
    "same continue token": effects.same_token,
    "trickle": effects.trickle,
}
_WRITE_LIES: dict[str, Effect] = {
    "done, and a sign-in page": effects.replaced(200, SIGN_IN, "text/html", arrives=True),
    "done, and an empty body": effects.replaced(200, b"", arrives=True),
    "done, and an empty object": effects.replaced(201, b"{}", arrives=True),
    "done, and 500": effects.refused(500, "InternalError", arrives=True),
    "done, and 504": effects.refused(504, "Timeout", arrives=True),
    "not done": effects.not_done,
    "conflict": effects.refused(409, "Conflict"),
    "another UID": effects.rewritten(effects.another_uid),
}
_DELETION_LIES: dict[str, Effect] = {**_WRITE_LIES, "not found": effects.refused(404, "NotFound")}
_WATCH_LIES: dict[str, Effect] = {
    "ends at once": effects.events(),
    "silence": effects.silent,
    "garbage": effects.events(b"<html>", b"[1]", b'{"type":7}'),
    "event without an object": effects.events(b'{"type":"MODIFIED"}', b'{"type":"DELETED","object":{}}'),
    "expired": effects.events(b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}'),
    "sign-in page": effects.replaced(200, SIGN_IN, "text/html"),
    "bookmarks alone": effects.bookmarks,
    "all is deleted": effects.gone_before,
}
DISCOVERY_LIES: dict[str, Effect] = {
    "503 in part": effects.in_part,
    "stale discovery": effects.rewritten(effects.stale),
    "malformed discovery": effects.rewritten(effects.malformed),
    "partial discovery": effects.rewritten(effects.partial),
}
_BY_VERB: dict[str, tuple[dict[str, Effect], ...]] = {
    "version": (_REFUSALS, _LIES, _CHANGED, _UNWANTED),
    "discovery": (_REFUSALS, _LIES, _CHANGED, _UNWANTED, DISCOVERY_LIES),
    "list": (_REFUSALS, _LIES, _CHANGED, _UNWANTED, _LIST_LIES),
    "get": (_REFUSALS, _LIES, _CHANGED, _UNWANTED, _GET_LIES),
    "watch": (_WATCH_LIES,),
    "create": (_REFUSALS, _LIES, _CHANGED, _WRITE_LIES),
    "patch": (_REFUSALS, _LIES, _CHANGED, _WRITE_LIES),
    "delete": (_REFUSALS, _LIES, _CHANGED, _DELETION_LIES),
}
TABLE = table(__file__)
"""How often which verb and which resource is chosen, for runs, experiments and commands."""


class Ordeal(msgspec.Struct, frozen=True, kw_only=True):
    """One run: what is judged, and the faults it meets."""

    seed: int
    simulate: str
    faults: tuple[Fault, ...]


def ordeal(seed: int) -> Ordeal:
    """The run of a seed."""
    random = Random(seed)
    simulate = random.choice(SCENARIOS) if random.random() < 0.6 else random.choice(DEFECTS)
    return Ordeal(seed=seed, simulate=simulate, faults=tuple(_fault(random, "runs") for _ in range(random.randint(1, 3))))


def each_by_itself(questions: Iterable[Asked]) -> list[Fault]:
    """Every fault that may befall one of these questions, told whenever it is asked. Never two in a run: one may hide another."""
    return [
        Fault(name=name, verb=asked.verb, resource=asked.resource or "*", effect=effect, times=ALWAYS)
        for asked in questions
        for menu in _BY_VERB.get(asked.verb, ())
        for name, effect in sorted(menu.items())
    ]


def experiment_faults(random: Random) -> tuple[Fault, ...]:
    """What an experiment meets: its writes to a node, its ledger's copy, its Lease, its namespace and what it reads."""
    return tuple(_fault(random, "experiments") for _ in range(random.randint(1, 3)))


def command_faults(random: Random) -> tuple[Fault, ...]:
    """What a command meets that looks, halts, puts back or cleans up."""
    return tuple(_fault(random, "commands") for _ in range(random.randint(1, 2)))


def _fault(random: Random, of: str) -> Fault:
    weights, resources = TABLE[of]["weights"], TABLE[of]["resources"]
    verb = random.choices(list(weights), weights=list(weights.values()))[0]
    menu = random.choice(_BY_VERB[verb])
    name = random.choice(sorted(menu))
    resource = random.choice(resources.get(verb, ["*"]))
    once = verb == "list" and resource != "*"  # each kind is listed once, and mostly in one page
    return Fault(
        name=name,
        verb=verb,
        resource=resource,
        effect=menu[name],
        skip=0 if once else random.choice((0, 0, 0, 1, 2, 5, 12)),
        times=random.choice((1, 1, 2, 2, 4, ALWAYS)),
    )
