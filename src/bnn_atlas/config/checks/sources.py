"""Runs that stand on other runs: which run a name means, and whether the two have the same problem."""

from collections.abc import Mapping
from typing import Any

from bnn_atlas.config.language.base import ConfigError, did_you_mean, near_or_all
from bnn_atlas.config.methods.gaussian import CompactConfig
from bnn_atlas.config.methods.registry import METHODS
from bnn_atlas.config.runs.grids import frozen
from bnn_atlas.config.runs.studies import Run, Study, by_name

PROBLEM = ("dataset", "split", "model", "likelihood", "float64")
"""Fields of a run that decide which positions and rows there are."""
POSTERIOR = ("prior", "temperature")
"""Further fields that decide which posterior a run is about."""


def inherit_from_sources(studies: Mapping[str, Study]) -> None:
    """Give each run of these studies, all at one scale, the reductions of the runs that it stands on beside its own.

    Raises ConfigError as `Sources.of` does, and for runs that start from each other in a circle.
    """
    sources = Sources(studies)
    inherited = {
        (study.name, run.name): tuple(f"{s.name}: {text}" for s in _chain(run, sources) for text in s.reductions)
        for study in studies.values()
        for run in study.runs.values()
    }
    for (study, name), reductions in inherited.items():
        run = studies[study].runs[name]
        studies[study].runs[name] = run._replace(reductions=run.reductions + reductions)


class Sources:
    """Looks up the run that a run stands on, in a time that does not grow with the number of runs."""

    def __init__(self, studies: Mapping[str, Study]) -> None:
        """`studies` are all that are loaded, at one scale."""
        self._studies = studies
        self._named: dict[str, dict[str, list[Run]]] = {}
        self._at: dict[tuple[str, str, tuple[str, ...]], dict[Any, list[Run]]] = {}

    def of(self, run: Run) -> Run | None:
        """The run that a run stands on, None for one that stands on its own.

        A name is that of a run of the same study, or `study/run`. An entry with a grid stands for its run with the same
        values of the fields that both grids have.

        Raises ConfigError where there is no such run, more than one, or one with another problem.
        """
        if run.config.start is None:
            return None
        name, where = run.config.start.run, f"{_entry(run)}.start.run"
        given, _, short = name.rpartition("/")
        study = given or run.study
        if study not in self._studies:
            raise ConfigError(
                f"{where} = '{name}': the study '{study}' is not among `studies` of config/config.yaml "
                f"({', '.join(self._studies)}); add it there"
            )
        if study not in self._named:
            self._named[study] = by_name(self._studies[study].runs)
        candidates = self._named[study].get(short)
        if not candidates:
            raise ConfigError(self._missing(run, study, short))
        matches = self._matching(study, short, candidates, run)
        if len(matches) != 1:
            raise ConfigError(
                f"{where} = '{name}': {len(matches)} runs of this entry have the grid values of '{run.name}'; name one "
                f"of {', '.join(one.name for one in candidates)}"
            )
        _check_problem(run, matches[0], where)
        return matches[0]

    def _missing(self, run: Run, study: str, short: str) -> str:
        """Why a name in a study that is loaded stands for no run at this scale."""
        assert run.config.start is not None
        file, key = f"config/studies/{run.study}.yaml", f"runs.{run.entry}.start.run = '{run.config.start.run}'"
        runs_at = self._studies[study].runs_at.values()
        if any(short in by_name(runs) for runs in runs_at):
            near = did_you_mean(short, self._studies[study].runs)
            return f"{file} at scale {run.scale}: {key}: no such run at this scale{near}"
        entries = sorted({one.entry for runs in runs_at for one in runs.values()})
        near = near_or_all(short, "there are", entries, [one for runs in runs_at for one in runs])
        return f"{file}: {key}: no such run{near}"

    def _matching(self, study: str, name: str, candidates: list[Run], run: Run) -> list[Run]:
        """Those of the candidates that agree with `run` in the fields that both grids have."""
        shared = tuple(field for field in candidates[0].point if field in run.point)
        if (study, name, shared) not in self._at:
            at = self._at[study, name, shared] = {}
            for one in candidates:
                at.setdefault(_values(one, shared), []).append(one)
        return self._at[study, name, shared].get(_values(run, shared), [])


def _values(run: Run, fields: tuple[str, ...]) -> Any:
    return frozen([run.point.get(field) for field in fields])


def _entry(run: Run) -> str:
    return f"config/studies/{run.study}.yaml at scale {run.scale}: runs.{run.entry}"


def _chain(run: Run, sources: Sources) -> list[Run]:
    """The run that a run stands on, the one that this one stands on, and so on."""
    chain = [run]
    while (source := sources.of(chain[-1])) is not None:
        if any((source.study, source.name) == (one.study, one.name) for one in chain):
            names = " -> ".join(f"{one.study}/{one.name}" for one in [*chain, source])
            raise ConfigError(f"{_entry(run)}.start.run: runs start from each other in a circle, {names}")
        chain.append(source)
    return chain[1:]


def check_same(run: Run, other: Run, fields: tuple[str, ...], where: str, conclusion: str) -> None:
    """Refuse another run of which one of these fields differs, or that has fewer splits.

    Of the split, the number of repetitions may differ. `conclusion` ends the message on a field. Raises ConfigError.
    """
    for field in fields:
        own, theirs = getattr(run.config, field), getattr(other.config, field)
        if field == "split":
            own, theirs = (split.model_copy(update={"count": 1}) for split in (own, theirs))
        if own != theirs:
            raise ConfigError(
                f"{where}: its {field} differs from that of '{run.name}' ({_text(theirs)}; {_text(own)}), {conclusion}"
            )
    if other.config.split.count < run.config.split.count:
        raise ConfigError(
            f"{where}: it has {other.config.split.count} splits and '{run.name}' has {run.config.split.count}"
        )


def _check_problem(run: Run, source: Run, where: str) -> None:
    """Refuse a source whose draws are positions of another network, or of other rows, or that has no such position."""
    conclusion = "so its draws are not positions of the same problem"
    check_same(run, source, PROBLEM, f"{where} = '{source.name}'", conclusion)
    if isinstance(run.config.method, CompactConfig):
        _check_compact(run, source, f"{where} = '{source.name}'")
    if run.config.start and run.config.start.draw == "mean" and source.config.method.centre is None:
        fitted = " and ".join(f"'{kind}'" for kind, record in METHODS.items() if record.centre)
        raise ConfigError(
            f"{where.removesuffix('.run')}.draw = 'mean': '{source.name}' is of method.kind "
            f"'{source.config.method.kind}', and only {fitted} fit a mean; use 'last' or 'best'"
        )


def _check_compact(run: Run, source: Run, where: str) -> None:
    """Refuse a Gaussian of draws that are themselves of a Gaussian, of too few draws, or of another posterior."""
    assert isinstance(run.config.method, CompactConfig)
    if isinstance(source.config.method, CompactConfig):
        raise ConfigError(f"{where}: it is compact itself; name the run whose draws it represents")
    check_same(run, source, POSTERIOR, where, "so it is no representation of this posterior")
    chains = run.config.method.source_chains or source.config.chains
    if chains > source.config.chains:
        raise ConfigError(f"{where}: it has {source.config.chains} chains, and method.source_chains is {chains}")
    draws = chains * int(getattr(source.config.method, "draws", 1))
    if draws < 2 and run.config.method.form != "mean":
        raise ConfigError(f"{where}: it has {draws} draw, and a spread needs at least two")


def _text(value: object) -> str:
    dump = getattr(value, "model_dump", None)
    return str(dump(mode="json", exclude_defaults=False)) if dump else str(value)
