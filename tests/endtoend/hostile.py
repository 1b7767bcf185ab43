"""A cluster whose every text wants out of the report: markup, terminal escapes, reordered lines, megabytes, credentials."""

from typing import Any

from tests.tables import filled, table

TABLE = table(__file__)

MARKUP = (
    "<script>alert('pwn')</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></script><svg/onload=alert(2)>",
    "javascript:alert(3)",
    "{{ 7*7 }}{% raw %}",
    "]]><x/>&lt;&#60;",
    "`$(reboot)` | cell | **bold** [a](javascript:alert(4))",
)
CONTROLS = ("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\u202egnp.exe\u2066", "\x00\x08\r\n", "\u200b\ufeff\u2028", "\x9b2J")
LONG = "A" * 100_000

SIGNATURE = "c2lnbmF0dXJlLW1hcmtlci1vZi10aGlzLXRlc3Q"
JWT = f"eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJ{'cGF5bG9hZC1tYXJrZXI' * 8}.{SIGNATURE}"
KEY_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBmarker"
PRIVATE_KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}\n{KEY_BODY}\n-----END RSA PRIVATE KEY-----"
BEARER = "b3BhcXVlLWJlYXJlci1tYXJrZXI0NzEx"
OPAQUE = "hf_opaqueMarkerOfThisTest4711"
PASSWORD = "passwordMarkerOfThisTest"
SECRETS = (SIGNATURE, "cGF5bG9hZC1tYXJrZXI", KEY_BODY, BEARER, OPAQUE, PASSWORD)
"""What must appear nowhere: the parts of credentials that cannot be there by chance."""

SHOWN = (JWT, PRIVATE_KEY, f"Authorization: Bearer {BEARER}", f"https://user:{PASSWORD}@registry.example/x")
"""Credentials by their form: wherever a report shows them, it must not show them."""

TEXTS = (*MARKUP, *CONTROLS, LONG, *SHOWN)


def made(obj: dict[str, Any], text: str, number: int = 0) -> dict[str, Any]:
    """An object of the table with this text, and with every text as label and annotation."""
    found: dict[str, Any] = filled(
        obj, {"PRIVATE_KEY": PRIVATE_KEY, "OPAQUE": OPAQUE, "SHORT": text[:40], "NUMBER": str(number), "TEXT": text}
    )
    meta = found["metadata"]
    meta["uid"] = f"uid-{abs(hash((meta['name'], meta.get('namespace', ''))))}"
    every = {f"hostile/{n}": one for n, one in enumerate(TEXTS)}
    meta["labels"] = {**every, **dict.fromkeys(MARKUP, "1"), **meta.get("labels", {})}
    meta["annotations"] = {**every, "token": OPAQUE, "cdi.k8s.io/x": JWT}
    return found


def a_node(text: str) -> dict[str, Any]:
    return made(TABLE["node"], text)


def pods(text: str, number: int) -> list[dict[str, Any]]:
    """One that waits, and one that runs on the node of this text."""
    waiting, running = (made(TABLE["pod"], text, number + more) for more in range(2))
    running["spec"]["nodeName"], running["status"]["phase"] = f"node-{text}", "Running"
    running["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    (waiting, running)[number // 2 % 2]["spec"]["containers"][0]["securityContext"]["runAsUser"] = 0
    return [waiting, running]


def workloads(text: str) -> list[dict[str, Any]]:
    found = [made(obj, text) for obj in TABLE["workloads"]]
    for obj in found:
        template = {"metadata": made({"metadata": {"name": "t"}}, text)["metadata"], "spec": pods(text, 2)[0]["spec"]}
        obj["spec"] = {"selector": {"matchLabels": {text: text}}, "template": template, "parallelism": 4, "replicas": 4}
        obj["status"] = {"numberReady": 0, "desiredNumberScheduled": 3}
    return found


def objects() -> list[dict[str, Any]]:
    """Everything, with every text in every place."""
    found = []
    for number, text in enumerate(TEXTS):
        found += [a_node(text), *pods(text, 2 * number), *(made(obj, text) for obj in TABLE["others"]), *workloads(text)]
    return found
