"""The one name that the suite takes in an environment. Its own packages lie in ``suite``, and only its programs put that on their path."""
