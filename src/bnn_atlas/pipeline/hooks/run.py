"""A run as a whole: the targets on its command line, faster planning and scheduling, and its last lines."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from bnn_atlas.pipeline.estimate import JUDGING

DEFAULT_LIMIT = (100, 1)
"""Jobs and seconds of `--max-jobs-per-timespan` unless a user gives another limit."""


def set_config(workflow: Any, config: dict[str, Any], **values: str) -> None:
    """Set values of the configuration as if they were given by `--config`.

    Snakemake reads its targets after the Snakefile, and when it starts jobs elsewhere (on a cluster, in conda
    environments), it passes on only the values of its command line.

    Args:
        workflow: Snakemake's workflow.
        config: its configuration; it is changed in place.
        values: key -> value.
    """
    config.update(values)
    settings = workflow.config_settings
    settings.overwrite_config.update(values)
    settings.config_args = [*(settings.config_args or ()), *(f"{key}={value}" for key, value in values.items())]


def requested_targets(workflow: Any) -> frozenset[str]:
    """Targets given on the command line, as they were typed; empty for the default target.

    Snakemake does not pass the targets to `onsuccess`; they are in `workflow.dag_settings`, which is not documented.
    """
    return frozenset(workflow.dag_settings.targets)


def jobs_to_run(
    workflow: Any, benchmarks: str, steps: Collection[str] = ()
) -> Iterator[tuple[int, str | None, int, list[int]]]:
    """The jobs of the plan, as `estimate` takes them.

    Each is its number, the name of its benchmark below this folder (None if it has none, JUDGING for the job of one of
    these steps), its cores, and the numbers of the jobs of the plan that it waits for.
    """
    dag = workflow.dag
    for job in dag.needrun_jobs():
        name = str(job.benchmark).removeprefix(f"{benchmarks}/").removesuffix(".tsv") if job.benchmark else None
        name = JUDGING if job.rule.name in steps else name
        before = [dag.jobid(other) for other in dag.job_dependencies(job) if dag.needrun(other)]
        yield dag.jobid(job), name, job.threads, before


def files_of(workflow: Any, *targets: str) -> list[str]:
    """The outputs of rules with these names or, if a rule has none, its inputs, as far as their names are known."""
    chosen = [rule for rule in workflow.rules if rule.name in targets]
    files = [file for rule in chosen for file in rule.output or rule.input]
    return [str(file) for file in files if isinstance(file, str) and "{" not in file]


class Planned(NamedTuple):
    """A job of a plan, whether or not it has to run."""

    outputs: list[str]
    inputs: list[str]
    params: list[str]
    """The Python texts of its settings, in the order in which Snakemake compares them."""


def after_planning(workflow: Any, wrong_with: Callable[[Iterable[Planned]], str]) -> None:
    """Stop if something is wrong with a plan, also in a dry run: before its first job starts, and before it is printed.

    Snakemake has `onstart`, which comes later, and not in a dry run.

    Args:
        workflow: Snakemake's workflow.
        wrong_with: what is wrong, from all jobs of the plan; empty if nothing is.
    """
    build = workflow._build_dag

    def build_dag() -> None:
        build()
        params = workflow.persistence._params
        jobs = (Planned([*job.output], [*job.input], params(job)) for job in workflow.dag.jobs if job.output)
        if wrong := wrong_with(jobs):
            raise SystemExit(wrong)

    workflow._build_dag = build_dag


def targets_of(argv: Sequence[str]) -> list[str]:
    """Targets on a command line of Snakemake, before it has read the Snakefile; empty for the default target."""
    from snakemake.cli import parse_args

    return list(parse_args(argv[1:])[1].targets)


def remember_signatures() -> None:
    """Inspect the signature of each function in a rule only once.

    Snakemake 9 inspects the functions of a rule (inputs, params, resources) again for every job, which takes a sixth of
    the time for planning scale `paper`.
    """
    import snakemake.common
    import snakemake.rules

    remembered = cache(snakemake.common.get_function_params)
    snakemake.common.get_function_params = snakemake.rules.get_function_params = remembered


def remember_paths() -> None:
    """Parse the path of each script only once.

    Snakemake 9 does so three times for every job, to find its copy of the script, which takes a twelfth of that time.
    """
    import snakemake.sourcecache

    snakemake.sourcecache.parse_uri = cache(snakemake.sourcecache.parse_uri)


def quote_interpreter() -> None:
    """Let scripts start where the path of Python holds blanks or quotes: Snakemake 9 quotes only the script's path."""
    from snakemake.script import PythonScript

    usual = PythonScript._execute_cmd

    def _execute_cmd(script: Any, command: str, **named: Any) -> Any:
        return usual(script, command.replace("{py_exec}", "{py_exec:q}"), **named)

    PythonScript._execute_cmd = _execute_cmd


def without_default_limit(scheduler: Any) -> None:
    """Remove Snakemake's default limit of 100 jobs a second from its scheduler; a limit that a user gave stays.

    Because of that limit, Snakemake 9 goes through all jobs that are ready once a second, and once more for every job
    that has ended: after a few hundred jobs, it does nothing else. No run of this pipeline starts 100 jobs in a second,
    and Slurm's `sbatch` takes longer than a hundredth of a second for each.
    """
    limiter = getattr(scheduler, "job_rate_limiter", None)
    if limiter is not None and (limiter.max_jobs, limiter.timespan) == DEFAULT_LIMIT:
        scheduler.job_rate_limiter = None


def finish_printing(workflow: Any) -> None:
    """Wait until logger plugins have printed all messages so far.

    Snakemake passes messages to them in a separate thread; without this, the lines of `onsuccess` would appear first.
    """
    listener = workflow.logger_manager.queue_listener
    if listener is not None and listener._thread is not None:
        listener.stop()  # after the last message
        listener.start()
