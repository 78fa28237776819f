"""GPUs: what they hold, what they can run, how people spell them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servingstack import catalog

IDS = (
    "t4", "l4", "a10", "a10g", "l40s", "v100", "a30", "a100-40gb", "a100-80gb", "h100-80gb", "h100-nvl",
    "h200", "b200", "b300", "gb200", "rtx-pro-6000",
)  # fmt: skip


def test_every_id_that_the_input_promises_is_there() -> None:
    assert set(catalog.gpu_ids()) == set(IDS)


@pytest.mark.parametrize(
    ("gpu_id", "mib"),
    # github.com/modal-labs/modal-client/pull/2797: totals as nvidia-smi prints them on that provider's
    # machines.
    [
        ("h100-80gb", 81559),
        ("a100-80gb", 81920),
        ("a100-40gb", 40960),
        ("a10", 23028),
        ("l40s", 46068),
        ("l4", 23034),
        ("t4", 15360),
    ],
)
def test_memory_is_what_the_driver_reports(gpu_id: str, mib: int) -> None:
    assert catalog.gpu(gpu_id).memory_bytes == mib * catalog.MIB


def test_cuda_leaves_a_little_less_than_the_driver_reports() -> None:
    """An engine takes its fraction of CUDA's total: a T4 has 14.56 GiB to share out, not 15 and not 16."""
    for gpu in catalog.gpus():
        assert 0.95 < gpu.cuda_bytes / gpu.memory_bytes < 1, gpu.id
    assert catalog.gpu("t4").cuda_bytes / catalog.GIB == pytest.approx(14.56, abs=0.01)


def test_memory_and_compute_capability_agree_with_gpuhunt() -> None:
    """gpuhunt's list is another project's: marketing gigabytes and compute capabilities."""
    from gpuhunt import KNOWN_NVIDIA_GPUS

    theirs = {(gpu.name.lower(), gpu.memory): gpu.compute_capability for gpu in KNOWN_NVIDIA_GPUS}
    names = {
        "a100-40gb": ("a100", 40),
        "a100-80gb": ("a100", 80),
        "h100-80gb": ("h100", 80),
        "h100-nvl": ("h100nvl", 94),
        "h200": ("h200", 141),
        "b200": ("b200", 180),
        "b300": ("b300", 270),
        "gb200": ("gb200", 186),
        "rtx-pro-6000": ("rtxpro6000", 96),
        "l40s": ("l40s", 48),
        "v100": ("v100", 16),
        "t4": ("t4", 16),
    }
    for gpu in catalog.gpus():
        name = names.get(gpu.id, (gpu.id, 24))
        if gpu.id == "a30":  # not in gpuhunt's list
            assert name not in theirs
            continue
        # B300 is 10.3 (sm_103); gpuhunt rounds it to 10.0.
        wanted = (10, 3) if gpu.id == "b300" else theirs[name]
        assert gpu.compute_capability == wanted, gpu.id
        # A board's gigabytes are between 0.93 and 1.07 GiB as the driver counts them.
        assert 0.93 < gpu.memory_gib / name[1] < 1.07, gpu.id


def test_what_a_gpu_can_run_follows_from_its_compute_capability() -> None:
    for gpu in catalog.gpus():
        assert gpu.supports_bf16 == (gpu.compute_capability >= (8, 0)), gpu.id
        assert (gpu.tflops_fp8 is not None) == (gpu.compute_capability >= (8, 9)), gpu.id
        assert (gpu.tflops_fp4 is not None) == (gpu.compute_capability >= (10, 0)), gpu.id
    assert not catalog.gpu("t4").supports_bf16
    assert not catalog.gpu("v100").supports_bf16
    assert catalog.gpu("a100").supports_bf16


def test_peaks_are_dense_ones() -> None:
    """Vendors print twice as much, with sparsity: 1979 for an H100's bf16."""
    assert catalog.gpu("h100").tflops_16bit == 989
    for gpu in catalog.gpus():
        if gpu.tflops_fp8 is not None:
            assert gpu.tflops_fp8 == pytest.approx(2 * gpu.tflops_16bit, rel=0.02), gpu.id


def test_the_board_sets_bandwidth_link_and_power() -> None:
    sxm, pcie = catalog.gpu("a100-80gb", "sxm"), catalog.gpu("a100-80gb", "pcie")
    assert sxm == catalog.gpu("a100-80gb")
    assert (sxm.bandwidth_bytes_per_s, pcie.bandwidth_bytes_per_s) == (2039e9, 1935e9)
    assert sxm.link_bytes_per_s > 9 * pcie.link_bytes_per_s
    assert (sxm.interconnect, pcie.interconnect) == ("nvlink", "pcie")
    with pytest.raises(ValueError, match=r"sxm, pcie .* Correct 'nvl'"):
        catalog.gpu("a100-80gb", "nvl")


@pytest.mark.parametrize(
    ("text", "gpu_id"),
    [
        ("a100", "a100-80gb"),
        ("H100", "h100-80gb"),
        ("NVIDIA_L4", "l4"),
        ("nvidia-l4", "l4"),
        ("A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA-A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA-H100-80GB-HBM3", "h100-80gb"),
        ("nvidia-h100-mega-80gb", "h100-80gb"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("h200-141gb", "h200"),
        ("nvidia-tesla-t4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"),
        (" L40S ", "l40s"),
    ],
)
def test_common_spellings_name_the_same_gpu(text: str, gpu_id: str) -> None:
    assert catalog.canonical_gpu_id(text) == gpu_id


def test_googles_tesla_a100_is_the_40_gb_board() -> None:
    assert catalog.canonical_gpu_id("nvidia-tesla-a100") == "a100-40gb"
    assert catalog.canonical_gpu_id("NVIDIA_TESLA_A100") == "a100-40gb"


@pytest.mark.parametrize("gpu", catalog.gpus(), ids=lambda gpu: f"{gpu.id}-{gpu.form}")
def test_the_name_that_device_plugins_report_is_understood(gpu: catalog.Gpu) -> None:
    assert catalog.canonical_gpu_id(gpu.name) == gpu.id
    assert catalog.canonical_gpu_id(gpu.name.replace("-", " ")) == gpu.id


def test_an_unknown_gpu_names_those_there_are_and_the_nearest() -> None:
    with pytest.raises(ValueError, match="rtx-pro-6000") as caught:
        catalog.canonical_gpu_id("l40x")
    assert all(gpu_id in str(caught.value) for gpu_id in IDS)
    assert "Did you mean `l40s`" in str(caught.value)
    # The input's own convention: what is allowed, a bar, what to do.
    assert str(caught.value).count("|") == 1


@given(st.sampled_from(IDS), st.data())
def test_case_and_separators_never_matter(gpu_id: str, data: st.DataObject) -> None:
    spelt = "".join(
        data.draw(st.sampled_from([char, char.upper()]))
        if char.isalpha()
        else data.draw(st.sampled_from("-_ "))
        if char == "-"
        else char
        for char in gpu_id
    )
    assert catalog.canonical_gpu_id(spelt) == gpu_id


@given(st.text(max_size=20))
def test_any_text_is_a_known_gpu_or_a_value_error(text: str) -> None:
    try:
        found = catalog.canonical_gpu_id(text)
    except ValueError:
        return
    assert found in IDS
