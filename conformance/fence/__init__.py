"""FENCE: taints keep pods without devices off accelerator nodes."""
