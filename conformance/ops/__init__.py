"""OPS: the GPU stack's operators and agents."""
