"""A run starts within a second only while it imports nothing that it may not need."""

import json
import subprocess
import sys

HEAVY = ("kubernetes", "pydantic", "requests", "jsonschema", "jinja2")
_CODE = "import json, sys, conformance.plugin.hooks, chaos.surface.plugin; print(json.dumps(sorted(sys.modules)))"


CHAOS = ("chaos.engine", "chaos.catalogue", "chaos.ledger", "chaos.activities")


def test_a_run_that_begins_has_imported_no_large_library_that_it_may_not_need() -> None:
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    assert not {*HEAVY, *CHAOS} & {*json.loads(done.stdout)}
