"""Where a run shows itself: the console, TensorBoard and metrics.jsonl."""
