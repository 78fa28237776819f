"""Keys and certificates of the local control plane, made by the `openssl` command.

The trap: Python 3.13 and Go both refuse a leaf without an authority key identifier or a subject alternative
name, while OpenSSL's defaults leave both out.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_CONFIG = """
[req]
distinguished_name = name
x509_extensions = authority
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
subjectAltName = IP:127.0.0.1, DNS:localhost, DNS:kubernetes.default.svc
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid
[client]
extendedKeyUsage = clientAuth
authorityKeyIdentifier = keyid
"""
_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
_DAYS = ["-days", "3650"]

LEAVES = {
    "apiserver": ("server", "/CN=kube-apiserver"),
    # system:masters is the group that RBAC does not bind (kubernetes.io: "Using RBAC Authorization").
    "admin": ("client", "/O=system:masters/CN=servingstack-admin"),
    "front-proxy-client": ("client", "/CN=front-proxy-client"),
}


class PkiError(Exception):
    """openssl is absent or refused."""


def _openssl(folder: Path, *arguments: str) -> None:
    executable = shutil.which("openssl")
    if executable is None:
        raise PkiError("`openssl` is not on PATH; the local control plane needs it for its certificates")
    done = subprocess.run([executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PkiError(f"openssl {' '.join(arguments)}: {done.stderr.strip()}")


def create(folder: Path) -> None:
    """Makes ca, sa and the leaves as NAME.key and NAME.crt (sa: sa.key, sa.pub), once."""
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / "openssl.cnf").write_text(_CONFIG)
    config = ["-config", "openssl.cnf"]
    authority = ["-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=servingstack-local"]
    _openssl(folder, "req", "-x509", *config, *_KEY, *_DAYS, *authority)
    for name, (section, subject) in LEAVES.items():
        request = ["-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject]
        _openssl(folder, "req", "-new", *config, *_KEY, *request)
        signing = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]
        extensions = ["-extfile", "openssl.cnf", "-extensions", section]
        files = ["-in", f"{name}.csr", "-out", f"{name}.crt"]
        _openssl(folder, "x509", "-req", *files, *signing, *_DAYS, *extensions)
    _openssl(folder, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "sa.key")
    _openssl(folder, "pkey", "-in", "sa.key", "-pubout", "-out", "sa.pub")
    (folder / "done").touch()
