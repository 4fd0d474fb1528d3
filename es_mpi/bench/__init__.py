"""Speed as ratios within one process, so that the machine's mood cancels out."""
