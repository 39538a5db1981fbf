"""Reading and checking of everything in config/; `snakemake --config` overrides config.yaml."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator

from bnn_atlas.config.checks.figures import check_alignments, check_figure, check_networks
from bnn_atlas.config.checks.methods import check_method
from bnn_atlas.config.checks.runs import check_data, check_references, check_sets, inherit_from_sources
from bnn_atlas.config.checks.sizes import check_sizes
from bnn_atlas.config.claims.load import ClaimsConfig, load_claims
from bnn_atlas.config.data.datasets import DatasetEntry, load_registry
from bnn_atlas.config.language.base import MOST_JOBS, ConfigError, Model, near_or_all, refuse, validated
from bnn_atlas.config.language.reading import Lines, read_yaml, with_lines
from bnn_atlas.config.parts.evaluation import AlignmentConfig
from bnn_atlas.config.parts.figures import FigureConfig
from bnn_atlas.config.runs.expansion import entry_at, expand
from bnn_atlas.config.runs.studies import SCALES, Run, Scale, Study, StudyConfig, by_name


def _folder(path: str) -> str:
    """Reject what is not a path, what Snakemake or a program would misread, and what only a shell would expand."""
    if not path.strip() or any(character in "{}" or not character.isprintable() for character in path):
        raise ValueError("must be the path of a folder, such as results, not empty and without braces")
    if path.startswith("-"):
        raise ValueError(f"programs would read it as an option; write ./{path}")
    if path.startswith("~") or "$" in path:
        raise ValueError(f"`~` and variables are not expanded here; write {_written_out(path)}")
    return path


def _written_out(path: str) -> str:
    """A path with variables expanded, or an example if some variables have no value."""
    whole = os.path.expandvars(re.sub(r"^~(?=/|$)", "$HOME", path))
    return "the whole path, such as /scratch/results" if whole.startswith("~") or "$" in whole else whole


Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda names: (names,) if isinstance(names, str) else names, str | tuple[str, ...])
]
"""A list of names; a single name is a list of one."""


class Settings(Model):
    """config/config.yaml."""

    scale: Scale = "demo"
    """`demo` (bundled data, minutes), `laptop` (the papers' data, one to three hours a study) or `paper`."""
    studies: Names = ("sampling_perspective",)
    """Names of files in config/studies; a single name is a list of one."""
    results: Annotated[str, AfterValidator(_folder)] = "results"
    """Folder for all results, relative to the repository or to the folder given by `--directory`."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Where training, sampling and prediction run; `gpu` asks the cluster for one GPU per job."""
    mirror: str | None = None
    """Folders or base URLs with copies of the data, separated by colons; null takes the environment variable
    BNN_ATLAS_MIRROR."""
    cache: str | None = None
    """Folder for downloads, shared between clones; null takes the environment variable BNN_ATLAS_CACHE, or else the
    user's cache folder."""
    published: Names = ()
    """Archives that other clones made with `snakemake export --config what=...`. Their results count as made, and are
    rejected if today's settings, data or code would yield different results."""
    what: Names = ()
    """Figures and studies that `snakemake export` packs for other clones; by default, the runs listed under `export` in
    the studies. For `snakemake traces`, runs, entries and studies."""
    mend: bool = False
    """Whether `snakemake check` removes damaged and left-over results; not allowed with any other target."""


class Atlas(NamedTuple):
    """Everything under config/, read and checked."""

    settings: Settings
    datasets: dict[str, DatasetEntry]
    studies: dict[str, Study]
    claims: dict[str, ClaimsConfig]


def load_atlas(config: dict[str, Any], folder: Path) -> Atlas:
    """Check the workflow's settings and read the registry, the studies and the claims in `folder`.

    Raises ConfigError with the file, the key, the value and the allowed values.
    """
    source = f"{folder / 'config.yaml'} (or --config)"
    settings = validated(Settings, config, source)
    refuse(f"{source}: results = '{settings.results}'", _taken(settings.results, folder))
    datasets = load_registry(folder / "datasets.yaml")
    available = sorted(path.stem for path in (folder / "studies").glob("*.yaml"))
    _check_files(folder, available)
    if not settings.studies:
        raise ConfigError(f"{source}: studies = []: at least one study is needed; there are {', '.join(available)}")
    for number, name in enumerate(settings.studies):
        if name in settings.studies[:number]:
            raise ConfigError(f"{source}: studies = '{name}': given twice; remove one")
        if name not in available:
            raise ConfigError(f"{source}: studies = '{name}': no such study{near_or_all(name, 'there are', available)}")
    studies = load_studies([folder / "studies" / f"{name}.yaml" for name in settings.studies], datasets)[settings.scale]
    claims = {
        name: load_claims(folder / "claims" / f"{name}.yaml", study)
        for name, study in studies.items()
        if (folder / "claims" / f"{name}.yaml").exists()
    }
    return Atlas(settings, datasets, studies, claims)


def read_settings(path: Path) -> dict[str, Any]:
    """The keys of config/config.yaml, as written. Raises ConfigError like `read_yaml`, or if there are none."""
    data = read_yaml(path)
    if not isinstance(data, dict):
        found = "the file is empty" if data is None else "the file has no keys"
        raise ConfigError(f"{path}: {found}; write at least `scale: demo`")
    return data


OWN = ("benchmarks", "config", "docs", "envs", "profiles", "Rcode", "slurm", "src", "tests", "workflow")
"""Folders of the repository that may not hold results, since people edit files in them."""


def _taken(results: str, folder: Path) -> Iterator[str]:
    """Why a folder (relative to the working directory) cannot hold the results; `folder` is config/."""
    repository, path = folder.resolve().parent, Path(results).resolve()
    if path in (repository, *repository.parents):
        yield ": this folder contains the repository itself; use a separate folder for results, such as results"
    if path.exists() and not path.is_dir():
        yield ": this is a file; name a folder, such as results"
        return
    first = path.relative_to(repository).parts[0] if path.is_relative_to(repository) else ""
    names = [entry.name for entry in path.iterdir() if entry.name[0] != "."] if os.access(path, os.R_OK) else []
    if first in (folder.name, *OWN) or first.startswith(".") or (names and not {*names} & {*SCALES}):
        yield f": the folder {first or path} has other contents; use a separate folder for results, such as results"


def _check_files(folder: Path, available: Sequence[str]) -> None:
    """Reject files that would be ignored: claims without a study, and studies and claims without the ending .yaml."""
    for kind in ("studies", "claims"):
        for file in sorted((folder / kind).glob("*.[a-z]*")):
            if file.suffix == ".yml":
                raise ConfigError(f"{file}: only files that end in .yaml are read; rename it to {file.stem}.yaml")
            if file.suffix == ".yaml" and file.stem not in available:
                near = near_or_all(file.stem, "there are", available)
                raise ConfigError(f"{file}: there is no study '{file.stem}'{near}; rename or remove the file")


def load_study(path: Path, scale: Scale, datasets: Mapping[str, DatasetEntry]) -> Study:
    """Read config/studies/<study>.yaml, check it at every scale and expand it for one.

    Raises ConfigError with the file, the key, the value and the allowed values.
    """
    return load_studies([path], datasets)[scale][path.stem]


def load_studies(paths: Sequence[Path], datasets: Mapping[str, DatasetEntry]) -> dict[Scale, dict[str, Study]]:
    """Read several studies, whose runs and figures may refer to each other's runs: scale -> name -> study.

    Raises ConfigError with the file, the key, the value and the allowed values.
    """
    with with_lines(*paths):
        loaded = [_read_study(path, datasets) for path in paths]
        scales = {scale: {study[scale].name: study[scale] for study in loaded} for scale in loaded[0]}
        for scale, studies in scales.items():
            inherit_from_sources(studies)
            check_networks(studies)
            for path, study in zip(paths, studies.values(), strict=True):
                for figure in study.figures:
                    check_figure(studies, study.name, figure, datasets, f"{_where(path, scale)}: figures.{figure}")
    return scales


def _read_study(path: Path, datasets: Mapping[str, DatasetEntry]) -> dict[Scale, Study]:
    """One study at every scale; its figures are not checked."""
    data = read_yaml(path)
    source = str(path)
    if not isinstance(data, dict):
        found = "the file is empty" if data is None else "the file has no keys"
        raise ConfigError(f"{source}: {found}; a study has keys such as title and runs")
    lines = Lines(path)
    config = validated(StudyConfig, data, source, lines)
    runs_at: dict[Scale, dict[str, Run]] = {}
    studies: dict[Scale, Study] = {}
    for each in sorted(SCALES, key=lambda name: name != "paper"):
        where = _where(path, each)
        runs = runs_at[each] = {}
        folded: dict[str, str] = {}
        for entry in config.taking_part(config.runs, each):
            written = {"problem": config.problem} | data["runs"][entry]
            for run in expand(path.stem, entry, written, each, where, lines):
                check_data(run, datasets, f"{where}: runs.{entry}")
                check_sizes(run, datasets, f"{where}: runs.{entry}")
                check_method(run, datasets, f"{where}: runs.{entry}")
                check_sets(run, datasets, f"{where}: runs.{entry}.evaluate")
                if run.name in runs:
                    raise ConfigError(
                        f"{where}: runs.{entry}: two runs have the name '{run.name}'; rename one entry, "
                        "or remove a repeated value from its grid"
                    )
                if (other := folded.setdefault(run.name.casefold(), run.name)) != run.name:
                    raise ConfigError(
                        f"{where}: runs.{entry}: the run names '{other}' and '{run.name}' differ only in case, and "
                        "some file systems cannot tell them apart; rename one entry"
                    )
                runs[run.name] = run
            _check_jobs(runs, entry, f"{where}: runs.{entry}")
        figures = {
            name: entry_at(FigureConfig, {"draw": name} | data["figures"][name], each, f"{where}: figures.{name}")
            for name in config.taking_part(config.figures, each)
        }
        aligned = {
            name: entry_at(AlignmentConfig, data["alignments"][name], each, f"{where}: alignments.{name}")
            for name in config.taking_part(config.alignments, each)
        }
        studies[each] = Study(path.stem, config, runs, figures, runs_at, aligned)
        check_references(studies[each], datasets, where)
        check_alignments(studies[each], where, config.alignments)
    known = {name for runs in runs_at.values() for name in by_name(runs)}
    for name in config.export:
        if name not in known:
            raise ConfigError(f"{source}: export: no run '{name}'{near_or_all(name, 'there are', config.runs, known)}")
        if any(run.config.reduces_draws for runs in runs_at.values() for run in by_name(runs).get(name, ())):
            raise ConfigError(f"{source}: export: '{name}' keeps no draws to pack; set its keep_draws: all")
    return studies


def _check_jobs(runs: Mapping[str, Run], entry: str, where: str) -> None:
    """Reject more sampling jobs than a plan can hold: runs times splits times blocks, of all entries so far."""
    jobs = {name: run.config.split.count * run.config.blocks for name, run in runs.items()}
    if (total := sum(jobs.values())) > MOST_JOBS:
        own = [name for name, run in runs.items() if run.entry == entry]
        raise ConfigError(
            f"{where}: its {len(own):,} runs have {sum(jobs[name] for name in own):,} splits and blocks of chains to "
            f"sample, and the study up to here has {total:,}; at most {MOST_JOBS:,} are allowed: shorten the grid or "
            "lower split.count"
        )


def _where(path: Path, scale: Scale) -> str:
    return str(path) if scale == "paper" else f"{path} at scale {scale}"
