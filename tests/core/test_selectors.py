"""CEL selectors of devices: plain comparisons are weighed, and what is more than that decides nothing."""

import pytest

from fixtures.model.dra.device_classes import MAX_EXPRESSION, selector_of
from fixtures.model.dra.slices import SliceDevice
from tests.tables import each_row

DRIVER = "gpu.nvidia.com"
DEVICE = SliceDevice(
    name="gpu-0",
    attributes={"type": "gpu", "productName": "H100 && more", "resource.kubernetes.io/pcieRoot": "r", "odd": "true"},
)


def chosen(*expressions: str) -> bool | None:
    return selector_of(expressions).chooses(DRIVER, DEVICE)


OWN = f"device.driver == '{DRIVER}'"
TYPE = 'device.attributes["gpu.nvidia.com"].type'


@each_row
def test_comparisons_are_weighed(expressions: list[str], answer: bool | None) -> None:
    assert chosen(*expressions) is answer


@pytest.mark.parametrize(
    "expression",
    [
        f"{TYPE} == 'mig' && device.driver == 'x' || {OWN}",
        f"true || size(device.capacity) > 0 && {TYPE} == 'mig'",
        f"(true || true && {TYPE} == 'mig' && true)",
        f"size(device.capacity) > 0 ? {OWN} : true && {TYPE} == 'mig'",
        f"[true, false && {TYPE} == 'mig' && true][0]",
        f"true // && {TYPE} == 'mig'",
        f'"a\\"" != "b" && {TYPE} == "mig" && "\\"" != "c"',
        f'"""a" && {TYPE} == "mig" && "b""" != ""',
        f"{TYPE} == 'mig' && 'x",
        f"{OWN}) && {TYPE} == 'mig'",
        f"{TYPE} == 'gpu' &&" + " " * MAX_EXPRESSION,
    ],
)
def test_what_an_alternative_or_a_comment_may_turn_decides_nothing(expression: str) -> None:
    assert chosen(expression) is None


def test_an_optional_attribute_leaves_the_rest_to_be_weighed() -> None:
    assert chosen(f"{OWN} && {TYPE} == 'mig' && device.attributes['x'].?y.orValue('') == 'z'") is False
