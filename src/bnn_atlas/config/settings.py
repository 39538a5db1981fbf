"""Everything under config/, read and checked; config.yaml is overridden by `snakemake --config`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from bnn_atlas.config.base import ConfigError, Model, read_yaml, validated
from bnn_atlas.config.claims import ClaimsConfig, load_claims
from bnn_atlas.config.compatibility import check_data, check_figure, check_functions, check_references, check_sets
from bnn_atlas.config.datasets import DatasetEntry, load_registry
from bnn_atlas.config.expansion import expand, figure_at, takes_part
from bnn_atlas.config.studies import Run, Scale, Study, StudyConfig


class Settings(Model):
    """config/config.yaml."""

    scale: Scale = "demo"
    """`demo` (bundled data, minutes), `laptop` (the papers' data, one to three hours a study) or `paper`."""
    studies: tuple[str, ...] = ("sampling_perspective",)
    results: str = "results"
    """Folder for everything that is made, relative to the repository."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Where training, sampling and prediction run; `gpu` asks the cluster for one per job."""
    mirror: str | None = None
    """Folder or base URL with copies of the data; null takes the environment variable BNN_ATLAS_MIRROR."""
    cache: str | None = None
    """Folder for downloads, shared between clones; null takes BNN_ATLAS_CACHE, else the user's cache folder."""


class Atlas(NamedTuple):
    """Everything under config/, read and checked."""

    settings: Settings
    datasets: dict[str, DatasetEntry]
    studies: dict[str, Study]
    claims: dict[str, ClaimsConfig]


def load_atlas(config: dict[str, Any], folder: Path) -> Atlas:
    """Check the workflow's settings and read the registry, the studies and the claims in `folder`.

    Raises ConfigError that names the file, the key, the value and what is allowed.
    """
    settings = validated(Settings, config, f"{folder / 'config.yaml'} (or --config)")
    datasets = load_registry(folder / "datasets.yaml")
    known = sorted(path.stem for path in (folder / "studies").glob("*.yaml"))
    if not settings.studies:
        raise ConfigError(
            f"{folder / 'config.yaml'}: studies = []: at least one study is needed; there are {', '.join(known)}"
        )
    for name in settings.studies:
        if name not in known:
            raise ConfigError(
                f"{folder / 'config.yaml'}: studies = '{name}': no such study; there are {', '.join(known)}"
            )
    studies = {
        name: load_study(folder / "studies" / f"{name}.yaml", settings.scale, datasets) for name in settings.studies
    }
    claims = {
        name: load_claims(folder / "claims" / f"{name}.yaml", study)
        for name, study in studies.items()
        if (folder / "claims" / f"{name}.yaml").exists()
    }
    return Atlas(settings, datasets, studies, claims)


def load_study(path: Path, scale: Scale, datasets: Mapping[str, DatasetEntry]) -> Study:
    """Read config/studies/<study>.yaml, check it at every scale and expand it for one.

    Raises ConfigError that names the file, the key, the value and what is allowed.
    """
    data = read_yaml(path)
    source = str(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected keys such as title and runs, found {type(data).__name__}")
    config = validated(StudyConfig, data, source)
    runs_at: dict[Scale, dict[str, Run]] = {}
    studies: dict[Scale, Study] = {}
    for each in sorted(get_args(Scale), key=lambda name: name != "paper"):
        where = source if each == "paper" else f"{source} at scale {each}"
        runs = runs_at[each] = {}
        for entry in config.runs:
            if not takes_part(data["runs"][entry], each):
                continue
            for run in expand(path.stem, entry, data["runs"][entry], each, where):
                check_data(run, datasets, f"{where}: runs.{entry}")
                check_sets(run, datasets, f"{where}: runs.{entry}.evaluate")
                if run.name in runs:
                    raise ConfigError(
                        f"{where}: runs.{entry}: the run name '{run.name}' is made twice; rename one entry, or "
                        "remove a value that stands twice in its grid"
                    )
                runs[run.name] = run
        figures = {name: figure_at(name, data["figures"][name], each, where) for name in config.figures}
        made = {name: figure for name, figure in figures.items() if figure}
        studies[each] = Study(path.stem, config, runs, made, runs_at)
        for run in runs.values():
            check_references(run, studies[each], datasets, f"{where}: runs.{run.entry}.evaluate.references")
        for figure in studies[each].figures:
            check_figure(studies[each], figure, f"{where}: figures.{figure}")
            check_functions(studies[each], figure, datasets, f"{where}: figures.{figure}")
    return studies[scale]
