"""How the programs of a scale are compiled."""

import os

QUICKLY = ("--xla_cpu_use_fusion_emitters=false", "--xla_backend_optimization_level=1")


def compile_quickly() -> None:
    """Let XLA compile the programs of all jobs on CPUs in half the time, for steps that take 1.1 to 1.7 times as long.

    For work that takes less time than its compilation. Fusions of operations are written by XLA's older code generator,
    and LLVM optimises little. What XLA_FLAGS says of either already stays.
    """
    there = os.environ.get("XLA_FLAGS", "").split()
    named = {flag.partition("=")[0] for flag in there}
    os.environ["XLA_FLAGS"] = " ".join([*(flag for flag in QUICKLY if flag.partition("=")[0] not in named), *there])
