"""GPUs by id, alias and form.

Trap: the name alone does not say the form. `a100-80gb` is SXM on AWS and GCP but PCIe on Azure's NC series,
with other bandwidth, link and power; ask with the form of the instance type where there is one.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from typing import cast

from .records import GIB, MIB, Form, Gpu
from .tables import Row, cited, optional_float, table

# Whole spellings that mean another GPU than their parts would: Google's name for the 40 GB board, which its
# AcceleratorType lists apart from NVIDIA_A100_80GB (cloud.google.com, Vertex AI v1 API).
_EXACT = {"nvidia-tesla-a100": "a100-40gb"}
# What `_plain` leaves of other common spellings: without a size, with the size in the product name, GKE's,
# DCGM's.
_ALIASES = {
    "a100": "a100-80gb",
    "h100": "h100-80gb",
    "a10040g": "a100-40gb",
    "a10080g": "a100-80gb",
    "h10080g": "h100-80gb",
    "h10094gb": "h100-nvl",
    "h100nvl94gb": "h100-nvl",
    "h100mega80gb": "h100-80gb",
    "h200141gb": "h200",
    "b200180gb": "b200",
    "b200192gb": "b200",
    "b300288gb": "b300",
    "t416gb": "t4",
    "l424gb": "l4",
    "a1024gb": "a10",
    "a10g24gb": "a10g",
    "l40s48gb": "l40s",
    "a3024gb": "a30",
    "v10016gb": "v100",
    "rtxpro6000server": "rtx-pro-6000",
}
_NOISE = re.compile(r"nvidia|tesla|sxm\d*|pcie|hbm\d+e?|blackwell|edition|ac")


def _plain(text: str) -> str:
    """Lower case, without vendor, form and separators: `NVIDIA-A100-SXM4-80GB` becomes `a10080gb`."""
    parts = re.split(r"[^a-z0-9]+", text.strip().lower())
    return "".join(part for part in parts if not _NOISE.fullmatch(part))


@cache
def _by_id() -> dict[str, tuple[Gpu, ...]]:
    rows: dict[str, list[Gpu]] = {}
    for row in table("gpus"):
        rows.setdefault(row["id"], []).append(_gpu(row))
    return {gpu_id: tuple(found) for gpu_id, found in rows.items()}


def _gpu(row: Row) -> Gpu:
    major, minor = row["compute_capability"].split(".")
    return Gpu(
        id=row["id"],
        form=cast(Form, row["form"]),
        name=row["name"],
        memory_bytes=int(row["memory_mib"]) * MIB,
        cuda_bytes=round(float(row["cuda_gib"]) * GIB),
        memory_measured="estimate" not in row["memory_source"] + row["cuda_source"],
        bandwidth_bytes_per_s=float(row["bandwidth_gb_s"]) * 1e9,
        tflops_16bit=float(row["tflops_16bit"]),
        tflops_fp8=optional_float(row["tflops_fp8"]),
        tflops_fp4=optional_float(row["tflops_fp4"]),
        interconnect="nvlink" if row["interconnect"] == "nvlink" else "pcie",
        link_bytes_per_s=float(row["link_gb_s"]) * 1e9,
        compute_capability=(int(major), int(minor)),
        tdp_watts=int(row["tdp_w"]),
        source=cited(row["source"]),
        memory_source=f"{row['memory_source']}; CUDA: {row['cuda_source']}",
        date=row["date"],
        note=row["note"],
    )


@cache
def _spellings() -> dict[str, str]:
    known = {_plain(gpu_id): gpu_id for gpu_id in _by_id()}
    known.update({_plain(gpu.name): gpu.id for found in _by_id().values() for gpu in found})
    return known | _ALIASES


def gpu_ids() -> tuple[str, ...]:
    """Every GPU id, in the order of the table: small to large."""
    return tuple(_by_id())


def canonical_gpu_id(text: str) -> str:
    """The id behind a spelling: any case, `a100` for `a100-80gb`, `h100` for `h100-80gb`, `NVIDIA_L4`,
    `A100-SXM4-80GB`, `NVIDIA-H100-80GB-HBM3`. ValueError, naming the ids there are, for anything else."""
    found = _EXACT.get(text.strip().lower().replace("_", "-")) or _spellings().get(_plain(text))
    if found is None:
        raise ValueError(
            f"a GPU of the catalog: {', '.join(gpu_ids())} (aliases: a100, h100) | {_did_you_mean(text)}"
        )
    return found


def _did_you_mean(text: str) -> str:
    close = difflib.get_close_matches(text.strip().lower(), gpu_ids(), n=1)
    return f"Did you mean `{close[0]}` instead of {text!r}?" if close else f"Correct {text!r}."


def gpu(id_or_alias: str, form: str | None = None) -> Gpu:
    """One GPU. `form` is `sxm`, `pcie` or `nvl`; default: the form most clouds offer it in. ValueError for
    an unknown GPU, or a form it does not come in."""
    found = _by_id()[canonical_gpu_id(id_or_alias)]
    if form is None:
        return found[0]
    for candidate in found:
        if candidate.form == form:
            return candidate
    forms = ", ".join(candidate.form for candidate in found)
    raise ValueError(f"a form of {found[0].id}: {forms} | Correct {form!r}, or leave it out.")


def gpus() -> tuple[Gpu, ...]:
    """Every (id, form) there is; the first row of an id is its default form."""
    return tuple(row for found in _by_id().values() for row in found)
