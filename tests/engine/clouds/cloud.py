"""An account in memory: objects by kind and id, made and refused as the rows of a `tables.Table` say.

The trap: a test cloud that takes everything proves nothing. So a name that is taken, a reference to what
is not there, the deletion of what is still in use or protected, and a change of a property without a row
are all errors.
"""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.engine.clouds.tables import Kind, Reference, Table, names_of
from tests.engine.clouds.values import (
    Json,
    changed_paths,
    fill,
    kept,
    named_values,
    shown_within,
    walk,
    with_defaults,
    write,
)

Verb = str
"""`create`, `update`, `delete` or `read`."""

RETRIES = 5
"""How often a provider tries again when it is throttled; real ones try up to 25 times (aws: max_retries)."""


class CloudError(Exception):
    """What a service answers, as `code: message`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Throttled(CloudError):
    """Too many calls: to be tried again."""

    def __init__(self) -> None:
        super().__init__("ThrottlingException", "Rate exceeded")


@dataclass
class Thing:
    """One object of the account."""

    token: str
    id: str
    inputs: dict[str, Json]
    """What was asked for, defaults included; a change from outside changes these."""
    outputs: dict[str, Json]
    """What only the service knows."""
    live: dict[str, Json] = field(default_factory=dict[str, Json])
    """What others move at run time and no property shows: instances under an autoscaler."""

    def value(self, name: str) -> Json:
        if name == "id":
            return self.id
        return self.inputs.get(name, self.outputs.get(name))

    def properties(self) -> dict[str, Json]:
        return copy.deepcopy({**self.outputs, **self.inputs})


@dataclass(frozen=True)
class Operation:
    """One call that reached the service, in the order of the log."""

    verb: Verb
    token: str
    name: str
    """Name of the Pulumi resource."""
    id: str
    """Id of the object; empty where it came to none."""
    outcome: str = "done"
    """`done`, or the code of the error."""
    timeout_s: float = 0
    """The resource's own custom timeout, 0 where it has none."""

    @property
    def noun(self) -> str:
        return self.token.rsplit(":", 1)[-1]


@dataclass
class Fault:
    verb: Verb
    token: str
    times: int
    act: Callable[[], None]


Rule = Callable[["Cloud", Thing, Mapping[str, Json]], None]
"""A rule of one service that is no row: called with the object and its inputs to be; raises or changes it."""


class Cloud:
    """`settings` are the account's names for templates, `invokes` what a program may ask it."""

    def __init__(
        self,
        kinds: Table,
        settings: Mapping[str, str],
        invokes: Mapping[str, Mapping[str, Json]],
        rules: Mapping[tuple[Verb, str], Rule],
    ) -> None:
        self.kinds = kinds
        self.settings = dict(settings)
        self.invokes = invokes
        self.log: list[Operation] = []
        self.without_row: list[str] = []
        """Changed properties that stand in no row, and kinds that have none: a test with any is no test."""
        self.cancelled = 0
        self._rules = rules
        self._things: dict[tuple[str, str], Thing] = {}
        self._faults: list[Fault] = []
        self._lock = threading.RLock()

    # -- what tests do to it

    def fail(self, verb: Verb, token: str, message: str = "internal failure", times: int = 1) -> None:
        """The next `times` calls of `verb` on this kind fail, and nothing is tried again."""

        def act() -> None:
            raise CloudError("InternalFailure", message)

        self._faults.append(Fault(verb, token, times, act))

    def throttle(self, verb: Verb, token: str, times: int) -> None:
        """The next `times` calls of `verb` on this kind are throttled, which a provider tries again."""

        def act() -> None:
            raise Throttled

        self._faults.append(Fault(verb, token, times, act))

    def before(self, verb: Verb, token: str, act: Callable[[], None]) -> None:
        """`act` runs once, while the next call of `verb` on this kind is under way."""
        self._faults.append(Fault(verb, token, 1, act))

    def seed(self, token: str, **inputs: Json) -> Thing:
        """An object that somebody else made and owns; its references are not looked at."""
        return self._add(token, inputs)

    def things(self, token: str | None = None) -> list[Thing]:
        with self._lock:
            return [thing for (kind, _), thing in self._things.items() if token in (None, kind)]

    def one(self, token: str) -> Thing:
        (thing,) = self.things(token)
        return thing

    def remove(self, thing: Thing) -> None:
        """Somebody deletes it behind the engine's back."""
        with self._lock:
            del self._things[thing.token, thing.id]

    def done(self, *verbs: Verb) -> list[tuple[Verb, str, str]]:
        """(verb, noun, resource's name) of each call that was carried out and changed something, in order."""
        wanted = verbs or ("create", "update", "delete")
        return [
            (each.verb, each.noun, each.name)
            for each in self.log
            if each.outcome == "done" and each.verb in wanted
        ]

    # -- what a provider does with it

    def kind(self, token: str) -> Kind:
        found = self.kinds.get(token)
        if found is None:
            self._miss(token)
            raise CloudError("NoRow", f"{token} has no row in tests/engine/clouds: add one, with its source")
        return found

    def create(self, token: str, name: str, inputs: Mapping[str, Json], timeout_s: float = 0) -> Thing:
        with self._logged("create", token, name, "", timeout_s) as note, self._lock:
            self._refuse_a_clash(token, inputs)
            self._refuse_missing(token, inputs)
            thing = self._add(token, inputs)
            self._apply_rule("create", thing, thing.inputs)
            note(thing.id)
            return thing

    def update(
        self, token: str, name: str, id_: str, inputs: Mapping[str, Json], timeout_s: float = 0
    ) -> Thing:
        with self._logged("update", token, name, id_, timeout_s) as note, self._lock:
            thing = self._get(token, id_)
            self._refuse_missing(token, inputs)
            full = with_defaults(self.kind(token), inputs)
            self._refuse_immutable(thing, full)
            self._apply_rule("update", thing, full)
            stays = {key: value for key, value in thing.inputs.items() if key in self.kind(token).keeps}
            for path in shown_within(self.kind(token)):
                for value in walk(thing.inputs, path.split(".")):
                    write(full, path, value)
            thing.inputs = {**stays, **full}
            note(thing.id)
            return thing

    def delete(self, token: str, name: str, id_: str, timeout_s: float = 0) -> None:
        with self._logged("delete", token, name, id_, timeout_s), self._lock:
            thing = self._things.get((token, id_))
            if thing is None:
                return  # as providers do: what is gone is deleted
            protection = self.kind(token).protected_by
            if protection and thing.inputs.get(protection, True):
                raise CloudError("Protected", f"{id_} is not deleted while its {protection} is set")
            self._refuse_in_use(thing)
            self._apply_rule("delete", thing, thing.inputs)
            del self._things[token, id_]

    def read(self, token: str, id_: str) -> Thing | None:
        with self._lock:
            return self._things.get((token, id_))

    def _get(self, token: str, id_: str) -> Thing:
        found = self.read(token, id_)
        if found is None:
            raise CloudError("NotFound", f"{token} {id_} does not exist")
        return found

    def _apply_rule(self, verb: Verb, thing: Thing, inputs: Mapping[str, Json]) -> None:
        rule = self._rules.get((verb, thing.token))
        if rule is not None:
            rule(self, thing, inputs)

    def _miss(self, what: str) -> None:
        if what not in self.without_row:
            self.without_row.append(what)

    def decide(self, token: str, path: str) -> bool:
        """Whether a change at this path replaces the object."""
        kind = self.kind(token)
        best, replaces = -1, True
        for group, answer in ((kind.replaces, True), (kind.updates + kind.refuses, False)):
            for row in group:
                if (path == row or path.startswith(row + ".")) and len(row) > best:
                    best, replaces = len(row), answer
        if best < 0:
            self._miss(f"{token} {path}")
        return replaces

    def _add(self, token: str, inputs: Mapping[str, Json]) -> Thing:
        kind = self.kind(token)
        own = uuid.uuid4()
        full = with_defaults(kind, inputs)
        names = {**self.settings, "uuid": str(own), "hash": own.hex[:12]}
        id_ = str(fill(kind.id, {**names, **full}))
        made = {key: fill(value, {**names, **full, "id": id_}) for key, value in kind.outputs.items()}
        for path in shown_within(kind):
            write(full, path, made.pop(path))
        thing = Thing(token, id_, full, {key: value for key, value in made.items() if key not in full})
        with self._lock:
            if (token, id_) in self._things:
                raise CloudError("AlreadyExists", f"{token} {id_} already exists")
            self._things[token, id_] = thing
        return thing

    # -- refusals

    def _refuse_a_clash(self, token: str, inputs: Mapping[str, Json]) -> None:
        kind = self.kind(token)
        key = tuple(inputs.get(name) for name in kind.unique)
        if not kind.unique or None in key:
            return
        for other in self.things(token):
            if tuple(other.inputs.get(name) for name in kind.unique) == key:
                named = ", ".join(f"{name} {value}" for name, value in zip(kind.unique, key, strict=True))
                raise CloudError("AlreadyExists", f"{token} with {named} already exists")

    def _refuse_missing(self, token: str, inputs: Mapping[str, Json]) -> None:
        for reference in self.kind(token).references:
            for value in named_values(inputs, reference.path, reference.within):
                if not any(_named(other, reference, value) for other in self.things()):
                    raise CloudError(
                        "NotFound",
                        f"{token}: {reference.path} names {reference.kind} {value}, which is not there",
                    )

    def _refuse_in_use(self, thing: Thing) -> None:
        for other in self.things():
            for reference in self.kind(other.token).references:
                if not reference.holds:
                    continue
                for value in named_values(other.inputs, reference.path, reference.within):
                    if _named(thing, reference, value):
                        raise CloudError("InUse", f"{thing.id} is used by {other.id} ({reference.holds})")

    def _refuse_immutable(self, thing: Thing, inputs: Mapping[str, Json]) -> None:
        """A provider that sends an update of what the service never changes."""
        for path in changed_paths(thing.inputs, inputs, kept(self.kind(thing.token))):
            if any(path == row or path.startswith(row + ".") for row in self.kind(thing.token).refuses):
                raise CloudError("UpdateNotPermitted", f"{thing.id}: {path} cannot be changed")

    # -- log and faults

    def _logged(self, verb: Verb, token: str, name: str, id_: str, timeout_s: float) -> _Logged:
        return _Logged(self, Operation(verb, token, name, id_, "done", timeout_s))

    def strike(self, verb: Verb, token: str) -> None:
        """Lets the next fault that was set for such a call happen."""
        with self._lock:
            due = next((each for each in self._faults if (each.verb, each.token) == (verb, token)), None)
            if due is None:
                return
            due.times -= 1
            if due.times == 0:
                self._faults.remove(due)
        due.act()


class _Logged:
    """Writes a call to the log with its outcome, after the faults that were set for it."""

    def __init__(self, cloud: Cloud, operation: Operation) -> None:
        self._cloud, self._operation = cloud, operation

    def __enter__(self) -> Callable[[str], None]:
        try:
            self._cloud.strike(self._operation.verb, self._operation.token)
        except CloudError as error:
            self.write(error.code)
            raise
        return self._note

    def _note(self, id_: str) -> None:
        was = self._operation
        self._operation = Operation(was.verb, was.token, was.name, id_, was.outcome, was.timeout_s)

    def write(self, outcome: str) -> None:
        was = self._operation
        self._cloud.log.append(Operation(was.verb, was.token, was.name, was.id, outcome, was.timeout_s))

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.write(error.code if isinstance(error, CloudError) else "done" if error is None else "crashed")


def _named(thing: Thing, reference: Reference, value: str) -> bool:
    """Whether a reference's value is this object's; the case of Azure's ids is no difference."""
    if thing.token not in names_of(reference.kind):
        return False
    have = [thing.value(name) for name in names_of(reference.by)]
    return any(isinstance(each, str) and each.lower() == value.lower() for each in have)
