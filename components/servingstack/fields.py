"""Types of single fields of the input: numbers that are numbers, and names that the API server takes.

Traps:
- pydantic turns `true` into 1 and `"8"` into 8 unless told not to. A whole float stays an integer, though:
  Pulumi's wire format knows floats alone, so 3 arrives as 3.0.
- A name that only the API server refuses fails in the middle of a deployment, after half of it exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, Strict, StringConstraints

# Limits of names and labels: kubernetes.io/docs/concepts/overview/working-with-objects, "Names" and "Labels".
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

_SUBDOMAIN_NAME = rf"^{_SUBDOMAIN}$"
_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_DATA_KEY = r"^[-._a-zA-Z0-9]+$"
_LABEL_KEY = rf"^({_SUBDOMAIN}/)?{_LABEL_NAME}$"
_LABEL_VALUE = rf"^({_LABEL_NAME})?$"
_ALERT_LABEL = r"^([a-zA-Z]|_[a-zA-Z0-9])[a-zA-Z0-9_]*$"
_ADDRESS = r"^https?://[^\s/]\S*$"
STACK_NAME = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
# As the hub names repositories (huggingface_hub utils/_validators.py, REPO_ID_REGEX), and never a flag.
MODEL_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$"
MODEL_SOURCE = (
    r"^(hf|files|pvc://[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(/[A-Za-z0-9_][A-Za-z0-9._-]*)*/?"
    r"|(s3|gs|as|azurefile|modal|image)://[A-Za-z0-9][A-Za-z0-9._:-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*/?)$"
)
ADAPTER_SOURCE = (
    r"^([A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*"
    r"|pvc://[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(/[A-Za-z0-9_][A-Za-z0-9._-]*)+/?)$"
)
REVISION = r"^[0-9A-Za-z][0-9A-Za-z._/-]*$"

WORDS = {
    _SUBDOMAIN_NAME: "lower case letters, digits, `-` and `.`, a letter or digit at both ends",
    _DNS_LABEL: "lower case letters, digits and `-`, at most 63, a letter or digit at both ends",
    _DATA_KEY: "letters, digits, `-`, `_` and `.`",
    _LABEL_KEY: "a key such as `team` or `example.com/team`: at most 63 letters, digits, `-`, `_` and `.`",
    _LABEL_VALUE: "at most 63 letters, digits, `-`, `_` and `.`, a letter or digit at both ends",
    _ALERT_LABEL: "a Prometheus label: letters, digits and `_`, no digit first, not `__` first",
    _ADDRESS: "an address that begins with http:// or https://",
    STACK_NAME: "a name of at most 40 lower case letters, digits and `-`, a letter first, no `-` last",
    MODEL_ID: "`name` or `owner/name`, each of letters, digits, `-`, `_` and `.`, as on the hub",
    MODEL_SOURCE: (
        "hf, files, or an address pvc://<claim>/<path>, s3://..., gs://..., as://..., azurefile://..., "
        "modal://<volume>/<path>, image://<path>"
    ),
    ADAPTER_SOURCE: "a repository on the hub, `owner/name`, or pvc://<claim>/<path>",
    REVISION: "a commit, branch or tag: letters, digits, `-`, `_`, `.` and `/`, a letter or digit first",
    # Of single options and engines, which own the patterns.
    r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$": "1 to 64 letters, digits, `-` and `_`, a letter or digit first",
    r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$": "1 to 64 letters, digits, `-` and `_`, a letter or digit first",
    r"^[a-zA-Z0-9_.-]{1,64}$": "1 to 64 letters, digits, `-`, `_` and `.`",
    r"^[-\w().]{0,89}[-\w()]$": "a resource group: at most 90 letters, digits, `-_().`, no dot last",
    r"^[a-z0-9]{5,50}\.azurecr\.io$": "the login server of a registry: <name>.azurecr.io",
    r"^[a-zA-Z](-?[a-zA-Z0-9]){2,23}$": "3 to 24 letters, digits and single `-`, a letter first",
    r"^[a-z0-9]{3,24}$": "3 to 24 lower case letters and digits",
    r"^[a-zA-Z0-9][-_a-zA-Z0-9]{0,59}$": "at most 60 letters, digits, `-` and `_`, no sign first",
    r"^[0-9a-zA-Z-]{1,127}$": "1 to 127 letters, digits and `-`",
    r"^[^@\s]{1,64}@[^@\s]{1,255}$": "an e-mail address",
    r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$": "1 to 128 letters, digits, `-`, `_`, `.`, no sign first",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "letters, digits, `-`, `_` and `.`, a letter or digit first",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*\.mar$": "the name of a file that ends in `.mar`, without a folder",
    r"^[a-z0-9-]+$": "lower case letters, digits and `-`",
    r"^[1-9][0-9]{0,2}$": "a whole number from 1 to 999",
    (
        r"^(allUsers|allAuthenticatedUsers|(user|group|serviceAccount):[^\s@:]+@[^\s@:]+|domain:[a-z0-9.-]+"
        r"|principal(Set)?://iam\.googleapis\.com/\S+)$"
    ): "an IAM member: `serviceAccount:<email>`, `group:<email>`, `user:<email>`, `domain:...`, `allUsers`",
    r"^[a-z0-9-]+-docker\.pkg\.dev/[a-z0-9.:-]+(/[a-z0-9._-]+)+(:[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64}$": (
        "an image of Artifact Registry by digest: "
        "<location>-docker.pkg.dev/<project>/<repository>/<name>@sha256:<64 digits>"
    ),
    r"^[a-z0-9-]+-docker\.pkg\.dev/[a-z0-9.:-]+(/[a-z0-9._-]+)+$": (
        "a repository of Artifact Registry: <location>-docker.pkg.dev/<project>/<repository>"
    ),
}
"""Each pattern of the input in words: a regular expression is no error message."""

SubdomainName = Annotated[str, StringConstraints(pattern=_SUBDOMAIN_NAME, max_length=253)]
"""Name of a secret, a storage class, most objects."""
LabelName = Annotated[str, StringConstraints(pattern=_DNS_LABEL)]
"""Name of a namespace: one DNS label."""
DataKey = Annotated[str, StringConstraints(pattern=_DATA_KEY, max_length=253)]
"""Key inside a secret."""
LabelKey = Annotated[str, StringConstraints(pattern=_LABEL_KEY, max_length=317)]
"""Key of a label or a taint: a name of at most 63 characters, before it a domain if one is needed."""
LabelValue = Annotated[str, StringConstraints(pattern=_LABEL_VALUE)]
"""Value of a label or a taint: at most 63 characters."""
AlertLabel = Annotated[str, StringConstraints(pattern=_ALERT_LABEL)]
"""Name of a Prometheus label; two underscores at its start are its own (prometheus.io, data model)."""


def _whole(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("an integer, neither a text nor a boolean | Write the number without quotes.")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
"""An integer; 3.0 is one."""
Number = Annotated[float, Strict()]
"""A number; an integer is one."""
YesNo = Annotated[bool, Strict()]
"""true or false."""


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "an address without a user or password, which would be in the plan and the state in the clear | "
            "Remove them; for Prometheus, name a TriggerAuthentication in prometheus_auth."
        )
    return value


Address = Annotated[str, Field(pattern=_ADDRESS), AfterValidator(_address)]
"""An HTTP address that holds no credential."""


class FrozenDict(dict[str, Any]):
    """A mapping of the input that stays as it was checked, so that the key of the args does too."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("args cannot be changed after they were checked; make a changed copy")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __deepcopy__(self, _: Any) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)


def frozen(value: Any) -> Any:
    """Mappings, however deep, as ones that nobody can change; lists as copies that nobody else holds."""
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return [frozen(inner) for inner in value]
    return value


Frozen = AfterValidator(frozen)
"""Put on every mapping of the input."""
