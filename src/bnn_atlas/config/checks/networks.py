"""Whether compact representations and pruned networks have the alignments that they name."""

from collections.abc import Mapping

from bnn_atlas.config.checks.alignments import alignments_of
from bnn_atlas.config.checks.sources import Sources, check_same
from bnn_atlas.config.language.base import ConfigError, near_or_all
from bnn_atlas.config.methods.gaussian import CompactConfig
from bnn_atlas.config.runs.studies import Run, Study

POSTERIOR = ("dataset", "split", "model", "likelihood", "prior", "temperature", "float64")
"""Fields of a run that decide its posterior and the rows of its predictions."""


def check_networks(studies: Mapping[str, Study]) -> None:
    """Refuse alignments that there are not, and pruned networks without one frame; all studies are at one scale.

    Raises ConfigError.
    """
    sources = Sources(studies)
    for study in studies.values():
        for run in study.runs.values():
            where = f"config/studies/{study.name}.yaml at scale {run.scale}: runs.{run.entry}"
            if isinstance(run.config.method, CompactConfig) and run.config.method.alignment is not None:
                _check_compact(studies, run, run.config.method.alignment, sources, f"{where}.method.alignment")
            if run.config.evaluate.pruning is not None:
                _check_pruning(study, run, f"{where}.evaluate.pruning.networks")


def pruned_runs(study: Study, run: Run) -> dict[str, Run]:
    """Alignment -> its run, for each network that a run prunes, in order.

    Of the runs of an entry it is the one with the same values of the grid. Raises ConfigError where there is none.
    """
    pruning = run.config.evaluate.pruning
    found = {}
    for name in pruning.networks.values() if pruning else ():
        if name not in study.alignments:
            raise ConfigError(
                f"'{name}': no such alignment at this scale{near_or_all(name, 'there are', study.alignments)}"
            )
        there = study.runs_of((study.alignments[name].run,))
        matching = there if len(there) == 1 else [one for one in there if one.point == run.point]
        if len(matching) != 1:
            raise ConfigError(f"'{name}': {len(matching)} of its runs have the grid values of '{run.name}'")
        found[name] = matching[0]
    return found


def _check_compact(studies: Mapping[str, Study], run: Run, name: str, sources: Sources, where: str) -> None:
    source = sources.of(run)
    assert source is not None
    own = alignments_of(studies[source.study], source)
    if name not in own:
        raise ConfigError(f"{where} = '{name}': no alignment of '{source.name}'{near_or_all(name, 'there are', own)}")
    method = run.config.method
    assert isinstance(method, CompactConfig)
    if method.rank is not None and method.rank > own[name].rank:
        raise ConfigError(
            f"{where.removesuffix('.alignment')}.rank = {method.rank}: the alignment '{name}' keeps {own[name].rank} "
            "directions; raise its rank, or leave this one out for all directions"
        )
    if method.source_chains is not None:
        raise ConfigError(
            f"{where.removesuffix('.alignment')}.source_chains = {method.source_chains}: which chains count is said by "
            f"the alignment '{name}' (chains); leave this out"
        )


def _check_pruning(study: Study, run: Run, where: str) -> None:
    if run.config.likelihood.kind != "categorical":
        raise ConfigError(f"{where}: pruned networks are scored by their accuracy, and '{run.name}' is a regression")
    try:
        runs = pruned_runs(study, run)
    except ConfigError as error:
        raise ConfigError(f"{where} = {error}") from None
    for name in runs:
        if study.alignments[name].balanced:
            raise ConfigError(
                f"{where} = '{name}': it balances the scales of units, which decide what is pruned; name an alignment "
                "with balanced: false"
            )
    first, *others = runs
    for name in others:
        if study.alignments[name].other != first:
            raise ConfigError(
                f"{where} = '{name}': its frame is '{study.alignments[name].other or 'its own'}'; networks are pruned "
                f"in one frame, that of the first: set its frame to '{first}'"
            )
    for name, one in runs.items():
        check_same(
            run, one, POSTERIOR, f"{where} = '{name}' ('{one.name}')", "so its networks are of another posterior"
        )
