"""Version of the suite, as every report states it."""

VERSION = "0.1.0"
