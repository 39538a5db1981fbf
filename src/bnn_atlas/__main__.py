"""Commands: `python -m bnn_atlas new data.csv --target y` and `python -m bnn_atlas why FILE_OR_FIGURE`."""

import argparse
import sys
from pathlib import Path

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.pipeline.new import new
from bnn_atlas.pipeline.why import why


def main(arguments: list[str] | None = None) -> int:
    """Run the command; without one, print how to call it."""
    parser = argparse.ArgumentParser(prog="python -m bnn_atlas", description="BNN Atlas, from the command line.")
    commands = parser.add_subparsers(dest="command", metavar="command")
    add = commands.add_parser(
        "new", help="from a table to a study: check the file, write its entry and a study of three methods"
    )
    add.add_argument("data", type=Path, help="the table: .csv, .tsv, .txt, .xlsx, ..., text files also gzipped")
    add.add_argument("--target", required=True, help="the column to predict")
    add.add_argument("--name", help="name of the data set and of the study; the file's name if left out")
    add.add_argument("--task", choices=["regression", "classification"], help="guessed from the target if left out")
    asked = commands.add_parser("why", help="what made a result, what would run for it now and why; changes nothing")
    asked.add_argument("asked", metavar="FILE_OR_FIGURE", help="a file of results/ or docs/results/, a figure, a run")
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help()
        return 0
    try:
        if given.command == "why":
            print(why(given.asked, Path.cwd()))
        else:
            print(new(given.data, given.target, given.name, given.task, Path.cwd()))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
