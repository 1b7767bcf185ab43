import itertools

import pytest

from fixtures.model.devices import mig_geometry
from fixtures.tables.rows import MIG_PROFILES, Geometry
from tests.tables import each_row

H100 = "NVIDIA-H100-80GB-HBM3"


@each_row
def test_product_tables(product: str, name: str) -> None:
    geometry = mig_geometry.geometry_of(product)
    assert geometry is not None
    assert geometry.name == name


@each_row
def test_products_without_a_table(product: str) -> None:
    assert mig_geometry.geometry_of(product) is None
    assert mig_geometry.max_instances(product, "1g.5gb") is None
    assert mig_geometry.fits_devices(product, 1, {"1g.5gb": 99})[0], "what no table knows cannot be refused"


@each_row
def test_layouts_of_one_device(layout: dict[str, int], possible: bool) -> None:
    fits, reason = mig_geometry.fits_devices(H100, 1, layout)
    assert fits is possible
    assert bool(reason) is not possible


def test_layouts_of_a_node() -> None:
    assert mig_geometry.fits_devices(H100, 2, {"4g.40gb": 2, "3g.40gb": 2})[0]
    assert not mig_geometry.fits_devices(H100, 2, {"4g.40gb": 2, "3g.40gb": 2, "1g.10gb": 1})[0]
    assert mig_geometry.fits_devices(H100, 8, {"1g.10gb": 16, "2g.20gb": 8, "3g.40gb": 8})[0]
    assert not mig_geometry.fits_devices(H100, 10**9, {"1g.10gb": 10**9})[0]


@pytest.mark.parametrize("geometry", MIG_PROFILES.rows, ids=lambda geometry: geometry.name)
def test_every_maximum_fits_and_one_more_does_not(geometry: Geometry) -> None:
    product = {"H100 96GB, GH200 96GB or H20 96GB": "GH200 96GB", "H100 NVL 94GB": "H100 NVL"}.get(geometry.name, geometry.name)
    assert mig_geometry.geometry_of(product) is geometry
    for profile, maximum in geometry.maxima.items():
        compute, memory = mig_geometry.slices(geometry, profile)
        assert mig_geometry.fits_devices(product, 1, {profile: maximum})[0], profile
        assert not mig_geometry.fits_devices(product, 1, {profile: maximum + 1})[0], profile
        assert compute * maximum <= geometry.slices
        assert memory * maximum <= geometry.memory_slices
    layout = mig_geometry.config_layout(product, "all-balanced")
    assert layout
    assert mig_geometry.fits_devices(product, 1, layout)[0]


def test_greedy_placement_agrees_with_a_search() -> None:
    """On one device: every layout of plain profiles against trying all placements."""
    geometry = next(one for one in MIG_PROFILES.rows if one.name == "H100 80GB")
    plain = ["7g.80gb", "4g.40gb", "3g.40gb", "2g.20gb", "1g.20gb", "1g.10gb"]
    starts = {"7g.80gb": [0], "4g.40gb": [0], "3g.40gb": [0, 4], "2g.20gb": [0, 2, 4], "1g.20gb": [0, 2, 4, 6], "1g.10gb": list(range(7))}

    def search(items: list[str], used: frozenset[int]) -> bool:
        if not items:
            return True
        memory = mig_geometry.slices(geometry, items[0])[1]
        spans = [frozenset(range(start, start + memory)) for start in starts[items[0]]]
        return any(not span & used and search(items[1:], used | span) for span in spans)

    for counts in itertools.product(*(range(min(geometry.maxima[profile], 3) + 1) for profile in plain)):
        layout = dict(zip(plain, counts, strict=True))
        items = [profile for profile in plain for _ in range(layout[profile])]
        if len(items) > 7:
            continue
        assert mig_geometry.fits_devices(H100, 1, layout)[0] is search(items, frozenset()), layout


def test_config_names() -> None:
    assert mig_geometry.config_layout(H100, "all-balanced") == {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
    assert mig_geometry.config_layout("NVIDIA-A30", "all-balanced") == {"1g.6gb": 2, "2g.12gb": 1}
    assert mig_geometry.config_layout(H100, "all-1g.10gb.me") == {"1g.10gb+me": 1}
    assert mig_geometry.config_layout(H100, "all-disabled") == {}
    assert mig_geometry.config_layout(H100, "team-layout") is None
    assert mig_geometry.config_layout(H100, "all-1g.5gb") is None
    assert mig_geometry.config_layout("NVIDIA-L4", "all-balanced") is None
