"""Recognise a credential that was written out in plain text, so that it is refused and never repeated.

Trap: an error message that quotes a bad value is how a token ends in a CI log. Whatever prints a value
given by a user asks `looks_like_secret` first.
"""

from __future__ import annotations

import re

REDACTED = "[secret]"

_FORMS = re.compile(
    # Prefixes as in gitleaks' rules (github.com/gitleaks/gitleaks config/gitleaks.toml); lengths a little
    # looser.
    r"\b(hf_|api_org_)[A-Za-z0-9]{20,}"  # Hugging Face
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"  # JSON web token, also a Kubernetes service account's
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(AKIA|ASIA)[A-Z0-9]{16}\b"  # AWS
    r"|\b(ghp|gho|ghs|glpat|sk)[_-][A-Za-z0-9_-]{20,}"  # GitHub, GitLab, OpenAI-style API keys
    # A kubeconfig's own fields (k8s.io/client-go tools/clientcmd/api/v1 AuthInfo).
    r"|\b[a-z][a-z0-9+.-]*://[^\s/:@]*:[^\s/@]+@"  # a user's password in an address (RFC 3986, userinfo)
    r"|client-key-data|\btoken: *\S{20,}"
    # A server's flag, and a query's parameter, that say themselves what stands after them.
    r"|--[a-z0-9-]*(api[-_]key|password|secret|token)(=|['\"], *['\"])[^\s'\"]+"
    r"|[?&]([a-z]+[-_])?(token|api[-_]?key|sig|signature|secret|password)=[^\s&]+"
)

_NAMES = re.compile(r"(^|[._])(secret|token|password|api_?key|credentials?)([._\[]|$)", re.IGNORECASE)


def names_secret(path: str) -> bool:
    """Whether a field's path says that a secret or its name belongs there. Whatever text stands there may be
    the secret itself, however short, so no error repeats it."""
    return _NAMES.search(path) is not None


def looks_like_secret(value: object) -> bool:
    """Whether a text holds something that has the form of a credential."""
    return isinstance(value, str) and _FORMS.search(value) is not None


def masked(text: str) -> str:
    """The text with every credential in it replaced."""
    return _FORMS.sub(REDACTED, text)
