"""Types of the input's fields whose modules load when the first document is checked, not by the import.

Trap: engines and measured tables are half of what the input would load, and most documents name one engine
and no table. So an annotation says `Later`, and who walks over the fields of a model asks `resolved`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

if TYPE_CHECKING:
    from servingstack.engines.sglang import SglangSettings
    from servingstack.engines.torchserve import TorchServeSettings
    from servingstack.engines.triton_settings import TritonSettings
    from servingstack.engines.vllm import VllmSettings
    from servingstack.measured import MeasuredTable


class AutoEngine(BaseModel):
    """Let the planner choose the engine."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    kind: Literal["auto"] = "auto"


@dataclass(frozen=True)
class Later:
    """In an annotation: the type that `meant` loads when the first value is checked."""

    meant: Callable[[], Any]

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self.meant())


def resolved(field: FieldInfo) -> FieldInfo:
    """The field itself, or as it would be if what loads later were its annotation."""
    later = next((item for item in field.metadata if isinstance(item, Later)), None)
    return field if later is None else FieldInfo.from_annotation(later.meant())


def _engines() -> Any:
    from servingstack.engines.sglang import SglangSettings
    from servingstack.engines.torchserve import TorchServeSettings
    from servingstack.engines.triton_settings import TritonSettings
    from servingstack.engines.vllm import VllmSettings

    kinds = AutoEngine | VllmSettings | SglangSettings | TritonSettings | TorchServeSettings
    return Annotated[kinds, Field(discriminator="kind")]


def _table() -> Any:
    from servingstack.measured import MeasuredFiles, MeasuredTable

    written = MeasuredTable | MeasuredFiles | str | list[str] | None
    return Annotated[MeasuredTable | None, BeforeValidator(_is_a_table, json_schema_input_type=written)]


def _is_a_table(value: Any) -> Any:
    """A document's paths were read before; here, nothing touches a file."""
    if isinstance(value, (str, list)) or (isinstance(value, Mapping) and "files" in value):
        raise ValueError("a table | In Python, hand over `servingstack.measured_formats.read([path])`.")
    return cast("Any", value)


if TYPE_CHECKING:
    EngineArgs = AutoEngine | VllmSettings | SglangSettings | TritonSettings | TorchServeSettings
    Measured = MeasuredTable | None
else:
    EngineArgs = Annotated[Any, Later(_engines)]
    Measured = Annotated[Any, Later(_table)]
