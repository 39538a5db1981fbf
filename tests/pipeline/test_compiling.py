"""How programs of scale `demo` are compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bnn_atlas.pipeline.forks import QUICKLY, compile_quickly
from tests.config.folders import REPOSITORY

PROGRAM = """
from bnn_atlas.pipeline.forks import compile_quickly
if {quickly}:
    compile_quickly()
from bnn_atlas.runtime import configure
configure()
import jax
from jax import numpy as jnp
jax.config.update("jax_enable_compilation_cache", False)
program = jax.jit(lambda x: jnp.tanh(x).sum(axis=0) * jnp.exp(x)).lower(jnp.ones((40, 30))).compile()
print(program.as_text().count("fusion("), float(program(jnp.full((40, 30), 0.5)).sum()))
"""


def test_flags_of_the_user_stay_and_none_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=3 --xla_dump_to=here")
    for _ in range(2):
        compile_quickly()
        assert os.environ["XLA_FLAGS"].split() == [
            "--xla_cpu_use_fusion_emitters=false", "--xla_backend_optimization_level=3", "--xla_dump_to=here",
        ]  # fmt: skip
    monkeypatch.delenv("XLA_FLAGS")
    compile_quickly()
    assert os.environ["XLA_FLAGS"].split() == [*QUICKLY]


@pytest.mark.slow
def test_jobs_compute_the_same_with_other_programs(tmp_path: Path) -> None:
    environment = {**os.environ, "BNN_ATLAS_CACHE": str(tmp_path)}
    found = []
    for quickly in (False, True):
        command = [sys.executable, "-c", PROGRAM.format(quickly=quickly)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        fusions, value = done.stdout.split()
        found.append((int(fusions), float(value)))
    assert found[0][0] != found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-5)


AT_EXIT = """
import atexit, os
atexit.register(lambda: open(os.environ["FLAGS_OF_JOBS"], "w").write(os.environ.get("XLA_FLAGS", "")))
"""


@pytest.mark.parametrize(("scale", "flags"), [("demo", [*QUICKLY]), ("laptop", [])])
def test_the_workflow_asks_for_it_at_scale_demo_alone(tmp_path: Path, scale: str, flags: list[str]) -> None:
    (tmp_path / "sitecustomize.py").write_text(AT_EXIT, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    environment |= {"PYTHONPATH": f"{tmp_path}:{REPOSITORY / 'src'}", "FLAGS_OF_JOBS": str(tmp_path / "flags")}
    command = [sys.executable, "-m", "snakemake", "--list-rules", "--config", f"scale={scale}"]
    subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, check=True)
    assert (tmp_path / "flags").read_text(encoding="utf-8").split() == flags
