"""Targets by name: how they are listed, and what a target that does not exist was meant to be."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from bnn_atlas.config.base import did_you_mean
from bnn_atlas.config.settings import Atlas
from bnn_atlas.config.studies import Run, Scale
from bnn_atlas.workflow.figures import REPOSITORY, Figure, Figures
from bnn_atlas.workflow.paths import Paths

FOLDERS = ("data", "splits", "warmstarts", "tables", "figures", "claims", "gallery", "logs", "benchmarks")
"""Folders of a scale's results that are not studies."""


class Targets:
    """Targets of the loaded studies at one scale."""

    def __init__(self, atlas: Atlas, paths: Paths, figures: Figures) -> None:
        self._atlas, self._paths, self._figures = atlas, paths, figures

    def figure(self, target: str) -> Figure | None:
        """The figure that a target stands for, by its own name or as `<study>_<figure>`."""
        return {figure.target: figure for figure in self._figures.all}.get(target) or self._figures.targets.get(target)

    def listed(self, rules: Iterable[Any], only_targets: bool) -> str:
        """Rules for `--list-rules`: parts of the results, figures, and steps, with a sentence each."""
        rules = sorted(rules, key=lambda rule: str(rule.name))
        plain = [rule for rule in rules if not rule.has_wildcards() and self.figure(rule.name) is None]
        groups = {
            "Parts of the results:": [_line(rule.name, rule.docstring) for rule in plain],
            "Figures (each is also a target as <study>_<figure>):": sorted(
                _line(name, f"{figure.study}. {about(figure)}") for name, figure in self._short.items()
            ),
            "Steps, which Snakemake adds where they are needed:": [
                _line(rule.name, rule.docstring) for rule in rules if rule.has_wildcards()
            ],
        }
        shown = list(groups.items())[: 2 if only_targets else 3]
        return "\n\n".join("\n".join([title, *lines]) for title, lines in shown if lines)

    def refusal(self, target: str, rules: Collection[str]) -> str | None:
        """What is wrong with a target, and what it may have been meant to be; None where nothing is."""
        if target in rules or Path(target).exists():
            return None
        return self._of_path(target) if "/" in target else self._of_name(target, rules)

    @property
    def _short(self) -> Mapping[str, Figure]:
        """The shortest target of each figure."""
        bare = {figure: name for name, figure in self._figures.targets.items()}
        return {bare.get(figure, figure.target): figure for figure in self._figures.all}

    @property
    def _runs(self) -> dict[str, Run]:
        """Runs by name, and entries with a grid by the first of their runs."""
        runs = [run for study in self._atlas.studies.values() for run in study.runs.values()]
        return {run.entry: run for run in reversed(runs)} | {run.name: run for run in reversed(runs)}

    def _of_name(self, name: str, rules: Collection[str]) -> str:
        if run := self._runs.get(name):
            scores = self._paths.of(run, 0, "metrics/metrics.parquet")
            return f"'{name}' is a run, not a target; ask for a file of it, such as its scores {scores}"
        if name in self._atlas.datasets:
            return f"'{name}' is a data set, not a target; prepared, it is {self._paths.dataset(name)}"
        if name not in self._atlas.studies and (REPOSITORY / "config" / "studies" / f"{name}.yaml").is_file():
            return f"the study '{name}' is not loaded; add it to `studies` in config/config.yaml"
        near = did_you_mean(name, [*rules, *self._runs, *self._atlas.datasets])
        return f"no target '{name}'{near}; `snakemake --list-rules` shows all"

    def _of_path(self, path: str) -> str | None:
        parts, root = Path(path).parts, Path(self._paths.results).parts
        scale = parts[len(root) - 1] if parts[: len(root) - 1] == root[:-1] and len(parts) >= len(root) else ""
        if scale != root[-1]:
            other = scale in get_args(Scale)
            return f"{path} is a file of scale {scale}; add `--config scale={scale}`" if other else None
        match parts[len(root) :]:
            case ("data", name, _, *_):
                return _unknown(path, "data set", name, self._atlas.datasets)
            case ("figures", study, file):
                names = [figure.name for figure in self._figures.all if figure.study == study]
                wrong = _unknown(path, "study", study, self._atlas.studies)
                return wrong or _unknown(path, "figure", Path(file).stem, names)
            case ("gallery", study):
                return _unknown(path, "study", study, self._atlas.studies)
            case (study, run, _, *_) if study not in FOLDERS:
                if wrong := _unknown(path, "study", study, self._atlas.studies):
                    return wrong
                return _unknown(path, "run", run, self._atlas.studies[study].runs)
        return None


def about(figure: Figure) -> str:
    """What a figure shows: the first sentence of its kind's caption."""
    caption = (REPOSITORY / "workflow" / "report" / f"{figure.kind.name}.rst").read_text(encoding="utf-8")
    return " ".join(caption.partition("\n\n")[0].split()).strip("*")


def _line(name: str, text: str | None) -> str:
    return f"{name} ({text})" if text else name


def _unknown(path: str, what: str, name: str, known: Collection[str]) -> str | None:
    """The refusal of a name in a path; None for one that is known."""
    return None if name in known else f"{path}: no {what} '{name}' at this scale{did_you_mean(name, known)}"
