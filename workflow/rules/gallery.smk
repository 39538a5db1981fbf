# What a run of a study shows to readers who do not run it, as under docs/results/; only made when asked for.


rule galleries:
    input:
        expand(f"{RESULTS}/gallery/{{study}}", study=ATLAS.studies),


rule gallery:
    input:
        figures=gallery_figures,
        captions=gallery_captions,
        summary=f"{RESULTS}/tables/{{study}}-summary.csv",
        runs=f"{RESULTS}/tables/{{study}}-runs.csv",
        claims=lambda w: f"{RESULTS}/claims.parquet" if w.study in ATLAS.claims else [],
        code=expand(
            "src/bnn_atlas/{file}",
            file=[
                *(f"gallery/{name}" for name in ("page.py", "page.md.j2", "captions.py", "claims.py")),
                *(f"gallery/{name}" for name in ("pictures.py", "tables.py", "times.py")),
                "claims/page.py",
            ],
        ),
    output:
        directory(f"{RESULTS}/gallery/{{study}}"),
    log:
        f"{RESULTS}/logs/gallery/{{study}}.log",
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        study=lambda w: {
            "name": w.study,
            "title": ATLAS.studies[w.study].config.title,
            "paper": ATLAS.studies[w.study].config.paper,
            "differences": list(ATLAS.studies[w.study].config.differences),
        },
        scale=SCALE,
        command=lambda w: (
            f"snakemake --cores 2 galleries --config scale={SCALE} 'studies=[{w.study}]'\n"
            f"mkdir -p docs/results/{w.study} && cp {RESULTS}/gallery/{w.study}/* docs/results/{w.study}/"
        ),
        benchmarks=f"{RESULTS}/benchmarks",
        sizes=lambda w: {
            name: [run.config.split.count, run.config.blocks] for name, run in ATLAS.studies[w.study].runs.items()
        },
    script:
        "../scripts/gallery.py"
