"""What the command line asks for (its targets, and a scale in place of the configured one), and its last lines."""

from typing import Any


def set_config(workflow: Any, config: dict[str, Any], **values: str) -> None:
    """Set values of the configuration as if they were given by `--config`.

    Snakemake reads its targets after the Snakefile, and starts jobs elsewhere (on a cluster, in conda environments)
    with the values of its command line alone.

    Args:
        workflow: Snakemake's.
        config: its configuration, which is changed.
        values: key -> value.
    """
    config.update(values)
    settings = workflow.config_settings
    settings.overwrite_config.update(values)
    settings.config_args = [*(settings.config_args or ()), *(f"{key}={value}" for key, value in values.items())]


def requested_targets(workflow: Any) -> frozenset[str]:
    """Targets given on the command line, as they were typed; empty where the default target is made.

    Snakemake passes no targets to `onsuccess`; they are in `workflow.dag_settings`, which is not documented.
    """
    return frozenset(workflow.dag_settings.targets)


def finish_printing(workflow: Any) -> None:
    """Wait until logger plugins have printed all messages so far.

    Snakemake passes messages to them in a thread of its own, which what `onsuccess` prints would overtake.
    """
    listener = workflow.logger_manager.queue_listener
    if listener is not None and listener._thread is not None:
        listener.stop()  # after the last message
        listener.start()
