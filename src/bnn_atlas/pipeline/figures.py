"""What the rules need to know about figures and diagnostics pages: targets, inputs, code and settings."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, get_args

from bnn_atlas import published
from bnn_atlas.config.checks.figures import alignments_of
from bnn_atlas.config.checks.runs import marks
from bnn_atlas.config.language.base import ConfigError, Model
from bnn_atlas.config.language.reading import with_lines
from bnn_atlas.config.parts.evaluation import OUTSIDE
from bnn_atlas.config.parts.figures import FILES, OF_SETS, FigureConfig, Kind, Section, kinds
from bnn_atlas.config.runs.expansion import LONGEST_NAME, leaves
from bnn_atlas.config.runs.studies import Run, legend_texts, shown_runs
from bnn_atlas.config.settings import Atlas
from bnn_atlas.figures.r_setup import RCODE, r_files
from bnn_atlas.pipeline.claims import claim_targets, published_of
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.pipeline.steps import CODE
from bnn_atlas.provenance import fingerprint
from bnn_atlas.sources import PACKAGE, PLUMBING, code_digest, code_of

REPOSITORY = PACKAGE.parents[1]
DRAWING = "bnn_atlas.figures.drawing:draw"
"""Draws figures of all kinds."""
COMPUTING = (
    *PLUMBING,
    "bnn_atlas.config",
    "bnn_atlas.data",
    "bnn_atlas.models",
    "bnn_atlas.posterior",
    "bnn_atlas.metrics.gathering.streaming",
    "bnn_atlas.metrics.gathering.summary",
    "bnn_atlas.metrics.gathering.summary",
    "bnn_atlas.traces.convert",
    "bnn_atlas.traces.draws",
    "bnn_atlas.traces.pool",
    "bnn_atlas.traces.shard",
    "bnn_atlas.traces.store",
)
"""Code behind the files that figures and pages read. An edit appears in a picture only after such a file is made
again."""
JUDGING = (
    *PLUMBING,
    "bnn_atlas.config.runs.studies",
    "bnn_atlas.config.runs.expansion",
    "bnn_atlas.config.language.base",
)
"""Code that prepares settings for claims and pages; these settings are compared separately."""
ENDINGS: dict[Section, str] = {"subset": "parquet", "grid": "npz", "functions": "npz", "surface": "npz"}
"""Section -> ending of the file that is made for it."""


class Figure:
    """One figure of a study at the scale of the atlas."""

    def __init__(self, atlas: Atlas, paths: Paths, study: str, name: str) -> None:
        self.study, self.name = study, name
        self.config: FigureConfig = atlas.studies[study].figures[name]
        self.kind: Kind = kinds()[self.config.draw]
        self.runs: dict[str, Run] = shown_runs(atlas.studies, study, self.config.runs)
        """Name in the figure -> run."""
        self._atlas, self._paths = atlas, paths

    @property
    def target(self) -> str:
        """Name of its rule."""
        return f"{self.study}_{self.name}"

    @property
    def label(self) -> str:
        """Heading on the page of results, and name in the report."""
        return self.config.title or self.name.replace("_", " ").capitalize()

    @property
    def stem(self) -> str:
        """Path of its files without the ending."""
        return f"{self._paths.results}/figures/{self.study}/{self.name}"

    @property
    def outputs(self) -> list[str]:
        """Its files; the report shows the last one."""
        return [f"{self.stem}.{ending}" for ending in self.kind.endings]

    @property
    def uses_r(self) -> bool:
        """Whether R draws it."""
        return (RCODE / f"{self.kind.name}.R").is_file()

    @property
    def sections(self) -> dict[Section, Model]:
        """The sections of its entry."""
        given = {section: getattr(self.config, section) for section in get_args(Section)}
        return {section: settings for section, settings in given.items() if settings is not None}

    @property
    def inputs(self) -> dict[str, list[str]]:
        """Name -> the files with this name that the figure reads, one for each run and split, in order."""
        inputs: dict[str, list[str]] = dict(self._claims)
        for run, split in self._splits:
            for name, file in self._files(run, split).items():
                inputs.setdefault(name, []).append(file)
            for name, parts in self._parts(run, split).items():
                inputs.setdefault(name, []).extend(parts.values())
        return inputs

    @property
    def code(self) -> list[dict[str, str]]:
        """A setting for the code that draws it, and one for each of its R files."""
        drawn = code(f"{self.kind.module}:{self.kind.name}", DRAWING, without=COMPUTING)
        return [*drawn, *(map(_version, r_files(self.kind.name)) if self.uses_r else ())]

    @property
    def settings(self) -> list[dict[str, Any]]:
        """All settings that determine the figure, each under its own name, so that a message can name the changed one.

        Settings that all runs of an entry share are listed once.
        """
        own = self.config.model_dump(mode="json", exclude={"runs", "labels", "caption", "title"}, exclude_none=True)
        found = [{f"{self.name}: {key}": value} for key, value in leaves(own)]
        texts = legend_texts(self.config, self.runs)
        entries: dict[str, dict[str, list[tuple[str, str]]]] = {}
        for name, run in self.runs.items():
            entry = name.removesuffix(run.name) + run.entry
            pairs = [*_facts(run), ("label", texts[name]), ("title", self._title(run))]
            pairs += [("published", json.dumps(one)) for one in published_of(self._atlas, run)]
            entries.setdefault(entry, {})[name] = pairs
        for entry, runs in entries.items():
            common = set.intersection(*(set(pairs) for pairs in runs.values()))
            shared = [pair for pair in next(iter(runs.values())) if pair in common]
            found += [{f"{entry}: {key}": value} for key, value in shared]
            found += [
                {f"{name}: {key}": value} for name, pairs in runs.items() for key, value in pairs
                if (key, value) not in common
            ]  # fmt: skip
            found += [{"shows": name} for name in runs]
        return found

    def described(self) -> dict[str, Any]:
        """All that the job is given: what its provenance records, its function, and its runs with their files."""
        texts = legend_texts(self.config, self.runs)
        runs = self.runs.items()
        return {
            "study": self.study,
            "figure": self.name,
            "kind": self.kind.name,
            "module": self.kind.module,
            "caption": " ".join(filter(None, (self.config.caption, self.reduced))),
            "scale": self._atlas.settings.scale,
            "reductions": self._reductions,
            **_marks(self.runs.values(), self._atlas),
            "runs": list(self.runs),
            "own": self.config.model_dump(mode="json", exclude={"caption", "title"}),
            "of_runs": {name: run.config.model_dump(mode="json", exclude={"evaluate"}) for name, run in runs},
            **self._own_data,
            **{name: file for name, (file,) in self._claims.items()},
            "shown": [
                {
                    "study": run.study,
                    "run": name,
                    "entry": run.entry,
                    "label": texts[name],
                    "point": run.point,
                    "dataset": run.config.dataset,
                    "dataset_title": self._title(run),
                    "task": self._atlas.datasets[run.config.dataset].task,
                    "model": run.config.model.label,
                    "hidden": list(getattr(run.config.model, "hidden", ())),
                    "method": run.config.method.kind,
                    "likelihood": run.config.likelihood.kind,
                    "prior_sd": run.config.prior_sd,
                    "energy_variance": run.config.method.desired_energy_variance,
                    "generator": self._generator(run),
                    "split": split,
                    "chains": run.config.chains,
                    "files": self._files(run, split),
                    "parts": self._parts(run, split),
                    "set_titles": self._set_titles(run),
                    "published": published_of(self._atlas, run),
                }
                for name, run in runs
                for split in range(run.config.split.count)
            ],
        }

    @property
    def reduced(self) -> str:
        """A sentence for the caption with the scale's changes to the paper's settings; empty if there are none."""
        texts = [f"``{entry}`` (``{'; '.join(of)}``)" for entry, of in self._reductions.items() if of]
        return f"Scale ``{self._atlas.settings.scale}`` changes {', '.join(texts)}." if texts else ""

    @property
    def _reductions(self) -> dict[str, list[str]]:
        """Entry -> the scale's changes to its runs."""
        return {name.removesuffix(run.name) + run.entry: list(run.reductions) for name, run in self.runs.items()}

    @property
    def _claims(self) -> dict[str, list[str]]:
        """The table of the study's claims, if the kind reads it."""
        return {"claims": [f"{self._paths.results}/claims/{self.study}.parquet"]} if self.kind.claims else {}

    @property
    def _splits(self) -> list[tuple[Run, int]]:
        return [(run, split) for run in self.runs.values() for split in range(run.config.split.count)]

    @property
    def _names(self) -> dict[str, str]:
        """Name of each file that it reads -> path below a run and split."""
        names = {str(section): section_file(section, settings) for section, settings in self.sections.items()}
        own = dict.fromkeys((*self.kind.files, *self.kind.files_if_any, *self.config.files))
        if self.kind.runs != "none":
            own |= {"table": None}  # tells the frame of every picture which runs not to trust
        return names | {name: FILES[name] for name in own}

    def _files(self, run: Run, split: int) -> dict[str, str]:
        """Files that exist once per run and split; files of further sets only if the run has such sets."""
        return {
            name: self._paths.of(run, split, file)
            for name, file in self._names.items()
            if "{" not in file and (name not in OF_SETS or run.config.evaluate.sets)
        }

    def _parts(self, run: Run, split: int) -> dict[str, dict[str, str]]:
        """Files of a run and split that exist once per reference or alignment."""
        aligned = alignments_of(self._atlas.studies[run.study], run)
        shown = [name for name in aligned if name in (self.config.alignments or aligned)]
        names = {"{reference}": run.config.evaluate.references, "{alignment}": shown}
        return {
            name: {
                part: self._paths.of(run, split, file.format(reference=part, alignment=part))
                for part in next(parts for place, parts in names.items() if place in file)
            }
            for name, file in self._names.items()
            if "{" in file
        }

    @property
    def _own_data(self) -> dict[str, Any]:
        """Checksums of the data files on this machine that its runs use, for its provenance."""
        names = dict.fromkeys(run.config.dataset for run in self.runs.values())
        found = {name: self._atlas.datasets[name].own_checksums for name in names}
        found = {name: checksums for name, checksums in found.items() if checksums}
        return {"own_data": found} if found else {}

    def _generator(self, run: Run) -> dict[str, Any] | None:
        """Settings of the generator of a run's data set, if the kind draws the function behind the rows."""
        made = self._atlas.datasets[run.config.dataset].generate
        return made.model_dump(mode="json") if self.kind.generated and made is not None else None

    def _title(self, run: Run) -> str:
        return self._name_of(run.config.dataset)

    def _set_titles(self, run: Run) -> dict[str, str]:
        return {OUTSIDE + name: self._name_of(name) for name in run.config.evaluate.out_of_distribution}

    def _name_of(self, dataset: str) -> str:
        return self._atlas.datasets[dataset].title or dataset.replace("_", " ")


class Figures:
    """All figures of the loaded studies, their targets, and their use in claims and pages."""

    def __init__(self, atlas: Atlas, paths: Paths, missing_r: object, taken: Collection[str] = ()) -> None:
        """`missing_r` is true if R cannot draw here; `taken` has the names of all other rules and targets.

        Raises ConfigError for a figure whose target is taken, and for a kind without a caption.
        """
        self._atlas, self._paths = atlas, paths
        self.all = [
            Figure(atlas, paths, study.name, name) for study in atlas.studies.values() for name in study.figures
        ]
        for kind in sorted({figure.kind.name for figure in self.all}):
            if not (REPOSITORY / _caption(kind)).is_file():
                raise ConfigError(f"{_caption(kind)}: missing; write the caption of this kind of figure there")
        self._cannot = [figure for figure in self.all if missing_r and figure.uses_r]
        parts = ((part, name) for part in ("studies", "claims") for name in atlas.studies)
        with with_lines(*(REPOSITORY / "config" / part / f"{name}.yaml" for part, name in parts)):
            self._check_claims()
            self.targets = _targets(self.all, {*taken, *atlas.studies, *claim_targets(atlas)})
        """Bare name -> figure, where only one study has a figure of this name."""

    def _check_claims(self) -> None:
        """Refuse a figure of claims in a study without claims, and a claim whose number comes from such a figure."""
        for figure in (each for each in self.all if each.kind.claims):
            where = f"config/studies/{figure.study}.yaml: figures.{figure.name}"
            if figure.study not in self._atlas.claims:
                raise ConfigError(f"{where}: there is no config/claims/{figure.study}.yaml; write it, or take this out")
            for name, claim in self._atlas.claims[figure.study].claims.items():
                if claim.figure == figure.name:
                    raise ConfigError(
                        f"config/claims/{figure.study}.yaml: claims.{name}.figure: '{figure.name}' is made of the "
                        "judged claims; name the figure of the measured values"
                    )

    @cached_property
    def by_section(self) -> dict[Section, dict[str, Model]]:
        """Section -> digest in the file name -> settings, for all figures with such a section."""
        found: dict[Section, dict[str, Model]] = {section: {} for section in ENDINGS}
        for figure in self.all:
            for section, settings in figure.sections.items():
                found[section][digest(settings)] = settings
        return found

    def section(self, section: Section, settings: str) -> dict[str, Any]:
        """The settings of a section by the digest that names its file."""
        return self.by_section[section][settings].model_dump(mode="json")

    def of(self, study: str) -> list[Figure]:
        """Figures of a study that can be drawn here."""
        return [figure for figure in self.all if figure.study == study and figure not in self._cannot]

    def files(self, study: str) -> list[str]:
        """The files of these figures."""
        return [file for figure in self.of(study) for file in figure.outputs]

    @property
    def not_made(self) -> list[str]:
        """Names of the figures that cannot be drawn here, because R is missing."""
        return [figure.name for figure in self._cannot]

    def claimed(self, studies: Iterable[str]) -> dict[str, str]:
        """`study/figure` -> PNG, for each figure that a claim of these studies names and that can be drawn here."""
        chosen = list(studies)
        named = {(study, c.figure) for study in chosen for c in self._atlas.claims[study].claims.values()}
        pictures = {(figure.study, figure.name): figure.outputs[-1] for study in chosen for figure in self.of(study)}
        return {f"{s}/{name}": path for (s, name), path in sorted(pictures.items()) if (s, name) in named}

    def captions(self, study: str) -> dict[str, dict[str, str]]:
        """Figure -> its heading, files of its caption and notes, what the study's file adds, what the scale changes."""
        return {
            figure.name: {
                "title": figure.label,
                "caption": _caption(figure.kind.name),
                "notes": f"workflow/report/notes/{figure.kind.name}.rst",
                "text": figure.config.caption or "",
                "reduced": figure.reduced,
            }
            for figure in self.of(study)
        }

    def caption_files(self, study: str) -> list[str]:
        """The files of captions and notes that exist."""
        files = [paths[part] for paths in self.captions(study).values() for part in ("caption", "notes")]
        return [file for file in dict.fromkeys(files) if (REPOSITORY / file).is_file()]

    def digests(self, study: str) -> list[str]:
        """Names of the files that are made for sections of a study's figures."""
        return sorted({digest(settings) for figure in self.of(study) for settings in figure.sections.values()})

    def pages(self, study: str) -> list[str]:
        """Files of the diagnostics pages of a study, and its table of rates."""
        folder = f"{self._paths.results}/figures/{study}/diagnostics"
        pages = [
            f"{folder}/{run.name}-split{split}.{ending}"
            for run in self._atlas.studies[study].runs.values()
            for split in range(run.config.split.count)
            for ending in ("pdf", "png", "csv")
        ]
        return [*pages, f"{self._paths.results}/tables/{study}-rates.parquet"]

    def page(self, study: str, run: str, split: int) -> dict[str, Any]:
        """What the provenance of a page records: the run's settings."""
        shown = self._atlas.studies[study].runs[run]
        return {
            "study": study,
            "figure": "diagnostics",
            "scale": self._atlas.settings.scale,
            "reductions": {shown.entry: list(shown.reductions)},
            **_marks([shown], self._atlas),
            "run": run,
            "split": split,
            "of_run": shown.config.model_dump(mode="json", exclude={"evaluate"}),
        }


def _caption(kind: str) -> str:
    """Path of the caption for a kind of figure."""
    return f"workflow/report/{kind}.rst"


def digest(settings: Model) -> str:
    """Eight characters that name a file made from these settings; figures with equal sections share it.

    Defaults are left out, so that a field added later renames no file.
    """
    return fingerprint(settings.model_dump(mode="json", exclude_defaults=True))[:8]


def section_file(section: Section, settings: Model) -> str:
    """Path below a run and split of the file that is made for a figure's section."""
    return f"{section}/{digest(settings)}.{ENDINGS[section]}"


def code(*roots: str, without: Iterable[str]) -> list[dict[str, str]]:
    """Settings that make a result run again when its code changes: a digest of all definitions that the roots reach.

    Further settings are the contents of the templates next to the roots, and of published numbers if the roots read
    any.
    """
    modules = [root.partition(":")[0] for root in roots]
    numbers = published.FOLDER.glob("*.csv") if Path(published.__file__) in code_of(*modules, without=without) else ()
    folders = {file.parent for file in code_of(*modules, without=("bnn_atlas",))}
    files = sorted([*numbers, *(template for folder in folders for template in folder.rglob("*.j2"))])
    return [{CODE: code_digest(*roots, without=without)[:12]}, *map(_version, files)]


@cache
def _version(file: Path) -> dict[str, str]:
    """A setting that identifies a file by its content, not by its modification time."""
    return {str(file.relative_to(REPOSITORY)): hashlib.sha256(file.read_bytes()).hexdigest()[:12]}


def rule_names(folder: Path) -> set[str]:
    """Names of all rules in the Snakefile in `folder` and in its workflow/rules."""
    text = "\n".join(
        file.read_text(encoding="utf-8") for file in (folder / "Snakefile", *folder.glob("workflow/rules/*.smk"))
    )
    return set(re.findall(r"^\s*(?:rule|checkpoint)\s+(\w+)\s*:", text, re.MULTILINE))


def _targets(figures: list[Figure], taken: Collection[str]) -> dict[str, Figure]:
    """Bare names that only one figure has; ConfigError if a target is taken, or a name cannot be a target."""
    seen: dict[str, Figure] = {}
    folded: dict[tuple[str, str], str] = {}
    names = [figure.name for figure in figures]
    bare = {figure.name: figure for figure in figures if names.count(figure.name) == 1}
    for figure in figures:
        where = f"config/studies/{figure.study}.yaml: figures.{figure.name}"
        if not re.fullmatch(r"[A-Za-z]\w*", figure.name):
            raise ConfigError(f"{where}: a figure's name is a target: a letter, then letters, digits and '_'")
        if len(figure.name) > LONGEST_NAME:
            raise ConfigError(
                f"config/studies/{figure.study}.yaml: figures.{figure.name[:40]}...: the name has {len(figure.name)} "
                f"characters; at most {LONGEST_NAME} are allowed, since files are named after it"
            )
        if (same := folded.setdefault((figure.study, figure.name.casefold()), figure.name)) != figure.name:
            raise ConfigError(
                f"{where}: the names '{same}' and '{figure.name}' differ in case only, and some file systems take them "
                "for one file; rename one"
            )
        for target in dict.fromkeys((figure.name, figure.target)):
            if target in taken:
                raise ConfigError(
                    f"{where}: '{target}' is the name of a rule or a study; give the figure another name and `draw`"
                )
        for target in {figure.target} | ({figure.name} & bare.keys()):
            if (other := seen.setdefault(target, figure)) is not figure:
                raise ConfigError(
                    f"{where}: '{target}' is also a target of figures.{other.name} of '{other.study}'; rename one"
                )
    return bare


def _facts(run: Run) -> list[tuple[str, str]]:
    """Settings of a run that a figure depends on, and what its scale reduces, as names and texts."""
    dump: Mapping[str, Any] = run.config.model_dump(mode="json", exclude={"evaluate", "description"})
    return [*((key, str(value)) for key, value in leaves(dump)), *(("reduces", text) for text in run.reductions)]


def _marks(runs: Iterable[Run], atlas: Atlas) -> dict[str, list[str]]:
    """Marks that the note of a picture must show about its runs; empty if there are none."""
    # There is little room below a picture, so only tables give the reasons for a mark and its consequences.
    found = list(dict.fromkeys(re.split(r":| \(", mark)[0] for run in runs for mark in marks(run, atlas.datasets)))
    return {"marks": found} if found else {}
