"""Breaks of a simulated node and of a real one: every difference of what was shown last has a reason, and every reason a difference.

``tests/simulator/localcluster/test_real_node.py`` breaks both again.
"""

import msgspec

from tests.simulator.fidelity.nodes import SHOWN, TABLE, Shown, apart

LAST = msgspec.json.decode(SHOWN.read_bytes(), type=Shown)


def test_every_break_was_tried_and_every_difference_has_a_reason() -> None:
    assert LAST.keys() == TABLE.breaks.keys()
    assert [row[:3] for row in apart(LAST) if not row[3]] == []


def test_every_reason_is_one_of_a_difference() -> None:
    shown = {why for *_, why in apart(LAST)}
    assert {known.why for known in TABLE.known if not known.rare} <= shown <= {known.why for known in TABLE.known}
