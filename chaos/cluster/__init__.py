"""Access to the cluster for experiments: requests, rights, namespaces, programs on hosts, who cordoned a node."""
