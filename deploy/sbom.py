"""``make sbom``: what the suite ships as CycloneDX JSON: Python distributions, and Debian's packages of an image that has been built."""

import argparse
import gzip
import hashlib
import io
import json
import sys
import tarfile
import uuid
from collections.abc import Mapping, Sequence
from email.parser import Parser as HeaderParser
from importlib.metadata import Distribution
from pathlib import Path

import msgspec
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.exception import MissingOptionalDependencyException
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from conformance.version import VERSION
from deploy.distributions import SUITE, closure
from deploy.image.build import STATUS
from deploy.image.build import SUITE as DEBIAN
from deploy.licences import expression

ROOT = Path(__file__).parents[1]


class Package(msgspec.Struct, frozen=True, order=True):
    """One of Debian's packages."""

    name: str
    version: str
    architecture: str


def packages(archive: Path) -> list[Package]:
    """Debian's packages in an image layout. Raises ValueError if it is none."""
    found: list[Package] = []
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                opened = tar.extractfile(member) if member.name.startswith("blobs/sha256/") else None
                data = opened.read() if opened else b""
                if data[:2] == b"\x1f\x8b":
                    found += _in_layer(gzip.decompress(data))
    except (OSError, tarfile.TarError) as error:
        raise ValueError(f"{archive}: not an image layout: {error}") from None
    return sorted(found)


def _in_layer(data: bytes) -> list[Package]:
    found = []
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            opened = tar.extractfile(member) if member.name.startswith(STATUS) and member.isreg() else None
            if opened:
                reported = HeaderParser().parsestr(opened.read().decode(errors="replace"), headersonly=True)
                found.append(Package(str(reported["Package"]), str(reported["Version"]), str(reported["Architecture"])))
    return found


def bom(distributions: Mapping[str, Distribution], debian: Sequence[Package] = ()) -> Bom:
    """The bill of materials. The same content has the same serial number, and no time."""
    factory = LicenseFactory()
    root = Component(
        name=SUITE, version=VERSION, type=ComponentType.APPLICATION, bom_ref=SUITE, licenses=[factory.make_from_string("Apache-2.0")]
    )
    made = Bom()
    made.metadata.component = root
    components = {}
    for name, one in distributions.items():
        stated = expression(one)
        components[name] = Component(
            name=name,
            version=one.version,
            type=ComponentType.LIBRARY,
            purl=PackageURL("pypi", None, name, one.version),
            bom_ref=f"pypi:{name}",
            licenses=[factory.make_from_string(stated)] if stated else [],
        )
    system = [
        Component(
            name=one.name,
            version=one.version,
            type=ComponentType.LIBRARY,
            purl=PackageURL("deb", "debian", one.name, one.version, {"arch": one.architecture, "distro": DEBIAN}),
            bom_ref=f"deb:{one.name}:{one.architecture}",
        )
        for one in debian
    ]
    for component in (*components.values(), *system):
        made.components.add(component)
    made.register_dependency(root, [*components.values(), *system])
    for name, one in distributions.items():
        needs = {canonicalize_name(Requirement(text).name) for text in one.requires or []}
        made.register_dependency(components[name], [components[need] for need in sorted(needs & set(components))])
    content = json.dumps(sorted([*((n, one.version) for n, one in distributions.items()), *((p.name, p.version) for p in debian)]))
    made.serial_number = uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4)
    return made


def to_json(made: Bom) -> str:
    """The document, without the time of its making."""
    document = json.loads(JsonV1Dot6(made).output_as_string())
    document["metadata"].pop("timestamp", None)
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def problem(text: str) -> str:
    """What CycloneDX's own schema has against a document, in one line; empty if nothing. Raises RuntimeError if it cannot be asked."""
    try:
        found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    except MissingOptionalDependencyException as error:
        raise RuntimeError(str(error)) from None
    return "" if found is None else str(found).partition("\n")[0]


def main(argv: Sequence[str]) -> int:
    """Write the file, and say where it is."""
    parser = argparse.ArgumentParser(prog="make sbom")
    parser.add_argument("--image", type=Path, metavar="TAR", help="the image's layout: its Debian packages are listed too")
    parser.add_argument("--into", type=Path, metavar="FILE", default=ROOT / "out" / "sbom.cdx.json")
    arguments = parser.parse_args(argv)
    try:
        debian = packages(arguments.image) if arguments.image else []
    except ValueError as error:
        parser.error(str(error))
    text = to_json(bom(closure(), debian))
    if wrong := problem(text):
        print(f"make sbom: {wrong}", file=sys.stderr)
        return 3
    arguments.into.parent.mkdir(parents=True, exist_ok=True)
    arguments.into.write_text(text)
    print(f"{arguments.into}: {len(json.loads(text)['components'])} components, {len(debian)} of them Debian's")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
