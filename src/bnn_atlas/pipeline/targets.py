"""Targets by name: what each makes, the steps for checking claims, and suggestions for unknown targets."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import get_args

import yaml

from bnn_atlas.claims.plan import claimed_study
from bnn_atlas.config.claims.load import ClaimsConfig, Step, claims_of, figures_of
from bnn_atlas.config.language.base import ConfigError, did_you_mean
from bnn_atlas.config.runs.studies import Run, Scale
from bnn_atlas.config.settings import Atlas
from bnn_atlas.pipeline.claims import claim_targets
from bnn_atlas.pipeline.figures import REPOSITORY, Figure, Figures
from bnn_atlas.pipeline.inputs import Inputs
from bnn_atlas.pipeline.paths import Paths

FOLDERS = (
    "data", "splits", "warmstarts", "tables", "figures", "claims", "site", "so_far", "export", "logs", "benchmarks",
)  # fmt: skip
"""Folders in a scale's results that are not studies."""


def check_studies(atlas: Atlas, rules: Collection[str]) -> None:
    """Reject study names that clash with a rule or results folder, or that are not valid target names.

    Raises ConfigError.
    """
    others = {*rules, *claim_targets(atlas)}
    folded: dict[str, str] = {}
    for study in atlas.studies:
        why = wrong_name(study, others)
        if not why and (same := folded.setdefault(study.casefold(), study)) != study:
            why = f"its name differs from '{same}' in case only, and some file systems take them for one folder"
        if why:
            raise ConfigError(f"config/studies/{study}.yaml: {why}; rename the file, and its entry in `studies`")


def check_mending(targets: Collection[str]) -> None:
    """Reject `mend=true` unless `check` is the only target requested: no other target mends anything.

    Raises ConfigError.
    """
    if {*targets} != {"check"}:
        raise ConfigError(
            f"mend=true works only with the target check, but you requested {', '.join(targets) or 'everything'}; call "
            "`snakemake --cores 2 check --config mend=true`, then the other targets without mend"
        )


def wrong_name(study: str, others: Collection[str]) -> str:
    """Why a study cannot have this name; '' if it can. `others` are the names of rules and other targets."""
    if not re.fullmatch(r"[A-Za-z]\w*", study, re.ASCII):
        return "its name is a target: a letter, then letters, digits and '_'"
    if study in FOLDERS or study in others:
        return f"'{study}' is the name of a rule or of a folder of results"
    meant = yaml.safe_load(study)
    return "" if meant == study else f"in YAML '{study}' means {json.dumps(meant)}"


def steps(claims: Mapping[str, ClaimsConfig], taken: Collection[str] = ()) -> dict[str, dict[str, Step]]:
    """Name of each step -> the studies that define the step -> each study's entry.

    Raises ConfigError if a name is `taken` by another target, or if studies give a step different scales.
    """
    found: dict[str, dict[str, Step]] = {}
    for study, config in claims.items():
        for name, step in config.steps.items():
            if name in taken:
                raise ConfigError(
                    f"config/claims/{study}.yaml: steps.{name}: '{name}' is a target already; rename the step"
                )
            for other, same in found.setdefault(name, {}).items():
                if same.scale != step.scale:
                    raise ConfigError(
                        f"config/claims/{study}.yaml: steps.{name}: it is at scale {step.scale}, and in "
                        f"config/claims/{other}.yaml at {same.scale}; give both the same scale"
                    )
            found[name][study] = step
    return found


def wanted_scale(claims: Mapping[str, ClaimsConfig], argv: Sequence[str]) -> Scale | None:
    """The scale of the step requested on a command line; None if no step is requested, or if a scale is given.

    Raises ConfigError for steps with different scales.
    """
    if any(argument.startswith("scale=") for argument in argv):
        return None
    scales = {step.scale for name, of in steps(claims).items() if name in argv for step in of.values()}
    if len(scales) > 1:
        raise ConfigError(f"these steps are at scales {' and '.join(sorted(scales))}; request them one at a time")
    return scales.pop() if scales else None


def step_inputs(atlas: Atlas, inputs: Inputs, figures: Figures, name: str) -> list[str]:
    """Files that a step needs: tables of the runs behind its claims, tables of these runs' warm starts, and figures.

    Empty at scales other than the step's.
    """
    files: list[str] = []
    for study, step in steps(atlas.claims)[name].items():
        if step.scale != atlas.settings.scale:
            continue
        config = atlas.claims[study]
        chosen = {claim: config.claims[claim] for claim in claims_of(config, name)}
        claimed = claimed_study(atlas.studies[study], config.model_copy(update={"claims": chosen}), step.scale)
        files += [file for run in claimed.runs for file in inputs.tables_of(atlas.studies[study].runs[run])]
        drawn = set(figures_of(config, name))
        files += [file for figure in figures.of(study) if figure.name in drawn for file in figure.outputs]
    return files


def wrong_scale(claims: Mapping[str, ClaimsConfig], name: str, scale: Scale) -> str | None:
    """Error message for a step requested at a scale other than its own; None if the scale is right."""
    of: Iterable[Step] = steps(claims).get(name, {}).values()
    for step in of:
        if step.scale != scale:
            return f"{name} is at scale {step.scale}: leave out scale={scale}, or say scale={step.scale}"
    return None


class Targets:
    """Targets of the loaded studies at one scale."""

    def __init__(
        self, atlas: Atlas, paths: Paths, figures: Figures, runs: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """`runs` maps each run or entry name to the tables built when this name is requested as a target."""
        self._atlas, self._paths, self._figures = atlas, paths, figures
        self.runs = dict(runs or {})

    def figure(self, target: str) -> Figure | None:
        """The figure requested by a target: its bare name, or `<study>_<figure>`."""
        return {figure.target: figure for figure in self._figures.all}.get(target) or self._figures.targets.get(target)

    @property
    def sentences(self) -> dict[str, str]:
        """Name of a figure, a run, an entry or a step -> a sentence for `--list-rules` on what its rule makes."""
        names = {run.name: run for run in self._runs.values()} | self._runs
        said = {
            name: f"Scores of {run.study}. {run.config.description}" for name, run in names.items() if name in self.runs
        }
        said |= {figure.target: f"{figure.study}. {about(figure)}" for figure in self._figures.all}
        said |= {name: f"{figure.study}. {about(figure)}" for name, figure in self._figures.targets.items()}
        return said | {name: self._about_step(name) for name in steps(self._atlas.claims)}

    def refusals(self, targets: Collection[str], rules: Collection[str]) -> str:
        """What is wrong with each of these targets, a line each."""
        return "\n".join(text for target in sorted(targets) if (text := self.refusal(target, rules)))

    def at_its_scale(self, name: str) -> list[str]:
        """Empty input list for a rule available only at some scales; raises ConfigError at other scales."""
        if wrong := self._of_step(name):
            raise ConfigError(wrong)
        return []

    def packed(self, target: str, files: Sequence[str]) -> Sequence[str]:
        """The files of a target, to be packed; ConfigError if there are none."""
        if not files:
            near = did_you_mean(target, [*self._atlas.studies, *self.sentences])
            raise ConfigError(f"what = '{target}': no figure, study or other target that makes results{near}")
        return files

    def refusal(self, target: str, rules: Collection[str]) -> str | None:
        """What is wrong with a target, and what it may have been meant to be; None if nothing is wrong."""
        if target in rules:
            return self._of_step(target)
        if Path(target).exists():
            return None
        return self._of_path(target) if "/" in target else self._of_name(target, rules)

    @property
    def _runs(self) -> dict[str, Run]:
        """Name of each run -> the run; name of each entry with a grid -> its first run."""
        runs = [run for study in self._atlas.studies.values() for run in study.runs.values()]
        return {run.entry: run for run in reversed(runs)} | {run.name: run for run in reversed(runs)}

    def _about_step(self, name: str) -> str:
        """What a step for checking claims does."""
        of = steps(self._atlas.claims)[name]
        number = sum(len(claims_of(self._atlas.claims[study], name)) for study in of)
        takes = "; ".join(dict.fromkeys(step.takes for step in of.values()))
        return f"Check {number} of the papers' claims and print their verdicts: {takes}."

    def _of_step(self, name: str) -> str | None:
        """What is wrong with the scale, if a target needs another one."""
        scale = self._atlas.settings.scale
        if name == "keep" and scale == "demo":
            return "keep is for results on the papers' own data: add `--config scale=laptop` (demo: so_far)"
        return wrong_scale(self._atlas.claims, name, scale)

    def _of_name(self, name: str, rules: Collection[str]) -> str:
        if name in self._atlas.datasets:
            return f"'{name}' is a data set, not a target; prepared, it is {self._paths.dataset(name)}"
        if name not in self._atlas.studies and (REPOSITORY / "config" / "studies" / f"{name}.yaml").is_file():
            return f"the study '{name}' is not loaded; add it to `studies` in config/config.yaml"
        for file in sorted((REPOSITORY / "config" / "studies").glob("*.yaml")):
            if file.stem not in self._atlas.studies and name in _names_of(file):
                return f"'{name}' is of the study '{file.stem}'; add it to `studies` in config/config.yaml"
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
            case ("export", study, file):
                if wrong := _unknown(path, "study", study, self._atlas.studies):
                    return wrong
                run = Path(file).stem.rpartition("-split")[0]
                return _unknown(path, "run", run, self._atlas.studies[study].runs)
            case (study, run, _, *_) if study not in FOLDERS:
                if wrong := _unknown(path, "study", study, self._atlas.studies):
                    return wrong
                return _unknown(path, "run", run, self._atlas.studies[study].runs)
        return None


def about(figure: Figure) -> str:
    """What a figure shows: the first sentence of its kind's caption."""
    caption = (REPOSITORY / "workflow" / "report" / f"{figure.kind.name}.rst").read_text(encoding="utf-8")
    return " ".join(caption.partition("\n\n")[0].split()).strip("*")


def _names_of(study: Path) -> set[str]:
    """Figures and entries of a study's file; none if it cannot be read."""
    with suppress(OSError, yaml.YAMLError):
        if isinstance(written := yaml.safe_load(study.read_text(encoding="utf-8")), dict):
            return {*(written.get("figures") or ()), *(written.get("runs") or ())}
    return set()


def _unknown(path: str, what: str, name: str, known: Collection[str]) -> str | None:
    """Error message if a path contains an unknown name; None if the name is known."""
    return None if name in known else f"{path}: no {what} '{name}' at this scale{did_you_mean(name, known)}"
