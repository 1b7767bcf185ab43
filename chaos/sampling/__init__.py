"""What is seen of the cluster while an experiment runs: signals, read once per sample from one set of lists."""
