"""Snakemake for one job of Slurm: `python one_job.py OPTIONS`, as `python -m snakemake OPTIONS`, in less time.

Snakemake imports all of its plugins. The one that submits jobs, which a job does not do, imports pandas: 0.7 s.
"""

import pkgutil
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LEFT_OUT = "snakemake_executor_plugin_slurm"

if __name__ == "__main__":
    usual = pkgutil.iter_modules

    def _iter_modules(*arguments: Any, **named: Any) -> Iterator[pkgutil.ModuleInfo]:
        return (module for module in usual(*arguments, **named) if module.name != LEFT_OUT)

    pkgutil.iter_modules = _iter_modules
    sys.path[0] = str(Path.cwd())
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
