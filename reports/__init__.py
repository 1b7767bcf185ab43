"""Views of a run's record: HTML, JSON, JUnit, Allure, terminal. Nothing here looks at a cluster."""
