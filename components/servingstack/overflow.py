"""A serverless endpoint as burst capacity beside warm replicas: how it is asked for, and what was decided.

Trap: the endpoint is a stack of its own, deployed by its own file. This one only sends it what would wait too
long, so the two must serve the same model under the same name.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from servingstack.fields import Address, SubdomainName, Whole

OverflowOption = Literal["modal", "cloud-run"]
_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


def _origin(value: str) -> str:
    host = value.removeprefix("https://").removesuffix("/")
    if not value.startswith("https://") or not host or set(host) - set(_HOST_LETTERS):
        raise ValueError(
            "an address as in https://acme--chat.modal.run, without port, path or query | Leave the rest out."
        )
    return f"https://{host}"


_HOST_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.-"
Origin = Annotated[Address, AfterValidator(_origin)]


class OverflowArgs(BaseModel):
    """An endpoint that takes what the replicas cannot take in time."""

    model_config = _CONFIG
    option: OverflowOption
    """Option of the endpoint's own stack."""
    url: Origin
    """Its address: that stack's `endpoint` output, without path."""
    at: Whole | None = Field(default=None, ge=1, le=1_000_000)
    """Waiting requests in the front door at which new ones go there. Default: as many as may wait, after
    which the answer would be 429."""
    proxy_token_secret: SubdomainName | None = None
    """Existing secret, where the stack runs, with the keys `MODAL_PROXY_TOKEN_ID` and
    `MODAL_PROXY_TOKEN_SECRET`, for an endpoint that asks for Modal's proxy token. Default: none is sent."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.proxy_token_secret is not None and self.option != "modal":
            raise ValueError("proxy_token_secret only with option: modal | Remove it.")
        return self


class Overflow(BaseModel):
    """Where the front door sends what would wait too long."""

    model_config = _CONFIG
    option: OverflowOption
    host: str
    port: int = 443
    at: int
    """Waiting requests of the stack at which new ones go there; also while no replica is up."""
    from_rps: float
    """Requests per second that all replicas serve: above it the queue grows until the endpoint takes over."""
    proxy_token_secret: str | None = None
    hourly_usd: float | None
    """Of one container there with the GPUs of one replica, while it runs; None where the catalog has none."""
    price_source: str | None
