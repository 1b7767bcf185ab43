"""``make sockets``: download the definitions of others, by which real Kubernetes judges what the suite has for them."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import yaml

TABLE = Path(__file__).with_suffix(".yaml")


class Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a Go module, whose content ``sum`` pins."""

    module: str
    version: str
    sum: str
    file: str


class Missing(Exception):
    """The module is not here. One line."""


def contracts() -> dict[str, Contract]:
    return msgspec.convert(yaml.safe_load(TABLE.read_text(encoding="utf-8")), dict[str, Contract])


def definition(contract: Contract, *, download: bool = False) -> dict[str, Any]:
    """The CustomResourceDefinition. Raises :class:`Missing`, also for a module of another content."""
    environment = {**os.environ, "GOFLAGS": "-mod=mod", **({} if download else {"GOPROXY": "off"})}
    with tempfile.TemporaryDirectory() as nowhere:
        command = ["go", "mod", "download", "-json", f"{contract.module}@{contract.version}"]
        try:
            done = subprocess.run(command, cwd=nowhere, env=environment, capture_output=True, text=True, timeout=300, check=False)
        except FileNotFoundError:
            raise Missing("go is not here") from None
    found = json.loads(done.stdout or "{}")
    if found.get("Sum") != contract.sum:
        raise Missing(f"{contract.module} {contract.version} is not here (make sockets downloads it): {found.get('Error', 'another sum')}")
    document: dict[str, Any] = yaml.safe_load((Path(found["Dir"]) / contract.file).read_text(encoding="utf-8"))
    return document


def main() -> int:
    for name, contract in contracts().items():
        print(f"{name}: {definition(contract, download=True)['metadata']['name']} of {contract.module} {contract.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
