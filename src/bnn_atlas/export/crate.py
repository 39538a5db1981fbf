"""Description of an archive of results as an RO-Crate: the command that made the results, its inputs and its outputs.

The description conforms to the profile Process Run Crate 0.5.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from mimetypes import guess_type
from pathlib import Path
from typing import Any

METADATA = "ro-crate-metadata.json"
"""Name of the file that describes an RO-Crate."""
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
LICENCE = "https://spdx.org/licenses/MIT"
"""The licence of this package and of its results; data have their own licences."""
AUTHORS = "The BNN Atlas authors"


def crate(
    about: Mapping[str, Any], scale: str, pictures: Collection[str], made: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The contents of METADATA.

    Args:
        about: `target`, the figure or study; `papers`, study -> paper; `data`, data set -> `title`, `licence` and
            `urls`; `version` of this package.
        scale: the scale of the results.
        pictures: names of the pictures in the archive.
        made: the records of all jobs, including the jobs that fetched data.
    """
    from rocrate.model.contextentity import ContextEntity
    from rocrate.rocrate import ROCrate

    whole, now = ROCrate(version="1.1"), datetime.now(UTC).date().isoformat()

    def add(identity: str, kind: str, **properties: Any) -> Any:
        return whole.add(ContextEntity(whole, identity, properties={"@type": kind, **properties}))

    names = sorted(name for record in made for name in record["outputs"])
    places = [Path(name).parts for name in names]
    used = sorted({place[1] for place in places if place[0] == "data"} & about["data"].keys())
    studies = [study for study in about["papers"] if any(study == place[0] for place in places)]
    licence = add(LICENCE, "CreativeWork", name="MIT", description="The licence of the software and its results")
    authors = add("#authors", "Organization", name=AUTHORS)
    software = add(
        "#bnn-atlas",
        "SoftwareApplication",
        name="BNN Atlas",
        softwareVersion=f"{about['version']}, commit {_listed(made, 'commit')}",
        softwareRequirements=sorted({f"{k} {v}" for record in made for k, v in record.get("versions", {}).items()}),
        license=licence,
        author=authors,
    )
    data = [_data(add, name, about["data"][name]) for name in used]
    results = whole.add_dataset(
        dest_path=f"results/{scale}",
        properties={
            "name": "Results",
            "description": f"{len(names)} results of {len(made)} jobs; the file .NAME.record next to each result "
            "records how it was made: settings, SHA-256 of inputs and outputs, code, packages and processor",
        },
    )
    drawn = [whole.add_file(dest_path=name, properties=_picture(name)) for name in sorted(pictures)]
    command = f"snakemake --cores 2 {about['target']} --config scale={scale}"
    action = add(
        "#run",
        "CreateAction",
        name=command,
        description=f"{len(made)} jobs on {_listed(made, 'processor')}",
        instrument=software,
        object=_plain(data),
        result=[*drawn, results],
        agent=authors,
        endTime=now,
    )
    root = whole.root_dataset
    root["conformsTo"] = add(PROFILE, "CreativeWork", name="Process Run Crate", version="0.5")
    root["name"] = f"Results of {about['target']} at scale {scale}"
    root["description"] = (
        f"All results from which {about['target']} was made, without data. A clone of BNN Atlas remakes it without "
        "sampling: "
        f"{command} published=THIS_FILE"
    )
    root["license"], root["author"], root["mentions"] = licence, authors, action
    root["citation"] = _plain([add(f"#{study}", "ScholarlyArticle", name=about["papers"][study]) for study in studies])
    whole.datePublished = datetime.fromisoformat(now)
    return dict(whole.metadata.generate())


def _listed(made: Sequence[Mapping[str, Any]], field: str) -> str:
    """The different values of a field of some records, as text."""
    return " and ".join(sorted({str(record[field]) for record in made if field in record})) or "unknown"


def _plain(entities: list[Any]) -> Any:
    """The entities as a list, or a single entity without a list, as RO-Crate recommends."""
    return entities[0] if len(entities) == 1 else entities


def _data(add: Any, name: str, entry: Mapping[str, Any]) -> Any:
    """Describe a data set, which is not in the archive."""
    place = entry["urls"][0] if entry["urls"] else f"#data-{name}"
    return add(place, "CreativeWork", name=entry["title"], license=entry["licence"], description="Not included")


def _picture(name: str) -> dict[str, str]:
    return {"name": Path(name).stem, "encodingFormat": guess_type(name)[0] or "text/plain"}
