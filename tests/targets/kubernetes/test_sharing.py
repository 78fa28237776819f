"""Pods that take parts of GPUs, and pods that fetch adapters first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets.kubernetes.manifests import manifests
from servingstack.targets.kubernetes.requirements import needed, requirements
from servingstack.targets.kubernetes.sharing import LABEL

from .bodies import by_role

NODE = {"gpus": 1, "count": 4, "cpu": 60, "memory": "400Gi", "hourly_price": 1.0}
SLICED = {**NODE, "accelerator": "a100-80gb", "mig": {"1g.10gb": 7}}
SHARED = {**NODE, "accelerator": "l4", "sharing": {"time_slices": 4, "renamed": True}}
ADAPTERS = [
    {"name": "sql", "source": "acme/sql", "rank": 16, "revision": "0123abc"},
    {"name": "legal", "source": "pvc://tuned/legal", "rank": 16},
]


def planned(node: dict[str, Any], **parts: Any) -> ServingPlan:
    model = {"id": "Qwen/Qwen2.5-1.5B-Instruct", **parts.pop("model", {})}
    traffic = {"requests_per_second": 0.5}
    return plan(
        {
            "name": "chat",
            "model": model,
            "target": {"option": "kubernetes"},
            "hardware": {"nodes": [node]},
            "traffic": traffic,
            **parts,
        }
    )


def _pod(found: ServingPlan) -> dict[str, Any]:
    return by_role(found)["deployment"]["spec"]["template"]


def _limits(found: ServingPlan) -> dict[str, str]:
    (engine,) = _pod(found)["spec"]["containers"]
    return engine["resources"]["limits"]


def test_a_slice_is_asked_for_by_its_own_name_and_no_whole_gpu_beside_it() -> None:
    found = planned(SLICED)
    assert _limits(found)["nvidia.com/mig-1g.10gb"] == "1"
    assert "nvidia.com/gpu" not in _limits(found)
    spec = _pod(found)["spec"]
    assert "affinity" not in spec
    assert spec["tolerations"][0]["key"] == "nvidia.com/gpu", "the node's taint names the GPU, cut or not"
    assert LABEL not in _pod(found)["metadata"]["labels"]


def test_a_turn_keeps_off_nodes_of_other_groups() -> None:
    found = planned(SHARED)
    assert _limits(found)["nvidia.com/gpu.shared"] == "1"
    assert _pod(found)["metadata"]["labels"][LABEL] == "turns-4"
    (apart,) = _pod(found)["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert apart["namespaceSelector"] == {}, "pods of other namespaces use the same GPUs"
    assert {"key": LABEL, "operator": "NotIn", "values": ["turns-4"]} in apart["labelSelector"][
        "matchExpressions"
    ]


def test_members_of_a_group_seek_each_other_and_never_their_own_kind() -> None:
    found = planned(SHARED, colocate="small")
    assert _pod(found)["metadata"]["labels"][LABEL] == "serving-small"
    affinity = _pod(found)["spec"]["affinity"]
    _, own = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert own["labelSelector"]["matchLabels"]["app.kubernetes.io/name"] == "chat"
    assert own["topologyKey"] == "kubernetes.io/hostname"
    (sought,) = affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert sought["podAffinityTerm"]["labelSelector"]["matchLabels"] == {LABEL: "serving-small"}


def test_the_selector_of_the_deployment_knows_nothing_of_the_group() -> None:
    """It is immutable, and a stack may join a group later."""
    deployment = by_role(planned(SHARED, colocate="small"))["deployment"]
    assert LABEL not in deployment["spec"]["selector"]["matchLabels"]


def test_a_rollout_of_a_member_with_one_replica_brings_its_node() -> None:
    """The new pod may not be beside the old one: it takes another node of the group."""
    found = planned(SHARED, colocate="small")
    assert found.rollout.max_surge == 1
    assert found.scaling.max_replicas + found.scaling.surge_replicas <= 4


def test_each_value_of_a_flag_with_several_is_an_element_of_its_own() -> None:
    found = planned(SLICED, model={"adapters": ADAPTERS})
    (engine,) = _pod(found)["spec"]["containers"]
    at = engine["args"].index("--lora-modules")
    names = [json.loads(each)["name"] for each in engine["args"][at + 1 : at + 3]]
    assert names == ["sql", "legal"]
    assert not any(each.startswith("--lora-modules=") for each in engine["args"])


def test_adapters_are_there_before_the_engine_starts() -> None:
    found = planned(SLICED, model={"adapters": ADAPTERS, "token_secret": {"name": "hf-token"}})
    spec = _pod(found)["spec"]
    (fetcher,) = spec["initContainers"]
    (engine,) = spec["containers"]
    assert fetcher["image"] == engine["image"], "no image but the pinned one"
    assert fetcher["securityContext"] == engine["securityContext"]
    assert "limits" in fetcher["resources"]
    assert "nvidia.com/mig-1g.10gb" not in fetcher["resources"]["limits"]
    assert any(each["name"] == "HF_TOKEN" and "valueFrom" in each for each in fetcher["env"])
    claim = next(each for each in spec["volumes"] if each["name"] == "adapters-0")
    assert claim["persistentVolumeClaim"] == {"claimName": "tuned", "readOnly": True}
    mount = next(each for each in engine["volumeMounts"] if each["name"] == "adapters-0")
    assert mount == {"name": "adapters-0", "mountPath": "/adapters/tuned", "readOnly": True}


def test_adapters_from_the_hub_may_be_fetched_though_the_model_lies_on_a_volume() -> None:
    found = planned(SLICED, model={"adapters": ADAPTERS, "source": "pvc://weights/qwen"})
    assert any("443" in str(rule) for rule in by_role(found)["network-engine"]["spec"]["egress"])
    (fetcher,) = _pod(found)["spec"]["initContainers"]
    assert "HF_HUB_OFFLINE" not in {each["name"] for each in fetcher["env"]}
    (engine,) = _pod(found)["spec"]["containers"]
    assert "HF_HUB_OFFLINE" in {each["name"] for each in engine["env"]}
    closed = planned(SLICED, model={"adapters": ADAPTERS[1:], "source": "pvc://weights/qwen"})
    assert not any("443" in str(rule) for rule in by_role(closed)["network-engine"]["spec"]["egress"])
    assert "initContainers" not in _pod(closed)["spec"]


def test_a_preview_names_what_the_parts_need() -> None:
    said = {kind: needed(manifests(planned(node))) for kind, node in (("mig", SLICED), ("turn", SHARED))}
    assert "1g.10gb" in said["mig"]
    assert "mixed" in said["mig"]
    assert "time-slicing" in said["turn"]
    assert "kubernetes-virtual-gpus" in said["turn"]
    whole = {**NODE, "accelerator": "l4"}
    assert "MIG" not in needed(manifests(planned(whole)))
    assert len(requirements(manifests(planned(SLICED)))) > len(requirements(manifests(planned(whole))))


HUB = """
import json, pathlib
def snapshot_download(repo_id, revision=None, local_dir=None, allow_patterns=None):
    folder = pathlib.Path(local_dir); folder.mkdir(parents=True)
    (folder / "asked.json").write_text(json.dumps([repo_id, revision, allow_patterns]))
    for name in FILES.get(repo_id, []):
        (folder / name).write_text(json.dumps({"r": 64 if "big" in repo_id else 8}))
FILES = {"acme/sql": ["adapter_config.json", "adapter_model.safetensors"],
         "acme/big": ["adapter_config.json", "adapter_model.safetensors"],
         "acme/pickled": ["adapter_config.json"]}
"""


@pytest.mark.parametrize(
    ("repository", "code", "said"),
    [
        ("acme/sql", 0, ""),
        ("acme/big", 1, "has rank 64; model.adapters says 16"),
        ("acme/pickled", 1, "holds no adapter_model.safetensors"),
    ],
)
def test_the_fetcher_looks_at_what_it_got(tmp_path: Path, repository: str, code: int, said: str) -> None:
    (tmp_path / "huggingface_hub.py").write_text(HUB, encoding="utf-8")
    wanted = [{"repository": repository, "revision": "0123abc", "path": str(tmp_path / "a"), "rank": 16}]
    (tmp_path / "fetch.json").write_text(json.dumps(wanted), encoding="utf-8")
    script = str(resources.files("servingstack.targets.kubernetes").joinpath("fetch.py"))
    done = subprocess.run(
        [sys.executable, script, str(tmp_path / "fetch.json")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    asked = json.loads((tmp_path / "a" / "asked.json").read_text(encoding="utf-8"))
    assert asked[:2] == [repository, "0123abc"]
    assert all(not name.endswith((".bin", ".pt")) for name in asked[2]), "no format that can hold code"
