"""Params that carry their names."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

from bnn_atlas.config.methods.mclmc import MCLMCConfig
from bnn_atlas.config.parts.posterior import LearnedNoiseLikelihood, MLPConfig, PosteriorConfig
from bnn_atlas.pipeline.params import code_hash_of_run, named, row_settings, run_settings, told
from bnn_atlas.pipeline.steps import compared, settings

RULES = Path(__file__).parents[2] / "workflow" / "rules"


def test_settings_come_back_from_params_by_their_names() -> None:
    params = {"prior": {"posterior.prior": {"kind": "normal"}}, "both": {"posterior.float64": False, "seed": 3}}
    given = {"posterior": {"prior": {"kind": "normal"}, "float64": False}, "seed": 3, "scale": "demo"}
    assert settings(params | {"scale": "demo"}) == given


def test_each_field_of_a_run_is_a_param_of_its_own() -> None:
    config = SimpleNamespace(**{name: name.upper() for name in (*PosteriorConfig.model_fields, "method")})
    inputs = SimpleNamespace(run=lambda w: SimpleNamespace(config=config))
    params = {name: param(None) for name, param in run_settings(inputs, "posterior", "method").items()}
    assert all(len(param) == 1 for param in params.values())
    posterior = {name: name.upper() for name in PosteriorConfig.model_fields}
    assert settings(params) == {"posterior": posterior, "method": "METHOD"}


def test_a_value_of_its_own() -> None:
    (param,) = named(seed=lambda w: w + 1).values()
    assert param(3) == {"seed": 4}


def test_rules_that_write_rows_of_metrics_have_one_source_of_identity_and_marks() -> None:
    inputs = SimpleNamespace(identity=lambda w: {"run": w}, marks=lambda w: ["rows are dependent"])
    params = {name: param("mile") for name, param in row_settings(inputs).items()}
    assert settings(params) == {"identity": {"run": "mile"}, "marks": ["rows are dependent"]}
    rules = "\n".join(file.read_text(encoding="utf-8") for file in RULES.glob("*.smk"))
    assert rules.count("row_settings(INPUTS)") == 7
    assert not re.search(r"\bmarks\b|\bidentity\b", rules)


def test_a_job_is_not_told_the_hash_of_its_code() -> None:
    posterior = PosteriorConfig(model=MLPConfig(hidden=[2]), likelihood=LearnedNoiseLikelihood())
    config = SimpleNamespace(method=MCLMCConfig(), posterior=posterior, stopping=None)
    study = SimpleNamespace(runs={"run": SimpleNamespace(config=config)})
    inputs = SimpleNamespace(atlas=SimpleNamespace(studies={"study": study}))
    (param,) = code_hash_of_run(inputs).values()
    given = param(SimpleNamespace(study="study", run="run"))
    assert re.fullmatch("[0-9a-f]{12}", given["code"])
    assert settings({"code": given, "seed": {"seed": 3}}) == {"seed": 3}


def test_what_a_job_alone_is_told_takes_the_input_so_that_it_is_not_compared() -> None:
    (param,) = told(file=lambda w: w.upper()).values()
    assert settings({"file": param("a", input=None)}) == {"file": "A"}
    assert compared([param("a", input=None), {"b": 1}, "c"]) == [{"b": 1}, "c"]
    assert list(inspect.signature(param).parameters) == ["w", "input"]
