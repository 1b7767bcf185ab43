from pathlib import Path

import pytest

from conformance.catalogue import CatalogueError, load_catalogue
from conformance.catalogue_groups import WRITE_GROUPS
from conformance.scope.platform_namespaces import READS as PROOFS
from fixtures.cluster.kinds import WORKLOAD_KEYS
from fixtures.snapshot.custom_kinds import DEFINITIONS

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


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"reads": "[template]"}, "reads the unknown kind 'template'"),
        ({"optional": "[workspace]"}, "reads the unknown kind 'workspace'"),
        ({"writes": "[claims]"}, "writes 'claims', which is neither"),
    ],
)
def test_a_group_that_nobody_knows_is_named_with_its_requirement(tmp_path: Path, entry: dict[str, str], said: str) -> None:
    with pytest.raises(CatalogueError, match=rf"fence/catalogue.yaml: FENCE-01: {said}"):
        load_catalogue(load(tmp_path, **entry))


LOOK_FOR_AGENTS = ("DRA-01", "DRA-02", "DRA-09", "GANG-09", "INV-06", "OPS-02", "OPS-03", "OPS-04", "OPS-06", "OPS-13")


@pytest.mark.parametrize("id_", LOOK_FOR_AGENTS)
def test_what_looks_for_agents_reads_what_proves_their_namespace(id_: str) -> None:
    """Otherwise agents in a namespace that only its ClusterPolicy names are none when the requirement is chosen alone."""
    assert {*PROOFS} <= {*load_catalogue().get(id_).lists}
