# What a run of a study shows to readers who do not run it, as under docs/results/; only made when asked for.
from bnn_atlas.workflow.claims import findings_of
from bnn_atlas.workflow.figures import JUDGING, code, versions


rule galleries:
    """Make a folder per study with claims, small pictures, scores and times, as under docs/results."""
    input:
        expand(f"{RESULTS}/gallery/{{study}}", study=ATLAS.studies),
    message:
        "The galleries are made"


rule gallery:
    """Make the folder of one study."""
    input:
        figures=lambda w: [file for file in FIGURES.files(w.study) if not file.endswith(".pdf")],
        captions=lambda w: FIGURES.caption_files(w.study),
        summary=f"{RESULTS}/tables/{{study}}-summary.csv",
        runs=f"{RESULTS}/tables/{{study}}-runs.csv",
        claims=lambda w: f"{RESULTS}/claims.parquet" if w.study in ATLAS.claims else [],
    output:
        directory(f"{RESULTS}/gallery/{{study}}"),
    log:
        PATHS.log("gallery/{study}"),
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        *versions(["workflow/scripts/gallery.py", *code("bnn_atlas.gallery.page", without=JUDGING)]),
        study=lambda w: {
            "name": w.study,
            "title": ATLAS.studies[w.study].config.title,
            "paper": ATLAS.studies[w.study].config.paper,
            "differences": list(ATLAS.studies[w.study].config.differences),
            "findings": findings_of(ATLAS, w.study),
        },
        scale=SCALE,
        command=lambda w: (
            f"snakemake --cores 2 galleries --config scale={SCALE} 'studies=[{w.study}]'\n"
            f"mkdir -p docs/results/{w.study} && cp {RESULTS}/gallery/{w.study}/* docs/results/{w.study}/"
        ),
        captions=lambda w, input: FIGURES.captions(w.study),
        benchmarks=f"{RESULTS}/benchmarks",
        of=lambda w, input: {
            "study": w.study,
            "sizes": {
                name: [run.config.split.count, run.config.blocks] for name, run in ATLAS.studies[w.study].runs.items()
            },
            "figures": [figure.name for figure in FIGURES.of(w.study)],
            "sections": FIGURES.digests(w.study),
            "shared": INPUTS.shared_jobs(w.study),
        },
        entries=lambda w: {name: run.entry for name, run in ATLAS.studies[w.study].runs.items()},
        datasets={name: entry.title or name.replace("_", " ") for name, entry in ATLAS.datasets.items()},
    message:
        "Making the gallery of {wildcards.study}"
    script:
        "../scripts/gallery.py"
