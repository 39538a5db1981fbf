"""Read the claims file of a study, expand its families of claims, and check the claims against runs and figures."""

import fnmatch
import inspect
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Field, WithJsonSchema

from bnn_atlas.config.claims.claim import Claim, FigureValue, Published, Side, cannot_agree, cannot_fail
from bnn_atlas.config.language.base import ConfigError, Model, Text, did_you_mean, near_or_all, validated
from bnn_atlas.config.language.reading import Lines, read_yaml, with_lines
from bnn_atlas.config.metrics import ALIGNMENT, CLASSIFICATION, METRICS, PAIRS, PUBLISHED, REGRESSION, SETS
from bnn_atlas.config.parts.evaluation import INTERVAL, OUTSIDE, PublishedBy
from bnn_atlas.config.parts.figures import kinds
from bnn_atlas.config.runs.expansion import leaves
from bnn_atlas.config.runs.studies import REPETITION, Run, Scale, Study, by_name
from bnn_atlas.published import Number, read_published

PLACE = re.compile(r"\{(?!(?:here|here_error)\})(\w+)(?::(words|,))?\}")
"""Placeholders in a text: `{key}`; `{key:words}` with spaces for '_'; `{key:,}` with commas between thousands. The
placeholders `{here}` and `{=...}` are for measured numbers, which `claims.texts` fills in."""
SAMPLE = re.compile(r"_\d+$")
"""End of the name of a data set of which there are several samples, such as `sinusoids_1`."""
OF_PUBLISHED = ("value", "by", "error")
"""Placeholders of a published number: its digits, the digits without the sign, and its printed error."""
MINUS = " - "
"""Separator between the keys of two published numbers of which the difference is taken."""


class Families:
    """The claims of a file, one for each row of `for`, and the place in the file where each claim is written."""

    def __init__(
        self, entries: Mapping[str, Any], fields: Sequence[str], numbers: Mapping[str, Number], where: str
    ) -> None:
        """Expand the entries of a file.

        Args:
            entries: name -> claim, as in the file.
            fields: keys that a claim can have.
            numbers: published numbers of the study by their keys.
            where: the file, for messages.

        Raises:
            ConfigError: wrong rows of `for`, two claims with one name, unknown placeholders in texts, or unknown
                published numbers.
        """
        self.claims: dict[str, Any] = {}
        """Name -> claim, without `for`."""
        self.published: set[str] = set()
        """Keys of the published numbers that claims name."""
        self._written: dict[str, tuple[tuple[Any, ...], dict[str, tuple[Any, ...]]]] = {}
        for entry, data in entries.items():
            place = f"{where}: claims.{entry}"
            if not isinstance(data, dict):
                self.claims[entry] = data
                continue
            is_family = "for" in data
            for path, row in _rows(data["for"], place) if is_family else [((), {})]:
                own = {key: value for key, value in data.items() if key != "for"}
                own |= {key: value for key, value in row.items() if key in fields}
                known = dict(row)
                name = _filled(entry, known, place) if is_family else entry
                if "published" in own:
                    _check_free(row, place)
                _check_used(row, fields, (entry, own), place)
                if "published" in own:
                    keys = _keys(own["published"], known, numbers, place, is_family)
                    self.published.update(keys)
                    own["published"] = _published([numbers[key] for key in keys], known)
                if name in self.claims:
                    raise ConfigError(f"{place}: two claims have the name '{name}': put a key of `for` in it")
                self.claims[name] = _filled(own, known, place) if is_family or "published" in own else own
                self._written[name] = ("claims", entry), {key: ("claims", entry, *path, key) for key in row if path}

    def lines(self, file: Path) -> Lines:
        """The lines of the file, looked up by the names of the claims."""
        return _Lines(file, self)

    def place(self, keys: Sequence[Any]) -> list[Any]:
        """Keys of the file under which the value at a path such as `claims.one_of_a_family.bound` is written."""
        if len(keys) > 1 and keys[0] == "claims" and keys[1] in self._written:
            entry, of_row = self._written[keys[1]]
            field = of_row.get(keys[2]) if len(keys) > 2 else None
            return [*field, *keys[3:]] if field else [*entry, *keys[2:]]
        return list(keys)


class _Lines(Lines):
    def __init__(self, file: Path, families: Families) -> None:
        super().__init__(file)
        self._families = families

    def __call__(self, keys: Sequence[Any]) -> tuple[int, int]:
        return super().__call__(self._families.place(keys))

    def of_name(self, name: str) -> tuple[int | None, bool]:
        return super().of_name(".".join(map(str, self._families.place(name.split(".")))))


def _rows(given: Any, where: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Each row with its path below the claim: the rows of a list, or all combinations of a section of lists."""
    if isinstance(given, list) and given and all(isinstance(row, dict) and row for row in given):
        yield from ((("for", number), row) for number, row in enumerate(given))
    elif isinstance(given, dict) and given and all(isinstance(values, list) and values for values in given.values()):
        yield from (((), dict(zip(given, row, strict=True))) for row in itertools.product(*given.values()))
    else:
        raise ConfigError(
            f"{where}.for: give rows, such as [{{ set: airfoil, bound: 0.1 }}, {{ set: concrete, bound: 0.2 }}], "
            "or lists to take all combinations, such as { set: [airfoil, concrete], seed: [1, 2] }"
        )


def _check_used(row: Mapping[str, Any], fields: Sequence[str], texts: Any, where: str) -> None:
    """Reject keys of `for` that are neither a field of a claim nor a placeholder in one of its texts."""
    used = {match[1] for match in PLACE.finditer(repr(texts))}
    for key in row:
        if key not in fields and key not in used:
            near = did_you_mean(key, fields)
            raise ConfigError(
                f"{where}.for: '{key}' is not a key of a claim{near}, and no text of this claim contains {{{key}}}"
            )


def _check_free(row: Mapping[str, Any], where: str) -> None:
    """Reject keys of `for` that the published number of the claim would overwrite."""
    for key in OF_PUBLISHED:
        if key in row:
            what = f"'{key}' stands for the published number of this claim ({{{key}}})"
            raise ConfigError(f"{where}.for: {what}; use another name, such as '{key}_here'")


def _keys(
    given: Any, known: Mapping[str, Any], numbers: Mapping[str, Number], where: str, is_family: bool
) -> list[str]:
    """The keys of the published number of a claim, or of the two of which it is the difference."""
    if not isinstance(given, str):
        raise ConfigError(f"{where}.published = {given!r}: give the key of a published number, as text")
    found = str(_filled(given, known, where) if is_family else given).split(MINUS)
    for name in found:
        if name not in numbers:
            near = did_you_mean(name, numbers)
            raise ConfigError(f"{where}.published: no number '{name}' in config/published{near}; add a row for it")
    if len(found) > 2:
        raise ConfigError(f"{where}.published: give one number or the difference of two, not {len(found)} numbers")
    return found


def _published(found: Sequence[Number], known: dict[str, Any]) -> dict[str, Any]:
    """The published number of a claim; `known` receives its text, its text without the sign, and its error's text."""
    value: Decimal = found[0].value - found[1].value if len(found) > 1 else found[0].value
    error, of_mean, reading = (_both(found, name) for name in ("error", "of_mean", "read_off"))
    printed = found[0].error if len(found) == 1 else None
    known |= {"value": value, "by": abs(value)} | ({} if printed is None else {"error": printed})
    text = f"~{value}" if reading is not None else str(value)
    if error is not None:
        digits = max(0, -int(value.as_tuple().exponent))
        spread = f"{error:.{digits}f}" if printed is None else str(printed)
        is_sd = all(number.repetitions for number in found if number.error is not None)
        text += f" (sd {spread})" if is_sd else f" ± {spread}"
    text = text.replace("-", "\N{MINUS SIGN}")
    return {"value": float(value), "error": error, "of_mean": of_mean, "reading": reading, "text": text}


def _both(numbers: Sequence[Number], error: str) -> float | None:
    """An error of one number, or the root of the sum of two squared errors; None if no number has this error."""
    known = [float(size) for number in numbers if (size := getattr(number, error)) is not None]
    return math.hypot(*known) if known else None


def _filled(value: Any, known: Mapping[str, Any], where: str) -> Any:
    """A value with the places in all its texts filled."""
    if isinstance(value, dict):
        return {key: _filled(part, known, where) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, known, where) for part in value]
    if not isinstance(value, str):
        return value

    def text(match: re.Match[str]) -> str:
        key, form = match.groups()
        if key not in known:
            raise ConfigError(f"{where}: {match[0]} is not a known placeholder{near_or_all(key, 'known are', known)}")
        if form == ",":
            return f"{known[key]:,}"
        return str(known[key]).replace("_", " ") if form else str(known[key])

    return PLACE.sub(text, value)


TASKS = {
    **{metric.name: "regression" for metric in REGRESSION},
    **{metric.name: "classification" for metric in (*CLASSIFICATION, *SETS, *PUBLISHED)},
    **dict.fromkeys(("rmse_linear", "lppd_sommer", "calibration_error_sommer"), "regression"),
}
"""Metric -> the only task that has it; others are in the tables of both."""
TASKS.pop("elpd_diff")
TASKS["function_sd"] = "regression"
COMPARED = ("agreement", "agreement_cross_fitted", "elpd_diff", "total_variation", "total_variation_cross_fitted")
"""Metrics of a run and a reference, which the column `at` names."""
LPPD_SOMMER = ("deep_ensemble", "laplace", "mean_field")
"""Methods whose LPPD the published scorer of Sommer et al. 2025 gets wrong where all rows have one noise level."""
OF_PAIRS = {metric.name for metric in PAIRS}
FUNCTION_SD = "function_sd"
"""Metric of an interval of the input."""
DETECTION = {
    metric.name
    for metric in (*SETS, *PUBLISHED)
    if metric.name.startswith(("auroc_", "fpr95_")) or "_ood" in metric.name
}
"""Metrics that tell an out-of-distribution set from the test rows."""
ALIGNED = {metric.name for metric in ALIGNMENT}
"""Metrics of an alignment, which the column `at` names before a slash."""


def never_measured(metric: str, at: str, dataset: str | None, run: Run, study: Study) -> str:
    """Why a run cannot have a metric, whatever it samples, and what to do; empty where it can.

    `at` is what the metric is taken at, and `dataset` the set of the rows, None for the test rows.
    """
    task = "classification" if run.config.likelihood.kind == "categorical" else "regression"
    if TASKS.get(metric, task) != task:
        return f"it is measured only for a {TASKS[metric]}, and run '{run.name}' is a {task}"
    author = metric.rpartition("_")[2]
    if author in get_args(PublishedBy) and author not in study.config.published:
        return (
            f"it is measured only in studies with `published: [{author}]`; add that to config/studies/{study.name}.yaml"
        )
    method = run.config.method.kind
    if metric == "lppd_sommer" and method not in LPPD_SOMMER:
        return f"it is measured only for {', '.join(LPPD_SOMMER)}, and the method of run '{run.name}' is {method}"
    if metric == "lppd_sommer" and run.config.likelihood.kind == "heteroscedastic":
        return f"it needs one noise level for all rows, but run '{run.name}' learns a noise level for each row"
    if metric in OF_PAIRS and run.config.evaluate.barriers is None:
        return f"it is measured only for runs with evaluate.barriers; run '{run.name}' has none"
    aligned = [name for name, one in study.config.alignments.items() if one.run in (run.name, run.entry)]
    if metric in ALIGNED and at.partition("/")[0] not in aligned:
        return f"it is measured for an alignment; run '{run.name}' has {', '.join(aligned) or 'none'}, not '{at}'"
    references = run.config.evaluate.references
    if metric in COMPARED and at not in references:
        has = f"has {', '.join(references)}" if references else "has none"
        return f"it is measured against a reference of evaluate.references; run '{run.name}' {has}, not '{at}'"
    on_interval = (dataset or "").partition("/")[2].startswith(INTERVAL)
    if (metric == FUNCTION_SD) != on_interval:
        if on_interval:
            return f"on an interval of the input only {FUNCTION_SD} is measured"
        sets = [f"{run.config.dataset}/{INTERVAL}{name}" for name in run.config.evaluate.intervals]
        there = ", ".join(sets) or "none: give it evaluate.intervals"
        return f"it is measured on an interval of the input; set `dataset` to an interval; '{run.name}' has {there}"
    outside = (dataset or "").partition("/")[2].startswith(OUTSIDE)
    if metric in DETECTION and not outside:
        sets = [f"{run.config.dataset}/{OUTSIDE}{name}" for name in run.config.evaluate.out_of_distribution]
        there = ", ".join(sets) or "none: give it evaluate.out_of_distribution"
        need = "it is measured on out-of-distribution rows; set `dataset` to such a set;"
        return f"{need} '{run.name}' has {there}"
    if outside and metric not in DETECTION:
        return f"it is not measured on out-of-distribution rows, only {', '.join(sorted(DETECTION))}"
    return ""


NAMES = ("description", "chains_per_block", "keep_draws")
"""Fields that change no result."""


class FindingEntry(Model):
    """What a reader takes away from the paper; the claims that support it refer to it by name."""

    statement: Text
    """The paper's finding in one sentence."""
    main: str | None = None
    """The claim that decides the finding and supplies its number and place; null: the first claim in the file that
    supports the finding."""
    caveat: Text | None = None
    """A warning about the verdict that readers should see, in one sentence."""


class StepEntry(Model):
    """Claims that are checked together; the step's name is a target, such as `snakemake --cores 2 evaluate`."""

    takes: Text
    """How long the step takes, for readers, such as `ten minutes on two cores`."""
    scale: Scale = "laptop"
    """The scale at which the step runs, whatever the scale in config/config.yaml; all studies that have the step must
    give the same scale."""
    includes: tuple[str, ...] = ()
    """Earlier steps whose claims this step also checks."""


def _as_written(schema: dict[str, Any]) -> None:
    """Describe a claim as written in a file: with `for`, whose rows supply the keys that the claim leaves out."""
    rows = {"items": {"minProperties": 1, "type": "object"}, "minItems": 1, "type": "array"}
    lists = {"additionalProperties": {"minItems": 1, "type": "array"}, "minProperties": 1, "type": "object"}
    text = """
        Makes several claims: one for each section (row) in a list of sections, or one for each combination of the
        entries in a section of lists. Keys of a row that are keys of a claim, such as `bound`, set that key; all others
        fill the placeholders in the claim's name and texts: `{set}`, `{set:words}` (with spaces for underscores),
        `{chains:,}` (with commas between thousands)."""
    schema["properties"]["for"] = {"anyOf": [rows, lists], "default": None, "description": inspect.cleandoc(text)}
    del schema["required"]


class ClaimEntry(Claim):
    """One statement of a paper that a metric can test or, with `for`, a family of such statements."""

    model_config = ConfigDict(json_schema_extra=_as_written)

    published: Annotated[Published | None, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})] = None
    """Key of a number in config/published/<study>.csv; two keys with ` - ` between them mean the difference of the two
    numbers. Texts of the claim show the number as `{value}` and its printed error as `{error}`."""


class ClaimsFile(Model):
    """One file in config/claims."""

    paper: Text
    """Citation for claims that name no other."""
    could_be_read: Text | None = None
    """What of the paper could be read, where its numbers come from, if its text could not be read, and what no claim is
    about although it was read; the study's page begins with it."""
    findings: dict[str, FindingEntry] = Field(default_factory=dict)
    """Name -> finding. The results page begins with these (about ten); claims refer to them by name."""
    no_claim: dict[str, Text] = Field(default_factory=dict)
    """Key of a published number -> why no claim is about it. `*` in a key stands for any text, `[ab]` for a or b."""
    steps: dict[str, StepEntry] = Field(default_factory=dict)
    """Target -> step. Each step checks some of the claims; list the quickest step first."""
    claims: dict[str, ClaimEntry]
    """Name -> claim."""


class Finding(Model):
    """What a reader takes away from the paper, and the claims that support it."""

    name: str
    statement: str
    claims: tuple[str, ...]
    """Names of the claims; the first is the main claim, which decides the finding."""
    caveat: str | None = None


class Step(Model):
    """Claims that are checked together."""

    takes: str
    scale: Scale = "laptop"
    includes: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    """The step's own claims, without the claims of the steps that it includes."""


class ClaimsConfig(Model):
    """The claims of a study, with families expanded."""

    paper: str
    could_be_read: str | None = None
    no_claim: dict[str, str] = Field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    steps: dict[str, Step] = Field(default_factory=dict)
    claims: dict[str, Claim]
    families: dict[str, str] = Field(default_factory=dict)
    """Claim -> the entry in the file that it was made from."""


def load_claims(path: Path, study: Study) -> ClaimsConfig:
    """Read the claims of a study.

    Published numbers are taken from `published/<study>.csv` next to the folder of the file. Names refer to the scale
    `paper`: a claim may name a run that a smaller scale leaves out, and is not run at that scale. Raises ConfigError
    for a run, a figure, a data set or a number of chains or draws that the study does not have; for runs that are not
    repetitions of one setting; for a metric that does not exist or that these runs cannot have; for a claim that leans
    on runs that do not contribute to its number, or takes a later claim as given; for a published number, a finding or
    a step that does not exist; for a finding without claims; and for a step whose scale cannot answer its claims.
    """
    data = read_yaml(path)
    entries = data.get("claims") if isinstance(data, dict) else None
    if not isinstance(entries, dict):
        validated(ClaimsFile, data, str(path), Lines(path))
        raise AssertionError("a file without claims is rejected")
    with with_lines(path):
        families = Families(entries, tuple(ClaimEntry.model_fields), _numbers(path), str(path))
    file = validated(ClaimsFile, data | {"claims": families.claims}, str(path), families.lines(path))
    with with_lines(path, lines=families.lines):
        _check_no_claim(file.no_claim, _numbers(path), families.published, path)
        claims = _whole(file, path, {name: str(families.place(["claims", name])[1]) for name in families.claims})
        _check(claims, study, path)
    return claims


def _numbers(path: Path) -> Mapping[str, Number]:
    try:
        return read_published(path.parent.parent / "published" / f"{path.stem}.csv")
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _whole(file: ClaimsFile, path: Path, families: dict[str, str]) -> ClaimsConfig:
    """The configuration with each finding and step listing the claims that name it."""
    for name, claim in file.claims.items():
        for what, there in (("finding", file.findings), ("step", file.steps)):
            if (named := getattr(claim, what)) is not None and named not in there:
                near = near_or_all(named, "there are", there)
                raise ConfigError(f"{path}: claims.{name}.{what}: no {what} '{named}' in this file{near}")
    findings = []
    for name, finding in file.findings.items():
        of = [claim for claim, entry in file.claims.items() if entry.finding == name]
        if not of:
            raise ConfigError(f"{path}: findings.{name}: no claim supports it; write `finding: {name}` in a claim")
        if finding.main is not None and finding.main not in of:
            near = near_or_all(finding.main, "they are", of)
            raise ConfigError(f"{path}: findings.{name}.main: '{finding.main}' is not one of its claims{near}")
        of.sort(key=lambda claim: claim != finding.main)
        findings.append(Finding(name=name, claims=tuple(of), **finding.model_dump(exclude={"main"})))
    steps = {
        name: Step(
            claims=tuple(claim for claim, entry in file.claims.items() if entry.step == name), **step.model_dump()
        )
        for name, step in file.steps.items()
    }
    claims = {
        name: Claim(**{key: getattr(entry, key) for key in entry.model_fields_set})
        for name, entry in file.claims.items()
    }
    return ClaimsConfig(
        paper=file.paper,
        could_be_read=file.could_be_read,
        no_claim=file.no_claim,
        findings=tuple(findings),
        steps=steps,
        claims=claims,
        families=families,
    )


def _check_no_claim(given: Mapping[str, str], numbers: Mapping[str, Number], claimed: set[str], path: Path) -> None:
    """Reject keys without a claim that no published number has, or that a claim names."""
    for key in given:
        found = fnmatch.filter(numbers, key)
        if not found:
            near = did_you_mean(key, numbers)
            raise ConfigError(f"{path}: no_claim.{key}: no such number in config/published{near}")
        if both := sorted(claimed.intersection(found)):
            raise ConfigError(f"{path}: no_claim.{key}: a claim is about '{both[0]}'; take it out of no_claim")


def _check(claims: ClaimsConfig, study: Study, path: Path) -> None:
    """Make the checks of `load_claims` that concern single claims."""
    paper = by_name(study.runs_at["paper"])
    found = []
    for name, claim in claims.claims.items():
        runs = [run for each in _named(claim) for run in paper.get(each, ())]
        classes = bool(runs) and all(run.config.likelihood.kind == "categorical" for run in runs)
        others = [run for run in runs if run.config.problem != "as_published"]
        if claim.relation == "equals" and claim.published and others:
            why = f"'{others[0].name}' has problem '{others[0].config.problem}'"
            found.append(
                f"{path}: claims.{name}.published: only runs of the paper's own problem can equal its number, but "
                f"{why}: use another relation, or set the run's problem to as_published if all settings are the paper's"
            )
        elif why := cannot_fail(claim, classes) or cannot_agree(claim):
            found.append(f"{path}: claims.{name}: {why}")
    if found:
        raise ConfigError("\n".join(found))
    for name, claim in claims.claims.items():
        for key, side in claim.sides.items():
            if side.in_figure is not None:
                continue
            _check_runs(side.runs, study, f"{path}: claims.{name}.{key}")
            _check_rows(side, study, f"{path}: claims.{name}{'.than' if key == 'than.runs' else ''}")
        sides = [
            side._replace(runs=tuple(sorted({run.name for each in side.runs for run in paper[each]})))
            for side in claim.sides.values()
        ]
        if sides[1:] == sides[:1]:
            raise ConfigError(f"{path}: claims.{name}.than: these are the claim's own runs; name others")
        figures = study.config.figures
        if claim.figure is not None and claim.figure not in figures:
            raise ConfigError(
                f"{path}: claims.{name}.figure: no figure '{claim.figure}' in study '{study.name}'"
                f"{near_or_all(claim.figure, 'it has', figures)}"
            )
        for key, side in claim.sides.items():
            if side.in_figure is not None and claim.figure is not None:
                own = f"{path}: claims.{name}.{'than.' if key == 'than.runs' else ''}in_figure"
                _check_columns(side.in_figure, claim.figure, study, own)
        if claim.leans_on:
            _check_leans_on(claim, study, f"{path}: claims.{name}.leans_on")
        if claim.given is not None:
            _check_given(claim.given, name, claims, f"{path}: claims.{name}.given")
    check_steps(claims, study, path)


def _check_runs(names: tuple[str, ...], study: Study, where: str) -> None:
    """Reject runs that the scale `paper` does not have, and runs that differ in more than their seeds."""
    paper = study._replace(runs=study.runs_at["paper"])
    found = by_name(paper.runs)
    for name in names:
        if name not in found:
            entries = sorted(study.config.runs)
            hint = near_or_all(name, "it has", entries, paper.runs)
            raise ConfigError(f"{where}: no run '{name}' in study '{study.name}'{hint}")
    for runs in (paper.runs_of(names), study.runs_of(names)):
        first = _settings(runs[0]) if len(runs) > 1 else {}
        for run in runs[1:]:
            if fields := _differences(first, _settings(run)):
                raise ConfigError(
                    f"{where}: '{runs[0].name}' and '{run.name}' differ in {', '.join(fields)}; runs of a claim may "
                    f"differ in {' and '.join(REPETITION)} only (or in the sample of the data: name_1, name_2)"
                )


def _check_columns(value: FigureValue, figure: str, study: Study, where: str) -> None:
    """Reject columns that the CSV file of a figure does not have."""
    kind = kinds()[study.config.figures[figure].draw or figure]
    for key, column in (("column", value.column), *((f"where.{column}", column) for column in value.where)):
        if column not in kind.columns:
            near = near_or_all(column, "it has", kind.columns)
            raise ConfigError(f"{where}.{key} = '{column}': {figure}.csv has no such column{near}")


def _check_leans_on(claim: Claim, study: Study, where: str) -> None:
    """Reject runs that do not contribute to the claim's number, and methods without chains that could converge."""
    names = study.config.figures[claim.figure or ""].runs if claim.in_figure else _named(claim)
    behind = {run.name: run for run in study._replace(runs=study.runs_at["paper"]).runs_of(names)}
    for name in claim.leans_on or ():
        found = [run for run in behind.values() if name in (run.name, run.entry)]
        if not found:
            whose = f"'{claim.figure}' does not show" if claim.in_figure else "the claim does not name"
            raise ConfigError(f"{where}: {whose} the run '{name}'{near_or_all(name, 'there are', behind)}")
        if not found[0].config.method.kind_of_draws.are_chain:
            raise ConfigError(f"{where}: '{name}' has no Markov chains that could converge; leave it out")


def _check_given(given: str, name: str, claims: ClaimsConfig, where: str) -> None:
    """Reject a given claim that does not come before this one, so that no claim depends on itself."""
    before = list(claims.claims)[: list(claims.claims).index(name)]
    if given not in before:
        raise ConfigError(f"{where}: no claim '{given}' before this one{near_or_all(given, 'these are', before)}")


def _named(claim: Claim) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for side in claim.sides.values() for name in side.runs))


def _check_rows(side: Side, study: Study, where: str) -> None:
    """Reject a data set, level, metric, or number of chains or draws that the tables of scale `paper` cannot have."""
    metric = METRICS[side.metric]
    if bool(side.at) != bool(metric.at):
        name = f"'{metric.name}'"
        wanted = f"{name} needs one, its {metric.at}" if metric.at else f"{name} has no level; leave `at` out"
        raise ConfigError(f"{where}.at = '{side.at}': {wanted}")
    for run in study._replace(runs=study.runs_at["paper"]).runs_of(side.runs):
        config = run.config
        sets = [config.dataset, *(f"{config.dataset}/{name}" for name in config.evaluate.sets)]
        if side.dataset is not None and side.dataset not in sets:
            raise ConfigError(
                f"{where}.dataset = '{side.dataset}': run '{run.name}' has no such set"
                f"{near_or_all(side.dataset, 'it has', sets)}"
            )
        if why := never_measured(metric.name, side.at, side.dataset, run, study):
            raise ConfigError(f"{where}.metric = '{metric.name}': {why}")
        kept = {"chains": config.chains, "draws": run.draws}
        for key, most in kept.items():
            if (wanted := getattr(side, key)) is not None and wanted > most:
                raise ConfigError(f"{where}.{key} = {wanted}: run '{run.name}' has {most:,} {key}")


def _settings(run: Run) -> dict[str, Any]:
    """Dotted name -> value of the settings that have to be the same in all repetitions."""
    dump = dict(leaves(run.config.model_dump(mode="json"))) | {"dataset": SAMPLE.sub("", run.config.dataset)}
    return {key: value for key, value in dump.items() if key not in REPETITION + NAMES}


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Names of the settings in which two runs differ."""
    return [key for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]


def claims_of(config: ClaimsConfig, step: str) -> list[str]:
    """Names of the claims of a step and of the steps that it includes, in the order of the file."""
    chosen = {claim for name in _with_included(config.steps, step) for claim in config.steps[name].claims}
    return [claim for claim in config.claims if claim in chosen]


def figures_of(config: ClaimsConfig, step: str) -> list[str]:
    """Names of the figures that a step draws: the figures that hold numbers of its claims."""
    found = [config.claims[name].figure for name in claims_of(config, step) if config.claims[name].in_figure]
    return list(dict.fromkeys(figure for figure in found if figure))


def check_steps(config: ClaimsConfig, study: Study, path: object) -> None:
    """Reject steps that include unknown steps or have no claims, and claims that the scale of a step cannot answer.

    Raises a ConfigError that names the file, the key, and what is allowed.
    """
    before: list[str] = []
    for name, step in config.steps.items():
        where = f"{path}: steps.{name}"
        if not re.fullmatch(r"[a-z]\w*", name):
            raise ConfigError(f"{where}: a step's name is a target: a small letter, then letters, digits and '_'")
        if not (step.claims or step.includes):
            raise ConfigError(f"{where}: this step checks nothing; write `step: {name}` in some claims")
        for other in step.includes:
            if other not in before:
                near = near_or_all(other, "there are", before)
                raise ConfigError(f"{where}.includes: no step '{other}' before it{near}")
            if config.steps[other].scale != step.scale:
                raise ConfigError(
                    f"{where}.includes: '{other}' is at scale {config.steps[other].scale}, not {step.scale}; "
                    "give both the same scale"
                )
        for claim in step.claims:
            if why := _unanswered(config.claims[claim], study, step.scale):
                raise ConfigError(
                    f"{path}: claims.{claim}.step: scale {step.scale} of step '{name}' cannot answer the claim: "
                    f"{why}; leave the step out"
                )
        before.append(name)


def _with_included(steps: Mapping[str, Step], name: str) -> list[str]:
    """A step and all steps that it includes, the included steps first."""
    inner = [one for other in steps[name].includes for one in _with_included(steps, other)]
    return list(dict.fromkeys([*inner, name]))


def _drawn(figure: str, study: Study, scale: Scale) -> bool:
    return figure in study.config.taking_part(study.config.figures, scale)


def _unanswered(claim: Claim, study: Study, scale: Scale) -> str:
    """Why a scale cannot answer a claim; empty if it can. With other data, a scale answers only our own questions."""
    if claim.in_figure is not None:
        return "" if _drawn(claim.figure or "", study, scale) else f"it does not draw '{claim.figure}'"
    runs, paper = by_name(study.runs_at[scale]), by_name(study.runs_at["paper"])
    for side in claim.sides.values():
        for name in side.runs:
            if not runs.get(name):
                return f"it does not run '{name}'"
            for run in runs[name]:
                if claim.read_in != "own" and run.config.dataset not in _datasets(paper[name]):
                    return f"it runs '{name}' on other data ({run.config.dataset})"
                if side.chains is not None and run.config.chains < side.chains:
                    return f"'{name}' has {run.config.chains:,} chains there, not {side.chains:,}"
    return ""


def _datasets(runs: list[Run]) -> set[str]:
    return {run.config.dataset for run in runs}
