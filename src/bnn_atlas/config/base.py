"""What every configuration model shares: strict keys and errors that a person can act on."""

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

Fraction = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class ConfigError(ValueError):
    """A setting is wrong; the message names the file, the key, the value and what is allowed."""


class Model(BaseModel):
    """Immutable settings that refuse unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            allowed = list(cls.model_fields)
            for key in data:
                if key not in allowed:
                    close = difflib.get_close_matches(str(key), allowed, n=1)
                    hint = f" (did you mean '{close[0]}'?)" if close else ""
                    raise PydanticCustomError(
                        "unknown_key",
                        "unknown key '{key}'{hint}; allowed keys: {allowed}",
                        {"key": key, "hint": hint, "allowed": ", ".join(allowed)},
                    )
        return data


ByKind = BeforeValidator(lambda data: {"kind": None, **data} if isinstance(data, dict) else data)
"""Annotates a union of models with a `kind`: a section without one gets the error that lists the kinds there are."""

ModelT = TypeVar("ModelT", bound=BaseModel)


def validated(model: type[ModelT], data: Any, source: str) -> ModelT:
    """Parse `data` as `model`; every problem becomes one line that names `source`, key and value.

    Raises ConfigError with all problems.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = [_line(problem, data) for problem in error.errors(include_url=False)]
        raise ConfigError("\n".join(f"{source}: {line}" for line in lines)) from None


def _line(problem: Any, data: Any) -> str:
    """One problem as `key = value: what is allowed`; union tags that pydantic puts into the path are left out."""
    path, here = [], data
    for step in problem["loc"]:
        entry = isinstance(here, dict) and step in here
        item = isinstance(here, list | tuple) and isinstance(step, int) and step < len(here)
        if entry or item:
            here = here[step]
        elif isinstance(here, dict) and step in (here.get("kind"), here.get("format")):
            continue
        path.append(str(step))
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "union_tag_invalid":
        key = problem["ctx"]["discriminator"].strip("'")
        path.append(key)
        here, message = here.get(key), f"allowed are {problem['ctx']['expected_tags']}"
    if problem["type"] in ("unknown_key", "missing") or isinstance(here, dict):
        return f"{'.'.join(path) or 'top level'}: {message}"
    return f"{'.'.join(path) or 'top level'} = {here!r}: {message}"


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice and reads 1e-3 as a number, as YAML 1.2 does."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """The next mapping, before merge keys (<<) are followed."""
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key '{key.value}' is given twice", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def read_yaml(path: Path) -> Any:
    """Parsed YAML of `path` (safe loader); ConfigError names the file and line of a syntax error."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
