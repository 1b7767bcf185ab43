"""Faults and their undoing. Nothing is here yet: the chaos experiments come with a later change."""
