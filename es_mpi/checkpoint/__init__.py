"""What survives a crash: the journal, the checkpoints and the run folder around them."""
