"""The pages docs/configuration/ with all configuration keys, generated from the settings classes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, RootModel

from bnn_atlas.config.claims.load import ClaimEntry, ClaimsFile, Families
from bnn_atlas.config.data.datasets import RegistryFile
from bnn_atlas.config.language.reading import read_yaml
from bnn_atlas.config.methods.registry import METHODS, MethodConfig
from bnn_atlas.config.runs.studies import StudyConfig
from bnn_atlas.config.settings import Settings
from bnn_atlas.published import read_published

Schema = Mapping[str, Any]
TITLES = {
    "config": "config/config.yaml",
    "methods": "Methods of a run",
    "studies": "config/studies/&lt;study&gt;.yaml",
    "claims": "config/claims/&lt;study&gt;.yaml",
    "datasets": "config/datasets.yaml",
}
ROOTS: dict[str, type[BaseModel]] = {
    "config": Settings,
    "methods": RootModel[MethodConfig],
    "studies": StudyConfig,
    "claims": ClaimsFile,
    "datasets": RegistryFile,
}
HEADINGS = {"DatasetEntry": "A data set", "OwnTable": "Your own table"}
"""Definition -> heading, for sections that have neither a key nor a kind."""
ABOUT = """
Every key of the files in `config/`, with its values and its default. A section with a `kind` takes the keys of that
kind, such as `model: { kind: mlp, hidden: [8, 8] }`. Unless stated otherwise, numbers are at most 1e18
in absolute value and counts at most 1e9. Each example is the first place in `config/` where such a section is used.
`make schema` writes these pages, and the JSON schemas in `workflow/schemas/` with which editors check the files.
"""
GREATEST = 1e5
"""Bounds of at least this size are not shown: they only keep mistakes from exhausting the machine."""


class Section(NamedTuple):
    """A heading of a page, and the definition below it."""

    heading: str
    definition: str | None
    level: int


class Reference:
    """The pages of `docs/configuration/`."""

    def __init__(self, config: Path) -> None:
        """Plan the order of all sections; `config` is the folder from which examples are taken."""
        self._examples = _examples(config)
        self._definitions: dict[str, Schema] = {}
        self._anchors: dict[str, str] = {}
        self._plans = {name: (root.model_json_schema(), list[Section]()) for name, root in ROOTS.items()}
        for name, (schema, sections) in self._plans.items():
            self._definitions |= schema.get("$defs", {})
            sections += self._planned(schema.get("properties", {"": schema}), "", [])
            seen: list[str] = []
            for section in sections:
                slug = re.sub(r"[^\w -]", "", section.heading.lower()).replace(" ", "-")
                anchor = f"{slug}-{seen.count(slug)}" if slug in seen else slug
                seen.append(slug)
                if section.definition:
                    self._anchors[section.definition] = f"{name}.md#{anchor}"

    def pages(self) -> dict[str, str]:
        """Name of each file -> its text."""
        return {f"{name}.md": self._page(name) for name in ROOTS}

    def _planned(self, fields: Schema, parent: str, keys: list[str]) -> Iterator[Section]:
        """A section for each key whose values are sections, once, followed by the sections of the keys inside it."""
        for key, field in fields.items():
            new = [name for name in _named(field) if name not in self._anchors]
            if not new:
                continue
            self._anchors |= dict.fromkeys(new, "")
            alone = len(_named(field)) == 1
            if key:
                heading = f"`{key}` of `{parent}`" if key in keys else f"`{key}`"
                yield Section(heading, new[0] if alone else None, 2)
                keys.append(key)
            for name in [] if alone and key else new:
                kinds = ", ".join(f"`{kind}`" for kind in _kinds(self._definitions[name]))
                yield Section(kinds or HEADINGS[name], name, 3 if key else 2)
            for name in new:
                definition = self._definitions[name]
                yield from self._planned(definition["properties"], next(iter(_kinds(definition)), key), keys)

    def _page(self, page: str) -> str:
        schema, sections = self._plans[page]
        lines = ["# Configuration" if page == "config" else f"# {TITLES[page]}"]
        if page == "config":
            others = ", ".join(f"[{title}]({name}.md)" for name, title in TITLES.items() if name != page)
            lines += [ABOUT.rstrip(), "", f"Other pages: {others}.", "", f"## {TITLES[page]}"]
        if page == "methods":
            lines += _methods()
        if "properties" in schema:
            lines += self._fields(schema, page)
        if page == "config":
            lines += self._example(schema["title"])
        for heading, name, level in sections:
            lines += ["", f"{'#' * level} {heading}"]
            if name:
                definition = self._definitions[name]
                lines += ["", _text(definition.get("description", "")), *self._fields(definition, page)]
                lines += self._example(name)
        return "\n".join(lines) + "\n"

    def _fields(self, schema: Schema, page: str) -> Iterator[str]:
        """A table of the keys of a section."""
        shown = {name: field for name, field in schema["properties"].items() if not _is_tag(name, field)}
        if shown:
            yield from ("", "| key | value | default | meaning |", "|---|---|---|---|")
        for name, field in shown.items():
            default = "**required**" if name in schema.get("required", ()) else _default(field)
            value = self._allowed(field).replace(f"({page}.md#", "(#")
            yield f"| `{name}` | {value} | {default} | {_text(field['description'])} |"

    def _allowed(self, field: Schema) -> str:
        """The values of a field in a few words, with links to sections."""
        if "enum" in field:
            return ", ".join(f"`{value}`" for value in field["enum"])
        if "$ref" in field:
            return f"[section]({self._anchors[_name(field)]})"
        if options := field.get("anyOf") or field.get("oneOf"):
            if "discriminator" in field:
                kinds = field["discriminator"]["mapping"].items()
                return ", ".join(f"[`{kind}`]({self._anchors[_name({'$ref': ref})]})" for kind, ref in kinds)
            return " or ".join(dict.fromkeys(self._allowed(option) for option in options))
        kind = field.get("type")
        if kind == "array":
            items: Schema = field.get("items") or next(iter(field.get("prefixItems", ())), {})
            return f"list of {self._allowed(items)}" if items else "list"
        if kind == "object":
            return f"{self._allowed(field['additionalProperties'])} for each name" if _named(field) else "section"
        return {"string": "text", "boolean": "`true`, `false`", "null": "`null`"}.get(str(kind), _number(field))

    def _example(self, definition: str) -> Iterator[str]:
        """The first occurrence of such a section in a file of config/, as an example."""
        if definition not in self._examples:
            return
        file, keys, value = self._examples[definition]
        if keys:
            last = keys[-1]
            value = {last: value} if isinstance(last, str) else {keys[-2]: [value]}
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
        yield from ("", "```yaml", f"# {file}{': ' if keys else ''}{'.'.join(map(str, keys))}", text.rstrip(), "```")


def _examples(config: Path) -> dict[str, tuple[str, tuple[str | int, ...], Any]]:
    """Class of a section -> file, keys and content of its first occurrence; families of claims are left out."""
    found: dict[str, tuple[str, tuple[str | int, ...], Any]] = {}

    def look(value: Any, written: Any, file: str, keys: tuple[str | int, ...]) -> None:
        if isinstance(value, RootModel):
            value = value.root
        parts: Iterable[tuple[str | int, Any]] = ()
        if isinstance(value, BaseModel):
            found.setdefault(type(value).__name__, (file, keys, written))
            parts = ((name, getattr(value, name)) for name in type(value).model_fields if name in written)
        elif isinstance(value, dict):
            parts = ((name, part) for name, part in value.items() if name in written)
        elif isinstance(value, tuple):
            parts = enumerate(value)
        for key, part in parts:
            look(part, written[key], file, (*keys, key))

    files: dict[str, type[BaseModel]] = {"config.yaml": Settings, "datasets.yaml": RegistryFile}
    files |= {f"studies/{path.name}": StudyConfig for path in sorted((config / "studies").glob("*.yaml"))}
    files |= {f"claims/{path.name}": ClaimsFile for path in sorted((config / "claims").glob("*.yaml"))}
    for name, model in files.items():
        written = read_yaml(config / name)
        whole = written
        if model is ClaimsFile:
            numbers = read_published(config / "published" / f"{Path(name).stem}.csv")
            claims = Families(written["claims"], tuple(ClaimEntry.model_fields), numbers, name).claims
            whole = written | {"claims": claims}
        look(model.model_validate(whole), written, f"config/{name}", ())
    return found


def _methods() -> Iterator[str]:
    """A table of the methods, from their settings classes."""
    yield from ("", "Values of `method` of a [run](studies.md#runs).", "")
    yield from ("| kind | name in figures | method | draws |", "|---|---|---|---|")
    for kind, record in METHODS.items():
        about = (record.__doc__ or "").partition("\n")[0].removesuffix(".")
        yield f"| [`{kind}`](#{kind}) | {record.title} | {_text(about)} | {record.kind_of_draws} |"


def _name(reference: Schema) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _named(field: Schema) -> list[str]:
    """Definitions to which a field's values may belong, at any depth."""
    if "$ref" in field:
        return [_name(field)]
    parts = [*field.get("anyOf", ()), *field.get("oneOf", ()), *field.get("prefixItems", ())]
    parts += [part for key in ("items", "additionalProperties") if isinstance(part := field.get(key), dict)]
    parts += field.get("patternProperties", {}).values()
    return list(dict.fromkeys(name for part in parts for name in _named(part)))


def _kinds(definition: Schema) -> list[str]:
    """The values of `kind` or `format` that select this definition."""
    tags = [field for name, field in definition["properties"].items() if _is_tag(name, field)]
    return [str(value) for tag in tags for value in tag.get("enum", [tag.get("const")])]


def _is_tag(name: str, field: Schema) -> bool:
    """Whether a field only states the kind of its section."""
    return "const" in field or name == "format"


def _default(field: Schema) -> str:
    value = field.get("default", "")
    if value in ({}, [], "") or isinstance(value, dict):
        return ""
    return f"`{'null' if value is None else str(value).lower() if isinstance(value, bool) else value}`"


def _number(field: Schema) -> str:
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    bounds = {sign: field[key] for key, sign in signs.items() if key in field and abs(field[key]) < GREATEST}
    if 0 < bounds.get("≥", 1) < 1 / GREATEST:
        bounds = {">": 0} | {sign: bound for sign, bound in bounds.items() if sign != "≥"}
    noun = {"integer": "whole number", "number": "number"}.get(str(field.get("type")), "anything")
    return " ".join([noun, " and ".join(f"{sign} {bound:g}" for sign, bound in bounds.items())]).strip()


def _text(description: str) -> str:
    return re.sub(r"\s+", " ", description).replace("|", "\\|").strip()
