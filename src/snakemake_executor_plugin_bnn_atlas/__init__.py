"""Run the Python scripts of local jobs in forks of one process: `--executor bnn-atlas`, instead of Snakemake's `local`.

Snakemake starts a Python interpreter for every script, whose imports take one to four seconds, longer than most jobs at
scale `demo`. Jobs in a conda environment, in a container or with environment modules start as in Snakemake, and so do
all jobs of a short plan, for which importing everything would not pay.

Every Snakemake in this environment imports this plugin before reading a Snakefile, so this module imports from
`bnn_atlas` only when needed.
"""

import inspect
from copy import copy
from functools import partial
from subprocess import CalledProcessError
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.executors.local import Executor as LocalExecutor
from snakemake.executors.local import common_settings
from snakemake.script import PythonScript, get_source
from snakemake.sourcecache import SourceCache

__all__ = ["Executor", "common_settings"]


class Executor(LocalExecutor):
    """Snakemake's local executor, except for how it runs Python scripts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        from bnn_atlas.pipeline.forks import SHORTEST_PLAN

        self._pays = sum(1 for _ in self.dag.needrun_jobs()) >= SHORTEST_PLAN

    def job_args_and_prepare(self, job: Any) -> tuple[Any, ...]:
        """The arguments of Snakemake's function that runs a job; the first, its rule, runs scripts in forks."""
        rule, *rest = super().job_args_and_prepare(job)
        if self._pays and str(rule.script).endswith(".py"):
            forking = copy(rule)
            forking.run_func = partial(run_forked, rule, self.workflow.globals["config"])
            return (forking, *rest)
        return (rule, *rest)


class ForkedScript(PythonScript):
    """A job's script; it runs in a fork unless it needs its own environment."""

    def execute_script(self, fname: str, edit: bool = False) -> None:
        """Run the script that Snakemake has written to a file."""
        from bnn_atlas.pipeline.forks import run_in_fork

        if (self.conda_env, self.container_img, self.env_modules) != (None, None, None):
            super().execute_script(fname, edit=edit)
        else:
            run_in_fork(fname, self.threads, self.resources, self.bench_record)


def run_forked(rule: Any, config: Any, *arguments: Any) -> None:
    """Run a rule's script, with the arguments that Snakemake passes to the function compiled from the rule."""
    given = dict(zip(inspect.signature(rule.run_func).parameters, arguments, strict=False))
    cache = SourceCache(given["sourcecache_path"], given["runtime_sourcecache_path"])
    path, source, _, is_local, cache_path = get_source(
        str(rule.script), cache, given["basedir"], given["wildcards"], given["params"]
    )
    given |= {"path": path, "source": source, "is_local": is_local, "cache_path": cache_path, "config": config}
    given |= {"input_": given["input"], "rulename": given["rule"]}
    names = list(inspect.signature(ForkedScript).parameters)
    try:
        ForkedScript(**{name: given[name] for name in names}).evaluate()
    except CalledProcessError as error:
        raise WorkflowError(str(error), rule=rule) from None
