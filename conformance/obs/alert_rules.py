"""OBS-08: alert rules would fire on what ends jobs, and each names series that somebody serves.

Rules are PrometheusRules of the cluster and files that the policy names. Facts: docs/facts/telemetry.md#alert-rules.
"""

import functools
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from conformance.obs.page import Page, plain_name
from conformance.obs.scraping import Scraper
from conformance.outputs.dcgm import Sample, is_blank
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import whole
from fixtures.model.platform.exporters import Exporter, kinds
from fixtures.model.platform.monitoring import RULES, Rule, rules_of
from fixtures.model.platform.renamed_series import earlier, renamed
from fixtures.text import yaml_text
from fixtures.text.sentences import listed
from fixtures.text.yaml_text import NotYaml, load_all
from fixtures.verdict.findings import About, Finding, bad, ok
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

_SKIPPED = re.compile(r"""#[^\n]*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`""")
_MATCHERS = re.compile(r"\{[^{}]*\}")
_LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)", re.IGNORECASE)
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_DURATION = re.compile(r"(\d{1,6})(ms|s|m|h|d|w|y)")
_WORD = re.compile(r"(?<![\w:.])([A-Za-z_:][\w:]*)\b(?!\s*\()")
_KEYWORDS = frozenset(
    (
        *("and", "or", "unless", "atan2", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right"),
        *("inf", "nan", "start", "end"),
    )
)
_MOST_RULES, _MOST_RECORDS = 2000, 100
_UNIT = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}


class Expression(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of an expression. ``unknown``: it also chooses series by a pattern of their names. ``longest`` range in seconds."""

    series: frozenset[str]
    unknown: bool
    longest: float
    alternatives: bool  # it has an "or" or "unless": a name that nobody serves may be meant for other clusters


def read_expression(text: str) -> Expression:
    """The names of series in an expression."""
    plain = _SKIPPED.sub('""', text)
    unknown = "__name__" in plain
    longest = max((seconds(found) for found in _RANGE.findall(plain)), default=0.0)
    bare = _RANGE.sub(" ", _LABELS.sub(" ", _MATCHERS.sub(" ", plain)))
    words = [word for word in _WORD.findall(bare) if word.lower() not in _KEYWORDS and not _DURATION.fullmatch(word)]
    return Expression(
        series=frozenset(words),
        unknown=unknown,
        longest=longest,
        alternatives=bool(re.search(r"\b(?:or|unless)\b", bare, re.IGNORECASE)),
    )


def seconds(duration: str) -> float:
    """A duration as Prometheus writes it (``1h30m``), or the range of a subquery (``1h:5m``), in seconds; 0 for none."""
    return sum(int(number) * _UNIT[unit] for number, unit in _DURATION.findall(duration.partition(":")[0]))


_HEALTHY, _LEAST = 60, 7200.0
_STEPS = 2000
_TRIAL_SECONDS = 20


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a series goes over to the fault: ``from`` one value ``to`` another, which ``grows`` each minute, or ``by`` so much."""

    start: float | None = msgspec.field(default=None, name="from")
    to: float = 0.0
    by: float = 0.0
    grows: float = 0.0


class Situation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a rule has to fire on. ``absent``: series of the exporter end."""

    text: str
    series: tuple[str, ...]
    changes: Mapping[str, Change]
    absent: bool = False


@functools.cache
def situations() -> dict[str, Situation]:
    """Every situation by its name in the policy."""
    return yaml_text.packaged(Path(__file__).with_name("situations.yaml"), dict[str, Situation])


def promtool() -> str:
    """Where promtool is; empty where it is not on PATH."""
    return shutil.which("promtool") or ""


def series_of(situation: Situation, expression: Expression, scrape: Sequence[Sample]) -> list[dict[str, str]]:
    """The series that an expression names, healthy for an hour and then with the fault, as promtool writes them."""
    found = []
    for sample in scrape:
        if sample.name not in expression.series or is_blank(sample.value):
            continue
        name, times = earlier().get(sample.name, (plain_name(sample.name), 1.0))
        change = situation.changes.get(name)
        before, after, step = sample.value, f"{sample.value:g}", 0.0
        if change is not None:
            before = sample.value if change.start is None else change.start / times
            after, step = f"{before + change.by / times if change.by else change.to / times:g}", change.grows / times
        elif situation.absent:
            after = "_"
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(sample.labels.items()))
        later = f"_x{_STEPS}" if after == "_" else f"{after}+{step:g}x{_STEPS}"
        found.append({"series": f"{sample.name}{{{labels}}}", "values": f"{before:g}x{_HEALTHY} {later}"})
    return found


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def fires(rule: Rule, records: Iterable[Rule], series: Sequence[Mapping[str, str]], longest: float) -> str:
    """Empty where the alert fires at some time after the fault began, else why not, as a clause.

    ``records`` are what the expression is made of, ``longest`` the longest time that it or the alert looks back, in seconds.
    """
    step = max(60.0, 2 * longest / _STEPS)
    horizon = int(_HEALTHY * step + max(_LEAST, 2 * longest))
    group = [*({"record": one.name, "expr": one.expr} for one in records), {"alert": "Tried", "expr": rule.expr, "for": rule.wait or "0s"}]
    asked = f'count(max_over_time(ALERTS{{alertname="Tried",alertstate="firing"}}[{horizon}s])) > bool 0'
    expected = {"expr": asked, "eval_time": f"{horizon}s", "exp_samples": [{"labels": "{}", "value": 1}]}
    trial = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{step:.0f}s",
        "tests": [{"interval": f"{step:.0f}s", "input_series": list(series), "promql_expr_test": [expected]}],
    }
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-rules-") as folder:
        Path(folder, "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "tried", "rules": group}]}), encoding="utf-8")
        Path(folder, "trial.yaml").write_text(yaml.safe_dump(trial), encoding="utf-8")
        try:
            command = [promtool(), "test", "rules", "trial.yaml"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_TRIAL_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"promtool gave no answer ({type(error).__name__})"
    if done.returncode == 0:
        return ""
    lines = (done.stdout + done.stderr).splitlines()
    broken = next((line.strip() for line in lines if "parse error" in line or "unknown" in line), "")
    return f"it cannot be evaluated: {broken[:200]}" if broken else "it does not fire"


_SECONDS, _LONGEST = 60.0, 15 * 86_400.0
"""How long the rules of one situation are tried, and how far back a rule may look that is tried."""
_OURS = re.compile(r"(?i)dcgm|nvidia|amd_com|gpu")
_OF_OPERATOR = "gpu_operator_"
"""Series of NVIDIA's GPU Operator, which ships rules about them; no exporter of devices has them."""
_ANYBODYS = "gpu_"
"""How AMD's series begin, and those of recording rules and other programs: without AMD's exporter nobody knows who serves them."""

_ONCE_THERE = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT")
"""Series that are there only once there was an Xid, and name it in a label then."""


def once_there(served: Iterable[str]) -> tuple[str, ...]:
    """Those of them that pages with these series can have: by the names before, by those of now, or by both where that does not show."""
    names = frozenset(served)
    now, before = not names.isdisjoint(earlier()), not names.isdisjoint(renamed())
    later = tuple(renamed()[name].now for name in _ONCE_THERE if name in renamed())
    if now == before:
        return (*_ONCE_THERE, *later)
    return _ONCE_THERE if before else (*later, *(name for name in _ONCE_THERE if name not in renamed()))


def check_rules(scope: Scope, scraper: Scraper) -> Iterator[Finding]:
    """One finding for each alert about devices, and one for each situation of the policy that an alert has to fire on."""
    rules = [*rules_of(scope.snapshot.listing(RULES).objects), *rules_of_files(scope.policy.metrics.rules)][:_MOST_RULES]
    if not rules and not scope.snapshot.listing(RULES).served:
        raise NotApplicable("NoRules", "the cluster serves no PrometheusRules, and the policy names no file of rules (metrics.rules)")
    pages = [(one.exporter, one.page) for one in scraper.pages().values() if one.page]
    served = frozenset(name for _, page in pages for name in page.series)
    records = {rule.name: rule for rule in rules if rule.records}
    read = {rule: read_expression(_expanded(rule.expr, records)) for rule in rules if not rule.records}
    dead = {rule: missing for rule, expression in read.items() if (missing := unserved(expression, served | records.keys()))}
    for rule, expression in read.items():
        if rule not in dead and any(map(_is_of_exporter, expression.series)):
            yield ok(
                _subject(rule), observed=listed(sorted(expression.series)), expected="series that an exporter serves", source=rule.where
            )
    for rule, missing in dead.items():
        message = f"it goes by {listed(missing)}, which no exporter here serves, so it never fires"
        expected = "series that an exporter serves"
        yield bad(
            _subject(rule), cause="RuleOnUnknownSeries", observed=rule.expr[:300], expected=expected, source=rule.where, message=message
        )
    alive = {rule: expression for rule, expression in read.items() if rule not in dead}
    nodes = {exporter.node: scope.snapshot.node_by_name.get(exporter.node) for exporter, _ in pages}
    counted = {name for name, node in nodes.items() if node is not None and any(scope.device_allocatable(node).values())}
    scrape = scrape_of(scope, *min(pages, key=lambda one: one[0].node not in counted))
    for name in scope.policy.metrics.alerts:
        if name != "allocatable" or counted:  # devices that are claimed are in no node's allocatable
            yield _covered(name, situations()[name], alive, records, scrape)


def rules_of_files(paths: Sequence[str]) -> Iterator[Rule]:
    """Rules of the files that the policy names. Raises :class:`Inconclusive` for one that cannot be read."""
    for path in paths:
        try:
            yield from rules_of(item for item in load_all(Path(path).read_text(encoding="utf-8")) if isinstance(item, dict))
        except (OSError, UnicodeDecodeError, NotYaml) as error:
            raise Inconclusive("RulesUnread", f"metrics.rules {path}: {error}") from None


def _is_of_exporter(name: str) -> bool:
    prefixes = tuple(prefix for kind in kinds() for prefix in kind.prefixes)
    return name.startswith(prefixes) and not name.startswith(_OF_OPERATOR)


def unserved(expression: Expression, served: frozenset[str]) -> list[str]:
    """Series of exporters that an expression needs and nobody serves. An Xid's series is there only once there was one."""
    own = sorted(name for name in expression.series if _is_of_exporter(name))
    if not any(name.startswith(_ANYBODYS) for name in served):
        own = [name for name in own if not name.startswith(_ANYBODYS)]
    once = once_there(served) if any(name.startswith("DCGM_") for name in served) else ()
    missing = [name for name in own if name not in served and name not in once]
    return [] if expression.alternatives and len(missing) < len(own) else missing


def _expanded(expr: str, records: Mapping[str, Rule]) -> str:
    """The expression with those of recorded series behind it, for the names in them."""
    texts, open_ = [expr], [expr]
    known: set[str] = set()
    while open_ and len(known) < _MOST_RECORDS:
        for name in read_expression(open_.pop()).series & records.keys() - known:
            known.add(name)
            texts.append(records[name].expr)
            open_.append(records[name].expr)
    return "\n".join(texts)


def _subject(rule: Rule) -> Subject:
    return Subject("Alert", rule.name)


def scrape_of(scope: Scope, exporter: Exporter, page: Page) -> list[Sample]:
    """What a Prometheus keeps of one allocated device of a page and of its node: with the labels of the target that scrapes give."""
    device = next((rows for rows in page.devices.values() if any(row.owners for row in rows)), next(iter(page.devices.values())))
    keys = {name: value for name, value in (("uuid", device[0].uuid), ("index", device[0].index)) if value}
    own = [one for one in page.samples if all(_labelled(one, getattr(page.kind, name), value) for name, value in keys.items())]
    target = exporter.target
    held = {} if any(row.owners for row in device) else {f"exported_{name}": "tried" for name in ("pod", "namespace", "container")}
    found = []
    for one in own:
        # a page's label that the target has too, as a scrape renames it unless honorLabels is on
        labels = {**target, **held, **{f"exported_{name}" if name in target else name: value for name, value in one.labels.items()}}
        found.append(Sample(one.name, labels, one.value))
    once = once_there(page.series)
    if found and page.kind.vendor == "nvidia.com":
        found += [Sample(name, found[0].labels, 0.0) for name in once if name not in page.series]
    found = [Sample(one.name, {"err_code": "79", "xid": "79", **one.labels}, one.value) if one.name in once else one for one in found]
    node = scope.snapshot.node_by_name.get(exporter.node)
    for field in ("allocatable", "capacity"):
        for resource, amount in (getattr(node.status, field) if node else {}).items():
            if scope.is_device(resource):
                labels = {"node": exporter.node, "resource": re.sub(r"\W", "_", resource), "unit": "integer", "job": "kube-state-metrics"}
                found.append(Sample(f"kube_node_status_{field}", labels, float(whole(amount))))
    return [*found, Sample("up", target, 1.0)]


def _labelled(sample: Sample, names: Iterable[str], value: str) -> bool:
    return any(sample.labels.get(name) == value for name in names)


def _covered(
    name: str, situation: Situation, alive: Mapping[Rule, Expression], records: Mapping[str, Rule], scrape: Sequence[Sample]
) -> Finding:
    """Whether some alert fires on a situation."""
    meant = {rule: expression for rule, expression in alive.items() if _is_about(situation, rule, expression)}
    subject, expected = Subject("Situation", name), f"an alert that fires when {situation.text}"
    about = About(subject, "", expected)
    if not meant:
        message = f"no alert rule is about it: {situation.text}, and nobody is told"
        return about.bad(message, cause="RuleMissing", observed="no rule", source="alert rules")
    if not promtool():
        message = f"{listed(rule.name for rule in meant)} name its series; promtool is not on PATH, so none was evaluated"
        if any(_OURS.search(rule.expr) for rule in meant):
            return about.ok(message, source="names of series")
        return about.undecided(message, cause="RulesNotEvaluated", source="names of series")
    reported, end = [], time.monotonic() + _SECONDS
    made = {sample.name for sample in scrape}
    for rule, expression in meant.items():
        longest = max(expression.longest, seconds(rule.wait))
        if longest > _LONGEST or time.monotonic() > end:
            reported.append((rule, "it needs more time than a trial has"))
            continue
        twins = {earlier().get(one, (one,))[0] for one in made} if expression.alternatives else set()
        absent = expression.series - made - records.keys()
        if foreign := sorted(one for one in absent if earlier().get(one, (one,))[0] not in twins):
            reported.append((rule, f"it needs {listed(foreign, 3)}, which the trial does not have"))
            continue
        used = [one for one in records.values() if one.name in expression.series]
        why = fires(rule, used, series_of(situation, expression, scrape), longest)
        if not why:
            return about.ok(f"{rule.name} fires", source=f"promtool over {rule.where} and a page of metrics")
        reported.append((rule, why))
    words = listed([f"{rule.name}: {why}" for rule, why in reported], 6)
    if all(why.startswith("it needs") for _, why in reported):
        return about.undecided(f"whether an alert fires when {situation.text}: {words}"[:900], cause="RulesNotEvaluated", source="promtool")
    message = f"no alert fires when {situation.text}: {words}"[:900]
    return about.bad(message, cause="RuleNeverFires", observed=words[:500], source="promtool over a page of metrics")


def _is_about(situation: Situation, rule: Rule, expression: Expression) -> bool:
    """Whether a rule may be about a situation, by the series that it names."""
    if {earlier().get(name, (plain_name(name),))[0] for name in expression.series} & set(situation.series):
        return True
    return situation.absent and "absent" in rule.expr and any(map(_is_of_exporter, expression.series))
