"""What a GPU computes: its branches run on a CPU and lower for CUDA everywhere, and give a CPU's numbers on a GPU.

The numbers of a GPU are compared where there is one: after `make setup DEVICE=gpu`.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from jax import export

from bnn_atlas import runtime
from bnn_atlas.placement import Mapped

from . import gpu_branches


@pytest.mark.slow
@pytest.mark.parametrize("name", gpu_branches.programs())
def test_every_program_lowers_for_cuda_and_rounds_alike_on_all_processors(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered, compiled = [], []
    compile_here = Mapped.compile

    def lower_first(self: Mapped, shared: object, chained: object) -> object:
        program = export.export(self._mapped, platforms=["cuda"])(shared, chained, self._counts)
        lowered.append(program.mlir_module())
        compiled.append(compile_here(self, shared, chained))
        return compiled[-1]

    monkeypatch.setattr(runtime, "on_cpu", lambda: False)
    monkeypatch.setattr(Mapped, "compile", lower_first)
    results = gpu_branches.programs()[name](tmp_path)
    assert results
    assert lowered
    assert all("func.func public @main" in text for text in lowered)
    assert not any("rsqrt(" in program.as_text() for program in compiled), "divides by `rounding.root` instead of sqrt"


@pytest.mark.skipif(
    not any(find_spec(f"jax_cuda{version}_plugin") for version in (12, 13)),
    reason="this environment has no JAX for CUDA",
)
def test_a_gpu_gives_the_numbers_of_a_cpu(tmp_path: Path) -> None:
    results = []
    for device in ("gpu", "cpu"):
        stored = tmp_path / f"{device}.npz"
        command = [sys.executable, "-m", gpu_branches.__name__, device, str(stored)]
        subprocess.run(command, check=True, cwd=Path(__file__).parents[1])
        results.append(np.load(stored))
    assert gpu_branches.differences(*results) == {}
