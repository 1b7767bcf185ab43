"""NET: RDMA, GPUDirect and the traffic between nodes."""
