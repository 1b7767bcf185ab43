"""One file per format of a report: HTML, JUnit, CTRF, Allure, Markdown, metrics."""
