"""What strangers wrote is read in two files that bound it, json_text and yaml_text, and clusters are asked by one client alone.

So each bound of a text or an answer is proven once, at the file that holds it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("conformance", "chaos", "fixtures", "reports", "deploy")
ADVICE = (
    "what a cluster, a user or a program wrote is read by fixtures/text/json_text.py or fixtures/text/yaml_text.py, which bound its depth "
    "and size (docs/hostile-clusters.md); if the suite itself wrote the text, name the file in READERS, with the reason"
)

WORLDS = ("fixtures/simulator/", "fixtures/localcluster/")
"""They are the cluster, and judge nothing."""

DECODES_WITHIN_BOUNDS = "gives json_text.decode_with its decoder"
READERS = {
    "fixtures/cluster/kinds.py": ("typed.decode", "kinds that the suite reads"),
    "chaos/act/context.py": ("msgspec.json.decode", "the output of an activity, which it has just encoded"),
    "chaos/engine/child.py": ("msgspec.json.decode typed.decode", "plan and experiment that the parent wrote; the journal of this process"),
    "chaos/engine/processes.py": ("typed.decode", "orders that the parent wrote"),
    "chaos/engine/recover.py": ("typed.decode", "the plan in a run's folder of this account"),
    "chaos/ledger/undos/objects.py": ("msgspec.json.decode", "a copy of values that it has just encoded"),
    "chaos/model/records.py": ("typed.decoder", DECODES_WITHIN_BOUNDS),
    "chaos/observe/sampler.py": (
        "msgspec.json.decode typed.decode",
        "a value that it has just encoded; samples of the parent",
    ),
    "chaos/observe/view.py": ("msgspec.json.decode typed.decoder", "objects of a list that json_text has read"),
    "chaos/verdict/artefacts.py": ("typed.decode typed.decoder", "files of an experiment's folder, of bounded size"),
    "conformance/plugin/again.py": (
        "msgspec.json.decode typed.decode",
        "a copy of a snapshot that it has just encoded; results of the process that it started",
    ),
    "conformance/plugin/hooks.py": ("typed.decode", "what workers of the same run hand on"),
    "fixtures/policy/policy_file.py": ("msgspec.json.decode", "a copy of values that it has just encoded"),
    "fixtures/kubernetes/oci.py": ("json.load", "the layout that the build wrote"),
    "deploy/sbom.py": ("json.loads", "the list that the build wrote"),
    "fixtures/cluster/watch.py": ("typed.decoder", DECODES_WITHIN_BOUNDS),
    "fixtures/compute/collect.py": ("typed.decode", "lines of the worker that it started"),
    "fixtures/compute/worker.py": ("typed.decode", "the order of the process that started it"),
    "fixtures/kubernetes/protobuf.py": ("json.loads", "the fields of kinds in the package"),
    "fixtures/ownership/proof_record.py": ("typed.decoder", DECODES_WITHIN_BOUNDS),
    "fixtures/snapshot/collect.py": ("typed.decoder", DECODES_WITHIN_BOUNDS),
    "fixtures/snapshot/custom_kinds.py": ("typed.decoder", DECODES_WITHIN_BOUNDS),
    "fixtures/snapshot/shared_parts.py": ("typed.decoder", "parts of a page that json_text has read"),
    "fixtures/snapshot/state.py": (
        "typed.decode",
        "the snapshot that the first process of the run saved for its workers, or kept as evidence",
    ),
    "fixtures/text/json_text.py": ("json.loads typed.decoder", "bounds what strangers wrote in JSON"),
    "fixtures/text/typed.py": ("msgspec.json.Decoder", "makes the decoders of all others"),
    "fixtures/text/yaml_text.py": (
        "yaml.CSafeLoader yaml.load yaml.load_all typed.decode",
        "bounds what strangers wrote, and reads tables of the package, which it keeps decoded",
    ),
    "conformance/plugin/answers.py": ("msgspec.json.decode", "what the suite itself has just written"),
    "fixtures/verdict/chaos_record.py": ("typed.decode", "chaos.json of a run"),
    "fixtures/verdict/record.py": ("typed.decode", "report.json of a run"),
    "reports/folder.py": ("typed.decode", "the schema version of a run's record"),
}
"""Files that may make values of a text: by which names, and whose text it is."""

_READS = re.compile(
    r"json\.(loads?|JSONDecoder|decoder\b.*)|yaml\.\w*([Ll]oad|parse|scan|compose|construct)\w*|msgspec\.\w+\.(decode|Decoder)"
    r"|typed\.decoder?|(pickle|marshal|tomllib)\.\w+"
)
_MENTIONED = re.compile(r"\b(json|yaml|typed|pickle|marshal|tomllib)\b")
_LAST = re.compile(r"loads?|.*(Decoder|decoder?|Loader|load|parse|scan|compose|construct).*")
_MODULES = ("json", "yaml", "msgspec", "msgspec.json", "msgspec.yaml", "fixtures.text.typed", "pickle", "marshal", "tomllib")


@pytest.mark.parametrize("folder", FOLDERS)
def test_whoever_makes_values_of_a_text_is_known(folder: str) -> None:
    found: dict[str, set[str]] = {}
    strange = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for line, read in () if name.startswith(WORLDS) else readings(path.read_text(encoding="utf-8")):
            found.setdefault(name, set()).add(read)
            if read not in READERS.get(name, ("", ""))[0].split():
                strange.append(f"{name}:{line}: {read}: {ADVICE}")
    assert strange == []
    known = {name: set(names.split()) for name, (names, _) in READERS.items() if name.startswith(f"{folder}/")}
    assert known == found, "READERS names what is no longer there"


TRANSPORTS = ("urllib3", "http.client", "urllib.request", "kubernetes", "requests", "aiohttp", "websockets")
SPEAKS = {
    "conformance/delivery/files.py": "sends an archive to an object store",
    "conformance/probes/running.py": "names an error of urllib3",
}
"""Files beside fixtures/cluster that may import a transport, and why."""


@pytest.mark.parametrize("folder", ["conformance", "chaos", "fixtures", "reports"])
def test_clusters_are_asked_by_one_client_alone(folder: str) -> None:
    """Its bounds of size, time, depth and pages, and what it takes for an answer, hold for every caller (tests/hostile)."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        code = path.read_text(encoding="utf-8")
        if name.startswith((*WORLDS, "fixtures/cluster/")) or not any(one in code for one in TRANSPORTS):
            continue
        for node in ast.walk(ast.parse(code)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            if any(module == one or module.startswith(f"{one}.") for module in modules for one in TRANSPORTS):
                found.add(name)
    assert found == {name for name in SPEAKS if name.startswith(f"{folder}/")}


def readings(code: str) -> Iterator[tuple[int, str]]:
    """The lines at which values are made of a text, and the name of what does it. An alias of a module that can is named by itself."""
    if not _MENTIONED.search(code):
        return
    tree = ast.parse(code)
    types = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}  # Decoder[Pod] is a type
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and _LAST.fullmatch(node.attr)
            and id(node) not in types
            and _READS.fullmatch(name := ast.unparse(node))
        ):
            yield node.lineno, name
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES:
            module = node.module.removeprefix("fixtures.text.")
            names = [f"{module}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name) for name in names if _READS.fullmatch(name) or name in _MODULES)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.asname and alias.name in _MODULES)
