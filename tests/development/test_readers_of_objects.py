"""The model reads objects of the cluster, and everything else asks the model. What has still to move there is on a list."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.development.check import ROOT

FIELDS = frozenset({"spec", "status"})
ASKERS = ("conformance", "chaos", "reports", "fixtures")
MAY_READ = (
    "fixtures/model/",  # it is what reads
    "fixtures/kubernetes/",  # the shapes of objects
    "fixtures/simulator/",  # it makes the objects
    "fixtures/localcluster/",
    "fixtures/probes/",  # pods of the suite itself
    "conformance/probes/",
    "conformance/outputs/",  # objects that a person captured
    "chaos/act/",
    "chaos/ledger/undos/",
)
LIST = Path(__file__).with_name("readers_of_objects.txt")
"""Files that read ``spec`` or ``status`` outside the model, and in how many places. No file is added and no number grows."""


def readers(root: Path) -> Iterator[str]:
    """``file count`` for each file of production that reads objects by itself."""
    for path in sorted(file for folder in ASKERS for file in (root / folder).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(MAY_READ) and (count := sum(map(reads, ast.walk(ast.parse(path.read_text()))))):
            yield f"{name} {count}"


def reads(node: ast.AST) -> bool:
    """Whether it is ``object.spec.x``, ``object["spec"]``, ``object.get("spec")``, or ``dig`` or ``mapping`` with the name."""
    match node:
        case ast.Attribute(value=ast.Attribute(attr=field)) | ast.Subscript(slice=ast.Constant(value=field)):
            return field in FIELDS
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=field), *_]):
            return field in FIELDS
        case ast.Call(func=ast.Name(id="dig" | "mapping"), args=[_, ast.Constant(value=field), *_]):
            return field in FIELDS
    return False


def test_objects_are_read_in_the_model_alone() -> None:
    found, known = set(readers(ROOT)), set(LIST.read_text().splitlines())
    assert found - known == set(), "ask a row of fixtures/model; where none answers, the reader belongs there"
    assert known - found == set(), "write the list anew: it only shrinks"


def test_each_way_to_read_is_known() -> None:
    ways = {
        "pod.spec.node_name": 1,
        "pod['status']": 1,
        "mapping(pod.get('spec'))": 1,
        "dig(pod, 'spec', 'x')": 1,
        "answer.status": 0,
        "plan.spec_of(pod)": 0,
    }
    assert {text: sum(map(reads, ast.walk(ast.parse(text)))) for text in ways} == ways
