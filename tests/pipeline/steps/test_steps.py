"""The function of each rule, called with what has names in the rule."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bnn_atlas.pipeline import steps

RULES = Path(__file__).parents[3] / "workflow" / "rules"


def scripted() -> dict[str, tuple[str, str]]:
    """Name of each rule with a script, or of the function of rules made in a loop -> the rule's text, its function."""
    text = "\n\n".join(file.read_text(encoding="utf-8") for file in sorted(RULES.glob("*.smk")))
    found = {}
    for block in re.split(r"^(?=[ ]*rule\b)", text, flags=re.MULTILINE):
        if "script:" in block:
            own, given = re.match(r"\s*rule (\w+):", block), re.search(r'step="([\w.]+)"', block)
            function = given[1] if given else steps.FUNCTIONS[own[1]]
            found[own[1] if own else function] = (block.partition("script:")[0], function)
    return found


def test_rules_with_functions_are_those_that_there_are() -> None:
    assert {name for name in scripted() if "." not in name} == set(steps.FUNCTIONS)


@pytest.mark.parametrize("rule", sorted(scripted()))
def test_names_in_a_rule_are_arguments_of_its_function(rule: str) -> None:
    text, function = scripted()[rule]
    module, _, name = function.rpartition(".")
    parameters = inspect.signature(getattr(import_module(f"bnn_atlas.pipeline.steps.{module}"), name)).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    sections = dict(re.findall(r"^ *(input|output|params):\n(.*?)(?=^ *\w+:$)", text, flags=re.MULTILINE | re.DOTALL))
    depth = min(len(line) - len(line.lstrip()) for part in sections.values() for line in part.splitlines() if line)
    files = [
        name
        for part in ("input", "output")
        for name in re.findall(rf"^ {{{depth}}}(\w+)=", sections.get(part, ""), flags=re.MULTILINE)
    ]
    (params,) = ast.parse(f"f({sections.get('params', '').strip()})").body
    calls = [part.value for part in params.value.keywords if part.arg is None]
    given = [part.arg for call in calls if call.func.id in ("named", "told") for part in call.keywords]
    assert files or given
    assert {*files, *given} <= set(parameters)


def test_a_function_gets_the_files_and_params_with_names(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("bnn_atlas.pipeline.steps.tables.table", lambda **arguments: given.update(arguments))
    job = SimpleNamespace(
        rule="table",
        input={"tables": ("a", "b")},
        output={"destination": "c"},
        params={"marks": {"marks": ["d"]}, "scale": "demo"},
        resources={},
    )
    steps.run(job)
    assert given == {"tables": ["a", "b"], "destination": "c", "marks": ["d"], "scale": "demo"}
    job.params["step"] = "tables.runs_table"
    monkeypatch.setattr("bnn_atlas.pipeline.steps.tables.runs_table", lambda **arguments: given.update(other=arguments))
    steps.run(job)
    assert given["other"] == {"tables": ["a", "b"], "destination": "c", "marks": ["d"], "scale": "demo"}


@pytest.mark.parametrize(("rule", "shards"), [("sample", 2), ("predict", 1)])
def test_jobs_that_compute_with_jax_are_configured(monkeypatch: pytest.MonkeyPatch, rule: str, shards: int) -> None:
    calls: list[Any] = []
    monkeypatch.setattr("bnn_atlas.runtime.configure", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(f"bnn_atlas.pipeline.steps.{rule}.{rule}", lambda **arguments: calls.append(arguments))
    posterior = {"float64": True, "data_shards": 2}
    job = SimpleNamespace(
        rule=rule,
        input={},
        output={},
        params={"posterior": {"posterior": posterior}},
        threads=3,
        resources={"gpu": 0},
    )
    steps.run(job)
    assert calls == [(3, "cpu", True, shards), {"posterior": posterior}]
