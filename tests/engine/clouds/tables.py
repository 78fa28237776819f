"""What a cloud's provider does with each kind of resource, as rows: `aws.py`, `gcp.py`, `azure.py` beside
it.

To let an option use a resource that has no row yet, add a `Kind` under its Pulumi token to that cloud's
`KINDS`:

    "aws:sns/topic:Topic": Kind(
        source="terraform-provider-aws internal/service/sns/topic.go: ForceNew",
        replaces=("name", "namePrefix", "fifoTopic"),
        updates=("displayName", "policy", "tags"),
        keeps=("policy",),
        id="arn:aws:sns:{region}:{account}:{name}",
        outputs={"arn": "arn:aws:sns:{region}:{account}:{name}"},
        references=(Reference("kmsMasterKeyId", "aws:kms/key:Key", by="id"),),
    ),

The trap: a row that forgets a property would make an update of what the service replaces, and the other
way round. So every input of the SDK's class stands in exactly one of `replaces`, `updates` and `refuses`
(`test_tables.py` compares them with the SDK), and a change of a property in none of them is a
replacement and fails the test with the property's name.

Paths are the properties' Pulumi names (camelCase), dotted below the top level; lists are walked through,
so `productionVariants.modelName` is that of each variant. The longest path that a changed property
begins with decides.

In `id` and `outputs`, `{x}` is the input `x`; `{account}`, `{region}`, `{project}`, `{number}`,
`{subscription}` and `{tenant}` are the test account's (`SETTINGS`), `{hash}` is 12 hex digits and
`{uuid}` a UUID of the object's own, and `{id}` the id itself. A text that is one pair of braces keeps
its value's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reference:
    """An input that names another object: creating or updating is refused while that object is not there."""

    path: str
    """The input, by the rules above; an absent or empty one is no reference."""
    kind: str
    """Token of the object it names; several, with `|` between them, where it may be any of them."""
    by: str = "id"
    """That object's id or property that the value equals; with `|` as in `kind`, whichever it has."""
    within: str = r"(.+)"
    """A pattern whose only group is the value inside a longer text; what does not match is no reference."""
    holds: str = ""
    """Why the object is not deleted while it is named here, with source; empty where the service does."""


@dataclass(frozen=True)
class Kind:
    """One type of resource: what replaces it, what it is called, and what it depends on."""

    source: str
    """File of the upstream provider, or page of the API, that says which properties are immutable."""
    replaces: tuple[str, ...] = ()
    """Inputs whose change makes the provider replace the object (ForceNew, immutable)."""
    updates: tuple[str, ...] = ()
    """Inputs that change in place."""
    refuses: tuple[str, ...] = ()
    """Inputs that the provider would update in place and the service does not let change."""
    keeps: tuple[str, ...] = ()
    """Inputs that stay as the service has them when they are left out (Optional and Computed)."""
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the provider fills in where an input is left out."""
    id: str = "{name}"
    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What only the service knows, by name of the output."""
    secret_outputs: tuple[str, ...] = ()
    """Outputs that the provider itself marks as secret."""
    name: str | None = "name"
    """The input with the physical name; None where the service gives it."""
    auto_name: bool = False
    """Whether the provider makes a name where none is given: the Pulumi name, a hyphen and seven hex digits
    (pulumi-terraform-bridge's SetAutonaming); that azure-native takes eight makes no difference to a test."""
    unique: tuple[str, ...] = ("name",)
    """Inputs that no two objects of this kind share; empty where the service makes ids."""
    references: tuple[Reference, ...] = ()
    protected_by: str = ""
    """A boolean input that, while true, makes the provider refuse to delete or replace the object."""
    delete_before_replace: bool = False
    """Whether the provider itself asks to delete the old object first."""


Table = Mapping[str, Kind]


def names_of(text: str) -> tuple[str, ...]:
    """The names in a text that may hold several."""
    return tuple(text.split("|"))
