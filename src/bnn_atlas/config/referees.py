"""Referees: runs of an exact method that go on from the last draws of other runs."""

from bnn_atlas.config.evaluation import EvaluationConfig
from bnn_atlas.config.studies import REFEREE, Run, RunConfig
from bnn_atlas.config.warmstart import StartConfig

SECTION = "referee."
"""How reductions of a run begin that are those of its referee."""


def with_referee(run: Run) -> list[Run]:
    """The run, and its referee if it has one: `<run>-referee`, of the entry `<entry>-referee`.

    The referee has the run's data, posterior and chains, and the run's `referee` as its method; no random key is used
    by both (`RunConfig.seed_of`). Reductions of `referee` are those of the referee alone.
    """
    if run.referee is None:
        return [run]
    fields = {name: getattr(run.config, name) for name in RunConfig.model_fields}
    own = {
        "description": f"the same chains continued with a Metropolis test ({run.config.method.title}: {run.name})",
        "evaluate": EvaluationConfig(),
        "warmstart": None,
        "initial": None,
        "start": StartConfig(run=run.name),
        "method": run.config.referee,
        "stopping": None,
        "referee": None,
    }
    theirs = tuple(text.removeprefix(SECTION) for text in run.reductions if text.startswith(SECTION))
    referee = run._replace(
        name=run.referee,
        entry=run.entry + REFEREE,
        config=RunConfig(**fields | own),
        reductions=tuple(f"method.{text}" for text in theirs),
    )
    ours = tuple(text for text in run.reductions if not text.startswith(SECTION))
    return [run._replace(reductions=ours), referee]
