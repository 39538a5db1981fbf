"""Every mistake that a person can make in config/ is answered with the file, the key, the value and what is allowed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.claims.load import load_claims
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.studies import Study
from bnn_atlas.config.settings import load_atlas, load_study
from tests.config.folders import CLAIM, DATASETS, HMC, RUN, Edit, config_folder, run_edit, study_file

MCLMC = RUN["method"]


def nested(section: str, **changes: Any) -> Edit:
    """Change keys of one section of the run."""
    return run_edit(**{section: {**RUN[section], **changes}})


def study_error(folder: Path, edit: Edit, scale: str = "paper") -> str:
    path = study_file(folder, edit)
    with pytest.raises(ConfigError) as caught:
        load_study(path, scale, DATASETS)
    message = str(caught.value)
    assert all(line.startswith(str(path)) for line in message.splitlines()), message
    return message


def assert_mentions(message: str, *parts: str) -> None:
    missing = [part for part in parts if part not in message]
    assert not missing, f"{missing} not in: {message}"


# What is changed -> what the message must hold: the key, the value, and what is allowed.
MISTAKES: dict[str, tuple[Edit, tuple[str, ...]]] = {
    "unknown key of a run": (
        run_edit(chians=4),
        ("runs.one: unknown key 'chians' (did you mean 'chains'?) (line ",),
    ),
    "unknown key of a section": (
        nested("warmstart", learning_rat=0.1),
        ("runs.one.warmstart: unknown key 'learning_rat'", "did you mean 'learning_rate'?", "batch_size"),
    ),
    "unknown key of a variant": (
        nested("likelihood", sgima=1),
        ("runs.one.likelihood: unknown key 'sgima'", "did you mean 'sigma'?", "allowed keys: kind, sigma"),
    ),
    "key like no other": (
        run_edit(zzz=1),
        ("unknown key 'zzz'; allowed keys: model, likelihood, ", "grid, zipped, scales"),
    ),
    "method with a slip": (
        run_edit(method={"kind": "mclcm"}),
        ("runs.one.method.kind = 'mclcm': did you mean 'mclmc'? (line",),
    ),
    "method like no other": (
        run_edit(method={"kind": "zzz"}),
        ("runs.one.method.kind = 'zzz': allowed are 'mclmc', ", "'deep_ensemble' (line"),
    ),
    "prior with a slip": (
        run_edit(prior={"kind": "nromal"}),
        ("runs.one.prior.kind = 'nromal': did you mean 'normal'? (line",),
    ),
    "split with a slip": (
        nested("split", kind="radom"),
        ("runs.one.split.kind = 'radom': must be 'random', ", "or 'bnn_hmc' (did you mean 'random'?) (line"),
    ),
    "nothing for a number": (
        lambda s: s["runs"]["one"].update(chains=None),
        ("runs.one.chains: is empty; a whole number is wanted, such as 4 (line",),
    ),
    "nothing for a text": (
        lambda s: s["runs"]["one"].update(description=None),
        ("runs.one.description: is empty; text is wanted (line",),
    ),
    "no content of a section": (lambda s: s.update(runs=None), ("runs: is empty; a section is wanted: keys",)),
    "missing key": (run_edit(chains=None), ("runs.one.chains: this key is missing",)),
    "missing key of a variant": (
        run_edit(method={"kind": "hmc", "step_size": 0.1}),
        ("runs.one.method: give trajectory_length or quarter_periods (line",),
    ),
    "word for a number": (run_edit(chains="many"), ("runs.one.chains = 'many'", "a whole number is wanted")),
    "list for a number": (run_edit(chains=[4, 5]), ("runs.one.chains = [4, 5]", "a whole number is wanted")),
    "number for a list": (
        nested("model", hidden=16),
        ("runs.one.model.hidden = 16", "a list is wanted, such as [a, b]"),
    ),
    "number for a section": (run_edit(model=3), ("runs.one.model = 3", "a section is wanted")),
    "word for a section": (
        run_edit(likelihood="gaussian"),
        ("runs.one.likelihood = 'gaussian'", "a section is wanted"),
    ),
    "half a chain": (run_edit(chains=2.5), ("runs.one.chains = 2.5", "a whole number is wanted")),
    "no chains": (run_edit(chains=0), ("runs.one.chains = 0", "greater than or equal to 1")),
    "width 0": (nested("model", hidden=[4, 0]), ("runs.one.model.hidden.1 = 0", "greater than or equal to 1")),
    "negative step size": (
        run_edit(method={**HMC, "step_size": -0.1}),
        ("runs.one.method.step_size = -0.1", "greater than 0"),
    ),
    "negative initial step size": (
        nested("method", step_size_init=-1),
        ("runs.one.method.step_size_init = -1", "greater than 0"),
    ),
    "step longer than the trajectory": (
        run_edit(method={**HMC, "step_size": 3}),
        ("runs.one.method: step_size (3.0) must not exceed trajectory_length (1.0)",),
    ),
    "trajectories that would be cut": (
        run_edit(method={**HMC, "step_size": 0.001, "trajectory_length": 1, "jitter": 0.5, "max_leapfrog_steps": 1400}),
        ("runs.one.method: max_leapfrog_steps (1400) would cut trajectories of up to 1500 steps",),
    ),
    "less than one effective sample": (
        nested("method", num_effective_samples=0.5),
        ("runs.one.method.num_effective_samples = 0.5", "greater than or equal to 1"),
    ),
    "adaptation without burn-in": (
        run_edit(method={**HMC, "adapt_step_size": True, "burn_in": 0}),
        ("runs.one.method: adapt_step_size needs burn_in of at least 1",),
    ),
    "infinite temperature": (run_edit(temperature=float("inf")), ("runs.one.temperature = inf", "finite")),
    "temperature that is not a number": (run_edit(temperature=float("nan")), ("runs.one.temperature = nan", "finite")),
    "seed that no generator takes": (run_edit(seed=2**31), ("runs.one.seed = 2147483648", "less than 2147483648")),
    "negative seed": (nested("split", seed=-1), ("runs.one.split.seed = -1", "greater than or equal to 0")),
    "all rows for testing": (nested("split", test=1.0), ("runs.one.split.test = 1.0", "less than 1")),
    "unknown split": (nested("split", kind="sorted"), ("runs.one.split.kind = 'sorted'", "'train_test_split'")),
    "unknown activation": (
        nested("model", activation="softplus"),
        ("runs.one.model.activation = 'softplus'", "'silu'"),
    ),
    "unknown prior": (
        run_edit(prior={"kind": "cauchy"}),
        (
            "runs.one.prior.kind = 'cauchy'",
            "allowed are 'standard_normal', 'normal', 'normal_flat_bias', 'normal_gamma_noise', 'laplace'",
        ),
    ),
    "prior without kind": (
        run_edit(prior={"scale": 2.0}),
        (
            "runs.one.prior.kind = None",
            "allowed are 'standard_normal', 'normal', 'normal_flat_bias', 'normal_gamma_noise', 'laplace'",
        ),
    ),
    "likelihood without kind": (
        run_edit(likelihood={"sigma": 2.0}),
        ("runs.one.likelihood.kind = None", "allowed are 'gaussian', 'learned_noise', 'heteroscedastic'"),
    ),
    "method without kind": (
        run_edit(method={"steps": 10}),
        ("runs.one.method.kind = None", "'mclmc'", "'sghmc'", "'laplace'"),
    ),
    "thinning that leaves a rest": (
        nested("method", steps=105),
        ("runs.one.method: steps (105) must be a multiple of thinning (10)",),
    ),
    "phases above 1": (
        nested("method", phases=[0.8, 0.2, 0.1]),
        ("runs.one.method: phases must add up to 1, not 1.1",),
    ),
    "two phases": (nested("method", phases=[0.8, 0.2]), ("runs.one.method.phases = [0.8, 0.2]: must have 3 items",)),
    "a phase of 0": (nested("method", phases=[0.9, 0.1, 0.0]), ("runs.one.method.phases.2 = 0.0", "greater than 0")),
    "too short a warm-up": (nested("method", warmup=50), ("warmup (50) leaves fewer than 10 steps", "(0.8, 0.1, 0.1)")),
    "patience without validation rows": (
        nested("split", validation=0),
        ("runs.one: warmstart.patience needs validation rows", "split.validation above 0", "patience: null"),
    ),
    "unknown field in a grid": (
        run_edit(grid={"model.hiden": [[4], [8]]}),
        ("runs.one (grid model.hiden: [4]): model: unknown key 'hiden'", "did you mean 'hidden'?"),
    ),
    "wrong value in a grid": (
        run_edit(grid={"warmstart.learning_rate": [0.1, -0.1]}),
        ("runs.one", "warmstart.learning_rate = -0.1", "greater than 0"),
    ),
    "grid value that is not a list": (
        run_edit(grid={"seed": 3}),
        ("runs.one.grid.seed = 3", "a list is wanted, such as [a, b]"),
    ),
    "empty grid list": (run_edit(grid={"seed": []}), ("runs.one.grid.seed: an empty list gives no run",)),
    "grid value that no file name takes": (
        run_edit(grid={"dataset": ["a data set"]}),
        ("runs.one", "'one-a data set'", "characters that file names should not have"),
    ),
    "unknown scale in a run": (run_edit(scales={"huge": {}}), ("runs.one.scales.huge", "'laptop' or 'demo'")),
    "name with a blank": (
        lambda s: s["runs"].update({"a b": RUN}),
        ("runs.a b: a name is made of letters, digits, '_', '.', '-'",),
    ),
    "same run twice in a grid": (
        run_edit(grid={"seed": [1, 1]}),
        ("runs.one.grid.seed: 1 is given twice",),
    ),
    "same number written in two ways in a grid": (
        run_edit(grid={"likelihood.sigma": [1, 1.0]}),
        ("runs.one.grid.likelihood.sigma: 1.0 is given twice",),
    ),
    "scale that sets what the grid varies": (
        run_edit(grid={"likelihood.sigma": [1, 2]}, scales={"laptop": {"likelihood": {"sigma": 5}}}),
        ("runs.one.scales.laptop: 'likelihood.sigma' has no effect", "set scales.laptop.grid.likelihood.sigma"),
    ),
    "E-values of a run that has none": (
        lambda s: s["figures"].update(evidence={"runs": ["one"]}),
        ("figures.evidence.runs: 'one'", "validation rows that the posterior is not conditioned on"),
    ),
    "grid that makes the name of another run": (
        lambda s: s["runs"].update({"one-seed1": RUN, "one": {**RUN, "grid": {"seed": [1, 2]}}}),
        ("runs.one-seed1: the run name 'one-seed1' is given to two runs; rename one entry",),
    ),
    "missing data set": (
        run_edit(dataset="airfol"),
        ("runs.one.dataset = 'airfol': no such data set; config/datasets.yaml has diabetes, other, words",),
    ),
    "data set with a slip": (
        run_edit(dataset="diabetis"),
        ("runs.one.dataset = 'diabetis': no such data set (did you mean 'diabetes'?)", "diabetes, other"),
    ),
    "figure of a run with a slip": (
        lambda s: s["figures"]["curve"].update(runs=["oen"]),
        ("figures.curve.runs: no run 'oen' (did you mean 'one'?); there are one",),
    ),
    "missing data set in a grid": (
        run_edit(grid={"dataset": ["diabetes", "airfol"]}),
        ("runs.one.dataset = 'airfol': no such data set", "diabetes, other"),
    ),
    "figure of a missing run": (
        lambda s: s["figures"]["curve"].update(runs=["one", "two"]),
        ("figures.curve.runs: no run 'two'; there are one",),
    ),
    "unknown key of a figure": (
        lambda s: s["figures"]["curve"].update(bins=3),
        (
            "figures.curve: unknown key 'bins'",
            "allowed keys: draw, runs, labels, title, caption, alignments, files",
        ),
    ),
    "too many bins": (
        lambda s: s["figures"]["curve"].update(grid={"bins": 5000}),
        ("figures.curve.grid.bins = 5000", "less than or equal to 4000"),
    ),
    "figure of an unknown kind": (
        lambda s: s["figures"].update(curves={"runs": ["one"]}),
        ("figures.curves.draw = 'curves': no such kind of figure (did you mean 'curve'?)",),
    ),
    "unknown file of a figure": (
        lambda s: s["figures"]["curve"].update(files=["set"]),
        ("figures.curve.files.0 = 'set': no such file of a run (did you mean 'sets'?)",),
    ),
    "further sets of a run that has none": (
        lambda s: s["figures"]["curve"].update(files=["sets"]),
        ("figures.curve.runs: 'one' has no further sets", "give the run evaluate.shifts"),
    ),
    "references of a run that has none": (
        lambda s: s["figures"]["curve"].update(files=["against"]),
        ("figures.curve.runs: 'one' has no references; give the run evaluate.references",),
    ),
    "section that a kind does not read": (
        lambda s: s["figures"]["curve"].update(grid={}),
        ("figures.curve.grid: a figure of the kind 'curve' has no such section; it reads tables",),
    ),
    "figure with a run of a study that is not loaded": (
        lambda s: s["figures"]["curve"].update(runs=["smal/one"]),
        ("figures.curve.runs: 'smal/one': the study 'smal' is not loaded (did you mean 'small'?)", "config.yaml"),
    ),
    "figure of nothing": (
        lambda s: s["figures"]["curve"].update(runs=[]),
        ("figures.curve.runs = []", "at least one run is needed"),
    ),
    "runs of a figure that shows none": (
        lambda s: s["figures"].update(line={"runs": ["one"]}),
        ("figures.line.runs = ['one']: this figure shows no runs; leave them out",),
    ),
    "label of a run that the figure does not show": (
        lambda s: s["figures"]["curve"].update(labels={"on": "First"}),
        ("figures.curve.labels.on = 'First': not among the figure's runs; those are one",),
    ),
    "figure without its grid": (
        lambda s: s["figures"].update(cloud={"runs": ["one"]}),
        ("figures.cloud.grid: this figure needs the section", "bins, limit, per_layer"),
    ),
    "figure without its subset": (
        lambda s: s["figures"].update(bumps={"runs": ["one"]}),
        ("figures.bumps.subset: this figure needs the section", "roles"),
    ),
    "several runs in a figure of one": (
        lambda s: (run_edit(grid={"seed": [1, 2]})(s), s["figures"].update(cloud={"runs": ["one"], "grid": {}})),
        ("figures.cloud.runs = ['one']: this figure shows one run; choose one of one-seed1, one-seed2",),
    ),
    "classification of a regression": (
        run_edit(likelihood={"kind": "categorical"}),
        (
            "runs.one.likelihood.kind = 'categorical': the data set 'diabetes' is for regression",
            "allowed are 'gaussian', 'learned_noise', 'heteroscedastic'",
        ),
    ),
    "regression of a classification": (
        run_edit(dataset="words"),
        ("runs.one.likelihood.kind = 'gaussian': the data set 'words' is for classification", "'categorical'"),
    ),
    "more standard splits than there are": (
        nested("split", kind="standard", count=21),
        ("runs.one.split.count = 21: of the data set 'diabetes', at most 20 standard splits are allowed",),
    ),
    "no runs": (lambda s: s.pop("runs"), ("runs: this key is missing (line 1)",)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_a_study(name: str, tmp_path: Path) -> None:
    edit, expected = MISTAKES[name]
    assert_mentions(study_error(tmp_path, edit), *expected)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    message = study_error(tmp_path, run_edit(chains=-1, seed="x", temperature=0))
    assert len(message.splitlines()) == 3
    assert_mentions(message, "chains = -1", "seed = 'x'", "temperature = 0")


@pytest.mark.parametrize(("chains", "per_block"), [(10, 4), (12, 9), (7, 3), (10, 20), (100, 48), (9973, 100)])
def test_chains_that_do_not_fill_blocks_get_a_number_that_works(tmp_path: Path, chains: int, per_block: int) -> None:
    message = study_error(tmp_path, run_edit(chains=chains, chains_per_block=per_block))
    assert_mentions(message, f"chains ({chains}) must be a multiple of chains_per_block ({per_block})")
    advice = int(message.rpartition("chains_per_block: ")[2].removesuffix(" (line 4)"))
    assert chains % advice == 0
    assert advice <= per_block
    config = load_study(study_file(tmp_path, run_edit(chains=chains, chains_per_block=advice)), "paper", DATASETS)
    assert config.runs["one"].config.blocks == chains // advice


@pytest.mark.parametrize("scale", ["demo", "laptop", "paper"])
def test_mistake_in_a_scale_is_found_at_every_scale_and_names_it(tmp_path: Path, scale: str) -> None:
    edit = run_edit(scales={"demo": {"method": {"stepz": 10}}})
    assert_mentions(
        study_error(tmp_path, edit, scale), "at scale demo: runs.one: method: unknown key 'stepz'", "'steps'"
    )


def test_scale_is_checked_as_a_whole(tmp_path: Path) -> None:
    edit = run_edit(chains_per_block=4, scales={"demo": {"chains": 6}})
    assert_mentions(study_error(tmp_path, edit, "demo"), "at scale demo", "chains (6)", "chains_per_block (4)")


@pytest.mark.parametrize("text", ["runs: {one: [", "title: 'x\n", "a: b: c\n", "\tx: 1\n"])
def test_yaml_syntax_error_names_file_and_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"not valid YAML: .*line \d+, column \d+") as caught:
        load_study(path, "demo", DATASETS)
    assert str(path) in str(caught.value)


def test_key_given_twice_is_refused(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    path.write_text(path.read_text() + "runs: {}\n")
    with pytest.raises(ConfigError, match=r"the key 'runs' is given twice.*line \d+") as caught:
        load_study(path, "demo", DATASETS)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("text", "found"), [("", "is empty"), ("- a\n", "holds no keys"), ("word\n", "holds no keys")])
def test_study_that_is_not_a_mapping(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"{path}: the file {found}; a study has keys such as title and runs"):
        load_study(path, "demo", DATASETS)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.yaml: no such file"):
        load_study(tmp_path / "nothing.yaml", "demo", DATASETS)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"scale": "huge"}, ("scale = 'huge'", "'demo', 'laptop' or 'paper'")),
        ({"studies": ["smal"]}, ("studies = 'smal'", "no such study (did you mean 'small'?); there are small")),
        ({"studies": []}, ("studies = []: at least one study is needed; there are small",)),
        ({"device": "tpu"}, ("device = 'tpu'", "'cpu' or 'gpu'")),
        ({"scael": "demo"}, ("unknown key 'scael'", "did you mean 'scale'?", "allowed keys: scale, studies")),
        ({"results": 3}, ("results = 3", "text is wanted; put numbers, dates")),
        ({"results": None}, ("results: is empty; text is wanted",)),
        ({"scale": None}, ("scale: is empty; must be 'demo', 'laptop' or 'paper'",)),
    ],
)
def test_mistakes_in_the_settings(tmp_path: Path, settings: dict[str, Any], expected: tuple[str, ...]) -> None:
    folder = config_folder(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_atlas({"studies": ["small"]} | settings, folder)
    assert_mentions(str(caught.value), str(folder / "config.yaml"), *expected)


def test_mistake_in_the_registry_names_its_file(tmp_path: Path) -> None:
    folder = config_folder(tmp_path)
    data = yaml.safe_load((folder / "datasets.yaml").read_text())
    data["diabetes"]["rows"] = -5
    (folder / "datasets.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigError) as caught:
        load_atlas({"studies": ["small"]}, folder)
    assert_mentions(
        str(caught.value), str(folder / "datasets.yaml"), "diabetes.rows = -5", "greater than or equal to 1", "(line 5)"
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return load_study(study_file(tmp_path_factory.mktemp("study")), "paper", DATASETS)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"runs": ["one", "two"]}, ("claims.error.runs: no run 'two' in study 'small'", "it has one")),
        ({"relation": "below"}, ("claims.error.relation = 'below'", "'equals'", "'changes_less_than'")),
        ({"bound": None}, ("claims.error: relation 'at_most' needs bound",)),
        ({"relation": "equals"}, ("claims.error: relation 'equals' needs paper_value and tolerance",)),
        (
            {"relation": "equals", "paper_value": 1.0, "tolerance": 0.0},
            ("claims.error.tolerance = 0.0", "greater than 0"),
        ),
        ({"bond": 3.0}, ("claims.error: unknown key 'bond'", "did you mean 'bound'?")),
        ({"bound": "low"}, ("claims.error.bound = 'low'", "a number is wanted")),
        ({"runs": []}, ("claims.error: metric and runs are needed", "figure and in_figure")),
        (
            {"figure": "cruve"},
            ("claims.error.figure: no figure 'cruve' in study 'small' (did you mean 'curve'?)", "it has curve"),
        ),
        ({"metric": "rsme"}, ("claims.error.metric = 'rsme': there is no such metric (did you mean 'rmse'?)", "(line")),
        ({"metric": "zzz"}, ("claims.error.metric = 'zzz': there is no such metric; docs/metrics.md lists all",)),
        ({"chains": 10**9}, ("claims.error.chains = 1000000000: must be less than or equal to 100000",)),
        ({"chains": 5}, ("claims.error.chains = 5: run 'one' has 4 chains",)),
        (
            {"relation": "less_than", "than": {"draws": 11}},
            ("claims.error.than.draws = 11: run 'one' has 10 draws",),
        ),
        (
            {"dataset": "diabetis"},
            (
                "claims.error.dataset = 'diabetis': run 'one' has no such set (did you mean 'diabetes'?)",
                "it has diabetes",
            ),
        ),
        ({"metric": "coverage"}, ("claims.error.at = '': 'coverage' needs one, its nominal level",)),
        ({"at": 0.9}, ("claims.error.at = '0.9': 'rmse' has no level; leave `at` out",)),
        (
            {"relation": "less_than", "than": {"metric": "rmsee"}},
            ("claims.error.than.metric = 'rmsee': there is no such metric (did you mean 'rmse'?)",),
        ),
        (
            {"relation": "less_than", "than": {"chains": 5}},
            ("claims.error.than.chains = 5: run 'one' has 4 chains",),
        ),
        ({"relation": "atmost"}, ("claims.error.relation = 'atmost': must be 'equals', ", "did you mean 'at_most'?")),
        ({"tolerance": 0.1}, ("claims.error: relation 'at_most' takes no tolerance; give bound",)),
        ({"relation": "less_than"}, ("claims.error: relation 'less_than' needs than",)),
        (
            {"relation": "greater_than", "than": {"chains": 3}, "bound": -1.0},
            ("claims.error: relation 'greater_than' needs a bound of 0 or more",),
        ),
        ({"relation": "changes_less_than", "than": {"chains": 3}, "bound": None}, ("'changes_less_than' needs bound",)),
        ({"relation": "less_than", "than": {}}, ("claims.error: than is the same value as the claim's own",)),
        (
            {"relation": "less_than", "than": {"runs": ["two"]}},
            ("claims.error.than.runs: no run 'two' in study 'small'", "it has one"),
        ),
        ({"errors": 2}, ("claims.error: errors are those of a difference of metrics", "'at_most', and than")),
        (
            {"relation": "less_than", "than": {"chains": 3}, "errors": 2},
            ("claims.error: errors are those of a difference of metrics",),
        ),
        ({"given": "error"}, ("claims.error.given: no claim 'error' before this one; these are none",)),
        ({"leans_on": ["two"]}, ("claims.error.leans_on: the claim does not name the run 'two'", "there are one")),
        (
            {"metric": None, "runs": [], "figure": "curve", "in_figure": {"column": "c"}, "leans_on": ["ones"]},
            ("claims.error.leans_on: 'curve' does not show the run 'ones' (did you mean 'one'?)",),
        ),
    ],
)
def test_mistakes_in_claims(tmp_path: Path, study: Study, changes: dict[str, Any], expected: tuple[str, ...]) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump({"paper": "p", "claims": {"error": CLAIM | changes}}))
    with pytest.raises(ConfigError) as caught:
        load_claims(path, study)
    assert_mentions(str(caught.value), str(path), *expected)


FINDING = {"statement": "Errors are small", "source": "Table 1", "cost": "1 h"}


@pytest.mark.parametrize(
    ("of", "changes", "expected"),
    [
        ("smal", {}, ("claims.error.finding: no finding 'smal' in this file (did you mean 'small'?)", "(line 4)")),
        (None, {}, ("findings.small: no claim stands behind it; write `finding: small` in one (line 18)",)),
        ("small", {"main": "errors"}, ("findings.small.main: 'errors' is none of its claims (did you mean 'error'?)",)),
        ("small", {"cost": "5 min"}, ("findings.small.cost = '5 min': must be '1 s', '10 min', '1 h' or '1 day'",)),
        ("small", {"cause": "x"}, ("findings.small: unknown key 'cause'; allowed keys: statement, source, ",)),
    ],
)
def test_mistakes_in_findings(
    tmp_path: Path, study: Study, of: str | None, changes: dict[str, Any], expected: tuple[str, ...]
) -> None:
    path = tmp_path / "claims.yaml"

    def write(of: str | None, finding: dict[str, Any]) -> None:
        claims = {"error": CLAIM | ({"finding": of} if of else {}), "other": CLAIM | {"finding": "small"}}
        if of is None:
            del claims["other"]["finding"]
        data = {"paper": "p", "claims": claims, "findings": {"small": finding}}
        path.write_text(yaml.safe_dump(data, sort_keys=True))

    write(of, FINDING | changes)
    with pytest.raises(ConfigError) as caught:
        load_claims(path, study)
    assert_mentions(str(caught.value), str(path), *expected)
    write("small", FINDING)
    assert load_claims(path, study).findings[0].claims == ("error", "other")
    write("small", FINDING | {"main": "other"})
    assert load_claims(path, study).findings[0].claims == ("other", "error"), "the main one first"


def test_runs_of_a_claim_are_repetitions(tmp_path: Path) -> None:
    grid = {"seed": [1, 2], "split.seed": [0, 1], "likelihood.sigma": [0.5, 1.0]}
    study = load_study(study_file(tmp_path, run_edit(grid=grid)), "paper", DATASETS)
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump({"paper": "p", "claims": {"error": CLAIM}}))
    with pytest.raises(ConfigError) as caught:
        load_claims(path, study)
    assert_mentions(str(caught.value), "claims.error.runs", "differ in likelihood.sigma;", "seed and split.seed only")
    runs = [name for name in study.runs if name.endswith("sigma0.5")]
    path.write_text(yaml.safe_dump({"paper": "p", "claims": {"error": CLAIM | {"runs": runs}}}))
    assert load_claims(path, study).claims["error"].runs == tuple(runs)


@pytest.mark.parametrize("overlay", [None, {"grid": {"seed": [1]}}])
def test_claims_may_name_runs_that_a_smaller_scale_leaves_out(tmp_path: Path, overlay: dict[str, Any] | None) -> None:
    def edit(study: dict[str, Any]) -> None:
        study["runs"]["two"] = {**study["runs"]["one"], "grid": {"seed": [1, 2]}, "scales": {"demo": overlay}}

    path = tmp_path / "claims.yaml"
    studies = [load_study(study_file(tmp_path, edit), scale, DATASETS) for scale in ("demo", "laptop", "paper")]
    for name in ("two", "two-seed2"):
        path.write_text(yaml.safe_dump({"paper": "p", "claims": {"error": CLAIM | {"runs": [name]}}}))
        for study in studies:
            assert load_claims(path, study).claims["error"].runs == (name,)
    for name, close in (("tow-seed2", "two-seed2"), ("two-seed3", "two-seed[12]"), ("two-sede1", "two-seed1")):
        path.write_text(yaml.safe_dump({"paper": "p", "claims": {"error": CLAIM | {"runs": [name]}}}))
        for study in studies:
            message = rf"no run '{name}' in study 'small' \(did you mean '{close}'\?\); it has one, two"
            with pytest.raises(ConfigError, match=message):
                load_claims(path, study)


def test_runs_of_a_claim_that_differ_at_the_papers_scale_only(tmp_path: Path) -> None:
    """A smaller scale cuts the grid to one value, where nothing differs."""
    edit = run_edit(grid={"likelihood.sigma": [0.5, 1.0]}, scales={"demo": {"grid": {"likelihood.sigma": [0.5]}}})
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump({"paper": "p", "claims": {"error": CLAIM}}))
    with pytest.raises(ConfigError, match=r"differ in likelihood\.sigma;"):
        load_claims(path, load_study(study_file(tmp_path, edit), "demo", DATASETS))
