"""What a run judges: nodes, pods, namespaces and workloads of a snapshot, seen through the policy."""
