"""Whether a device is sound, by what its driver and its machine say of it: one answer for requirements and for ``inspect``."""
