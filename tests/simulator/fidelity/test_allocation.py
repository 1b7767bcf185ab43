"""The simulated scheduler against the real one: which devices, partitions and shares of devices claims get."""

import pytest

from fixtures.localcluster.control_plane.control_plane import ControlPlane
from tests.simulator.fidelity.allocation import compare_allocation
from tests.simulator.fidelity.amounts import TESTED
from tests.simulator.fidelity.comparing import difference

pytestmark = [pytest.mark.xdist_group("fidelity"), pytest.mark.test_all]


def test_claims_get_the_same_devices_and_amounts(newest_plane: ControlPlane) -> None:
    compared = compare_allocation(newest_plane, TESTED.drivers)
    assert [(one.claim, one.real, one.simulated) for one in compared if difference(one.real, one.simulated)] == []
    given = [text for one in compared for text, _ in one.real.causes]
    assert any("shared=True" in text for text in given)
    assert any("half" in text for text in given)
    assert any("small" in text for text in given)
    assert len(compared) / 4 < sum(bool(one.real.causes) for one in compared) < len(compared) * 7 / 8, "enough of either kind to compare"
