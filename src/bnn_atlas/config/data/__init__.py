"""config/datasets.yaml: data sets, files and readers, splits, synthetic and shifted rows."""
