"""A table that no test reads would prove nothing and stay unnoticed."""

import ast
import re
from pathlib import Path

import pytest

from tests.tables import tables_of

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("file", [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.yaml")])
def test_every_table_is_of_a_test_beside_it(file: str) -> None:
    text = (TESTS / file).with_suffix(".py").read_text(encoding="utf-8")
    code = ast.parse(text)
    functions = [node for node in code.body if isinstance(node, ast.FunctionDef)]
    read = {node.name for node in functions if "each_row" in map(ast.unparse, node.decorator_list)}
    assert all(rows for name in read for rows in tables_of(TESTS / file)[name].values())
    assert tables_of(TESTS / file).keys() == read | set(re.findall(r'TABLE\["(\w+)"\]', text))
