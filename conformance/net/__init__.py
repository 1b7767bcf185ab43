"""NET: RDMA, GPUDirect and what carries traffic between nodes."""
