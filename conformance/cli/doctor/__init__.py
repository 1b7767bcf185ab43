"""``gpu-conformance doctor``: whether a run could judge a cluster, before it is started."""
