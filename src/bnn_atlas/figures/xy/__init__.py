"""Values against x by label: any metric of runs against any field of their settings, and panels that show them."""
