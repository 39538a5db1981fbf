# Archives that others can use: of a run, or of all results behind a figure or a study; and results from such archives.
from bnn_atlas.export.archive import ArchiveError
from bnn_atlas.export.results import unpack
from bnn_atlas.pipeline.changes import unlike
from bnn_atlas.pipeline.study_page import kept_blocks

try:
    PUBLISHED = [] if "--mode" in sys.argv else [unpack(path, RESULTS) for path in ATLAS.settings.published]
except ArchiveError as error:
    raise SystemExit(f"Configuration error\npublished = {error}")
for path in [] if "--mode" in sys.argv else kept_blocks(ATLAS):
    try:
        unpack(path, RESULTS, only_missing=True)
    except ArchiveError as error:  # they are sampled instead
        print(f"Finished blocks are not taken from {path}: {error}", file=sys.stderr)
hooks.after_planning(workflow, lambda plan: unlike(PUBLISHED, plan, RESULTS))


rule pack:
    """Pack a run and split into one archive: draws, predictions, labels, order of rows, settings and convergence."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=f"{RUN}/pool/pool.json",
        predictions=f"{RUN}/predictive/test.npz",
        metrics=f"{RUN}/metrics/metrics.parquet",
    output:
        destination=f"{RESULTS}/export/{{study}}/{{run}}-split{{split}}.zip",
    log:
        PATHS.log("pack/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("pack/{study}/{run}/split{split}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        runtime=60,
    params:
        *run_settings(INPUTS, *EXPORTED).values(),
        **told(settings=lambda w: exported_settings(INPUTS, w)),
        **named(about=INPUTS.described),
    message:
        "Packing {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule publish:
    """Pack all that a figure or a study was made from into one archive, from which another clone makes it again."""
    input:
        made=lambda w: TARGETS.packed(w.target, hooks.files_of(workflow, w.target, f"{w.target}_claims")),
    output:
        destination=PATHS.results_of("{target}"),
    log:
        PATHS.log("publish/{target}"),
    benchmark:
        PATHS.benchmark("publish/{target}")
    wildcard_constraints:
        target=r"\w+",
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        runtime=60,
    params:
        **told(results=lambda w: RESULTS, about=INPUTS.published),
    message:
        "Packing all that {wildcards.target} was made from"
    script:
        "../scripts/step.py"


rule export:
    """Pack what `what` names or, without it, the runs that the studies name under `export`, one archive for each split."""
    input:
        INPUTS.archives,
    message:
        "The archives are made"
