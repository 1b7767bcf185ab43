"""Wild inputs are judged by what they do, not by how long a busy machine takes to make them."""

from hypothesis import HealthCheck, settings

settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")
