"""The targets of this call of Snakemake: checked before a plan is made, and known to messages at the end."""

from collections.abc import Callable, Collection
from typing import Any


def requested_targets(workflow: Any) -> frozenset[str]:
    """Targets given on the command line, as they were typed; empty where the default target is made.

    Snakemake passes no targets to `onsuccess`; they are in `workflow.dag_settings`, which is not documented.
    """
    return frozenset(workflow.dag_settings.targets)


def check_targets(workflow: Any, refusal: Callable[[str, Collection[str]], str | None]) -> None:
    """Answer a mistyped target with what it may have been meant to be, instead of `No rule to produce ...`.

    Snakemake knows the targets after it has read the Snakefile, just before it plans.

    Args:
        workflow: Snakemake's.
        refusal: what is wrong with a target, given the names of all rules; None for nothing.
    """
    usual = workflow._prepare_dag

    def prepare_dag(*arguments: Any, **options: Any) -> Any:
        names = {rule.name for rule in workflow.rules}
        wrong = [text for target in workflow.dag_settings.targets if (text := refusal(target, names))]
        if wrong:
            raise SystemExit("\n".join(wrong))
        return usual(*arguments, **options)

    workflow._prepare_dag = prepare_dag
