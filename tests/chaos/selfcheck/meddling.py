"""A pytest plugin of the self-check: somebody writes to the cluster while an experiment runs, as a row of ``meddled.yaml`` says.

A bug of a platform is what a program does wrong after the fault; a healthy variation is what others do meanwhile. Both are writes to the
API, by the manager that the row names.
"""

import fnmatch
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from chaos.surface.chaos_run import SESSION
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble

VARIABLE = "GPU_CONFORMANCE_MEDDLED"
PERIOD = 0.2


class Moment(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Objects of a kind by name (glob): one is ``gone`` or ``new``, or its ``field`` is another than at first, ``equals`` a text if given.

    ``acting``: the experiment's process was started.
    """

    key: str = ""
    name: str = "*"
    becomes: str = ""
    field: str = ""
    equals: str | None = None


class Act(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A write. ``name`` is a glob, ``{node}`` the node that the moment was about; ``but_not``: of other nodes than that one.

    ``wait``: seconds before it.
    """

    verb: str
    key: str
    name: str = "{node}"
    but_not: str = ""
    namespace: str = ""
    subresource: str = ""
    count: int = 1
    wait: float = 0.0
    body: Any = None


class Meddled(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A row. ``when`` is None: as the experiment begins. ``again``: seconds after which it is done again, ``times`` times."""

    name: str
    experiment: str
    source: str
    scenario: str = "resilience"
    defects: list[str] = []
    when: Moment | None = None
    after: float = 0.0
    again: float = 0.0
    times: int = 1
    by: str = "gpu-operator"
    acts: list[Act] = []
    says: str = ""
    healthy: bool = False


def rows() -> list[Meddled]:
    """The table."""
    text = Path(__file__).with_name("meddled.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), list[Meddled])


def merged(old: Any, patch: Any) -> Any:
    """A value of the patch for a field that is ``old`` now: ``{+: item}`` adds to a list, ``{-: {key: value}}`` takes away from it."""
    if isinstance(patch, dict) and set(patch) <= {"+", "-"} and patch:
        kept = [one for one in old or [] if "-" not in patch or not patch["-"].items() <= one.items()]
        return [*kept, *([patch["+"]] if "+" in patch else [])]
    if isinstance(patch, dict):
        return {key: merged(old.get(key) if isinstance(old, dict) else None, value) for key, value in patch.items()}
    return patch


def at(item: Any, field: str) -> str:
    """A field by its path; ``\\.`` is a dot in a name."""
    for part in field.replace("\\.", "\0").split("."):
        item = item.get(part.replace("\0", ".")) if isinstance(item, dict) else None
    return "" if item is None else str(item).lower() if isinstance(item, bool) else str(item)


class Meddler(threading.Thread):
    """Waits for the moment and does what the row says."""

    def __init__(self, row: Meddled, cluster: Cluster, folder: Path) -> None:
        super().__init__(daemon=True)
        self.row, self.cluster, self.folder, self.ended, self.lines = row, cluster, folder, threading.Event(), list[str]()

    def run(self) -> None:
        node = ""
        try:
            if self.row.when is not None:
                found = self._moment(self.row.when)
                if found is None:
                    self.lines.append("its moment never came")
                    return
                node = found
            self.ended.wait(self.row.after)
            for turn in range(self.row.times):
                if turn:
                    self.ended.wait(self.row.again)
                for act in self.row.acts:
                    self.ended.wait(act.wait)
                    self._act(act, node)
        except Exception as error:
            self.lines.append(f"{type(error).__name__}: {error}")

    def _moment(self, when: Moment) -> str | None:
        if when.becomes == "acting":
            while not (self.folder / "child.log").exists():
                if self.ended.wait(PERIOD):
                    return None
            return ""
        first: dict[str, Any] | None = None
        changed = set[str]()
        while not self.ended.wait(PERIOD):
            try:
                items = [item for item in self.cluster.each(when.key) if fnmatch.fnmatchcase(item["metadata"]["name"], when.name)]
            except ApiTrouble:
                continue
            now = {item["metadata"]["uid"]: item for item in items}
            first = now if first is None else first
            for uid, item in ({} if when.becomes == "new" else first).items():
                if when.becomes == "gone" and (uid not in now or now[uid]["metadata"].get("deletionTimestamp")):
                    return self._node(item)
                if when.field and uid in now:
                    value, was = at(now[uid], when.field), at(item, when.field)
                    if (value == when.equals and (value != was or uid in changed)) or (when.equals is None and value != was):
                        return self._node(now[uid])
                    if value != was:
                        changed.add(uid)
            for uid, item in now.items():
                if when.becomes == "new" and uid not in first:
                    return self._node(item)
        return None

    def _node(self, item: Any) -> str:
        return str((item.get("spec") or {}).get("nodeName") or item["metadata"]["name"])

    def _act(self, act: Act, node: str) -> None:
        if act.verb == "create":
            answer = self.cluster.request(
                "POST", self.cluster.path(act.key, act.namespace), query={"fieldManager": self.row.by}, body=act.body
            )
            self.lines.append(f"create {act.key}: {answer.status} {'' if answer.ok else answer.message}")
            return
        for item in self._chosen(act, node):
            meta = item["metadata"]
            path = self.cluster.path(act.key, meta.get("namespace", ""), meta["name"], act.subresource)
            if act.verb == "delete":
                answer = self.cluster.delete(act.key, meta["name"], meta.get("namespace", ""), grace_seconds=0)
            else:
                body = merged(item, act.body)
                answer = self.cluster.request(
                    "PATCH", path, query={"fieldManager": self.row.by}, body=body, content_type="application/merge-patch+json"
                )
            self.lines.append(
                f"{time.strftime('%X')} {act.verb} {act.key} {meta['name']}: {answer.status} {'' if answer.ok else answer.message}"
            )

    def _chosen(self, act: Act, node: str) -> list[Any]:
        wanted, but = act.name.replace("{node}", node), act.but_not.replace("{node}", node)
        found = []
        for item in self.cluster.each(act.key):
            name, on = item["metadata"]["name"], self._node(item)
            on_node = act.key != "pods" or not act.name.startswith("{node}/") or on == node
            pattern = wanted.partition("/")[2] if act.name.startswith("{node}/") else wanted
            if fnmatch.fnmatchcase(name, pattern) and on_node and not (but and on == but):
                found.append(item)
        return found[: act.count]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Meddle while the experiment runs."""
    name = os.environ.get(VARIABLE, "")
    row = next(one for one in rows() if one.name == name)
    campaign = item.config.stash[SESSION].campaign
    assert campaign is not None
    meddler = Meddler(row, campaign._setup.access.open(), campaign.folder / row.experiment)
    meddler.start()
    try:
        return (yield)
    finally:
        meddler.ended.set()
        meddler.join(10)
        Path(os.environ[VARIABLE + "_LOG"]).write_text("\n".join(meddler.lines) + "\n", encoding="utf-8")
