"""Workarounds for behaviour of Snakemake, one call each; `install` makes those that need no settings.

| call | what Snakemake does | what it uses of Snakemake |
|---|---|---|
| `require_slurm(argv)` | without Slurm's commands, the Slurm executor fails late or never ends | its command line |
| the same, for Slurm | jobs of an array get no signal before the limit | its command line and profiles |
| the same, for Slurm | two Snakemake processes start for a job | `format_job_exec` of the Slurm executor |
| the same, for Slurm | the command line can take away the signal before the limit | its `get_submit_command` |
| the same, for Slurm | blanks, quotes or `$` in a path break a job | `format_cli_value`, `get_python_executable` |
| the same, for Slurm | jobs that fail by themselves are retried | `restart_times` of jobs and rules |
| `group_jobs(workflow, groups)` | a group cannot be chosen for Slurm only, nor limited | `Rule.group`, `_resources` |
| `relay_sigterm(argv)` | a job's Snakemake keeps SIGTERM to itself while its script runs | its command line |
| `release_stale_locks()` | the lock of a killed run stops the next one | how `FilePersistence` reads and writes locks |
| `keep_outputs(rules, argv)` | the outputs of an orphaned job are removed | `Job`, `PersistenceBase.finished` |
| `keep_metadata(results)` | plans and times count, not what jobs did | metadata of `FilePersistence`, times of files |
| `remember_paths()` | the path of a script is taken apart again for every job | `sourcecache.parse_uri` |
| `remember_signatures()` | the functions of a rule are inspected again for every job | `rules.get_function_params` |
| `quote_interpreter()` | a path of Python with a blank breaks every script | `_execute_cmd` of `PythonScript` |
| `without_default_limit(scheduler)` | the default limit of 100 jobs a second costs a core | the limiter |
| `set_config(workflow, ...)` | a target cannot choose a value of the configuration | `workflow.config_settings` |
| `after_planning(workflow, ...)` | `onstart` is too late, and left out by a dry run | `_build_dag` of the workflow |
| `files_of(workflow, ...)` | a rule cannot ask for what rules of later files make | `workflow.rules` |
| `targets_of(argv)` | the Snakefile cannot tell what is asked for | `parse_args` |
| `requested_targets(workflow)` | `onsuccess` cannot tell what was asked for | the settings of the DAG |
| `jobs_to_run(workflow, ...)` | a logger cannot tell which jobs are in the plan | `DAG.needrun_jobs` |
| `finish_printing(workflow)` | the lines of `onsuccess` overtake messages | `LoggerManager.queue_listener` |

All of them were written for Snakemake 9. With Snakemake `LOOK_AGAIN`, check for each whether it is still needed, and
whether what it uses still exists. `tests/pipeline/test_hooks.py` fails if that is not so for the pinned version.
"""

import os
from collections.abc import Collection, Sequence

from bnn_atlas.pipeline.hooks.locks import release_stale_locks
from bnn_atlas.pipeline.hooks.results import keep_metadata, keep_outputs
from bnn_atlas.pipeline.hooks.run import (
    after_planning,
    files_of,
    finish_printing,
    jobs_to_run,
    quote_interpreter,
    remember_paths,
    remember_signatures,
    requested_targets,
    set_config,
    targets_of,
    without_default_limit,
)
from bnn_atlas.pipeline.hooks.sigterm import relay_sigterm
from bnn_atlas.pipeline.hooks.slurm import group_jobs, require_slurm
from bnn_atlas.sources import PACKAGE

LOOK_AGAIN = "10.0"
"""First version of Snakemake for which nobody has checked the hooks."""

__all__ = [
    "LOOK_AGAIN",
    "after_planning",
    "files_of",
    "finish_printing",
    "group_jobs",
    "install",
    "jobs_to_run",
    "keep_metadata",
    "keep_outputs",
    "quote_interpreter",
    "relay_sigterm",
    "release_stale_locks",
    "remember_paths",
    "remember_signatures",
    "requested_targets",
    "require_slurm",
    "set_config",
    "targets_of",
    "without_default_limit",
]


def install(argv: Sequence[str], kept: Collection[str]) -> None:
    """Make the calls that need no settings, before any rule is read.

    Args:
        argv: the command line of Snakemake, `sys.argv`; if it asks for Slurm, Slurm's commands must exist.
        kept: rules whose outputs are left to their scripts (`keep_outputs`).
    """
    require_slurm(argv)
    relay_sigterm(argv)
    release_stale_locks()
    keep_outputs(kept, argv)
    search_here()
    remember_signatures()
    remember_paths()
    quote_interpreter()


def search_here() -> None:
    """Let processes that this one starts, which do not get its `sys.path`, find the package of this Snakefile first.

    Like the Snakefile itself, scripts then import it from the folder of the Snakefile, whichever version is installed;
    scripts in a conda environment or a container import the one that is installed there.
    """
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    here = str(PACKAGE.parent)
    if others[:1] != [here]:
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *others])
