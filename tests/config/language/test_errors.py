"""Every mistake that a person can make in config/ is answered with the file, the key, the value and what is allowed."""

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.settings import OWN, load_atlas, load_study, read_settings
from tests.config.folders import (
    DATASETS,
    HMC,
    REPOSITORY,
    RUN,
    Edit,
    config_folder,
    figure,
    figures,
    nested,
    refused,
    run_edit,
    study_file,
)
from tests.work import counted_calls

RANGE = "must be between 1e-18 and 1e+18 (float32 must hold its square)"
MOST = "must be at most 1e+18 (float32 must hold its square)"
SGLD = {"kind": "sgld", "step_size": 1e-6}
HELD_OUT = {"test": 0.2, "validation": 0.1, "validation_in_likelihood": False}
LINE = {"inputs": "line", "chains": None}


def runs(**entries: Any) -> Edit:
    return lambda study: study["runs"].update(entries)


def stopping(**changes: Any) -> Edit:
    """A run with the stopping rule and validation rows for it."""
    return run_edit(**{"stopping": {}, "split": HELD_OUT} | changes)


def permuted(**model: Any) -> Edit:
    """Permuted warm starts of member 9 for another network."""
    return run_edit(model=model, warmstart={**RUN["warmstart"], "permuted": 9})


def values(**section: Any) -> Edit:
    """A figure of functions."""
    return figure(draw="values", functions=section)


# What is changed, and what the message must hold: the key, the value, and what is allowed.
MISTAKES: list[tuple[Any, ...]] = [
    # Keys, kinds and types.
    (run_edit(chians=4), "runs.one: unknown key 'chians' (did you mean 'chains'?) (line "),
    (nested("warmstart", learning_rat=0.1), "runs.one.warmstart: unknown key", "'learning_rate'?", "batch_size"),
    (nested("likelihood", sgima=1), "runs.one.likelihood: unknown key 'sgima'", "allowed keys: kind, sigma"),
    (run_edit(zzz=1), "unknown key 'zzz'; allowed keys: model, likelihood, ", "grid, zipped, scales"),
    (run_edit(method={"kind": "mclcm"}), "runs.one.method.kind = 'mclcm': did you mean 'mclmc'? (line"),
    (run_edit(method={"kind": "zzz"}), "runs.one.method.kind = 'zzz': allowed are 'mclmc', ", "'deep_ensemble' (line"),
    (run_edit(method={"steps": 10}), "runs.one.method.kind = None", "'mclmc'", "'sghmc'", "'laplace'"),
    (run_edit(prior={"kind": "nromal"}), "runs.one.prior.kind = 'nromal': did you mean 'normal'? (line"),
    (run_edit(prior={"kind": "cauchy"}), "runs.one.prior.kind = 'cauchy'", "allowed are 'standard_normal', 'normal', "),
    (run_edit(prior={"scale": 2.0}), "runs.one.prior.kind = None", "allowed are 'standard_normal', 'normal', "),
    (run_edit(likelihood={"sigma": 2.0}), "runs.one.likelihood.kind = None", "'gaussian', 'learned_noise', "),
    (nested("split", kind="radom"), "runs.one.split.kind = 'radom': must be 'random', ", "mean 'random'?) (line"),
    (nested("split", kind="sorted"), "runs.one.split.kind = 'sorted'", "'train_test_split'"),
    (nested("model", activation="softplus"), "runs.one.model.activation = 'softplus'", "'silu'"),
    (lambda s: s["runs"]["one"].update(chains=None), "runs.one.chains: is empty; must be a whole number, such as 4"),
    (lambda s: s["runs"]["one"].update(description=None), "runs.one.description: is empty; must be text (line"),
    (lambda s: s.update(runs=None), "runs: is empty; must be a section: keys"),
    (lambda s: s.pop("runs"), "runs: this key is missing (line 1)"),
    (run_edit(chains=None), "runs.one.chains: this key is missing"),
    (run_edit(method={"kind": "hmc", "step_size": 0.1}), "method: give trajectory_length or quarter_periods (line"),
    (run_edit(chains="many"), "runs.one.chains = 'many'", "must be a whole number"),
    (run_edit(chains=[4, 5]), "runs.one.chains = [4, 5]", "must be a whole number"),
    (run_edit(chains=2.5), "runs.one.chains = 2.5", "must be a whole number"),
    (nested("model", hidden=16), "runs.one.model.hidden = 16", "must be a list, such as [a, b]"),
    (run_edit(model=3), "runs.one.model = 3", "must be a section"),
    (run_edit(likelihood="gaussian"), "runs.one.likelihood = 'gaussian'", "must be a section"),
    (nested("method", phases=[0.8, 0.2]), "runs.one.method.phases = [0.8, 0.2]: must have 3 items"),
    # Bounds.
    (run_edit(chains=0), "runs.one.chains = 0", "greater than or equal to 1"),
    (nested("model", hidden=[4, 0]), "runs.one.model.hidden.1 = 0", "greater than or equal to 1"),
    (run_edit(method={**HMC, "step_size": -0.1}), "runs.one.method.step_size = -0.1", "greater than 0"),
    (nested("method", step_size_init=-1), "runs.one.method.step_size_init = -1", "greater than 0"),
    (nested("method", num_effective_samples=0.5), "method.num_effective_samples = 0.5", "greater than or equal to 1"),
    (nested("method", phases=[0.9, 0.1, 0.0]), "runs.one.method.phases.2 = 0.0", "greater than 0"),
    (run_edit(temperature=float("inf")), "runs.one.temperature = inf", "finite"),
    (run_edit(temperature=float("nan")), "runs.one.temperature = nan", "finite"),
    (run_edit(seed=2**31), "runs.one.seed = 2147483648", "less than 2147483648"),
    (nested("split", seed=-1), "runs.one.split.seed = -1", "greater than or equal to 0"),
    (nested("split", test=1.0), "runs.one.split.test = 1.0", "less than 1"),
    (run_edit(warmstart={"permuted": -1}), "runs.one.warmstart.permuted = -1", "greater than or equal to 0"),
    (figure(grid={"bins": 5000}), "figures.curve.grid.bins = 5000", "less than or equal to 4000"),
    # Bounds against what has no end, and numbers beyond float32.
    (nested("split", count=10**9), "split.count = 1000000000: must be less than or equal to 1000"),
    (run_edit(chains=1e30), "chains = 1e+30: must be less than or equal to 100000"),
    (run_edit(chains_per_block=10**30), "must be less than or equal to 100000"),
    (run_edit(chains=20_000, chains_per_block=1), "(20,000) makes 20,000 jobs; at most 10,000 are allowed"),
    (
        run_edit(split=RUN["split"] | {"count": 11}, grid={"seed": list(range(1000))}),
        "runs.one: its 1,000 runs have 11,000 splits and blocks of chains to sample",
    ),
    (nested("method", steps=10**12), "method.steps = 1000000000000: must be less than or equal to 1000000"),
    (nested("method", warmup=1e15), "method.warmup = 1000000000000000.0: must be less than or equal to"),
    (nested("warmstart", max_epochs=10**20), "warmstart.max_epochs = 100000000000000000000: must be less"),
    (run_edit(method={**SGLD, "epochs": 1e30}), "method.epochs = 1e+30: must be less than"),
    (run_edit(seed=10**30), "seed = 1000000000000000000000000000000: must be less than 2147483648"),
    (nested("model", hidden=[1e12]), "model.hidden.0 = 1000000000000.0: must be less than or equal"),
    (nested("model", hidden=[1] * 1001), "model.hidden = "),
    (nested("model", hidden=[10**5, 10**5]), "10,000,000,000 weights between hidden layers; at most"),
    (run_edit(grid={"seed": [*range(500)], "split.seed": [*range(500)]}), "grid: its product has 250,000 runs"),
    (run_edit(prior={"kind": "normal", "scale": 1e39}), f"prior.scale = 1e+39: {MOST}"),
    (run_edit(prior={"kind": "normal", "scale": 1e-46}), f"prior.scale = 1e-46: {RANGE}"),
    (run_edit(prior={"kind": "normal", "loc": -1e39}), "loc = -1e+39: must be between -1e+18 and 1e+18"),
    (run_edit(temperature=1e-40), f"temperature = 1e-40: {RANGE}"),
    (run_edit(temperature=0), "temperature = 0: must be greater than 0"),
    (run_edit(temperature=-1), "temperature = -1: must be greater than 0"),
    (run_edit(method={**HMC, "step_size": 1e-300}), f"method.step_size = 1e-300: {RANGE}"),
    (nested("warmstart", weight_decay=1e40), f"weight_decay = 1e+40: {MOST}"),
    # The values of YAML that are true, and no numbers.
    (run_edit(chains=True), "chains = True: must be a whole number, such as 4; yes, on, true"),
    (run_edit(temperature=True), "temperature = True: must be a number, such as 0.5; yes, on"),
    (nested("model", hidden=[4, True]), "model.hidden.1 = True: must be a whole number"),
    (run_edit(seed=True), "seed = True: must be a whole number"),
    # Names of runs, which are names of files.
    (runs(**{"a b": RUN}), "runs.a b: a name may contain only letters, digits"),
    (runs(**{"a" * 300: RUN}), "the name has 300 characters; at most 200 are allowed"),
    (run_edit(grid={"split": [{"kind": "random", "note" + "x" * 250: 1}]}), "characters; at most 200 are allowed"),
    (run_edit(grid={"dataset": ["a data set"]}), "runs.one", "'one-a data set'", "unsuitable for file names"),
    (runs(One=RUN), "runs.One: the run names 'one' and 'One' differ only in case"),
    (runs(**{"one-seed1": RUN, "one": {**RUN, "grid": {"seed": [1, 2]}}}), "runs.one-seed1: two runs have the name"),
    # Settings of a run that do not go together.
    (run_edit(method={**HMC, "step_size": 3}), "method: step_size (3.0) must not exceed trajectory_length (1.0)"),
    (
        run_edit(method={**HMC, "step_size": 0.001, "jitter": 0.5, "max_leapfrog_steps": 1400}),
        "runs.one.method: max_leapfrog_steps (1400) would cut trajectories of up to 1500 steps",
    ),
    (run_edit(method={**HMC, "adapt_step_size": True, "burn_in": 0}), "method: adapt_step_size needs burn_in of at"),
    (nested("method", steps=105), "runs.one.method: steps (105) must be a multiple of thinning (10)"),
    (nested("method", phases=[0.8, 0.2, 0.1]), "runs.one.method: phases must add up to 1, not 1.1"),
    (nested("method", warmup=50), "warmup (50) leaves fewer than 10 steps", "(0.8, 0.1, 0.1)"),
    (nested("split", validation=0), "runs.one: warmstart.patience needs validation rows", "patience: null"),
    (permuted(kind="mlp", hidden=[]), "runs.one", "permuted (9) needs hidden units", "not 'mlp linear relu'"),
    (permuted(kind="lenetti"), "runs.one", "for model.kind 'mlp'", "not 'lenetti sigmoid'", "set it to null"),
    (stopping(split=HELD_OUT | {"validation_in_likelihood": True}), "and split.validation_in_likelihood: false"),
    (stopping(split={"test": 0.2}), "rows that the posterior is not conditioned on"),
    (stopping(split=HELD_OUT | {"validation": 0}, warmstart={"patience": None}), "set split.validation above 0"),
    (stopping(warmstart=None), "give the section warmstart, or leave stopping out"),
    (stopping(likelihood={"kind": "learned_noise"}), "has not learned the noise"),
    (stopping(chains_per_block=2), "stopping with 2 blocks"),
    (stopping(stopping={"alpha": 1.0}), "runs.one.stopping.alpha = 1.0: must be less than 1"),
    (stopping(stopping={"alpha": 0}), "runs.one.stopping.alpha = 0: must be greater than 0"),
    (stopping(stopping={"check": 3}), "runs.one.stopping: unknown key 'check'; allowed keys: alpha"),
    *(
        (stopping(method={"kind": kind}), f"for Markov chains, and method.kind '{kind}' runs none")
        for kind in ("deep_ensemble", "laplace", "mean_field", "map")
    ),
    # Grids and scales.
    (run_edit(grid={"model.hiden": [[4], [8]]}), "runs.one (grid model.hiden: [4]): model: unknown key 'hiden'"),
    (run_edit(grid={"warmstart.learning_rate": [0.1, -0.1]}), "runs.one", "learning_rate = -0.1", "greater than 0"),
    (run_edit(grid={"seed": 3}), "runs.one.grid.seed = 3", "must be a list, such as [a, b]"),
    (run_edit(grid={"seed": []}), "runs.one.grid.seed: an empty list defines no run"),
    (run_edit(grid={"seed": [1, 1]}), "runs.one.grid.seed: 1 is given twice"),
    (run_edit(grid={"likelihood.sigma": [1, 1.0]}), "runs.one.grid.likelihood.sigma: 1.0 is given twice"),
    (run_edit(grid={"dataset": ["diabetes", "airfol"]}), "runs.one.dataset = 'airfol': no such data set"),
    (run_edit(scales={"huge": {}}), "runs.one.scales.huge", "'laptop' or 'demo'"),
    (
        run_edit(grid={"likelihood.sigma": [1, 2]}, scales={"laptop": {"likelihood": {"sigma": 5}}}),
        "runs.one.scales.laptop: 'likelihood.sigma' has no effect", "set scales.laptop.grid.likelihood.sigma",
    ),
    # Data sets.
    (run_edit(dataset="airfol"), "runs.one.dataset = 'airfol': no such data set; config/datasets.yaml has diabetes, "),
    (run_edit(dataset="diabetis"), "runs.one.dataset = 'diabetis': no such data set (did you mean 'diabetes'?)"),
    (run_edit(likelihood={"kind": "categorical"}), "runs.one.likelihood.kind = 'categorical'", "'gaussian', 'learned"),
    (run_edit(dataset="words"), "runs.one.likelihood.kind = 'gaussian'", "for classification", "'categorical'"),
    (nested("split", kind="standard", count=21), "runs.one.split.count = 21", "at most 20 standard splits"),
    # Figures.
    (figure(runs=["oen"]), "figures.curve.runs: no run 'oen' (did you mean 'one'?); there are one"),
    (figure(runs=["one", "two"]), "figures.curve.runs: no run 'two'; there are one"),
    (figure(runs=["smal/one"]), "'smal/one': the study 'smal' is not loaded (did you mean 'small'?)", "config.yaml"),
    (figure(runs=[]), "figures.curve.runs = []", "at least one run is needed"),
    (figure(bins=3), "figures.curve: unknown key 'bins'", "allowed keys: draw, runs, labels, title, caption"),
    (figure(files=["set"]), "figures.curve.files.0 = 'set': no such file of a run (did you mean 'sets'?)"),
    (figure(files=["sets"]), "figures.curve.runs: 'one' has no further sets", "give the run evaluate.shifts"),
    (figure(files=["against"]), "figures.curve.runs: 'one' has no references; give the run evaluate.references"),
    (figure(grid={}), "figures.curve.grid: a figure of the kind 'curve' has no such section; it reads tables"),
    (figure(labels={"on": "First"}), "figures.curve.labels.on = 'First': not among the figure's runs; those are one"),
    (figures(curves={"runs": ["one"]}), "figures.curves.draw = 'curves': no such kind of figure", "'curve'?"),
    (figures(line={"runs": ["one"]}), "figures.line.runs = ['one']: this figure shows no runs; leave them out"),
    (figures(cloud={"runs": ["one"]}), "figures.cloud.grid: this figure needs the section", "bins, limit, per_layer"),
    (figures(bumps={"runs": ["one"]}), "figures.bumps.subset: this figure needs the section", "roles"),
    (figures(evidence={"runs": ["one"]}), "figures.evidence.runs: 'one'", "the posterior is not conditioned on"),
    (
        lambda s: (run_edit(grid={"seed": [1, 2]})(s), s["figures"].update(cloud={"runs": ["one"], "grid": {}})),
        "figures.cloud.runs = ['one']: this figure shows one run; choose one of one-seed1, one-seed2",
    ),
    (values(**LINE), "figures.curve.functions.inputs = 'line'", "'diabetes' (run one)", "[10]", "use 'test'"),
    (values(inputs="line", low=2, high=1), "figures.curve.functions", "low (2.0) must be below high (1.0)"),
    (values(inputs="grid"), "figures.curve.functions.inputs = 'grid'", "'test' or 'line'"),
    (values(), "figures.curve.functions.inputs: this key is missing"),
    (figure(draw="toy_bands", functions=LINE), "figures.curve.runs: 'one' is on 'diabetes'", "kind 'sinusoids'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "parts"), [(edit, parts) for edit, *parts in MISTAKES], ids=[of[1] for of in MISTAKES]
)
def test_mistakes_in_a_study(tmp_path: Path, edit: Edit, parts: list[str]) -> None:
    path = study_file(tmp_path, edit)
    with refused(*parts) as caught, counted_calls(most=1_000_000):
        load_study(path, "paper", DATASETS)
    assert all(line.startswith(str(path)) for line in str(caught.value).splitlines())


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    path = study_file(tmp_path, run_edit(chains=-1, seed="x", temperature=0))
    with refused("chains = -1", "seed = 'x'", "temperature = 0") as caught:
        load_study(path, "paper", DATASETS)
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(("chains", "per_block"), [(10, 4), (12, 9), (7, 3), (10, 20), (100, 48), (9973, 100)])
def test_chains_that_do_not_fill_blocks_get_a_number_that_works(tmp_path: Path, chains: int, per_block: int) -> None:
    with refused(f"chains ({chains}) must be a multiple of chains_per_block ({per_block})") as caught:
        load_study(study_file(tmp_path, run_edit(chains=chains, chains_per_block=per_block)), "paper", DATASETS)
    advice = int(str(caught.value).rpartition("chains_per_block: ")[2].removesuffix(" (line 4)"))
    assert chains % advice == 0
    assert advice <= per_block
    config = load_study(study_file(tmp_path, run_edit(chains=chains, chains_per_block=advice)), "paper", DATASETS)
    assert config.runs["one"].config.blocks == chains // advice


@pytest.mark.parametrize("scale", ["demo", "laptop", "paper"])
def test_mistake_in_a_scale_is_found_at_every_scale_and_names_it(tmp_path: Path, scale: Any) -> None:
    path = study_file(tmp_path, run_edit(scales={"demo": {"method": {"stepz": 10}}}))
    with refused(path, "at scale demo: runs.one: method: unknown key 'stepz'", "'steps'"):
        load_study(path, scale, DATASETS)


def test_scale_is_checked_as_a_whole(tmp_path: Path) -> None:
    path = study_file(tmp_path, run_edit(chains_per_block=4, scales={"demo": {"chains": 6}}))
    with refused("at scale demo", "chains (6)", "chains_per_block (4)"):
        load_study(path, "demo", DATASETS)


@pytest.mark.parametrize(("text", "found"), [("", "is empty"), ("- a\n", "has no keys"), ("word\n", "has no keys")])
def test_study_that_is_not_a_mapping(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(text)
    with refused(f"{path}: the file {found}; a study has keys such as title and runs"):
        load_study(path, "demo", DATASETS)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with refused("nothing.yaml: no such file"):
        load_study(tmp_path / "nothing.yaml", "demo", DATASETS)


FOLDER = "must be the path of a folder"


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"scale": "huge"}, ["scale = 'huge'", "'demo', 'laptop' or 'paper'"]),
        (
            {"studies": ["smal"]},
            ["(or --config): studies = 'smal'", "no such study (did you mean 'small'?); there are small"],
        ),
        ({"studies": "smal"}, ["studies = 'smal': no such study (did you mean 'small'?)"]),
        ({"studies": []}, ["studies = []: at least one study is needed; there are small"]),
        ({"device": "tpu"}, ["device = 'tpu'", "'cpu' or 'gpu'"]),
        ({"scael": "demo"}, ["unknown key 'scael'", "did you mean 'scale'?", "allowed keys: scale, studies"]),
        ({"results": 3}, ["results = 3", "must be text; put numbers, dates"]),
        ({"results": None}, ["results: is empty; must be text"]),
        ({"scale": None}, ["scale: is empty; must be 'demo', 'laptop' or 'paper'"]),
        ({"results": "-n"}, ["results = '-n': programs would read it as an option; write ./-n"]),
        (
            {"results": "$NOWHERE/x"},
            ["results = ", "write the whole path, such as /scratch/results"],
        ),
        ({"results": "~/x"}, ["results = ", "not expanded here; write /"]),
        ({"results": "a\0b"}, ["results = ", FOLDER]),
        ({"studies": ["small", "small"]}, ["studies = 'small': given twice"]),
        *(({"results": path}, ["results = ", FOLDER]) for path in ("", "  ", "{x}", "a{b", "a\nb")),
    ],
)
def test_mistakes_in_the_settings(tmp_path: Path, settings: dict[str, Any], parts: list[str]) -> None:
    folder = config_folder(tmp_path)
    with refused(folder / "config.yaml", *parts):
        load_atlas({"studies": ["small"]} | settings, folder)


@pytest.mark.parametrize("value", [3, {"a": 1}, [[1]]])
def test_no_word_of_python_reaches_the_user(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        load_atlas({"studies": value}, config_folder(tmp_path))
    assert not {"tuple", "str", "dict", "instance", "Input"} & set(str(caught.value).replace(",", " ").split())


def test_one_study_is_a_list_of_one(tmp_path: Path) -> None:
    assert load_atlas({"studies": "small"}, config_folder(tmp_path)).settings.studies == ("small",)


def test_mistake_in_the_registry_names_its_file(tmp_path: Path) -> None:
    folder = config_folder(tmp_path)
    data = yaml.safe_load((folder / "datasets.yaml").read_text())
    data["diabetes"]["rows"] = -5
    (folder / "datasets.yaml").write_text(yaml.safe_dump(data))
    with refused(folder / "datasets.yaml", "diabetes.rows = -5", "greater than or equal to 1", "(line 5)"):
        load_atlas({"studies": ["small"]}, folder)


def test_schemas_state_the_bounds() -> None:
    study = json.loads((REPOSITORY / "workflow" / "schemas" / "study.schema.json").read_text())["$defs"]
    assert study["SplitConfig"]["properties"]["count"]["maximum"] == 1000
    assert study["RunEntry"]["properties"]["chains"]["maximum"] == 100_000
    assert study["NormalPrior"]["properties"]["scale"].items() >= {"minimum": 1e-18, "maximum": 1e18}.items()
    assert study["MLPConfig"]["properties"]["hidden"]["items"]["maximum"] == 100_000


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("claims/smal.yaml", "there is no study 'smal' (did you mean 'small'?); there are small; rename or remove"),
        ("claims/ghost.yaml", "there is no study 'ghost'; there are small"),
        ("studies/more.yml", "only files that end in .yaml are read; rename it to more.yaml"),
        ("claims/small.yml", "only files that end in .yaml are read; rename it to small.yaml"),
    ],
)
def test_files_that_would_be_ignored_are_refused(file: str, message: str, tmp_path: Path) -> None:
    folder = config_folder(tmp_path)
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text("title: A file\n", encoding="utf-8")
    with refused(f"{folder / file}: {message}"):
        load_atlas({"studies": ["small"]}, folder)


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ("/", "contains the repository itself"),
        ("..", "contains the repository itself"),
        (".", "contains the repository itself"),
        ("results/..", "contains the repository itself"),
        ("src", "the folder src has other contents; use a separate folder"),
        ("./src/bnn_atlas", "the folder src has other contents"),
        ("config", "the folder config has other contents"),
        (".snakemake/x", "the folder .snakemake has other contents"),
        ("Snakefile", "this is a file; name a folder"),
        ("results", ""),
        ("../elsewhere", ""),
        ("../earlier", ""),
        ("../system", "has other contents; use a separate folder"),
    ],
)
def test_folders_that_are_not_for_results(
    results: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = config_folder(tmp_path / "clone" / "config")
    (tmp_path / "clone" / "Snakefile").touch()
    for other in ("system/passwd", "earlier/demo", "earlier/notes"):
        (tmp_path / other).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "clone")
    with refused(f"results = '{results}': ", why) if why else contextlib.nullcontext():
        load_atlas({"studies": ["small"], "results": results}, folder)


def test_no_folder_of_the_repository_is_for_results() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    folders = {name.partition("/")[0] for name in files.splitlines() if "/" in name}
    assert {name for name in folders if not name.startswith(".")} == set(OWN)


@pytest.mark.parametrize(("text", "found"), [("", "the file is empty"), ("- a\n", "the file has no keys")])
def test_settings_without_keys(text: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with refused(f"{tmp_path / 'config.yaml'}: {found}; write at least `scale: demo`"):
        read_settings(tmp_path / "config.yaml")
