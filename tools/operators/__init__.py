"""The pages of operators and cells: dtypes, gradients and devices of each, and unsupported names of MindSpore."""
