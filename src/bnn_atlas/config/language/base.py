"""Common parts of all configuration models: bounds of values, strict keys, and errors that a person can act on."""

import ast
import difflib
import inspect
import re
import reprlib
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Self, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

SMALLEST, LARGEST = 1e-18, 1e18
"""Bounds of a setting, such that float32 holds its square (such as a variance) with full precision."""
MOST = 10**9
"""Upper bound of counts that need no memory, such as steps and epochs."""
MOST_CHAINS = 100_000
MOST_SPLITS = 1_000
MOST_JOBS = 10_000
"""Largest number of sampling jobs for one run: its splits times its blocks of chains."""
MOST_RUNS = 10_000
"""Largest number of runs in one grid."""
WIDEST = 100_000
"""Largest number of units in one layer."""


Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Positive = Annotated[float, Field(ge=SMALLEST, le=LARGEST)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST)]
Share = Annotated[float, Field(ge=0, lt=1)]
Fraction = Annotated[float, Field(gt=0, lt=1)]

Count = Annotated[int, Field(ge=1, le=MOST)]
CountOrNone = Annotated[int, Field(ge=0, le=MOST)]
"""A count that may be 0."""
Given = Annotated[Positive | None, Field(exclude_if=lambda value: value is None)]
GivenCount = Annotated[Count | None, Field(exclude_if=lambda value: value is None)]
"""Numbers that are left out of stored settings if they are not given."""
Chains = Annotated[int, Field(ge=1, le=MOST_CHAINS)]
Splits = Annotated[int, Field(ge=1, le=MOST_SPLITS)]
Width = Annotated[int, Field(ge=1, le=WIDEST)]
Depth = Annotated[int, Field(ge=1, le=1_000)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]

_DATASET = r"^[a-z][a-z0-9_]{0,99}$"
_FILE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
_SHA256 = r"^[0-9a-f]{64}$"
_URL = r"^https?://[^\s]+$"
_TEXT = r"\S"
WANTED = {
    _DATASET: "must be a lower-case letter, then lower-case letters, digits and '_', at most 100 in all",
    _FILE: "must be a file name without folders: at most 200 letters, digits, '.', '_' and '-'",
    _SHA256: "must be the 64 digits (0-9, a-f) that `sha256sum` prints",
    _URL: "must be an address that begins with http:// or https:// and contains no blanks",
    _TEXT: "must not be blank; leave an optional key out instead",
}
"""Regular expression for a text -> description of the allowed texts for readers."""

DatasetName = Annotated[str, StringConstraints(pattern=_DATASET)]
FileName = Annotated[str, StringConstraints(pattern=_FILE)]
Sha256 = Annotated[str, StringConstraints(pattern=_SHA256)]
Url = Annotated[str, StringConstraints(pattern=_URL)]
Text = Annotated[str, StringConstraints(pattern=_TEXT)]
"""Non-empty text for readers."""


class ConfigError(ValueError):
    """A setting is wrong; the message states the file, the key, the value and the allowed values."""


def refuse(where: str, problems: Iterable[str]) -> None:
    """Raise ConfigError with the first of these problems, if there is any, after the prefix `where`."""
    for problem in problems:
        raise ConfigError(where + problem)


SHORT, LONGEST_LIST = 4, 12
"""Length of short names, which are matched more loosely, and of the longest list that is printed in full."""


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """` (did you mean '...'?)` with the closest allowed name; empty if no name is close."""
    close = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6 if len(name) <= SHORT else 0.75)
    return f" (did you mean '{close[0]}'?)" if close else ""


def near_or_all(name: str, there: str, allowed: Iterable[str], also: Iterable[str] = ()) -> str:
    """` (did you mean '...'?)` if a name is close, and `; <there> a, b, c`; a long list only if no name is close.

    Names in `also` may be suggested but are not listed.
    """
    names = list(allowed)
    near = did_you_mean(name, [*names, *also])
    return near if near and len(names) > LONGEST_LIST else f"{near}; {there} {', '.join(names) or 'none'}"


class Model(BaseModel):
    """Immutable settings that reject unknown keys and inconsistent values."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe each field by the text below it or below the field it overrides; read only here (0.4 s)."""
        schema = handler(core_schema)
        texts: dict[str, str] = {}
        for model in reversed(cls.__mro__):
            texts |= _texts(model) if issubclass(model, Model) else {}
        for name, field in handler.resolve_ref_schema(schema).get("properties", {}).items():
            if name in texts:
                field.setdefault("description", texts[name])
        return schema

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        """Reject unknown keys.

        Turn `true` into text, so that pydantic does not read it as the number 1; read 1e30 as a whole number.
        """
        if not isinstance(data, dict):
            return data
        allowed = cls.model_fields
        for key in data:
            if key not in allowed:
                hint = near_or_all(str(key), "allowed keys:", allowed)
                raise PydanticCustomError("unknown_key", "unknown key '{key}'{hint}", {"key": key, "hint": hint})
        numbers = _numbers(cls)
        return {key: _number(value, numbers[key]) if key in numbers else value for key, value in data.items()}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for problem in self._contradictions():
            raise ValueError(problem)
        return self

    def _contradictions(self) -> Iterable[str]:
        """Messages about inconsistent settings and how to mend them; the first message becomes the error."""
        return ()


@cache
def _texts(model: type) -> dict[str, str]:
    """Field of a settings class -> the text below it in the source."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for field, below in pairwise(definition.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = inspect.cleandoc(text)
    return texts


@cache
def _numbers(model: type[Model]) -> dict[str, bool]:
    """Field of a model that holds a number or a list of numbers -> whether the numbers are whole."""
    types = {name: _types(field.annotation) - {type(None)} for name, field in model.model_fields.items()}
    return {name: float not in of for name, of in types.items() if of and of <= {int, float}}


def _types(annotation: Any) -> set[Any]:
    """The elementary types that occur in a type annotation."""
    if get_origin(annotation) is Annotated:
        return _types(get_args(annotation)[0])
    parts = [part for part in get_args(annotation) if part is not Ellipsis]
    return set().union(*map(_types, parts)) if parts else {annotation}


def _number(value: Any, whole: bool) -> Any:
    if isinstance(value, list):
        return [_number(part, whole) for part in value]
    if isinstance(value, bool):
        return str(value)
    return int(value) if whole and isinstance(value, float) and value.is_integer() else value


ByKind = BeforeValidator(lambda data: {"kind": None, **data} if isinstance(data, dict) else data)
"""Annotates a union of models with a `kind`: a section without a `kind` gets the error that lists all kinds."""

ModelT = TypeVar("ModelT", bound=BaseModel)


MESSAGES = {
    "missing": "this key is missing",
    "int_parsing": "must be a whole number, such as 4",
    "int_type": "must be a whole number, such as 4",
    "int_from_float": "must be a whole number, such as 4",
    "int_parsing_size": "must be a whole number, such as 4",
    "float_parsing": "must be a number, such as 0.5",
    "float_type": "must be a number, such as 0.5",
    "finite_number": "must be a finite number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text; put numbers, dates, yes, no, on, off, true and false in quotes if they are text",
    "tuple_type": "must be a list, such as [a, b]",
    "list_type": "must be a list, such as [a, b]",
    "dict_type": "must be a section: keys, each with a value",
    "model_type": "must be a section: keys, each with a value",
    "model_attributes_type": "must be a section: keys, each with a value",
}
"""Error type of pydantic -> message in terms of the file instead of Python."""


def validated(
    model: type[ModelT], data: Any, source: str, place_of: Callable[[Sequence[Any]], tuple[int, int]] | None = None
) -> ModelT:
    """Parse `data` as `model`; every problem becomes one line with `source`, the key and the value.

    If `data` is the whole content of a file, `place_of` maps a path of keys to its line and column in the file, and
    messages state the line; a problem that several entries copy by aliases is reported once. Raises ConfigError with
    all problems.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        told: dict[Any, list[str]] = {}
        for problem in _own(error.errors(include_url=False)):
            path, text = _problem(problem, data)
            name = ".".join(map(str, path)) or "top level"
            place = place_of(path) if place_of else None
            told.setdefault((place, path[-1:] if place else path, text), []).append(f"{source}: {name}{text}")
        raise ConfigError("\n".join(_told(key[0], texts) for key, texts in told.items())) from None


def _own(problems: Sequence[Any]) -> list[Any]:
    """Problems, without the ones that follow from other problems.

    Pydantic does not count rejected items of a list, and reports each item that a list lacks: the last such report
    tells how many items are required.
    """
    lacking = {problem["loc"] for problem in problems if problem["type"] == "missing"}
    return [
        problem
        for problem in problems
        if not (problem["type"] == "too_short" and len(problem["input"]) >= problem["ctx"]["min_length"])
        and not (_lacks_item(problem) and (*problem["loc"][:-1], problem["loc"][-1] + 1) in lacking)
    ]


def _lacks_item(problem: Any) -> bool:
    return problem["type"] == "missing" and isinstance(problem["loc"][-1], int)


def _told(place: tuple[int, int] | None, texts: list[str]) -> str:
    """Text of one problem, with its line and the number of other entries that copy it."""
    if place is None:
        return texts[0]
    others = len(set(texts)) - 1
    copies = f", and {others} other {'entry that copies' if others == 1 else 'entries that copy'} it" if others else ""
    return f"{texts[0]} (line {place[0]}{copies})"


def _problem(problem: Any, data: Any) -> tuple[tuple[Any, ...], str]:
    """Path of keys of a problem, without the union tags that pydantic adds, and text ` = value: what is allowed`."""
    path: list[Any] = []
    here, last = data, len(problem["loc"]) - 1
    for place, step in enumerate(problem["loc"]):
        entry = isinstance(here, dict) and step in here
        item = isinstance(here, list | tuple) and isinstance(step, int) and step < len(here)
        if entry or item:
            here = here[step]
        elif isinstance(here, dict) and (place < last or problem["type"] != "missing"):
            continue
        path.append(step)
    message = _message(problem)
    if _lacks_item(problem):
        return tuple(path[:-1]), f" = {_SHORT.repr(here)}: must have {plural(path[-1] + 1, 'item')}"
    if isinstance(here, bool) and problem["type"].endswith("_parsing"):
        message += "; yes, on, true and their opposites are not numbers"
    if problem["type"] == "union_tag_invalid":
        key = problem["ctx"]["discriminator"].strip("'")
        path.append(key)
        here, message = here.get(key), _choice("allowed are", problem["ctx"]["expected_tags"], here.get(key))
    elif problem["type"] != "missing" and here is None:
        return tuple(path), f": is empty; {message.partition(';')[0]}"
    elif problem["type"] == "literal_error":
        message = _choice("must be", problem["ctx"]["expected"], here)
    if problem["type"] in ("unknown_key", "missing") or isinstance(here, dict):
        return tuple(path), f": {message}"
    return tuple(path), f" = {_SHORT.repr(here)}: {message}"


def _choice(must: str, names: str, given: Any) -> str:
    """Text with the allowed names and the closest one; a long list is left out if a name is close."""
    allowed = re.findall(r"'([^']*)'", names)
    near = did_you_mean(given, allowed).strip(" ()") if isinstance(given, str) else ""
    if near and len(allowed) > LONGEST_LIST:
        return near
    return f"{must} {names} ({near})" if near else f"{must} {names}"


def _message(problem: Any) -> str:
    """Message for a problem: what the value must be."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in MESSAGES:
        return MESSAGES[kind]
    if kind == "string_pattern_mismatch" and context["pattern"] in WANTED:
        return WANTED[context["pattern"]]
    if context.get("ge") == SMALLEST or LARGEST in (context.get("le"), -context.get("ge", 0)):
        if context.get("ge") == SMALLEST and problem["input"] <= 0:
            return "must be greater than 0"
        bounds = f"between {context['ge']:g} and" if "ge" in context else "at most"
        return f"must be {bounds} {LARGEST:g} (float32 must hold its square)"
    if kind == "too_short":
        return f"must have at least {plural(context['min_length'], 'item')}"
    if kind == "too_long":
        return f"must have at most {plural(context['max_length'], 'item')}"
    message: str = problem["msg"]
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


def plural(count: int, noun: str) -> str:
    """A count and its noun, in the plural unless the count is 1."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


_SHORT = reprlib.Repr()
_SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxlevel = 80, 80, 40, 8, 4, 3
