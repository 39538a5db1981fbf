"""What the Snakemake rules ask (paths, input functions, resources) and do (`steps`), and `hooks` into Snakemake."""
