"""A certificate that only its own file vouches for, made by openssl."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not here")


def of_loopback(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What a server on 127.0.0.1 shows, and the file by which a client trusts it."""
    key, certificate = folder / "key.pem", folder / "ca.crt"
    making = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    making += ["-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(making, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate
