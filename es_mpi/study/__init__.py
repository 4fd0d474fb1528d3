"""Studies: a grid of normal runs over one base config, and their results in one table with intervals."""
