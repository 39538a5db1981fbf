"""What a job imports before its work begins."""

import subprocess
import sys

STEPS = ("predict", "evaluations", "sample", "starts")
HEAVY = ("pandas", "pyarrow", "sklearn", "scipy.stats", "scipy.optimize", "scipy.ndimage", "xarray", "arviz")


def test_jobs_with_jax_start_without_packages_that_they_may_not_need():
    modules = ", ".join(f"bnn_atlas.pipeline.steps.{step}" for step in STEPS)
    code = f"import sys, {modules}; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
