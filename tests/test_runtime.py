"""How a process is set up for JAX."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from jax import numpy as jnp

from bnn_atlas.runtime import cache_folder, configure


def child(program: str, **environment: str) -> str:
    """Standard output of a fresh Python process."""
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_settings_before_jax_is_imported(tmp_path: Path) -> None:
    program = """
import importlib.util, json, os, sys
from bnn_atlas.runtime import configure
importlib.util.find_spec = lambda name: name == "jax_cuda12_plugin"
found = []
for arguments in ((3, "cpu", False), (1, "gpu", True)):
    configure(*arguments)
    found.append({name: value for name, value in os.environ.items() if name.startswith(("XLA", "JAX", "NPROC"))})
assert "jax" not in sys.modules and "numpy" not in sys.modules
print(json.dumps(found))
"""
    cpu, gpu = json.loads(child(program, BNN_ATLAS_CACHE=str(tmp_path)))
    assert cpu["XLA_FLAGS"].split() == [
        "--xla_force_host_platform_device_count=3",
        "--xla_cpu_multi_thread_eigen=false",
        "--xla_cpu_prefer_vector_width=512",
    ]
    assert cpu["NPROC"] == "1"
    assert (cpu["JAX_PLATFORMS"], cpu["JAX_ENABLE_X64"]) == ("cpu", "0")
    assert (gpu["JAX_PLATFORMS"], gpu["JAX_ENABLE_X64"]) == ("cuda", "1")
    compiled = Path(cpu["JAX_COMPILATION_CACHE_DIR"])
    assert compiled.parent == tmp_path / "xla"
    assert re.fullmatch(r"[A-Za-z0-9-]+", compiled.name), "one folder for each processor type"


def test_other_flags_of_the_user_stay(tmp_path: Path) -> None:
    program = """
import os
from bnn_atlas.runtime import configure
configure(2)
configure(3)
print(os.environ["XLA_FLAGS"])
"""
    flags = "--xla_dump_to=dumps --xla_cpu_multi_thread_eigen=true"
    found = child(program, BNN_ATLAS_CACHE=str(tmp_path), XLA_FLAGS=flags).split()
    assert found[0] == "--xla_dump_to=dumps"
    assert found[1] == "--xla_force_host_platform_device_count=3"
    assert len(found) == len({flag.partition("=")[0] for flag in found}) == 4
    assert "--xla_cpu_multi_thread_eigen=false" in found


@pytest.mark.parametrize("imported_before", ["", "import jax"])
def test_jax_obeys(tmp_path: Path, imported_before: str) -> None:
    program = f"""
{imported_before}
from bnn_atlas.runtime import configure
configure(threads=3, float64=True)
import jax
value = jax.jit(lambda x: x + 1)(jax.numpy.zeros(2))
print(len(jax.devices()), jax.default_backend(), value.dtype, jax.config.jax_compilation_cache_dir)
print(jax.config.jax_persistent_cache_min_compile_time_secs)
configure(threads=3, float64=True)
"""
    *found, folder, seconds = child(program, BNN_ATLAS_CACHE=str(tmp_path)).split()
    assert found == ["3", "cpu", "float64"]
    assert folder.startswith(str(tmp_path))
    assert float(seconds) == 0


def test_tests_run_on_four_devices() -> None:
    assert len(jax.devices()) == 4
    assert jnp.zeros(1).dtype == jnp.float32
    configure(threads=4)


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [({"threads": 2}, "XLA_FLAGS"), ({"device": "gpu"}, "JAX_PLATFORMS"), ({"float64": True}, "JAX_ENABLE_X64")],
)
def test_other_settings_after_the_first_computation_are_refused(
    arguments: dict, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    before = dict(os.environ)
    with pytest.raises(RuntimeError, match=f"must be called before JAX computes: {setting} is '.*' and cannot"):
        configure(**{"threads": 4} | arguments)
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("threads", value) for value in (0, -1, 10**6, "2", True, 1.5, None)),
        *(("device", value) for value in ("tpuu", "", None, 1)),
        *(("float64", value) for value in ("yes", 1, None)),
        ("shards", 0),
    ],
)
def test_arguments_of_another_kind_are_refused(argument: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{argument} is {value!r}, but .* is needed"):
        configure(**{"threads": 4, argument: value})  # type: ignore[arg-type]


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BNN_ATLAS_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("BNN_ATLAS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "bnn_atlas"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "bnn_atlas"


def test_a_gpu_without_the_plugin_is_one_helpful_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"`make setup DEVICE=gpu`.*or set device: cpu"):
        configure(threads=4, device="gpu")
