"""Settings of the whole workflow: config/config.yaml, overridden by `snakemake --config`."""

from pathlib import Path
from typing import Any, Literal, NamedTuple

from bnn_atlas.config.base import ConfigError, Model, validated
from bnn_atlas.config.claims import ClaimsConfig, load_claims
from bnn_atlas.config.datasets import DatasetEntry, load_registry
from bnn_atlas.config.studies import Scale, Study, load_study


class Settings(Model):
    """config/config.yaml."""

    scale: Scale = "demo"
    """`demo` (bundled data, minutes), `laptop` (the papers' data, about an hour a study) or `paper`."""
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
