"""Whether alignments are of their runs, and whether figures, compact runs and pruned networks have what they need."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, get_args

from bnn_atlas.config.checks.runs import Sources, unequal
from bnn_atlas.config.checks.sizes import unfit_grid, unfit_subset
from bnn_atlas.config.data.datasets import DatasetEntry
from bnn_atlas.config.data.shift import CORRUPTIONS, ROTATION, Shift
from bnn_atlas.config.language.base import ConfigError, near_or_all, refuse
from bnn_atlas.config.methods.gaussian import CompactConfig
from bnn_atlas.config.parts.evaluation import OWN_REFERENCES, AlignmentConfig, unsuited
from bnn_atlas.config.parts.figures import (
    FILES,
    OF_SETS,
    FigureConfig,
    Kind,
    Need,
    PlaneConfig,
    PointConfig,
    Section,
    SurfaceConfig,
    common_references,
    kinds,
    setting,
)
from bnn_atlas.config.runs.expansion import NAME
from bnn_atlas.config.runs.studies import REPETITION, Run, RunConfig, Study, legend_texts, shown_runs

SAME = ("dataset", "split", "model", "likelihood", "prior", "temperature")
"""Fields of a run that decide its posterior."""


def alignments_of(study: Study, run: Run) -> dict[str, AlignmentConfig]:
    """Name -> alignments of a run, in the order of the study's file."""
    return {name: each for name, each in study.alignments.items() if each.run in (run.name, run.entry)}


def _at_the_point(study: Study, alignment: str, run: Run) -> tuple[list[Run], list[Run]]:
    """All runs of an alignment; and its only run or, of an entry, those with a run's values of the grid."""
    there = study.runs_of((study.alignments[alignment].run,))
    return there, there if len(there) == 1 else [each for each in there if each.point == run.point]


def reference_run(study: Study, alignment: AlignmentConfig, run: Run) -> Run | None:
    """The run in whose frame a run is aligned: that of another alignment (`other`); None for a frame of its own.

    For an entry, it is the run with the same values of the grid. Raises ConfigError if there is none.
    """
    if alignment.other is None:
        return None
    there, found = _at_the_point(study, alignment.other, run)
    if len(found) != 1:
        raise ConfigError(
            f"{_field(alignment)} = '{alignment.other}': it is an alignment of {len(there)} runs, {len(found)} of them "
            f"with the grid values of '{run.name}'; name one for a single run"
        )
    return found[0]


def check_alignments(study: Study, where: str, known: Mapping[str, object]) -> None:
    """Refuse alignments of a run that does not exist or that they do not suit, and frames of other posteriors.

    `known` are the names of all alignments of the study's file, at any scale. Raises ConfigError.
    """
    for name, alignment in study.alignments.items():
        refuse(f"{where}: alignments.{name}", _misfits_of_alignment(study, name, alignment, known))


def _misfits_of_alignment(
    study: Study, name: str, alignment: AlignmentConfig, known: Mapping[str, object]
) -> Iterator[str]:
    """What does not fit an alignment, and what to do."""
    if not re.fullmatch(NAME, name) or name in OWN_REFERENCES:
        yield f": a name is made of letters, digits, '_', '.', '-', and is not {', '.join(OWN_REFERENCES)}"
    runs = study.runs_of((alignment.run,))
    if not runs:
        entries = sorted({run.entry for run in study.runs.values()})
        near = near_or_all(alignment.run, "there are", entries, study.runs)
        yield f".run = '{alignment.run}': no such run at this scale{near}"
    yield from _wrong_reference(study, name, alignment, known)
    for run in runs:
        if run.config.reduces_draws:
            yield f".run = '{alignment.run}': '{run.name}' keeps no draws to align; set its keep_draws: all"
        if wrong := unsuited(alignment, run.config.model, run.config.chains, run.draws):
            field, why = wrong
            yield f".{field} = {getattr(alignment, field)!r} (run '{run.name}'): {why}"
        try:
            other = reference_run(study, alignment, run)
        except ConfigError as error:
            yield f".{error}"
            return
        if other is not None:
            given = f".{_field(alignment)} = '{alignment.other}' ('{other.name}')"
            yield from unequal(run, other, SAME, given, "so its frame is one of another posterior")


def _wrong_reference(study: Study, name: str, alignment: AlignmentConfig, known: Mapping[str, object]) -> Iterator[str]:
    """A reference that is not an alignment, or one whose own frame is taken from another."""
    other, field = alignment.other, _field(alignment)
    if other is None:
        return
    others = [*(OWN_REFERENCES if field == "reference" else ()), *(each for each in study.alignments if each != name)]
    if other not in study.alignments or other == name:
        why = "no such alignment at this scale" if other in known and other != name else f"no such {field}"
        yield f".{field} = '{other}': {why}{near_or_all(other, 'there are', others)}"
    if further := study.alignments[other].other:
        yield f".{field} = '{other}': the frame of '{other}' is itself that of '{further}'; name '{further}'"


def _field(alignment: AlignmentConfig) -> str:
    """The field that names another alignment."""
    return "frame" if alignment.own_reference else "reference"


def other_runs(studies: Mapping[str, Study], run: Run, surface: SurfaceConfig) -> dict[str, Run]:
    """Name of each further run that a surface takes points from -> the run, in order; `run` is the figure's own.

    Names that stand for no run are passed over, and one that stands for several is taken as the first of them.
    """
    names = dict.fromkeys(point.run for plane in surface.planes for point in plane.points if point.run is not None)
    found = {name: list(shown_runs(studies, run.study, (name,)).values()) for name in names}
    return {name: runs[0] for name, runs in found.items() if runs}


def _wrong_points(studies: Mapping[str, Study], run: Run, surface: SurfaceConfig) -> Iterator[str]:
    """Points of runs that do not exist or have another posterior, and chains and draws that they do not have."""
    for i, plane in enumerate(surface.planes):
        for j, point in enumerate(plane.points):
            for problem in _wrong_point(studies, run, point, plane):
                yield f".surface.planes.{i}.points.{j}{problem}"


def _wrong_point(studies: Mapping[str, Study], run: Run, point: PointConfig, plane: PlaneConfig) -> Iterator[str]:
    """The same for one point; only the job knows how many draws a stopping rule leaves."""
    source = run
    if point.run is not None:
        found = list(shown_runs(studies, run.study, (point.run,)).values())
        if not found:
            yield (
                f".run = '{point.run}': no such run at scale {run.scale} among the loaded studies; the plane "
                f"'{plane.title}' goes through draws of runs with the posterior of '{run.name}'"
            )
        if len(found) > 1:
            names = ", ".join(each.name for each in found[:12])
            yield f".run = '{point.run}': {len(found)} runs of this entry; name one of {names}"
        source = found[0]
        if source.config.reduces_draws:
            yield f".run = '{point.run}': it keeps no draws; set its keep_draws: all, or take another run"
        conclusion = "so that its draws are points of another posterior: leave it out"
        yield from unequal(run, source, SAME, f".run = '{point.run}'", conclusion)
    if point.chain >= source.config.chains:
        yield f".chain = {point.chain}: run '{source.name}' has {source.config.chains} chains, with numbers from 0"
    if isinstance(point.draw, int) and point.draw >= source.draws:
        kept = f"keeps {source.draws:,} draws of each chain, with numbers from 0"
        yield f".draw = {point.draw}: run '{source.name}' {kept}"


NEEDED: tuple[tuple[Collection[str], Callable[[RunConfig], object], str], ...] = (
    (OF_SETS, lambda run: run.evaluate.sets, "no further sets; give the run evaluate.shifts or "
     "evaluate.out_of_distribution"),
    ([file for file, path in FILES.items() if "{reference}" in path], lambda run: run.evaluate.references,
     "no references; give the run evaluate.references"),
    (("referee", "referee_chains"), lambda run: run.referee, "no referee; give the run the section referee"),
    (("barriers", "lines", "matches"), lambda run: run.evaluate.barriers,
     "no pairs of chains that are compared; give the run the section evaluate.barriers"),
    (("pruning_curves",), lambda run: run.evaluate.pruning,
     "no networks that are pruned; give the run the section evaluate.pruning"),
)  # fmt: skip
"""Files that a figure reads, the section of a run without which they are not made, and what to do about it."""


def check_figure(
    studies: Mapping[str, Study], study: str, figure: str, datasets: Mapping[str, DatasetEntry], where: str
) -> None:
    """Refuse a figure of an unknown kind or unknown runs, and one that lacks what its kind needs.

    `studies` are all that are loaded, at one scale; `where` names the file and the figure. Raises ConfigError.
    """
    config = studies[study].figures[figure]
    if config.draw not in kinds():
        near = near_or_all(config.draw, "there are", kinds())
        raise ConfigError(f"{where}.draw = '{config.draw}': no such kind of figure{near}")
    kind, runs = kinds()[config.draw], shown_runs(studies, study, config.runs)
    refuse(where, _wrong_runs(studies, study, config, kind, runs))
    refuse(where, _wrong_sections(config, kind))
    refuse(where, _wrong_kinds_of_runs(config, kind, runs))
    refuse(where, _wrong_together(config, kind, runs, datasets))
    refuse(where, _wrong_names(studies, config, kind, runs))
    refuse(where, _wrong_formulas(config))
    for name, run in runs.items():
        refuse(where, _unfit(run, name, config, kind, datasets))
        if config.surface is not None:
            refuse(where, _wrong_points(studies, run, config.surface))


def _wrong_runs(
    studies: Mapping[str, Study], study: str, config: FigureConfig, kind: Kind, runs: Mapping[str, Run]
) -> Iterator[str]:
    """Names in the figure that stand for no run, and too many or too few runs."""
    given = f".runs = {list(config.runs)}"
    if bool(config.runs) != (kind.runs != "none"):
        wanted = "at least one run is needed" if kind.runs != "none" else "this figure shows no runs; leave them out"
        yield f"{given}: {wanted}"
    known = {f"{run.study}/{name}" for run in runs.values() for name in (run.name, run.entry)}
    for name in config.runs:
        if (name if "/" in name else f"{study}/{name}") not in known:
            yield f".runs: {_missing(studies, study, name)}"
    for name, run in runs.items():
        by = [
            one
            for one in config.runs
            if one.removeprefix(f"{study}/") in (name, name.removesuffix(run.name) + run.entry)
        ]
        if len(by) > 1:
            yield f".runs: '{name}' is named twice, by '{by[0]}' and '{by[1]}'; leave one out"
    if kind.runs == "one" and len(runs) > 1:
        yield f"{given}: this figure shows one run; choose one of {', '.join(runs)}"


PRIOR_SCALE = "prior.scale"
OF_GENERATOR = ("generator", "entropy", "scored_by", "sigma")
"""Settings of an implicit run that tell the rows of a table of generators apart."""
HAS: dict[Need, tuple[Callable[[Run, DatasetEntry], object], str]] = {
    "chains": (lambda run, _: run.config.method.kind_of_draws.are_chain, "runs of Markov chains"),
    "several draws": (lambda run, _: run.draws > 1, "runs of at least two draws per chain"),
    "several chains": (lambda run, _: run.config.chains > 1, "runs of at least two chains"),
    "one split": (lambda run, _: run.config.split.count == 1, "runs with split.count 1"),
    "one input": (lambda _, entry: entry.shape == (1,), "data sets with one input"),
    "one hidden layer": (
        lambda run, _: len(getattr(run.config.model, "hidden", ())) == 1,
        "fully connected networks with one hidden layer",
    ),
    "normal prior": (lambda run, _: run.config.prior_sd is not None, "priors N(0, sd^2) that all parameters share"),
    "energy variance": (
        lambda run, _: run.config.method.desired_energy_variance is not None,
        "methods that are tuned to an energy variance",
    ),
    "points inside lines": (
        lambda run, _: run.config.evaluate.barriers is not None and run.config.evaluate.barriers.surface,
        "runs with evaluate.barriers.surface: true",
    ),
    "prior scale": (
        lambda run, _: PRIOR_SCALE in run.point or run.config.prior_sd is not None,
        f"runs with {PRIOR_SCALE} in their grid, or a normal prior",
    ),
    "other data": (lambda run, _: run.config.evaluate.out_of_distribution, "runs with evaluate.out_of_distribution"),
    "permuted copies": (
        lambda run, _: run.config.initial is not None and run.config.initial.transpositions,
        "runs with initial.transpositions",
    ),
}
"""Need of a kind -> whether a run meets it, and in words what does."""
ENSEMBLE = "deep_ensemble"


def conditions(kind: Kind) -> list[str]:
    """What the runs of a figure of this kind must have or be, in words."""
    found = [f"runs of a {kind.task}"] if kind.task else []
    found += [f"the method {' or '.join(kind.methods)}"] if kind.methods else []
    found += [HAS[need][1] for need in kind.needs]
    found += [f"{HAS[need][1]} (at least one)" for need in kind.some]
    named = OF_SETS if kind.shifts or "other data" in kind.needs else ()  # which sets is said by another condition
    needed = [text for of, _, text in NEEDED if {*of}.difference(named) & {*kind.files}]
    found += [f"runs with {text.partition('give the run ')[2]}" for text in needed]
    found += ["runs with an alignment"] if any("{alignment}" in FILES[file] for file in kind.files) else []
    found += [f"data sets with generate.kind '{kind.generated}'"] if kind.generated else []
    if kind.ensemble:
        both = "at least one deep ensemble and one sampling method"
        found.append(both if kind.ensemble == "beside samplers" else "one sampling method, and deep ensembles if any")
    if kind.most and kind.most == kind.least:
        found.append(f"exactly {kind.most} runs (each split counts as one)")
    else:
        found += [f"at least {kind.least} runs (each split counts as one)"] if kind.least > 1 else []
        found += [f"at most {kind.most} runs (each split counts as one)"] if kind.most else []
    found += [f"at most {kind.most_labels} labels"] if kind.most_labels else []
    found += [f"at most {kind.most_datasets} data sets"] if kind.most_datasets else []
    found += [f"at most {kind.most_other_data} out-of-distribution data sets"] if kind.most_other_data else []
    found += [f"the same {what} in evaluate.shifts of all runs" for what in kind.shifts]
    if kind.repeats:
        same = f"with the same {_repeated(kind)} may differ only" if _repeated(kind) else "that differ only"
        found.append(f"runs {same} in their seeds")
    found += [f"runs that differ in {' or '.join(kind.along)}"] if kind.along else []
    found += [f"runs with the same {' and '.join(kind.same)}"] if kind.same else []
    found += [f"no two runs or splits with the same {' and '.join(kind.apart)}"] if kind.apart else []
    found += [REFERENCE[kind.reference]] if kind.reference else []
    found += ["{} to {} alignments (each split counts as one)".format(*kind.alignments)] if kind.alignments else []
    return found


REPEATED = {"figure": "", "row": "label", "column": "label", "line": "label", "place": "x value"}
"""What runs that are repetitions of each other share (`Kind.repeats`), if it has another name for users."""


def _repeated(kind: Kind) -> str:
    """What the repetitions of one setting have in common in a kind of figure; empty if all its runs are repetitions."""
    names = ", ".join(dict.fromkeys(REPEATED.get(part, part) for part in kind.repeats))
    return " and ".join(names.rsplit(", ", 1))


REFERENCE = {
    "one": "runs with exactly one reference in common",
    "at most one": "runs with at most one reference",
}
"""How the references of a kind's runs go together, in words."""


def _wrong_together(
    config: FigureConfig, kind: Kind, runs: Mapping[str, Run], datasets: Mapping[str, DatasetEntry]
) -> Iterator[str]:
    """Runs that the figure cannot compare with each other."""
    for need in kind.some:
        meets, words = HAS[need]
        if not any(meets(run, datasets[run.config.dataset]) for run in runs.values()):
            yield f".runs: a figure of the kind '{kind.name}' needs {words}, and there are none; list one"
    for what in kind.same:
        yield from _unequal(what, kind, runs, datasets)
    yield from _not_apart(config, kind, runs)
    yield from _no_place(kind, runs)
    yield from _wrong_sets(kind, runs)
    references = {name: run.config.evaluate.references for name, run in runs.items()}
    several = {name: found for name, found in references.items() if len(found) > 1}
    given = list(references.values())
    common = common_references(given, runs) if any(given) else []
    if kind.reference == "at most one" and several:
        name, found = next(iter(several.items()))
        yield f".runs: '{name}' is compared with {', '.join(found)}; give it one reference in evaluate.references"
    if kind.reference == "one" and len(common) != 1:
        has = ", ".join(common) if common else "none"
        yield (
            f".runs: '{kind.name}' needs {REFERENCE[kind.reference]}, and these have {has}; name one in "
            "evaluate.references of each"
        )


def _unequal(what: str, kind: Kind, runs: Mapping[str, Run], datasets: Mapping[str, DatasetEntry]) -> Iterator[str]:
    """A run that differs from the first in what must be the same in all."""
    values = {}
    for name, run in runs.items():
        config, entry = run.config, datasets[run.config.dataset]
        network = f"{config.model.label}, {config.likelihood.kind}, for rows of shape {list(entry.shape)}"
        values[name] = {"task": entry.task, "dataset": config.dataset, "network": network}[what]
    first = next(iter(values), "")
    for name, value in values.items():
        if value != values[first]:
            yield (
                f".runs: '{kind.name}' shows runs of one {what}, and '{first}' has {values[first]} but '{name}' has "
                f"{value}; leave one out"
            )
            return


def _not_apart(config: FigureConfig, kind: Kind, runs: Mapping[str, Run]) -> Iterator[str]:
    """Two runs or splits for one panel, and panels that lack a method."""
    texts = legend_texts(config, runs)
    seen: dict[tuple[object, ...], str] = {}
    panels: dict[tuple[object, ...], set[str]] = {}
    for name, run in runs.items() if kind.apart else ():
        for split in range(run.config.split.count):
            parts = {
                "label": texts[name],
                "title": (texts[name], split),
                "dataset": run.config.dataset,
                "prior scale": run.config.prior_sd,
                "width": getattr(run.config.model, "hidden", ()),
                "method": run.config.method.kind,
            }
            if (other := seen.setdefault(tuple(parts[part] for part in kind.apart), name)) != name or (
                split and "title" not in kind.apart
            ):
                both = f"'{other}' and '{name}'" if other != name else f"the splits of '{name}'"
                yield f".runs: {both} have one {' and '.join(kind.apart)} in '{kind.name}'; show one of them"
                return
            panel = tuple(parts[part] for part in kind.apart if part != "method")
            panels.setdefault(panel, set()).add(run.config.method.kind)
    for panel, methods in panels.items() if "method" in kind.apart else ():
        if lacking := [method for method in kind.methods if method not in methods]:
            which = " and ".join(part for part in kind.apart if part != "method")
            yield f".runs: no run by {lacking[0]} with the {which} {', '.join(map(str, panel))}; list one"


def _along(run: Run, kind: Kind) -> list[Any]:
    """The values of a run along the axes of a figure; those that are neither number nor word as text."""
    settings = run.config.model_dump(mode="json", exclude={"evaluate"}) if kind.along else {}
    found = (setting(name, run.point, settings, run.config.prior_sd) for name in kind.along)
    return [value if value is None or isinstance(value, int | float | str) else repr(value) for value in found]


def _no_place(kind: Kind, runs: Mapping[str, Run]) -> Iterator[str]:
    """Runs without a value along an axis, and runs that vary none of the settings along the axes."""
    found: dict[tuple[str, str], set[object]] = {}
    for name, run in runs.items() if kind.along else ():
        if kind.levels and run.config.method.kind_of_draws is kind.levels:
            continue
        for (along, words), value in zip(kind.along.items(), _along(run, kind), strict=True):
            wrong = value not in words if words else isinstance(value, bool) or not isinstance(value, int | float)
            if wrong:
                has = "has none" if value is None else f"has {value!r}"
                wanted = f"one of {', '.join(words)}" if words else "a number"
                yield f".runs: '{kind.name}' shows runs by {along}, {wanted}, and '{name}' {has}; leave it out"
                return
            found.setdefault((along, run.entry if len(kind.along) > 1 else ""), set()).add(value)
    if kind.along and not any(len(values) > 1 for values in found.values()):
        of = "no entry of its runs varies" if len(kind.along) > 1 else "its runs do not differ in"
        yield f".runs: '{kind.name}' shows runs by {' or '.join(kind.along)}, and {of} it; add a grid over it"


SHIFTS: dict[str, Callable[[Shift], object]] = {
    "rotations": lambda shift: shift.kind == ROTATION,
    "corruptions": lambda shift: shift.published or shift.kind in CORRUPTIONS,
    "dead_pixels": lambda shift: shift.kind == "dead_pixels",
    "live_pixels": lambda shift: shift.kind == "live_pixels",
}
"""`shifts` of a kind -> whether a shift is one of them."""


def _wrong_sets(kind: Kind, runs: Mapping[str, Run]) -> Iterator[str]:
    """Too many data sets, and runs with other shifted test rows than the first."""
    other = {name for run in runs.values() for name in run.config.evaluate.out_of_distribution}
    for most, there, what in (
        (kind.most_datasets, {run.config.dataset for run in runs.values()}, "data sets"),
        (kind.most_other_data, other, "data sets in evaluate.out_of_distribution"),
    ):
        if most is not None and len(there) > most:
            yield f".runs: {len(there)} {what}, and at most {most} fit into '{kind.name}'; name fewer runs"
    for what in kind.shifts:
        named = {
            name: {shift.name for shift in run.config.evaluate.shifts if SHIFTS[what](shift)}
            for name, run in runs.items()
        }
        first = next(iter(named), "")
        for name, found in named.items():
            if not found:
                yield f".runs: '{name}' has no {what} in evaluate.shifts; add some, or leave the run out"
            if differing := sorted(found ^ named[first]):
                yield (
                    f".runs: '{name}' and '{first}' differ in their {what} ({', '.join(differing[:4])}); make "
                    "evaluate.shifts equal"
                )


def _wrong_kinds_of_runs(config: FigureConfig, kind: Kind, runs: Mapping[str, Run]) -> Iterator[str]:
    """Too many runs, methods that the figure does not compare, and different runs under one name."""
    shown = sum(run.config.split.count for run in runs.values())
    if kind.most is not None and shown > kind.most:
        fewer = "name fewer, or lower split.count"
        yield f".runs: {shown} runs, each split counted, and at most {kind.most} fit into '{kind.name}'; {fewer}"
    if runs and shown < kind.least:
        yield f".runs: {shown} runs, each split counted, and '{kind.name}' compares at least {kind.least}; name more"
    ensembles = [name for name, run in runs.items() if run.config.method.kind == ENSEMBLE]
    if kind.ensemble == "beside samplers" and runs and (not ensembles or len(ensembles) == len(runs)):
        has = "ensembles only" if ensembles else "no ensemble"
        yield f".runs: '{kind.name}' compares sampled posteriors with deep ensembles, and these are {has}; list both"
    sampled = dict.fromkeys(run.config.method.kind for run in runs.values() if run.config.method.kind != ENSEMBLE)
    if kind.ensemble == "beside one sampler" and len(sampled) != 1:
        yield f".runs: '{kind.name}' shows one sampling method, not {', '.join(sampled) or 'none'}; list runs of one"
    texts = legend_texts(config, runs)
    if kind.most_labels is not None and (labels := len(set(texts.values()))) > kind.most_labels:
        fewer = "show fewer runs, or give repetitions one label"
        yield f".runs: {labels} labels, and '{kind.name}' can tell at most {kind.most_labels} apart; {fewer}"
    seen: dict[tuple[object, ...], tuple[str, str]] = {}
    for name, run in runs.items() if kind.repeats else ():
        parts = {
            "figure": kind.name,
            "label": texts[name],
            "row": texts[name]
            if texts[name] != name
            else (run.config.dataset, run.config.model, run.config.likelihood),
            "column": texts[name] if texts[name] != name else run.config.dataset,
            "dataset": run.config.dataset,
            "method": run.config.method.title,
            "depth": len(getattr(run.config.model, "hidden", ())),
            "prior scale": run.point.get(PRIOR_SCALE, run.config.prior_sd),
            "energy variance": run.config.method.desired_energy_variance,
            "generator": repr([getattr(run.config.method, name, None) for name in OF_GENERATOR]),
            "line": texts[name] if texts[name] != name else run.entry,
            "place": None if run.config.method.kind_of_draws is kind.levels else tuple(_along(run, kind)),
        }
        fixed = {field: value for field, value in run.point.items() if field not in REPETITION}
        setting = repr((run.study, run.entry, run.config.model, run.config.likelihood, sorted(fixed.items())))
        other, first = seen.setdefault(tuple(parts[part] for part in kind.repeats), (name, setting))
        if first != setting:
            by_label = {"label", "row", "column", "line"} & {*kind.repeats}
            have = f"have the same {_repeated(kind)}" if _repeated(kind) else "are averaged"
            yield (
                f".runs: '{other}' and '{name}' {have} in '{kind.name}' but differ in more than their seeds; "
                f"{'give them different labels, or ' if by_label else ''}leave one out"
            )


def _missing(studies: Mapping[str, Study], study: str, name: str) -> str:
    """Why a name stands for no run."""
    other, slash, run = name.rpartition("/")
    if slash and other not in studies:
        near = near_or_all(other, "add it to studies in config.yaml, beside", studies)
        return f"'{name}': the study '{other}' is not loaded{near}"
    source = studies[other if slash else study]
    entries = sorted({each.entry for each in source.runs.values()})
    of_study = f" in study '{other}'" if slash else ""
    return f"no run '{run}'{of_study}{near_or_all(run, 'there are', entries, source.runs)}"


def _wrong_sections(config: FigureConfig, kind: Kind) -> Iterator[str]:
    """A section that the kind needs and the figure lacks, and one that the kind does not read."""
    for section in get_args(Section):
        given = getattr(config, section) is not None
        if section in kind.sections and not given:
            (model,) = (k for k in get_args(FigureConfig.model_fields[section].annotation) if k is not type(None))
            yield f".{section}: this figure needs the section; its keys are {', '.join(model.model_fields)}"
        if given and section not in kind.sections:
            reads = f"it reads {', '.join(kind.sections)}" if kind.sections else "it reads tables"
            yield f".{section}: a figure of the kind '{kind.name}' has no such section; {reads}"
    if config.functions is not None and kind.inputs not in (None, config.functions.inputs):
        yield f".functions.inputs = '{config.functions.inputs}': '{kind.name}' needs '{kind.inputs}'"


def _wrong_names(
    studies: Mapping[str, Study], config: FigureConfig, kind: Kind, runs: Mapping[str, Run]
) -> Iterator[str]:
    """Labels and alignments that do not belong to the figure's runs, and runs without an alignment to show."""
    for name, text in config.labels.items():
        if name not in (*config.runs, *runs):
            yield f".labels.{name} = '{text}': not among the figure's runs; those are {', '.join(config.runs)}"
    read = (*kind.files, *config.files)
    if config.alignments and not any("{alignment}" in FILES[file] for file in (*read, *kind.files_if_any)):
        yield f".alignments: a figure of the kind '{kind.name}' shows no alignments; leave it out"
    own = {name: alignments_of(studies[run.study], run) for name, run in runs.items()}
    there = list(dict.fromkeys(one for names in own.values() for one in names))
    for one in config.alignments:
        if one not in there:
            yield f".alignments: '{one}': no alignment of the figure's runs{near_or_all(one, 'there are', there)}"
    for name, names in own.items() if any("{alignment}" in FILES[file] for file in read) else ():
        if not {*names} & {*(config.alignments or there)}:
            yield f".runs: '{name}' has no alignment that it shows; add one to the study's alignments"
    if kind.alignments is not None:
        fewest, most = kind.alignments
        shows = {name: len({*names} & {*(config.alignments or names)}) for name, names in own.items()}
        number = sum(runs[name].config.split.count * count for name, count in shows.items())
        if not fewest <= number <= most:
            yield (
                f".alignments: {number} alignments, each split counted, and '{kind.name}' shows {fewest} to {most}; "
                "choose with runs and alignments"
            )


def _wrong_formulas(config: FigureConfig) -> Iterator[str]:
    """Texts between dollar signs that matplotlib cannot read as a formula."""
    texts = {f".labels.{name}": text for name, text in config.labels.items()}
    for i, plane in enumerate(config.surface.planes if config.surface else ()):
        texts[f".surface.planes.{i}.title"] = plane.title
        texts |= {f".surface.planes.{i}.points.{j}.label": point.label or "" for j, point in enumerate(plane.points)}
    for key, text in texts.items():
        for line in text.splitlines():
            dollars = line.count("$") - line.count(r"\$")
            if dollars == 0 or dollars % 2:
                continue
            from matplotlib.mathtext import MathTextParser  # a third of a second, which most studies need not wait

            try:
                MathTextParser("path").parse(line)
            except ValueError as error:
                why = str(error).splitlines()[-1].partition("  ")[0]
                yield rf"{key} = '{text}': this formula cannot be drawn ({why}); correct it, or write \$ for a dollar"


def _unfit(
    run: Run, name: str, config: FigureConfig, kind: Kind, datasets: Mapping[str, DatasetEntry]
) -> Iterator[str]:
    """What the figure reads or draws but the run does not have."""
    dataset, entry = run.config.dataset, datasets[run.config.dataset]
    if kind.generated is not None and (entry.generate is None or entry.generate.kind != kind.generated):
        drawn = f"the function behind data sets with generate.kind '{kind.generated}'"
        on = f"'{run.name}' is on '{dataset}', and a figure of the kind '{kind.name}' draws {drawn}"
        yield f".runs: {on}; leave the run out, or draw another kind"
    task = "classification" if run.config.likelihood.kind == "categorical" else "regression"
    own, them = f".runs: a figure of the kind '{kind.name}' is for", f"and '{name}'"
    if kind.task is not None and task != kind.task:
        yield f"{own} a {kind.task}, {them} is a {task}; leave it out, or draw another kind"
    if kind.methods and run.config.method.kind not in kind.methods:
        allowed = " or ".join(kind.methods)
        yield f"{own} {allowed}, {them} is of method.kind '{run.config.method.kind}'; leave it out"
    files = {*kind.files, *config.files}
    for needing, has, lacks in NEEDED:
        if files.intersection(needing) and not has(run.config):
            yield f".runs: '{name}' has {lacks}, or leave it out"
    for need in kind.needs:
        meets, words = HAS[need]
        if not meets(run, entry):
            yield f"{own} {words}, {them} is none of them; leave it out, or draw another kind"
    if "e_values" in files and (why := run.config.no_e_values()):
        yield f".runs: '{name}': {why}, or leave the run out"
    if run.config.reduces_draws:
        lost = [section for section in ("functions", "surface") if getattr(config, section) is not None]
        for what in [*lost, *(["e_values"] if "e_values" in files else [])]:
            yield f".runs: '{name}' keeps no draws for {what}; set its keep_draws: all, or leave the run out"
        if config.grid is not None and config.grid.limit is None:
            yield f".grid.limit: '{name}' is reduced while it is sampled, before its quantiles are known; give a limit"
    if config.subset is not None:
        yield from (f".subset{problem}" for problem in unfit_subset(config.subset, run, entry))
    if config.grid is not None:
        yield from (f".grid{problem}" for problem in unfit_grid(config.grid, run, entry))
    if config.functions is not None and config.functions.inputs == "line" and entry.shape != (1,):
        row = f"a row of '{dataset}' (run {run.name}) has the shape {list(entry.shape)}"
        yield f".functions.inputs = 'line': a line is for data of one input, and {row}; use 'test'"


def check_networks(studies: Mapping[str, Study]) -> None:
    """Refuse alignments that do not exist, and pruned networks that are not in one frame; all studies are at one scale.

    Raises ConfigError.
    """
    sources = Sources(studies)
    for study in studies.values():
        for run in study.runs.values():
            where = f"config/studies/{study.name}.yaml at scale {run.scale}: runs.{run.entry}"
            refuse(where, _wrong_moments(studies, run, sources))
            refuse(f"{where}.evaluate.pruning.networks", _wrong_networks(study, run))


def pruned_runs(study: Study, run: Run) -> dict[str, Run]:
    """Alignment -> its run, for each network that a run prunes, in order.

    For an entry, it is the run with the same values of the grid. Raises ConfigError if there is none.
    """
    pruning = run.config.evaluate.pruning
    found = {}
    for name in pruning.networks.values() if pruning else ():
        if name not in study.alignments:
            near = near_or_all(name, "there are", study.alignments)
            raise ConfigError(f"'{name}': no such alignment at this scale{near}")
        _, matching = _at_the_point(study, name, run)
        if len(matching) != 1:
            raise ConfigError(f"'{name}': {len(matching)} of its runs have the grid values of '{run.name}'")
        found[name] = matching[0]
    return found


def _wrong_moments(studies: Mapping[str, Study], run: Run, sources: Sources) -> Iterator[str]:
    """An alignment whose moments a compact run cannot have."""
    method = run.config.method
    if not isinstance(method, CompactConfig) or (name := method.alignment) is None:
        return
    source = sources.of(run)
    assert source is not None
    own = alignments_of(studies[source.study], source)
    if name not in own:
        near = near_or_all(name, "there are", own)
        yield f".method.alignment = '{name}': no alignment of '{source.name}'{near}"
    if method.rank is not None and method.rank > own[name].rank:
        yield (
            f".method.rank = {method.rank}: the alignment '{name}' keeps {own[name].rank} directions; raise its rank, "
            "or leave this one out for all directions"
        )
    if method.source_chains is not None:
        yield (
            f".method.source_chains = {method.source_chains}: which chains count is said by the alignment '{name}' "
            "(chains); leave this out"
        )


def _wrong_networks(study: Study, run: Run) -> Iterator[str]:
    """Networks that a run cannot prune, or not in one frame."""
    if run.config.evaluate.pruning is None:
        return
    if run.config.likelihood.kind != "categorical":
        yield f": pruned networks are scored by their accuracy, and '{run.name}' is a regression"
    try:
        runs = pruned_runs(study, run)
    except ConfigError as error:
        yield f" = {error}"
        return
    for name in runs:
        if study.alignments[name].unit_scales:
            yield (
                f" = '{name}': it removes the scales of units, which decide what is pruned; name an alignment with "
                "unit_scales: false"
            )
    first, *others = runs
    for name in others:
        if study.alignments[name].other != first:
            yield (
                f" = '{name}': its frame is '{study.alignments[name].other or 'its own'}'; networks are pruned in one "
                f"frame, that of the first: set its frame to '{first}'"
            )
    for name, one in runs.items():
        given = f" = '{name}' ('{one.name}')"
        yield from unequal(run, one, (*SAME, "float64"), given, "so its networks are of another posterior")
