"""SCALE: pools of accelerator nodes that grow and shrink."""
