"""What a cluster says about its nodes: conditions and labels about health, cordons and taints for a time, and since when."""
