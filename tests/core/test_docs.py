"""The pages that catalogue and policy generate say all that they should, and the example is a policy."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from conformance.catalogue import WRITE_GROUPS, CatalogueError, load_catalogue
from conformance.cli.pages import main, pages, policy_page
from fixtures.cluster.kinds import WORKLOAD_KEYS
from fixtures.model.platform.namespaces import READS as PROOFS
from fixtures.policy import model
from fixtures.policy.policy_file import build_policy, policy_schema, read_policy_file
from fixtures.snapshot.custom_kinds import DEFINITIONS
from tests.tables import each_row

DOCS = Path(__file__).parents[2] / "docs"


def is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, model.Section)


def test_the_command_writes_every_page_into_a_folder(tmp_path: Path) -> None:
    assert main(["docs", str(tmp_path / "new" / "folder")]) == 0
    assert {path.name: path.read_text() for path in (tmp_path / "new" / "folder").iterdir()} == pages()


def test_a_folder_that_is_a_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["docs", str(tmp_path / "file")]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_every_key_of_the_policy_has_a_row_with_a_meaning() -> None:
    text = policy_page()
    sections = {field.encode_name: field.type for field in msgspec.structs.fields(model.Policy) if is_section(field.type)}
    assert len(sections) == 18
    for name, section in sections.items():
        part = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]*) \|$", part, re.MULTILINE)
        assert [row[0] for row in rows] == [field.encode_name for field in msgspec.structs.fields(section)]
        undocumented = {row[0] for row in rows if not row[3].strip()}
        assert undocumented == set(), (name, undocumented)
    assert "| `required` | list of text | `[]` | Requirements that must judge something: nothing to judge is a failure, and an" in text


@each_row
def test_rows_name_type_default_and_meaning(row: str) -> None:
    assert row in policy_page()


def test_the_schema_page_is_the_schema_that_files_are_checked_with() -> None:
    assert json.loads(pages()["policy.schema.json"]) == json.loads(json.dumps(policy_schema()))


def test_the_example_is_a_policy_that_changes_every_section() -> None:
    read = build_policy(read_policy_file(DOCS / "policy-example.yaml"))
    for field in msgspec.structs.fields(model.Policy):
        if field.name == "platform":  # the marks of such a cluster choose its presets
            continue
        assert getattr(read, field.name) != getattr(model.Policy(), field.name), field.name
    for id_ in read.required:
        assert load_catalogue().get(id_)
    assert read.network.min_bus_bandwidth == 350


# -- catalogue


ENTRY = """
area: FENCE
title: Fences
requirements:
  - id: FENCE-01
    title: Every node has a fence
    level: MUST
    access: read
    rationale: Without a fence any pod may land there.
    references: [none]
    reads: {reads}
    optional_reads: {optional}
    writes: {writes}
"""


def load(folder: Path, *, reads: str = "[nodes]", optional: str = "[]", writes: str = "[]") -> Path:
    (folder / "fence").mkdir()
    (folder / "fence" / "catalogue.yaml").write_text(ENTRY.format(reads=reads, optional=optional, writes=writes))
    return folder


def test_groups_are_replaced_by_what_they_stand_for_where_they_are_named(tmp_path: Path) -> None:
    folder = load(tmp_path, optional="[pods, templates, configmaps]", writes="[workspace, create pods]")
    found = load_catalogue(folder).get("FENCE-01")
    assert found.reads == ["nodes"]
    assert found.optional_reads == ["pods", *WORKLOAD_KEYS, DEFINITIONS, "configmaps"]
    assert found.writes == [*WRITE_GROUPS["workspace"], "create pods"]


@each_row
def test_a_group_that_nobody_knows_is_named_with_its_requirement(tmp_path: Path, entry: dict[str, str], reported: str) -> None:
    with pytest.raises(CatalogueError, match=rf"fence/catalogue.yaml: FENCE-01: {reported}"):
        load_catalogue(load(tmp_path, **entry))


LOOK_FOR_AGENTS = ("DRA-01", "DRA-02", "DRA-09", "GANG-09", "INV-06", "OPS-02", "OPS-03", "OPS-04", "OPS-06", "OPS-13")


@pytest.mark.parametrize("id_", LOOK_FOR_AGENTS)
def test_what_looks_for_agents_reads_what_proves_their_namespace(id_: str) -> None:
    """Otherwise agents in a namespace that only its ClusterPolicy names are none when the requirement is chosen alone."""
    assert {*PROOFS} <= {*load_catalogue().get(id_).lists}
