"""PLAT: operators of AI platforms, gateways, sandboxes, the control plane, namespaces."""
