"""One chaos experiment: a chaostoolkit document and the suite's block in its ``extensions``, decoded strictly.

The document is run by chaostoolkit's engine; the block says what the fault is, what it may touch, what is measured and what
is expected. Nothing in a document is looked up at the time of the act: targets come from the frozen plan.
"""

import difflib
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import msgspec

from chaos.model.conditions import Condition, parse_condition, signals_of
from fixtures.kubernetes.models import Json
from fixtures.text import typed
from fixtures.verdict.record import TargetKind

EXTENSION = "gpu-conformance"
REQUIRED_SECONDS = ("recovery", "settle", "deadline")
DEFAULT_SECONDS: dict[str, dict[str, float]] = {
    "sample": {"live": 1.0, "simulated": 0.25},
    "gap": {"live": 5.0, "simulated": 15.0},
    "grace": {"live": 20.0, "simulated": 5.0},
    "lead": {"live": 15.0, "simulated": 1.0},
}
"""Durations an experiment may leave out. ``sample``: period of the sampler; ``gap``: longest silence between two samples that
still lets the run be judged, longer where the cluster shares a busy machine with its sampler; ``grace``: what an interrupted child
gets for its rollbacks before it is killed; ``lead``: from arming a timer that ends the kubelet to its going off: the kubelet looks at
its containers each second, and the end and the log of the pod that armed it come through the kubelet."""


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what an experiment file may hold: an unknown key is an error."""


class SecondsByTarget(Strict, frozen=True, kw_only=True):
    """One duration in seconds, by where it runs. ``local`` is ``simulated`` unless given."""

    live: float | None = None
    simulated: float | None = None
    local: float | None = None

    def on(self, kind: TargetKind) -> float | None:
        """The duration on a kind of target; None when the experiment names none."""
        if kind is TargetKind.LOCAL:
            return self.local if self.local is not None else self.simulated
        return self.simulated if kind is TargetKind.SIMULATED else self.live


class Radius(Strict, frozen=True, kw_only=True):
    """How much the fault may touch: ``count`` objects of ``scope`` (pod, node, gpu, namespace, control)."""

    scope: str
    count: int = 1


class Expectation(Strict, frozen=True, kw_only=True):
    """One named finding of the verdict; exactly one of ``always``, ``never``, ``eventually``.

    ``always`` and ``never`` are judged over every sample from the injection to the end (or, with ``until``, to that mark:
    ``undo`` is the moment the undoing began). A sample that does not tell is no sample: when what tells is further apart than
    ``seconds.gap``, the finding is undecided, never good. ``eventually`` must become true within ``within`` (a name of
    ``seconds``) of the injection: what held before it must be lost first, and what held all along is undecided. With ``until``, it
    stays so to that mark.
    """

    name: str
    always: Json | None = None
    never: Json | None = None
    eventually: Json | None = None
    within: str = ""
    until: str = ""

    @property
    def mode(self) -> str:
        """``always``, ``never`` or ``eventually``."""
        return "always" if self.always is not None else "never" if self.never is not None else "eventually"

    @property
    def condition(self) -> Condition:
        """The parsed condition. Raises :class:`chaos.model.conditions.ConditionError`."""
        return parse_condition(getattr(self, self.mode), f"expect {self.name!r}.{self.mode}")


class Extension(Strict, frozen=True, kw_only=True):
    """Our block of an experiment.

    ``undo`` names what the method's faults arm in the ledger (chaos/ledger/bounds.py), canaries and other preparation left out; an
    experiment that arms something else is an error, and one with an empty list is a control run: its verdict needs no fault.
    ``target`` holds ``select`` and what that selector takes (chaos/plan/planning.py). ``collateral`` names signals of objects that
    nobody may touch: they must equal their baseline in every sample. ``takes_capacity`` says that GPUs may be missing meanwhile,
    ``cordons`` that the method cordons and empties the node itself, ``expects`` names remediation that the experiment reckons
    with, ``live_needs`` components that a live cluster must have beside ``needs``. ``expected_failure`` says that a correct verdict
    today is *failed*, and why: when the experiment passes, it is reported, so that a fix upstream is noticed. ``combines`` names
    experiments whose fault may be made while this one's lasts, and the expectations that cannot hold then (chaos/model/pairs.py).
    """

    name: str
    id: str
    level: int
    area: tuple[str, ...]
    fidelity: dict[TargetKind, str]
    radius: Radius
    target: Json
    seconds: dict[str, SecondsByTarget]
    signals: tuple[str, ...]
    steady: Json
    detect: Json | None = None
    contained: Json | None = None
    expect: tuple[Expectation, ...] = ()
    collateral: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    live_needs: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    takes_capacity: bool = True
    cordons: bool = False
    expects: tuple[str, ...] = ()
    proves: str
    expected_failure: str = ""
    combines: dict[str, tuple[str, ...]] = {}

    @property
    def judged_signals(self) -> list[str]:
        """Signals that the block's conditions rest on, the most telling first: what a timeline shows."""
        documents = [self.steady, self.detect, self.contained, *(getattr(one, one.mode) for one in self.expect)]
        return list(dict.fromkeys(name for document in documents if document is not None for name in signals_of(parse_condition(document))))

    @property
    def starting(self) -> frozenset[str]:
        """Names of the durations in which pods have to start: the recovery's, and those of the experiment's own pods."""
        named = {one.within for one in self.expect if one.within and any(map(of_own_pods, signals_of(one.condition)))}
        return frozenset({"recovery", *named})

    def fidelity_on(self, kind: TargetKind) -> str:
        """The level of fidelity on a kind of target, "" where the experiment does not exist. Simulated nodes are never ``real``."""
        if kind is TargetKind.SIMULATED_NODES:
            kinds = (TargetKind.LOCAL, TargetKind.SIMULATED) if TargetKind.LIVE in self.fidelity else ()
            return next((self.fidelity[one] for one in kinds if one in self.fidelity), "simulated" if kinds else "")
        return self.fidelity.get(kind, "")

    def durations(self, kind: TargetKind) -> dict[str, float]:
        """Every duration resolved for a kind of target, the defaults included."""
        fallback = "live" if kind is TargetKind.LIVE else "simulated"
        resolved = {name: numbers[fallback] for name, numbers in DEFAULT_SECONDS.items()}
        for name, tempo in self.seconds.items():
            value = tempo.on(kind)
            if value is not None:
                resolved[name] = value
        return resolved


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded experiment: the chaostoolkit document, where it came from, and the suite's block in it."""

    path: str
    document: dict[str, Any]
    extension: Extension

    @property
    def id(self) -> str:
        """Id in the catalogue, such as ``A1``."""
        return self.extension.id

    @property
    def title(self) -> str:
        """One line."""
        return str(self.document["title"])

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and arguments of each function that the method calls."""
        providers = [activity["provider"] for activity in self.document["method"]]
        return [(str(provider["func"]), provider.get("arguments") or {}) for provider in providers]

    @property
    def functions(self) -> frozenset[str]:
        """Names of the activities' functions that the method calls."""
        return frozenset(name for name, _ in self.calls)


SELF_HEALING = frozenset({"pods.replaced", "slices.published"})
"""Undo names whose fault heals by itself: an experiment that arms only these may have no rollbacks."""


class Level(IntEnum):
    """Each level allows those below it. Without a word from the operator of the cluster, :data:`DEFAULT_MAX_LEVEL` is the ceiling."""

    SIMULATED = 0
    AGENTS = 1
    TELEMETRY = 2
    NODE = 3
    DESTRUCTIVE = 4

    @property
    def words(self) -> str:
        """What the level means, for people."""
        return _WORDS[self]


DEFAULT_MAX_LEVEL = Level.AGENTS
OPT_IN_LEVEL = Level.TELEMETRY
"""From here on, every touched node of a live cluster must carry :data:`OPT_IN_LABEL`."""
TYPED_LEVEL = Level.DESTRUCTIVE
"""From here on, somebody types the cluster's name, and the node is cordoned and idle."""
OPT_IN_LABEL = ("gpu-conformance.io/chaos", "allowed")


def needs_cordoned(level: int, kind: TargetKind, *, cordons: bool) -> bool:
    """Whether the experiment acts on nodes that an administrator has cordoned and emptied, and on no other.

    ``cordons``: its method does that itself, which on a live cluster is nobody's to do but an administrator's.
    """
    return level >= TYPED_LEVEL and not (cordons and kind is not TargetKind.LIVE)


_WORDS = {
    Level.SIMULATED: "no real machine is touched",
    Level.AGENTS: "touches agents, API objects and its own pods, no host and no device",
    Level.TELEMETRY: "changes what detectors see, no device",
    Level.NODE: "disrupts one opted-in node, reversibly",
    Level.DESTRUCTIVE: "destructive, or not provably reversible",
}


def with_steady(experiment: Experiment, names: list[str]) -> Experiment:
    """The experiment with signals in its steady state that have to be true: conditions of its user's."""
    if not names:
        return experiment
    block = dict(experiment.document["extensions"][0])
    block["steady"] = {"all": [block["steady"], *({"signal": name, "is": True} for name in names)]}
    block["signals"] = [*block["signals"], *names]
    document = {**experiment.document, "extensions": [block]}
    return Experiment(path=experiment.path, document=document, extension=extension_of(document))


_COMPANIONS = {
    "pods.others": ("pods.others.ended",),
    "pods.uids": ("pods.ended",),
    "pods.strangers": ("pods.ended",),
    "pods.failed": ("pods.ended", "pods.refused"),
    "claims.held": ("pods.ended",),
}


def companions(names: Iterable[str]) -> list[str]:
    """The companions of some signals, each once."""
    return list(dict.fromkeys(one for name in names for one in _COMPANIONS.get(name, ())))


def with_companions(names: Iterable[str]) -> list[str]:
    """Signals and their companions: what is sampled for an experiment that names these.

    With the experiment's own pods, how fast they start; with their workers' beats, how long these pause.
    """
    named = list(names)
    pace = [START] * any(map(of_own_pods, named)) + [PAUSE] * (STALLED in named)
    return list(dict.fromkeys([*named, *companions(named), *pace]))


START, PAUSE, STALLED = "canaries.start", "canaries.pause", "canaries.stalled"


def of_own_pods(signal: str) -> bool:
    """Whether a signal is about pods that the experiment starts for itself."""
    return signal.startswith(("canaries.", "probe."))


PATIENCE = 4.0
"""How many times what a pod took before the fault one may take after it."""

SLOW_START = "slow_start"
"""The duration that a first pod may take (policy ``probes.slowStartSeconds``), in a plan's ``seconds``."""


def stretched(seconds: Mapping[str, float], names: Iterable[str], start: object) -> dict[str, float]:
    """The durations, with those of the names long enough for pods of a node on which one took ``start`` seconds; bounded."""
    took = start if isinstance(start, (int, float)) else 0.0
    least = PATIENCE * min(took, seconds.get(SLOW_START, DEFAULT_SLOW_START))
    return {**seconds, **{name: max(seconds[name], least) for name in names if name in seconds}}


DEFAULT_SLOW_START = 60.0


def unknown_name(where: str, key: object, known: Iterable[str]) -> str:
    """A name that is not known, with the nearest one that is."""
    known = sorted(known)
    near = difflib.get_close_matches(str(key), known, n=1)
    return f"{where}: unknown {str(key)!r}" + (f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}")


class ExperimentError(Exception):
    """An experiment file cannot be used; one line per mistake."""


_EXPECTED_TYPES = {field.name: field for field in msgspec.structs.fields(Extension)}


def extension_of(document: dict[str, Any]) -> Extension:
    """The suite's block of a document that was checked before. Raises :class:`ExperimentError` when it is no longer valid."""
    extension, errors = decode_extension(document)
    if extension is None:
        raise ExperimentError("; ".join(errors))
    return extension


def decode_extension(document: dict[str, Any]) -> tuple[Extension | None, list[str]]:
    """Decodes the suite's block field by field, so that all its mistakes are reported at once."""
    blocks = document.get("extensions")
    found = [block for block in blocks if isinstance(block, dict) and block.get("name") == EXTENSION] if isinstance(blocks, list) else []
    if len(found) != 1 or not isinstance(blocks, list) or len(blocks) != 1:
        return None, [f"extensions: expected exactly one block, {{name: {EXTENSION}, ...}}"]
    errors = [unknown_name("extensions", key, _EXPECTED_TYPES) for key in found[0] if key not in _EXPECTED_TYPES]
    values = {}
    for name, field in _EXPECTED_TYPES.items():
        if name not in found[0]:
            if field.required:
                errors.append(f"extensions: {name} is missing")
            continue
        try:
            values[name] = typed.convert(found[0][name], field.type)
        except msgspec.ValidationError as error:
            errors.append(f"extensions.{name}: {error}")
    return (None if errors else Extension(**values)), errors
