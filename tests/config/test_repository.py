"""The repository's own config/ and its JSON schemas."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bnn_atlas.config.claims.claim import cannot_fail
from bnn_atlas.config.data.datasets import DatasetEntry, load_registry
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.language.reading import read_yaml
from bnn_atlas.config.methods.registry import METHODS
from bnn_atlas.config.pages.configuration import Reference
from bnn_atlas.config.pages.schema import MODELS, schema, write_schemas
from bnn_atlas.config.runs.studies import legend_texts, shown_runs
from bnn_atlas.config.settings import load_atlas, load_studies
from bnn_atlas.published import published_numbers, read_published
from tests.copies import PUBLISHED, REPOSITORY

CONFIG = REPOSITORY / "config"
SCHEMAS = REPOSITORY / "workflow" / "schemas"
FILES = {
    "config": [CONFIG / "config.yaml"],
    "datasets": [CONFIG / "datasets.yaml"],
    "study": [CONFIG / "studies" / f"{name}.yaml" for name in PUBLISHED],
    "claims": [CONFIG / "claims" / f"{name}.yaml" for name in PUBLISHED],
}
OF_FILES = ("rmse", "nll_moment_matched", "lppd_cumulative_chains")
"""Metrics of the published result files and tables."""
STUDY = "sampling_perspective"
PACKAGE = {
    (one.label, one.metric): (float(one.value), float(one.error or 0))
    for one in published_numbers(STUDY, "bde")
    if one.metric in OF_FILES
}
"""Means of the package's tables, with their standard deviations."""
CURVES: dict[str, dict[int, tuple[float, float]]] = {}
"""Published LPPD by number of chains, with its standard deviation over orders of the chains."""
for one in published_numbers(STUDY, "curves"):
    if one.metric == "lppd":
        CURVES.setdefault(one.label, {})[int(one.x)] = float(one.value), float(one.error or 0)
PAIRS = [(name, path) for name, paths in FILES.items() for path in paths]


@pytest.mark.parametrize("name", MODELS)
def test_schema_in_the_repository_is_that_of_the_models(name: str) -> None:
    written = (SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")
    assert written == schema(name), "run `python -m bnn_atlas.config.pages.schema` after changing a configuration model"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return Reference(CONFIG).pages()


def test_pages_of_the_configuration_are_those_of_the_models_and_of_config(pages: dict[str, str]) -> None:
    written = {
        path.name: path.read_text(encoding="utf-8") for path in (REPOSITORY / "docs" / "configuration").iterdir()
    }
    assert written == pages, "run `make schema` after changing a configuration model, or an example in config/"


def test_every_method_has_a_heading_and_a_row(pages: dict[str, str]) -> None:
    for kind, record in METHODS.items():
        assert f"\n## `{kind}`\n" in pages["methods.md"]
        assert f"| [`{kind}`](#{kind}) | {record.title} | " in pages["methods.md"]


def test_every_definition_is_on_a_page(pages: dict[str, str]) -> None:
    text = " ".join(" ".join(pages.values()).replace("\\|", "|").split())
    for model in MODELS.values():
        for definition in model.model_json_schema().get("$defs", {}).values():
            if "properties" in definition:
                assert " ".join(definition.get("description", "").split()) in text


def test_links_between_pages_lead_to_headings(pages: dict[str, str]) -> None:
    headings = {}
    for name, text in pages.items():
        found = [re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"(?m)^#+ (.+)$", text)]
        headings[name] = {f"{one}-{found[:i].count(one)}" if one in found[:i] else one for i, one in enumerate(found)}
    for name, text in pages.items():
        for file, anchor in re.findall(r"\]\(([\w.]*)#([\w-]+)\)", text):
            assert anchor in headings[file or name]


def test_bounds_against_mistakes_are_not_shown(pages: dict[str, str]) -> None:
    assert "| `step_size` | number > 0 | **required** |" in pages["methods.md"]
    assert not re.search(r"(number|and) [<>≤≥] \S*e[-+]\d", "".join(pages.values()))


@pytest.mark.parametrize(("name", "path"), PAIRS, ids=[str(path.relative_to(CONFIG)) for _, path in PAIRS])
def test_editors_find_the_schema_of_a_file(name: str, path: Path) -> None:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    prefix = "# yaml-language-server: $schema="
    assert first.startswith(prefix)
    assert (path.parent / first.removeprefix(prefix)).resolve() == SCHEMAS / f"{name}.schema.json"


def test_schemas_are_written(tmp_path: Path) -> None:
    write_schemas(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in SCHEMAS.iterdir()}


@pytest.mark.parametrize(("name", "path"), PAIRS, ids=[str(path.relative_to(CONFIG)) for _, path in PAIRS])
def test_files_meet_their_schemas(name: str, path: Path) -> None:
    contract = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(contract)
    jsonschema.Draft202012Validator(contract).validate(read_yaml(path))


def test_schema_refuses_what_the_models_refuse() -> None:
    contract = jsonschema.Draft202012Validator(json.loads(schema("study")))
    study: Any = read_yaml(CONFIG / "studies" / "sampling_perspective.yaml")
    assert contract.is_valid(study)
    study["runs"]["airfoil_hmc"]["method"]["step_size"] = -1
    study["runs"]["airfoil_mile"]["chian"] = 3
    found = {error.message for error in contract.iter_errors(study)}
    assert any("chian" in message for message in found)
    assert any("-1" in message for message in found)


@pytest.mark.parametrize("scale", ["demo", "laptop", "paper"])
def test_config_loads_at_every_scale(scale: str) -> None:
    atlas = load_atlas({"scale": scale, "studies": PUBLISHED}, CONFIG)
    assert set(atlas.studies) == set(PUBLISHED)
    for study in atlas.studies.values():
        for run in study.runs.values():
            assert run.scale == scale
            assert run.config.dataset in atlas.datasets
            assert scale != "paper" or not run.reductions
            assert scale != "demo" or not atlas.datasets[run.config.dataset].files, "demo needs no network"


@pytest.mark.parametrize("scale", ["demo", "laptop"])
@pytest.mark.parametrize("path", FILES["study"], ids=lambda path: path.stem)
def test_scales_only_reduce_the_number_of_chains(path: Path, scale: str) -> None:
    runs = load_atlas({"studies": [path.stem], "scale": scale}, CONFIG).studies[path.stem].runs
    changes = [(name, text.split()) for name, run in runs.items() for text in run.reductions]
    found = {name: (int(words[1]), int(words[3])) for name, words in changes if words[0] == "chains:"}
    assert found
    assert not {name: counts for name, counts in found.items() if counts[1] > counts[0]}


def test_default_settings_are_the_demo() -> None:
    assert load_atlas(read_yaml(CONFIG / "config.yaml"), CONFIG).settings.scale == "demo"


def test_every_study_file_is_reachable() -> None:
    for path in FILES["study"]:
        load_atlas({"studies": [path.stem]}, CONFIG)
    with pytest.raises(ConfigError, match=r"no such study; there are .*sampling_perspective"):
        load_atlas({"studies": ["sampling"]}, CONFIG)


def test_every_published_score_has_a_claim_whose_size_is_two_published_deviations() -> None:
    """The rules in the head of the claims' file."""
    claims = load_atlas({"scale": "laptop"}, CONFIG).claims[STUDY].claims
    found = {
        (c.runs[0], c.metric, c.chains): c.size
        for c in claims.values()
        if c.relation == "equals" and not c.than and c.metric in OF_FILES
    }
    assert found.pop(("airfoil_scale", "rmse", None)) == pytest.approx(0.005 * 0.14222513, abs=6e-5)
    wanted = {
        (run, metric, None): 2 * sd * (5**0.5 if run.endswith("ensemble") else 1)
        for (run, metric), (_, sd) in PACKAGE.items()
    }
    assert len(wanted) == 8
    for run, points in CURVES.items():
        deviation = 0.0
        for chains, (_, sd) in points.items():
            deviation = sd or deviation
            wanted[run, "lppd_cumulative_chains", chains] = max(0.005, 2 * deviation)
    assert found == pytest.approx(wanted, abs=6e-5)


def test_sizes_of_differences_have_the_limits_of_both_values() -> None:
    claims = load_atlas({"scale": "laptop"}, CONFIG).claims["sampling_perspective"].claims
    limits = {(c.runs, c.metric): c.size for c in claims.values() if (*c.runs, c.metric) in PACKAGE and not c.than}
    checked = 0
    for name, c in claims.items():
        if name.endswith("below_ensemble"):
            assert c.than is not None
            own, other = limits[c.runs, c.metric], limits[c.than.runs or (), c.metric]
            assert c.size == pytest.approx(math.hypot(own or 0, other or 0), abs=0.0007), name
            checked += 1
    assert checked == 4


def test_claims_can_fail_and_name_a_figure() -> None:
    for claims in load_atlas({"scale": "laptop"}, CONFIG).claims.values():
        for name, c in claims.claims.items():
            assert cannot_fail(c) == "", name
            drawn = c.metric in ("lppd_cumulative_chains", "rmse", "prior_distance") and c.runs != ("bikesharing_nuts",)
            assert c.figure or not drawn or c.step == "checks", f"{name}: no figure shows it"
            assert not any(run.endswith("_splits") for run in c.runs), f"{name}: other rows than the paper's"
            assert c.relation != "above" or c.metric != "lppd_cumulative_chains" or c.size, f"{name}: it cannot fail"


def test_the_page_of_results_has_a_few_findings_of_the_papers_and_of_this_project() -> None:
    claims = load_atlas({"scale": "paper"}, CONFIG).claims["sampling_perspective"]
    own = [claims.claims[finding.claims[0]].read_in == "own" for finding in claims.findings]
    assert (5 <= own.count(False) <= 7, 3 <= own.count(True) <= 5) == (True, True)
    for finding in claims.findings:
        main = claims.claims[finding.claims[0]]
        assert main.figure, finding.statement


def test_claims_have_the_entry_of_their_file_as_family() -> None:
    claims = load_atlas({"scale": "paper", "studies": ["permutation_symmetry"]}, CONFIG).claims["permutation_symmetry"]
    assert claims.families["hmc_accuracy_value"] == claims.families["mean_field_mean_accuracy_value"] == "{name}_value"
    assert claims.families["transpositions_within_a_chain"] == "transpositions_within_a_chain"


def test_figures_of_the_page_of_results_have_headings_in_words() -> None:
    for study in load_atlas({"scale": "paper"}, CONFIG).studies.values():
        titles = [figure.title for figure in study.figures.values()]
        assert None not in titles
        assert len(set(titles)) == len(titles)


def test_what_is_only_said_of_a_data_set_is_no_matter_of_its_jobs() -> None:
    """So that a better note makes nothing again."""
    entry = load_registry(CONFIG / "datasets.yaml")["airfoil"]
    said = entry.model_copy(update={"title": "Airfoil", "note": "Noise of airfoils.", "licence": "none"})
    assert said.recipe == entry.recipe
    assert DatasetEntry.model_validate(entry.recipe).files == entry.files
    assert entry.model_copy(update={"rows": 7}).recipe != entry.recipe


def test_a_figure_names_the_data_that_it_shows_at_every_scale() -> None:
    """A run that has other data at a smaller scale has another text in the legend, where the text names the data."""
    registry = load_registry(CONFIG / "datasets.yaml")
    # Published predictions and corruptions are no data of a run; "Fashion-MNIST" is not a figure of MNIST.
    titles = {name: entry.title or name.replace("_", " ") for name, entry in registry.items() if entry.of is None}
    wrong = []
    for scale, studies in load_studies(FILES["study"], registry).items():
        for study in studies.values():
            for figure, config in study.figures.items():
                runs = shown_runs(studies, study.name, config.runs)
                for name, text in legend_texts(config, runs).items():
                    plain = text.replace("_", " ")
                    named = {t for t in titles.values() if re.search(rf"(?<![\w-]){re.escape(t)}(?![\w-])", plain)}
                    if named - {titles[runs[name].config.dataset]}:
                        wrong.append((scale, study.name, figure, name, text))
    assert not wrong


COUNTED = {"permutation_symmetry": {"8.4", "25.8"}}
"""Per cent of the weights at pixels that are black in all images of MNIST, and in the first 500."""


def texts_of(node: Any, keys: tuple[str, ...]) -> Iterator[str]:
    """All texts under some keys of settings, without what is filled in from tables."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key in keys and isinstance(value, str):
            yield re.sub(r"\{=[^}]*\}", "", value)
        yield from texts_of(value, keys)


@pytest.mark.parametrize("name", PUBLISHED)
def test_numbers_typed_in_texts_are_published_or_settings(name: str) -> None:
    """What was measured is filled in from the tables, so that it cannot go stale."""
    study, claims = ((CONFIG / folder / f"{name}.yaml") for folder in ("studies", "claims"))
    texts = [*texts_of(read_yaml(study), ("caption",))]
    texts += texts_of(read_yaml(claims), ("caveat", "cause", "decided_by", "result"))
    typed = {
        number
        for text in texts
        for number in re.findall(r"\d+\.\d+", re.sub(r"(section|arXiv) \d+\.\d+|arXiv:\d+\.\d+", "", text))
    }
    given = {float(one.value) for one in read_published(CONFIG / "published" / f"{name}.csv").values()} | set(
        numbers_in(read_yaml(study))
    )
    known = {number for number in typed for one in given if abs(one - float(number)) <= 0.5 * 10.0 ** -places(number)}
    assert typed - known == COUNTED.get(name, set())


def places(number: str) -> int:
    return len(number.partition(".")[2])


def numbers_in(node: Any) -> Iterator[float]:
    """All numbers of settings, keys and texts left out."""
    if isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from numbers_in(value)
    elif isinstance(node, int | float):
        yield float(node)
