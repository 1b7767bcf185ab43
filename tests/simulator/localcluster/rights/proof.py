"""What happens to a run when one right is missing, for every right of the shipped roles.

In each scenario the suite first runs under exactly the role. Then one right at a time is taken away, and those requirements are
judged again that name it in the catalogue and passed, with some that do not name it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec

from conformance.catalogue import Catalogue
from conformance.inv.rights import rights as rights_reviewed
from conformance.requirement import Needs, Requirement
from deploy.rights import Right, rights
from fixtures.cluster.access import ask_rights
from fixtures.cluster.client import Cluster
from fixtures.cluster.discovery import discover
from fixtures.cluster.kinds import KINDS
from fixtures.localcluster.control_plane.account import ROLES
from fixtures.snapshot.collect import collect
from fixtures.verdict.record import Access, Verdict
from tests.simulator.localcluster.rights.roles import key_of, rights_of_role, text_of
from tests.simulator.localcluster.rights.runs import Run, run
from tests.simulator.localcluster.rights.targets import Target

T = TypeVar("T", bound=Target)
SCENARIOS = ("h100-exclusive", "rdma-training", "mig-rdma", "time-slicing", "amd", "healthy", "mig-wedged-pending")
RED = {"mig-wedged-pending": frozenset({"MIG-01"})}
"""Requirements that fail in a scenario, being a defect's: ``get nodes`` is asked of nodes only whose MIG change is under way, and
then MIG-01 never passes. Of these scenarios nothing else is asked: without the right, what failed has to be inconclusive."""
REVIEWER = "INV-03"
"""Judges the rights themselves: it fails where one is missing, so it is asked apart from the rest."""

NEIGHBOURS = ("REQ-01", "FENCE-06")
"""Probes that are judged beside the affected requirements unless they are such; read requirements are all judged."""

FAILED_EXIT = 1
INCONCLUSIVE_EXIT = 10


class Case(msgspec.Struct, rename="camel", kw_only=True):
    """One right taken away in one scenario. Of the lists only ``inconclusive``, ``told`` and ``unneeded`` may hold something."""

    role: str
    scenario: str
    removed: str
    inconclusive: list[str] = []
    stated: list[str] = []  # they passed without a kind that only adds to what others show, and say so
    unneeded: list[str] = []  # named in the catalogue, judged as before, and not asked for when judged alone
    still_passed: list[str] = []
    wrongly_failed: list[str] = []
    changed: list[str] = []  # requirements that do not name the right and got another verdict
    residue: list[str] = []
    not_named: list[str] = []  # where INV-03 does not name exactly this right
    exit_code: int = 0
    wrong_exit: bool = False

    @property
    def holds(self) -> bool:
        """Whether the missing right did what it has to, and nothing else."""
        return not (self.still_passed or self.wrongly_failed or self.changed or self.residue or self.not_named or self.wrong_exit)


class Proof(msgspec.Struct, rename="camel", kw_only=True):
    """The whole proof. ``needless`` are rights of a role that nothing needed in any scenario; ``refused`` what a role lacked."""

    rights: int
    cases: list[Case]
    refused: list[str]
    baselines: list[str]  # scenarios that are not conformant under exactly the role, with what they said
    needless: list[str]
    explained: list[str] = []  # rights that the target cannot show the need of, with why

    @property
    def holds(self) -> bool:
        """Whether the roles hold all that is needed, nothing else, and nothing of it can be missing unnoticed."""
        return not (self.refused or self.baselines or self.needless) and all(case.holds for case in self.cases)

    @property
    def problems(self) -> list[str]:
        """A line for each thing that does not hold."""
        found = [f"refused under exactly the role: {text}" for text in self.refused]
        found += [f"not conformant under exactly the role: {text}" for text in self.baselines]
        found += [f"needed by nothing in any scenario: {text}" for text in self.needless]
        return found + [f"{msgspec.json.encode(case).decode()}" for case in self.cases if not case.holds]


class Prover:
    """Runs the cases. ``open_target`` starts a scenario, ``tell`` takes progress, ``wanted`` limits the rights by text.

    ``absent`` are kinds that the target never serves, with why: their rights can be needed only where they exist.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        open_target: Callable[[str, Path], AbstractContextManager[T]],
        folder: Path,
        tell: Callable[[str], None],
        wanted: Iterable[str] | None = None,
        absent: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._requirements = {id_: item for id_, item in catalogue.by_id.items() if id_ != REVIEWER}
        self._open = open_target
        self._folder = folder
        self._tell = tell
        self._wanted = None if wanted is None else frozenset(wanted)
        self._absent = absent
        self._proven: set[tuple[str, Right, str]] = set()
        self.proof = Proof(rights=sum(len(rights_of_role(role)) for role in ROLES), cases=[], refused=[], baselines=[], needless=[])

    def prove(self, scenarios: Sequence[str] = SCENARIOS, roles: Sequence[str] = ROLES) -> Proof:
        """Run all cases of all scenarios."""
        for scenario in scenarios:
            with self._open(scenario, self._folder) as target:
                for role in roles:
                    _Scenario(self, scenario, role, target).run()
        shown = {(role, right) for role, right, _ in self._proven}
        unshown = [(role, right) for role in roles for right in sorted(self.rights_of(role)) if (role, right) not in shown]
        self.proof.needless = [f"{role}: {text_of(right)}" for role, right in unshown if key_of(right) not in self._absent]
        absent = [(f"{role}: {text_of(right)}", self._absent.get(key_of(right))) for role, right in unshown]
        self.proof.explained = [f"{text}: {why}" for text, why in absent if why]
        return self.proof

    def rights_of(self, role: str) -> frozenset[Right]:
        """Those rights of a role that are wanted."""
        return frozenset(right for right in rights_of_role(role) if self._wanted is None or text_of(right) in self._wanted)

    def requirements_of(self, role: str) -> dict[str, Requirement]:
        """What runs under a role."""
        return {id_: item for id_, item in self._requirements.items() if role == "full" or item.access is Access.READ}

    def is_proven(self, role: str, right: Right, id_: str) -> bool:
        """Whether an earlier case showed that a requirement needs a right."""
        return (role, right, id_) in self._proven

    def add(self, case: Case, right: Right) -> None:
        """Keep a case."""
        self.proof.cases.append(case)
        self._proven |= {(case.role, right, id_) for id_ in (*case.inconclusive, *case.stated)}
        what = f"{len(case.inconclusive) + len(case.stated)} inconclusive" if case.holds else msgspec.json.encode(case).decode()
        self._tell(f"{case.scenario} {case.role} without {case.removed}: {what}")

    def judge(self, target: Target, role: str, ids: Iterable[str]) -> Run:
        """Run requirements under a role."""
        return run(target, self._folder / "runs", ids, *(["--read-only"] if role == "read-only" else []))

    def say(self, text: str) -> None:
        """Progress."""
        self._tell(text)


def _of_custom_kind(right: Right) -> bool:
    """Whether it is the list of a kind that only the cluster's definitions name: no role that is shipped can have it."""
    group, _, verb = right
    return verb == "list" and "." in group and key_of(right) not in KINDS


class _Scenario:
    """One scenario under one role."""

    def __init__(self, prover: Prover, scenario: str, role: str, target: Target) -> None:
        self._prover = prover
        self._scenario = scenario
        self._role = role
        self._target = target
        self._everything = rights_of_role(role)
        self._requirements = prover.requirements_of(role)
        self._alone: dict[str, frozenset[Right]] = {}

    def run(self) -> None:
        """The baseline, then a case for each right that some requirement is not yet known to need."""
        proof, where = self._prover.proof, f"{self._scenario} {self._role}"
        self._target.give(self._role, self._everything)
        before = self._prover.judge(self._target, self._role, [REVIEWER, *self._requirements])
        asked = self._target.asked()
        lacked = {item.right for item in asked if not item.allowed and not _of_custom_kind(item.right)}
        proof.refused += sorted(f"{where}: {text_of(right)}" for right in lacked)
        good, red = (Verdict.PASSED, Verdict.WAIVED, Verdict.NOT_APPLICABLE), RED.get(self._scenario, frozenset())
        bad = [
            f"{id_} {verdict} ({before.messages[id_]})"
            for id_, verdict in before.verdicts.items()
            if verdict not in good and id_ not in red
        ]
        if before.code != (FAILED_EXIT if red else 0) or bad or before.residue:
            proof.baselines.append(f"{where}: exit {before.code}, {', '.join([*bad, *before.residue])}")
        self._prover.say(f"{where}: exit {before.code}, {len({item.right for item in asked})} rights used")
        reviews = self._reviews()
        served = frozenset(discover(Cluster.from_kubeconfig(self._target.kubeconfig)))
        for right in sorted(self._prover.rights_of(self._role) & {item.right for item in asked}):
            naming = {id_ for id_, item in self._requirements.items() if right in rights([item])}
            ids = [
                id_
                for id_ in self._requirements
                if id_ in naming and self._is_open(id_, before, red) and not self._prover.is_proven(self._role, right, id_)
            ]
            if ids and (key_of(right) in served):
                self._case(right, ids, naming, before, reviews)

    @staticmethod
    def _is_open(id_: str, before: Run, red: frozenset[str]) -> bool:
        """Whether a requirement can show that it needs a right: it passed, or it failed where exactly that is expected."""
        return before.verdicts.get(id_) is (Verdict.FAILED if red else Verdict.PASSED) and (not red or id_ in red)

    def _case(self, right: Right, ids: list[str], naming: set[str], before: Run, reviews: Callable[[], list[str]]) -> None:
        self._target.give(self._role, self._everything - {right})
        others = [
            id_ for id_, item in self._requirements.items() if id_ not in naming and (item.access is Access.READ or id_ in NEIGHBOURS)
        ]
        after = self._prover.judge(self._target, self._role, [*ids, *others])
        case = Case(role=self._role, scenario=self._scenario, removed=text_of(right), exit_code=after.code, residue=after.residue)
        for id_ in ids:
            verdict = after.verdicts.get(id_)
            if verdict is Verdict.INCONCLUSIVE:
                case.inconclusive.append(id_)
            elif verdict is Verdict.PASSED and key_of(right) in self._requirements[id_].hints:
                (case.stated if f"{key_of(right)} could not be listed" in after.messages.get(id_, "") else case.still_passed).append(id_)
            elif verdict is not Verdict.PASSED:
                case.wrongly_failed.append(f"{id_} {verdict}: {after.messages.get(id_)}")
            elif right in self._needed_alone(id_):
                case.still_passed.append(id_)
            else:
                case.unneeded.append(id_)
        case.changed = [
            f"{id_} {before.verdicts[id_]} -> {after.verdicts.get(id_)}: {after.messages.get(id_)}"
            for id_ in others
            if after.verdicts.get(id_) != before.verdicts[id_]
        ]
        named = reviews()
        case.not_named = named if named != [text_of(right)] else []
        case.wrong_exit = after.code != (INCONCLUSIVE_EXIT if case.inconclusive or case.stated else 0)
        self._prover.add(case, right)

    def _needed_alone(self, id_: str) -> frozenset[Right]:
        """What a requirement asks for when it alone is judged, under the whole role."""
        if id_ not in self._alone:
            self._target.give(self._role, self._everything)
            self._prover.judge(self._target, self._role, [id_])
            self._alone[id_] = frozenset(item.right for item in self._target.asked())
        return self._alone[id_]

    def _reviews(self) -> Callable[[], list[str]]:
        """What INV-03 finds missing, asked anew at each call."""
        needs = Needs(reads={}, writes={})
        for id_, item in self._requirements.items():
            for key in item.lists:
                needs.reads.setdefault(key, []).append(id_)
            for text in item.writes:
                needs.writes.setdefault(text, []).append(id_)
        cluster = Cluster.from_kubeconfig(self._target.kubeconfig)
        wanted = rights_reviewed(needs, collect(cluster, needs.reads, version=""))
        return lambda: [str(review.right) for review in ask_rights(cluster, wanted) if not review.allowed]
