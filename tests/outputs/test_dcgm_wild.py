"""Scrapes with health status, error counts, link series, other forms, and values that DCGM does not have."""

import json
from typing import Any

import pytest

from conformance.cli.inspect import inspect
from conformance.outputs import dcgm
from tests.tables import each_row

GPU = 'gpu="{0}",UUID="GPU-{0}",pci_bus_id="00000000:1{0}:00.0",device="nvidia{0}",modelName="NVIDIA B200",hostname="n-1"'


def series(name: str, value: float | str, gpu: int = 0, **labels: str) -> str:
    more = "".join(f',{key}="{text}"' for key, text in labels.items())
    return f"DCGM_{name}{{{GPU.format(gpu)}{more}}} {value}\n"


BUSY = series("FI_DEV_GPU_UTIL", 97) + series("FI_DEV_GPU_UTIL", 96, gpu=1)


def judged(text: str) -> tuple[str, str]:
    result = inspect("dcgm-metrics", text)
    return result.verdict.value, result.reason_code


def health(part: str, value: int, code: str = "DCGM_FR_OK", gpu: int = 0) -> str:
    return series("EXP_GPU_HEALTH_STATUS", value, gpu, health_watch=part, health_error_code=code)


def test_the_exporters_health_status() -> None:
    fine = "".join(health(part, 0) for part in ("PCIE", "NVLINK", "MEM", "ALL"))
    assert judged(BUSY + fine) == ("good", "HEALTHY")
    failed = BUSY + health("NVLINK", 20, "DCGM_FR_NVLINK_DOWN") + fine
    result = inspect("dcgm-metrics", failed)
    assert (result.verdict, result.reason_code) == ("bad", "HEALTH_FAILED")
    assert "NVLINK: DCGM_FR_NVLINK_DOWN" in result.message
    assert judged(BUSY + fine + health("THERMAL", 10, "DCGM_FR_CLOCK_THROTTLE_THERMAL")) == ("undecidable", "HEALTH_WARNING")
    assert judged(BUSY + health("MEM", 7)) == ("undecidable", "HEALTH_WARNING"), "a result that nobody knows is no pass"
    assert judged(fine) == ("good", "HEALTHY"), "the health check alone says whether a device is well"


@each_row
@pytest.mark.parametrize("gpu", [0, 1])
def test_counters_of_faults(name: str, value: int, expected: tuple[str, str], gpu: int) -> None:
    assert judged(BUSY + series(name, value, gpu)) == expected


def test_errors_of_a_devices_life_are_history_when_none_is_new() -> None:
    assert judged(BUSY + series("FI_DEV_ECC_DBE_AGG_TOTAL", 2) + series("FI_DEV_ECC_DBE_VOL_TOTAL", 0))[0] == "good"


def link(gpu: int, number: int, value: int, name: str = "NVLINK_RECOVERY_ERROR_COUNT_TOTAL") -> str:
    return (
        f'DCGM_FI_DEV_{name}{{nvlink="{number}",gpu="{gpu}",gpu_uuid="GPU-{gpu}",pci_bus_id="00000000:1{gpu}:00.0",'
        f'device="nvidia{gpu}",model_name="NVIDIA B200",hostname="n-1"}} {value}\n'
    )


def test_series_of_links_belong_to_their_gpu() -> None:
    text = BUSY + "".join(link(gpu, number, number) for gpu in (0, 1) for number in (0, 1, 2))
    devices = dcgm.parse(text)
    assert [(device.gpu, device.uuid) for device in devices] == [("0", "GPU-0"), ("1", "GPU-1")]
    assert devices[0].metrics["DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"] == 2, "the worst of its links"
    assert judged(text) == ("good", "HEALTHY")


def test_series_that_name_their_gpu_by_half() -> None:
    text = BUSY + 'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="1",hostname="n-1"} 3\nDCGM_FI_DEV_FB_USED{gpu_uuid="GPU-0"} 10\n'
    first, second = dcgm.parse(text)
    assert first.memory_used == 10
    assert second.metrics["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"] == 3
    alone = dcgm.parse('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1\nDCGM_FI_DEV_GPU_UTIL{gpu="1"} 1\n')
    assert len(alone) == 2


def test_a_fault_that_names_no_gpu_is_a_fault() -> None:
    assert judged(BUSY + 'DCGM_FI_DEV_XID_ERRORS{err_code="79",job="dcgm-exporter"} 79\n') == ("bad", "XID_FATAL")
    assert judged(BUSY + 'DCGM_FI_DEV_XID_ERRORS{job="dcgm-exporter"} 0\n') == ("good", "HEALTHY")
    switch = (
        'DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS{{nvswitch="3",hostname="n-1"}} {}\nDCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{{nvswitch="3"}} 40\n'
    )
    assert judged(BUSY + switch.format(20034)) == ("bad", "SXID_FATAL")
    assert judged(BUSY + switch.format(0)) == ("good", "HEALTHY")
    assert inspect("dcgm-metrics", BUSY + switch.format(20034)).facts["gpus"] == 2


def test_open_metrics() -> None:
    text = (
        "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
        + series("FI_DEV_GPU_UTIL", "97 1770000000.123")
        + series("FI_DEV_ECC_DBE_VOL_TOTAL", "0 1.770000000123e+09")
        + series("FI_DEV_PCIE_REPLAY_COUNTER_total", '5 1770000000.1 # {trace_id="a"} 1.0 1770000000.0')
        + series("FI_DEV_GPU_TEMP", "40 1770000000123")
        + "# EOF\n"
    )
    (device,) = dcgm.parse(text)
    assert device.metrics == {
        "DCGM_FI_DEV_GPU_UTIL": 97,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 5,
        "DCGM_FI_DEV_GPU_TEMP": 40,
    }
    assert judged(text) == ("good", "HEALTHY")


@pytest.mark.parametrize("form", ["value", "values"])
def test_the_answer_of_prometheus(form: str) -> None:
    def item(name: str, value: int) -> dict[str, object]:
        metric = {"__name__": f"DCGM_{name}", "gpu": "0", "UUID": "GPU-0", "Hostname": "n-1", "exported_pod": "train-0"}
        at = [1770000000.1, str(value)]
        return {"metric": metric, form: at if form == "value" else [[1.0, "0"], at]}

    def answer(*items: dict[str, object]) -> str:
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": list(items)}})

    assert judged(answer(item("FI_DEV_GPU_UTIL", 40))) == ("good", "BUSY_ALLOCATED")
    assert judged(answer(item("FI_DEV_GPU_UTIL", 40), item("FI_DEV_XID_ERRORS", 79), {"metric": 3}, {})) == ("bad", "XID_FATAL")


@pytest.mark.parametrize("blank", ["9223372036854775794", "2147483632", "140737488355328.000000", "NaN", "9.223372036854775794e+18"])
def test_values_that_dcgm_does_not_have_are_absent(blank: str) -> None:
    text = BUSY + series("FI_DEV_ECC_DBE_VOL_TOTAL", blank) + series("FI_DEV_XID_ERRORS", blank) + series("FI_DEV_MEMORY_TEMP", blank)
    assert judged(text) == ("good", "HEALTHY")
    assert judged(series("FI_DEV_GPU_UTIL", 3) + series("FI_DEV_FB_USED", 3, gpu=1) + series("FI_DEV_GPU_UTIL", blank, gpu=1)) == (
        "undecidable",
        "NO_ACTIVITY",
    )


def test_a_parent_whose_instances_are_active_is_known() -> None:
    parent = series("FI_DEV_FB_USED", 10)
    instance = series("FI_PROF_GR_ENGINE_ACTIVE", 0.5, GPU_I_PROFILE="1g.23gb", GPU_I_ID="7")
    assert judged(parent + instance) == ("good", "HEALTHY")
    assert judged(parent) == ("undecidable", "NO_ACTIVITY")


@each_row
def test_series_that_were_renamed_say_the_same(before: list[Any], now: list[Any], verdict: tuple[str, str]) -> None:
    assert judged(BUSY + series(*before)) == judged(BUSY + series(*now)) == tuple(verdict)


def test_a_device_is_read_by_the_names_and_units_of_dcgm_exporter_4_9() -> None:
    values = {"GPU_UTIL_RATIO": 0.97, "FB_USED_BYTES": 40 << 30, "GPU_TEMP_CELSIUS": 61, "BOARD_POWER_WATTS": 650.5, "XID_ERROR": 43}
    text = "".join(series(f"FI_DEV_{name}", value, DCGM_FI_SYSTEM_DRIVER_VERSION="580.95.05") for name, value in values.items())
    (device,) = dcgm.parse(text)
    assert (device.activity, device.memory_used, device.temperature, device.power, device.xid) == (0.97, 40_960, 61, 650.5, 43)
    assert (device.driver, device.state) == ("580.95.05", dcgm.State.BUSY)
    (device,) = dcgm.parse(series("FI_DEV_GPU_TEMP_CELSIUS", 61) + series("FI_DEV_FB_USED_BYTES", 9223372036854775794))
    assert device.memory_used is None
