"""Input functions of the rules: the objects that wildcards name, and the files that a job needs."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal

from bnn_atlas.config.checks.figures import alignments_of, other_runs, pruned_runs, reference_run
from bnn_atlas.config.checks.runs import Sources, marks, remark
from bnn_atlas.config.data.shift import PUBLISHED_SHIFTS
from bnn_atlas.config.language.base import ConfigError, did_you_mean
from bnn_atlas.config.methods.gaussian import CompactConfig
from bnn_atlas.config.methods.optimisation import PathConfig
from bnn_atlas.config.parts.evaluation import OUTSIDE, AlignmentConfig
from bnn_atlas.config.parts.figures import SurfaceConfig
from bnn_atlas.config.parts.starts import StartConfig
from bnn_atlas.config.runs.shared import SharedSplit, SharedStart, shared_split, shared_start
from bnn_atlas.config.runs.studies import Run, by_name, shown_runs
from bnn_atlas.config.settings import Atlas
from bnn_atlas.pipeline.figures import digest
from bnn_atlas.pipeline.paths import Paths

Wildcards = Any
"""Snakemake's wildcards of a job, as attributes."""


class Inputs:
    """Lookups for the rules of one scale; every method that takes wildcards can be an input function."""

    def __init__(self, atlas: Atlas, paths: Paths) -> None:
        self.atlas, self.paths = atlas, paths
        self._sources = Sources(atlas.studies)

    @cached_property
    def runs(self) -> list[Run]:
        """All runs of all studies."""
        return [run for study in self.atlas.studies.values() for run in study.runs.values()]

    @cached_property
    def shared_splits(self) -> dict[str, SharedSplit]:
        """Address -> splits that runs share."""
        found = (shared_split(run.config) for run in self.runs)
        return {split.key: split for split in found}

    @cached_property
    def shared_starts(self) -> dict[str, SharedStart]:
        """Address -> warm starts that runs share."""
        found = (
            shared_start(run.config, split, block)
            for run in self.runs
            if run.config.start is None
            for split in range(run.config.split.count)
            for block in range(run.config.blocks)
        )
        return {start.key: start for start in found}

    def run(self, w: Wildcards) -> Run:
        """The run that the wildcards name."""
        return self.atlas.studies[w.study].runs[w.run]

    def raw_files(self, w: Wildcards) -> list[str]:
        """Downloaded files of a data set; none for bundled ones."""
        files = self.atlas.datasets[w.dataset].files
        return [f"{self.paths.results}/data/{w.dataset}/raw/{file.name}" for file in files]

    def dataset(self, w: Wildcards) -> str:
        """The prepared data set of a run."""
        return self.paths.dataset(self.run(w).config.dataset)

    def split(self, w: Wildcards) -> str:
        """The split of a run."""
        return self.paths.split(shared_split(self.run(w).config), int(w.split))

    def split_of_start(self, w: Wildcards) -> str:
        """The split on which shared networks are trained."""
        start = self.shared_starts[w.key]
        return self.paths.split(start.split, start.number)

    def start(self, w: Wildcards) -> str:
        """What a block of chains starts from: shared networks, or draws of another run."""
        return self._start(self.run(w), int(w.split), int(w.block))

    def starts(self, w: Wildcards) -> list[str]:
        """The starts of all blocks of a run and split."""
        run = self.run(w)
        return [self._start(run, int(w.split), block) for block in range(run.config.blocks)]

    def source_traces(self, w: Wildcards) -> list[str]:
        """Traces of the run from whose draws a run starts."""
        return self._traces(self._source(w), int(w.split)) if self._from_draws(w) else []

    def source_pool(self, w: Wildcards) -> str | list[str]:
        """Pool of the run from whose draws a run starts."""
        return self.paths.of(self._source(w), int(w.split), "pool/pool.json") if self._from_draws(w) else []

    def source_arrays(self, w: Wildcards) -> list[str]:
        """Files of all blocks of the run that this run starts from, if it starts from that run's starts or fits."""
        source, split = self._source(w), int(w.split)
        if self._from_draws(w):
            return []
        if self._start_of(w).draw == "mean":
            return [self.paths.of(source, split, f"block{block}/fit.npz") for block in range(source.config.blocks)]
        return [self._start(source, split, block) for block in range(source.config.blocks)]

    def source_array(self, w: Wildcards) -> str | None:
        """Name of the array in these files that holds the positions."""
        names = {"start": "parameters", "mean": self._source(w).config.method.centre}
        return names.get(self._start_of(w).draw)

    def traces(self, w: Wildcards) -> list[str]:
        """Traces of all blocks of a run and split."""
        return self._traces(self.run(w), int(w.split))

    def timings(self, w: Wildcards) -> list[str]:
        """The timing files of all blocks of a run and split."""
        return [f"{trace.removesuffix('trace.zarr')}timing.json" for trace in self.traces(w)]

    def other_pools(self, w: Wildcards, surface: Mapping[str, Any]) -> dict[str, str]:
        """Name of each further run that a surface (a `SurfaceConfig` in plain values) takes points from -> its pool."""
        others = other_runs(self.atlas.studies, self.run(w), SurfaceConfig.model_validate(surface))
        return {name: self.paths.of(run, int(w.split), "pool/pool.json") for name, run in others.items()}

    def sets(self, w: Wildcards) -> list[str]:
        """Names of the sets of rows that a run predicts in addition to its test rows."""
        return list(self.run(w).config.evaluate.sets)

    def sets_elsewhere(self, w: Wildcards) -> list[str]:
        """The sets among them that are not made from the run's own data."""
        return [name for name in self.sets(w) if name.startswith((OUTSIDE, PUBLISHED_SHIFTS))]

    def intervals(self, w: Wildcards) -> dict[str, tuple[float, float]]:
        """Name of each interval that a run predicts -> its two ends."""
        return self.run(w).config.evaluate.intervals

    def other_data(self, w: Wildcards) -> list[str]:
        """The source of each set from elsewhere: another prepared data set, or published corruptions."""
        return [self._elsewhere(name) for name in self.sets_elsewhere(w)]

    def is_published(self, w: Wildcards) -> bool:
        """Whether a reference is a registered set of published predictions, not a run."""
        return w.reference not in self.atlas.studies[w.study].runs

    def reference_predictions(self, w: Wildcards) -> str:
        """The reference's predictions of the test rows: published ones, or another run's."""
        if self.is_published(w):
            return self.paths.dataset(w.reference)
        return self.paths.of(self.atlas.studies[w.study].runs[w.reference], int(w.split), "predictive/test.npz")

    def reference_table(self, w: Wildcards) -> str | list[str]:
        """Metric table of a reference that is a run, which says whether its chains have converged."""
        if self.is_published(w):
            return []
        return self.paths.of(self.atlas.studies[w.study].runs[w.reference], int(w.split), "metrics/metrics.parquet")

    def reference_remark(self, w: Wildcards) -> str:
        """The remark to be made next to a comparison with a reference."""
        return remark(self.run(w), w.reference, self.atlas.studies[w.study], self.atlas.datasets)

    def compared_shifts(self, w: Wildcards) -> list[str]:
        """Names of the shifted sets for which a run and its reference, another run, both have predictions."""
        if self.is_published(w):
            return []
        theirs = self.atlas.studies[w.study].runs[w.reference].config.evaluate.shifts
        return [shift.name for shift in self.run(w).config.evaluate.shifts if shift in theirs]

    def shifted_predictions(self, w: Wildcards) -> list[str]:
        """Folders with the predictions of a run and of its reference for these sets."""
        if not self.compared_shifts(w):
            return []
        runs = (self.run(w), self.atlas.studies[w.study].runs[w.reference])
        return [self.paths.of(run, int(w.split), "predictive/sets") for run in runs]

    def of_referee(self, file: str) -> Callable[[Wildcards], str]:
        """A file of a run's referee, by its path below a run and split."""

        def found(w: Wildcards) -> str:
            runs = self.atlas.studies[w.study].runs
            referee = runs[w.run].referee if w.run in runs else None
            if referee is None:
                raise ConfigError(
                    f"config/studies/{w.study}.yaml: runs.{w.run}: it has no referee; give it the section referee"
                )
            return self.paths.of(runs[referee], int(w.split), file)

        return found

    def alignment(self, w: Wildcards) -> AlignmentConfig:
        """The alignment that the wildcards name; ConfigError where the run has none of this name."""
        study = self.atlas.studies[w.study]
        found = alignments_of(study, study.runs[w.run]) if w.run in study.runs else {}
        if w.alignment not in found:
            raise ConfigError(f"config/studies/{w.study}.yaml: alignments: none of '{w.run}' is called '{w.alignment}'")
        return found[w.alignment]

    def aligned_by(self, w: Wildcards) -> dict[str, Any]:
        """The settings of an alignment as plain values, without its run, which is part of the path."""
        return self.alignment(w).model_dump(mode="json")

    def of_alignment(self, w: Wildcards) -> dict[str, Any]:
        """Further files of an alignment: the frame of another one, and fits whose means represent their chains."""
        alignment, run, split = self.alignment(w), self.run(w), int(w.split)
        files: dict[str, Any] = {}
        if other := reference_run(self.atlas.studies[w.study], alignment, run):
            files["reference"] = self.paths.of(other, split, f"alignment/{alignment.other}/frame.npz")
        if run.config.method.centre is not None and alignment.unit == "chain":
            blocks = range(run.config.blocks)
            files["fits"] = [self.paths.of(run, split, f"block{block}/fit.npz") for block in blocks]
        return files

    def tables(self, w: Wildcards) -> list[str]:
        """Tables of all runs of a study: on the test rows, on further sets, and against references."""
        return [file for run in self.atlas.studies[w.study].runs.values() for file in self.tables_of(run)]

    def tables_of(self, run: Run) -> list[str]:
        """The tables of one run: one kind after another, each for all splits."""
        sets, references = run.config.evaluate.sets, run.config.evaluate.references
        referee = ("referee",) if run.referee else ()
        own = run.config.evaluate
        pairs = [name for name in ("barriers", "pruning") if getattr(own, name) is not None]
        further = ["sets"] if sets else []
        names = ("metrics", *referee, *pairs, *further, *(f"against/{n}" for n in references))
        aligned = [f"alignment/{name}" for name in alignments_of(self.atlas.studies[run.study], run)]
        files = [*(f"metrics/{name}.parquet" for name in names), *(f"{name}/metrics.parquet" for name in aligned)]
        return [file for name in files for file in self.paths.per_split([run], name)]

    @cached_property
    def run_targets(self) -> dict[str, list[str]]:
        """Name of each run and of each entry -> the tables of its runs, in all studies that have it."""
        found: dict[str, list[str]] = {}
        for study in self.atlas.studies.values():
            for name, runs in by_name(study.runs).items():
                found.setdefault(name, []).extend(file for run in runs for file in self.tables_of(run))
        return found

    def scored_draws(self, w: Wildcards) -> dict[str, Any]:
        """Which draws of a run are predicted and scored; empty if all are."""
        return {"last": True} if isinstance(self.run(w).config.method, PathConfig) else {}

    def source_table(self, w: Wildcards) -> str | list[str]:
        """Metric table of the run whose draws gave a compact representation its moments."""
        if not isinstance(self.run(w).config.method, CompactConfig):
            return []
        return self.paths.of(self._source(w), int(w.split), "metrics/metrics.parquet")

    def source_frame(self, w: Wildcards) -> str | list[str]:
        """Frame of the alignment of the draws that gave a compact representation its moments."""
        method = self.run(w).config.method
        assert isinstance(method, CompactConfig), f"{w.run} is no compact representation"
        if method.alignment is None:
            return []
        return self.paths.of(self._source(w), int(w.split), f"alignment/{method.alignment}/frame.npz")

    def pruned(self, file: str) -> Callable[[Wildcards], list[str]]:
        """A file of each network that a run prunes: `frame` of its alignment, or `pool` of its draws."""

        def found(w: Wildcards) -> list[str]:
            study, run = self.atlas.studies[w.study], self.run(w)
            files = []
            for name, one in pruned_runs(study, run).items():
                path = f"alignment/{name}/frame.npz" if file == "frame" else "pool/pool.json"
                files.append(self.paths.of(one, int(w.split), path))
            return files

        return found

    def evaluated(self, section: Literal["barriers", "pruning"]) -> Callable[[Wildcards], dict[str, Any]]:
        """The settings of a section of `evaluate`: what is compared between chains, or which networks are pruned."""

        def found(w: Wildcards) -> dict[str, Any]:
            if (settings := getattr(self.run(w).config.evaluate, section)) is None:
                lacks = {"barriers": "it compares no chains", "pruning": "it prunes no networks"}[section]
                raise ConfigError(f"config/studies/{w.study}.yaml: runs.{w.run}: {lacks}; give it evaluate.{section}")
            return dict(settings.model_dump(mode="json"))

        return found

    def gaussian(self, w: Wildcards) -> dict[str, Any]:
        """The settings for the job that draws from a compact representation."""
        run = self.run(w).config
        assert isinstance(run.method, CompactConfig), f"{w.run} is no compact representation"
        aligned = alignments_of(self.atlas.studies[w.study], self._source(w)).get(run.method.alignment or "")
        return {
            "form": run.method.form,
            "rank": run.method.rank,
            "chains": run.method.source_chains,
            "balance": aligned is not None and aligned.unit_scales,
            "model": run.model.model_dump(mode="json"),
            "members": list(run.chain_ids(int(w.block))),
            "seed": run.seed_of(int(w.split)),
        }

    def initial(self, w: Wildcards) -> dict[str, Any] | None:
        """How the untrained networks of a run are drawn."""
        settings = self.run(w).config.initial
        return settings.model_dump(mode="json") if settings else None

    def seed(self, w: Wildcards) -> int:
        """The seed of a run and split."""
        return self.run(w).config.seed_of(int(w.split))

    def of_block(self, w: Wildcards) -> dict[str, Any]:
        """The seed of a run and split and, if its draws are reduced while it is sampled, what decides what is left."""
        run = self.run(w).config
        seed, keep = {"seed": run.seed_of(int(w.split))}, run.keep_draws
        if not run.reduces_draws:
            return seed
        kept = keep if isinstance(keep, str) else keep.model_dump(mode="json")
        return {**seed, "reduced.keep_draws": kept, "reduced.chains": run.chains}

    def sections(self, w: Wildcards) -> dict[str, Any] | None:
        """What figures, and the marginals, need of a run that is reduced while it is sampled; None for other runs."""
        run = self.run(w)
        if not run.config.reduces_draws:
            return None
        found: dict[str, dict[str, Any]] = {"subset": {}, "grid": {}}
        for study in self.atlas.studies.values():
            for figure in study.figures.values():
                if any(one is run for one in shown_runs(self.atlas.studies, study.name, figure.runs).values()):
                    for name, section in found.items():
                        if (settings := getattr(figure, name)) is not None:
                            section[digest(settings)] = settings.model_dump(mode="json")
        return {"prior_sd": run.config.prior_sd, **found}

    def identity(self, w: Wildcards) -> dict[str, Any]:
        """First columns of a run's rows in the tables."""
        run = self.run(w)
        return {
            "study": w.study,
            "run": w.run,
            "scale": run.scale,
            "split": int(w.split),
            "dataset": run.config.dataset,
            "model": run.config.model.label,
            "method": run.config.method.kind,
        }

    def marks(self, w: Wildcards) -> list[str]:
        """Marks that the note on every row of a run must contain."""
        return marks(self.run(w), self.atlas.datasets)

    def described(self, w: Wildcards) -> dict[str, Any]:
        """Description of a run in its archive."""
        run, study = self.run(w), self.atlas.studies[w.study].config
        return {
            "study": w.study,
            "title": study.title,
            "paper": study.paper,
            "run": w.run,
            "scale": run.scale,
            "split": int(w.split),
            "description": run.config.description,
            # The archive has no further sets.
            "reductions": [text for text in run.reductions if not text.startswith("evaluate.")],
            "marks": self.marks(w),
        }

    def published(self, w: Wildcards) -> dict[str, Any]:
        """Description of a figure or a study in its archive, with a list of the data."""
        return {
            "target": w.target,
            "papers": {name: study.config.paper for name, study in self.atlas.studies.items()},
            "data": {
                name: {
                    "title": entry.title or name.replace("_", " "),
                    "licence": entry.licence,
                    "urls": [file.url for file in entry.files if file.url],
                }
                for name, entry in self.atlas.datasets.items()
            },
        }

    def archives(self, w: Wildcards) -> list[str]:
        """The requested archives: of figures and studies, or of the runs that studies list under `export`."""
        if what := self.atlas.settings.what:
            return [self.paths.results_of(target) for target in what]
        return [
            file
            for study in self.atlas.studies.values()
            for run in study.runs_of(study.config.export)
            for file in self.paths.archives_of(run)
        ]

    def layer_traces(self, w: Wildcards) -> list[str]:
        """Traces of two parameters per layer of the runs, entries and studies that `what` names."""
        named: dict[str, list[Run]] = {}
        for name, study in self.atlas.studies.items():
            for key, runs in {name: [*study.runs.values()], **by_name(study.runs)}.items():
                named.setdefault(key, []).extend(runs)
        if not (what := self.atlas.settings.what):
            raise ConfigError("traces of what? Add `--config what=NAME`, with a run, an entry or a study")
        for name in what:
            if name not in named:
                raise ConfigError(f"what = '{name}': no run, entry or study at this scale{did_you_mean(name, named)}")
            if lost := [run.name for run in named[name] if run.config.reduces_draws]:
                raise ConfigError(
                    f"what = '{name}': '{lost[0]}' keeps no traces; set its keep_draws: all, or leave it out"
                )
        return list(dict.fromkeys(file for name in what for file in self.paths.per_split(named[name], "traces.npz")))

    def grid_points(self, study: str) -> dict[str, dict[str, Any]]:
        """Run -> its entry, its values in the entry's grid, its marks for every table, and its twin."""
        runs = self.atlas.studies[study].runs
        twins = {_without_kernel(run): name for name, run in runs.items() if run.config.kernel != "auto"}
        return {
            name: {"entry": run.entry, "point": run.point, "marks": marks(run, self.atlas.datasets)}
            | ({"rounded": twin} if twins and (twin := twins.get(_without_kernel(run), name)) != name else {})
            for name, run in runs.items()
        }

    def shared_jobs(self, study: str) -> list[str]:
        """`<rule>/<name>` of the splits and warm starts that the runs of a study use."""
        names = []
        for run in self.atlas.studies[study].runs.values():
            blocks = range(run.config.blocks) if run.config.start is None else ()
            for split in range(run.config.split.count):
                names.append(f"split/{shared_split(run.config).name(split)}")
                names += [f"warmstart/{shared_start(run.config, split, block).name}" for block in blocks]
        return list(dict.fromkeys(names))

    def _elsewhere(self, name: str) -> str:
        if name.startswith(OUTSIDE):
            return self.paths.dataset(name.removeprefix(OUTSIDE))
        (file,) = self.atlas.datasets[PUBLISHED_SHIFTS].files
        return f"{self.paths.results}/data/{PUBLISHED_SHIFTS}/raw/{file.name}"

    def _start(self, run: Run, split: int, block: int) -> str:
        if isinstance(run.config.method, CompactConfig):
            return self.paths.of(run, split, f"start/compact{block}.npz")
        if run.config.start is not None:
            return self.paths.of(run, split, f"start/block{block}.npz")
        return self.paths.start(shared_start(run.config, split, block))

    def _traces(self, run: Run, split: int) -> list[str]:
        return [self.paths.of(run, split, f"block{block}/trace.zarr") for block in range(run.config.blocks)]

    def depth(self, run: Run) -> int:
        """Length of the chain of runs on whose draws a run depends."""
        source = self._sources.of(run)
        return 0 if source is None else 1 + self.depth(source)

    def _start_of(self, w: Wildcards) -> StartConfig:
        start = self.run(w).config.start
        assert start is not None, f"{w.run} stands on no other run"
        return start

    def _from_draws(self, w: Wildcards) -> bool:
        return self._start_of(w).draw in ("last", "best")

    def _source(self, w: Wildcards) -> Run:
        run = self.run(w)
        source = self._sources.of(run)
        assert source is not None, f"{run.name} stands on no other run"
        return source


def _without_kernel(run: Run) -> str:
    """A run's settings as text, without `kernel`, which affects only the rounding of gradients."""
    return run.config.model_copy(update={"kernel": "auto", "description": ""}).model_dump_json()
