"""A report folder's statement, in in-toto's form, and its signature by ssh-keygen, minisign or cosign.

The statement names every file of the folder with its SHA-256 and says how the run ended. The user names the program and the key. No key
and no password passes through the suite: the program reads them itself.
"""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from conformance.delivery.outcome import MAX_FILES
from fixtures.text import json_text, users_files
from fixtures.text.json_text import NotJson
from fixtures.text.sentences import plain
from fixtures.verdict.record import Report, Verdict
from reports.folder import MAX_BYTES, write_atomically

STATEMENT = "statement.json"
SECONDS = 120.0
NAMESPACE = "gpu-conformance"
MAX_KEY = 64 << 10

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
"""A test result: PASSED, WARNED or FAILED, and the tests that ended so."""

SUFFIXES = {"ssh-keygen": ".sig", "minisign": ".minisig", "cosign": ".sigstore.json"}
"""Programs that sign, and how their signatures beside the statement are called."""

NO_SERVICES = {"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json", "rekorTlogConfig": {}, "tsaConfig": {}}
"""What `cosign signing-config create` writes: no log and no clock is asked. Without it cosign 3 sends what it signs to a public log."""


NO_ROOTS = {"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}
"""What `cosign trusted-root create` writes: a key alone is trusted. Without it cosign fetches the roots of the public services."""


class SigningError(Exception):
    """Nothing can be signed, or a signature does not hold. One line."""


def files_of(folder: Path) -> list[Path]:
    """All files below the folder but statement and signatures. Raises :class:`SigningError` for what is no regular file in it."""
    own = {STATEMENT, *(STATEMENT + suffix for suffix in SUFFIXES.values())}
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise SigningError(f"{path.relative_to(folder)} is a link or no regular file, which no run writes")
        if path.is_file() and path.relative_to(folder).as_posix() not in own:
            found.append(path)
    if len(found) > MAX_FILES:
        raise SigningError(f"{len(found):,} files are more than a report has")
    return found


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file, by its path in the folder. Raises :class:`SigningError` and ``OSError``."""
    return {path.relative_to(folder).as_posix(): hashlib.sha256(users_files.read(path)).hexdigest() for path in files_of(folder)}


def statement(report: Report, folder: Path) -> bytes:
    """The statement as JSON. A run that is not conformant, or of which that is not known, is FAILED. A simulation is named as such."""
    groups: dict[str, list[str]] = {"passed": [], "warned": [], "failed": []}
    for result in report.results:
        if result.verdict.value in groups:
            groups[result.verdict.value].append(result.id)
    good = report.exit_code == 0
    target = report.target
    annotations = {"kind": target.kind.value, "real": not target.simulated, "clusterUid": target.cluster_uid, "run": report.run.id}
    document = {
        "_type": TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests(folder).items()],
        "predicateType": PREDICATE,
        "predicate": {
            "result": "FAILED" if not good else "WARNED" if report.verdict is Verdict.WARNED else "PASSED",
            "configuration": [{"name": "target", "annotations": annotations}],
            **{f"{name}Tests": ids for name, ids in groups.items()},
        },
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def sign(report: Report, folder: Path, program: str, key: Path) -> Path:
    """Write the statement and have it signed. Returns the signature's file. Raises :class:`SigningError` and ``OSError``."""
    for suffix in SUFFIXES.values():
        (folder / (STATEMENT + suffix)).unlink(missing_ok=True)
    file = folder / STATEMENT
    write_atomically(file, statement(report, folder))
    signature = folder / (STATEMENT + SUFFIXES[program])
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-") as work:
        services = Path(work) / "signing-config.json"
        services.write_bytes(msgspec.json.encode(NO_SERVICES))
        words = {
            "ssh-keygen": ["-Y", "sign", "-f", key, "-n", NAMESPACE, file],
            "minisign": ["-S", "-s", key, "-x", signature, "-m", file],
            "cosign": [
                *("sign-blob", "--yes", "--signing-config", services, "--trusted-root", _no_roots(work)),
                *("--key", key, "--bundle", signature, file),
            ],
        }
        _call(program, [str(word) for word in words[program]])
    if not signature.is_file():
        raise SigningError(f"{program} wrote no {signature.name}")
    return signature


def signed_by(folder: Path) -> list[str]:
    """Programs whose signatures are in the folder."""
    return [program for program, suffix in SUFFIXES.items() if (folder / (STATEMENT + suffix)).exists()]


def check_signature(folder: Path, program: str, key: Path) -> None:
    """Have the program check its signature against a public key, offline. Raises :class:`SigningError` and ``OSError``."""
    file, signature = folder / STATEMENT, folder / (STATEMENT + SUFFIXES[program])
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-") as work:
        signers = Path(work) / "signers"
        if program == "ssh-keygen":
            public = users_files.read(key, MAX_KEY).decode(errors="replace").split()
            signers.write_text(f'{NAMESPACE} namespaces="{NAMESPACE}" {" ".join(public[:2])}\n', encoding="utf-8")
        words = {
            "ssh-keygen": ["-Y", "verify", "-f", signers, "-I", NAMESPACE, "-n", NAMESPACE, "-s", signature],
            "minisign": ["-V", "-q", "-p", key, "-x", signature, "-m", file],
            "cosign": [
                *("verify-blob", "--insecure-ignore-tlog=true", "--new-bundle-format", "--trusted-root", _no_roots(work)),
                *("--key", key, "--bundle", signature, file),
            ],
        }
        _call(program, [str(word) for word in words[program]], users_files.read(file))


def _no_roots(folder: str) -> Path:
    file = Path(folder) / "trusted-root.json"
    file.write_bytes(msgspec.json.encode(NO_ROOTS))
    return file


def unlike_statement(folder: Path) -> list[str]:
    """What the statement says and the folder does not have, or has otherwise, a clause each. Raises :class:`SigningError`, ``OSError``."""
    try:
        document = json_text.decode(users_files.read(folder / STATEMENT, MAX_BYTES), _Statement)
    except NotJson as error:
        raise SigningError(f"{STATEMENT}: {error}") from None
    if document.type != TYPE or document.predicate_type != PREDICATE:
        raise SigningError(f"{STATEMENT}: no statement about a test result")
    said, found = {one.name: one.digest.get("sha256", "") for one in document.subject}, digests(folder)
    return [
        *(f"{name}: the statement has it, and it is not there" for name in sorted(said.keys() - found.keys())),
        *(f"{name}: the statement does not have it" for name in sorted(found.keys() - said.keys())),
        *(f"{name}: is not as the statement says" for name in sorted(said.keys() & found.keys()) if said[name] != found[name]),
    ]


def is_statement_of(report: Report, folder: Path) -> bool:
    """Whether the statement in the folder is the one that this version makes of the run. Raises :class:`SigningError` and ``OSError``."""
    return users_files.read(folder / STATEMENT, MAX_BYTES) == statement(report, folder)


class _Subject(msgspec.Struct):
    name: str
    digest: dict[str, str]


class _Statement(msgspec.Struct, rename="camel"):
    type: str = msgspec.field(name="_type")
    subject: list[_Subject] = []
    predicate_type: str = ""
    predicate: dict[str, Any] = {}


def _call(program: str, words: list[str], given: bytes | None = None) -> None:
    """Run the program, which may ask its user for a password, and wait for two minutes at most. Raises :class:`SigningError`."""
    found = shutil.which(program)
    if found is None:
        raise SigningError(f"{program} is not on PATH")
    try:
        done = subprocess.run([found, *words], input=given, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise SigningError(f"{program} did not end within {SECONDS:.0f} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().rpartition("\n")[2]
        raise SigningError(f"{program} ended with {done.returncode}: {plain(said)[:300]}")
