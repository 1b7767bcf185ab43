"""Outputs about devices: nvidia-smi in all its forms, metrics, kernel logs and logs of jobs."""

from typing import Any

import pytest

from conformance.cli.inspect import inspect
from conformance.outputs import dcgm, job_logs, nvidia_smi, xid
from fixtures.model.devices import xid_catalogue
from fixtures.tables.rows import XID_ACTIONS, XidClass
from tests.outputs.lookalikes import lookalike
from tests.tables import each_row


def test_listing_problems() -> None:
    text = lookalike("smi-list")
    impossible = text.replace("GPU 1:", "  MIG 1g.5gb     Device  2: (UUID: MIG-x0000)\nGPU 1:")
    assert "no room for all 1 x 1g.5gb" in nvidia_smi.listing_problems(nvidia_smi.parse_listing(impossible))[0]
    twice = nvidia_smi.parse_listing(text.replace("555556", "555555"))
    assert nvidia_smi.listing_problems(twice) == ["UUID GPU-11111111-2222-3333-4444-555555555555 is listed 2 times"]
    failed = nvidia_smi.parse_listing("Failed to initialize NVML: Driver/library version mismatch\n")
    assert nvidia_smi.listing_problems(failed) == ["Failed to initialize NVML: Driver/library version mismatch"]


def test_query_text() -> None:
    query = nvidia_smi.parse_query(lookalike("smi-query"))
    assert (query.driver, query.cuda, query.attached) == ("580.95.05", "13.0", 3)
    healthy = query.gpus[0][1]
    assert healthy.ecc is not None
    assert healthy.remapping is not None
    assert healthy.mig is not None
    assert (healthy.ecc.uncorrected, healthy.remapping.uncorrected, healthy.mig.enabled) == (0, 1, False)
    draining, broken = (finding.message for finding in inspect("nvidia-smi", lookalike("smi-query")).findings)
    assert draining.startswith("reset: ")
    assert all(words in draining for words in ("drain and reset", "in progress", "waits for a reset"))
    assert broken.startswith(
        "replace: remapping of a row failed; 2 uncorrectable memory errors since the driver was loaded; hardware slowdown"
    )


def test_xml_entities_are_not_expanded() -> None:
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "AAAA">]>\n<nvidia_smi_log><gpu id="0"><uuid>&a;</uuid></gpu></nvidia_smi_log>'
    query = nvidia_smi.parse_query(bomb)
    assert query.cut
    assert all("AAAA" not in gpu.uuid for _, gpu in query.gpus)


def test_missing_gpu_is_noticed() -> None:
    assert inspect("nvidia-smi", "Attached GPUs : 2\nGPU 00000000:1B:00.0\n    GPU Recovery Action : None\n").verdict == "undecidable"


def test_label_escapes_and_exported_names() -> None:
    (sample,) = dcgm.parse_samples('m{a="x\\"y,z=\\\\",b="}"} 1.5 1700000000000')
    assert (sample.labels, sample.value) == ({"a": 'x"y,z=\\', "b": "}"}, 1.5)
    (device,) = dcgm.parse('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="U",pod="exporter",exported_pod="train",exported_namespace="t"} 1\n')
    assert device.pods == (("t", "train", ""),)


@each_row
def test_kernel_lines(line: str, code: int, klass: XidClass, sxid: bool) -> None:
    (event,) = xid.parse_kernel_log(line)
    assert (event.code, event.klass, event.sxid) == (code, klass, sxid)


def test_what_a_device_recovered_from_is_settled_as_in_hw_01() -> None:
    lost = "kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    well = "kernel: NVRM: Xid (PCI:0000:9b:00.0): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)\n"
    other = well.replace("9b", "1a")
    assert [inspect("kernel-log", text).verdict for text in (lost, lost + well, lost + other, well + lost)] == [
        *("bad", "good", "bad", "bad"),
    ]


def test_a_log_without_xid_proves_nothing() -> None:
    result = inspect("kernel-log", "[    1.5] NVRM: loading NVIDIA UNIX Kernel Module\n")
    assert (result.verdict, result.reason_code) == ("undecidable", "NO_XID")


def test_catalogue_rows_do_not_overlap() -> None:
    codes = [code for one in XID_ACTIONS.rows for code in one.each()]
    assert len(codes) == len(set(codes))
    assert {code for code, entry in xid_catalogue.catalogue().items() if entry.action == "RESET_GPU"} >= {
        *(46, 62, 64, 95, 109, 110, 119, 120, 140),
    }


def test_job_logs() -> None:
    assert job_logs.parse_vector_add("[Vector addition of 5 elements]\n").passed is None
    assert job_logs.parse_vector_add("[Vector addition of 5 elements]\nFailed to allocate device vector A\n").passed is False
    failed = "Changing the 'nvidia.com/mig.config.state' node label to 'failed'"
    assert inspect("mig-manager-log", f'time="x" level=error msg="bad"\n{failed}').verdict == "bad"
    assert inspect("mig-manager-log", "Walking MigConfig for MIG config").verdict == "undecidable"


HEALTH = {
    "Summary": "Healthy",
    "Bandwidth": "Full",
    "Route Recovery in progress": "False",
    "Route Unhealthy": "False",
    "Access Timeout Recovery": "False",
    "Incorrect Configuration": "None",
}


def row(name: str, value: str, indent: int) -> str:
    return f"{' ' * indent}{name:<{38 - indent}}: {value}"


def fabric(state: str = "Completed", status: str = "Success", **health: str) -> str:
    """A ``Fabric`` section as drivers of release 570 and later print it."""
    names = HEALTH | {name.replace("_", " "): value for name, value in health.items()}
    lines = [
        "    Fabric",
        row("State", state, 8),
        row("Status", status, 8),
        row("CliqueId", "4026", 8),
        row("ClusterUUID", "9c6f0000-53bf-49b5-a436-b66766c40000", 8),
        "        Health",
        *(row(name, value, 12) for name, value in names.items()),
    ]
    return "\n".join(lines) + "\n"


def query(*sections: str) -> str:
    head = ["==============NVSMI LOG==============", "", row("Driver Version", "580.95.05", 0), row("Attached GPUs", str(len(sections)), 0)]
    gpus = [f"GPU 0000000{number}:01:00.0\n{row('Product Name', 'NVIDIA GB200', 4)}\n{text}" for number, text in enumerate(sections)]
    return "\n".join([*head, "".join(gpus)])


def judged(text: str) -> tuple[str, str]:
    result = inspect("nvidia-smi", text)
    return result.verdict.value, result.reason_code


@each_row
def test_an_ill_fabric(section: dict[str, Any], says: str) -> None:
    made = fabric(**section)
    result = inspect("nvidia-smi", query(fabric(), made))
    assert (result.verdict, result.reason_code) == ("bad", "RESET")
    assert any(says in finding.message for finding in result.findings)
    assert judged(made) == ("bad", "RESET"), "an excerpt of that section says the same"


def test_a_field_of_the_fabric_that_nobody_knows_is_not_taken_for_well() -> None:
    assert judged(query(fabric(Quantum_Entanglement="True"))) == ("undecidable", "FABRIC_UNKNOWN")
    assert judged(query(fabric(Quantum_Entanglement="False"))) == ("good", "HEALTHY")
    assert judged(query(fabric(Partition_Assigned="True"))) == ("good", "HEALTHY")


@pytest.mark.parametrize("word", ["N/A", "Not Supported", "[N/A]"])
def test_a_fabric_that_the_driver_does_not_know_says_nothing(word: str) -> None:
    unknown = fabric(word, word, **dict.fromkeys(HEALTH, word))
    assert judged(query(unknown)) == ("undecidable", "NO_HEALTH_SIGNAL")
    assert judged(query(unknown + row("GPU Recovery Action", "None", 4))) == ("good", "HEALTHY")


def test_excerpts_without_the_line_of_the_gpu() -> None:
    text = f"{fabric()}--\n{fabric()}--\n{fabric(Summary='Unhealthy')}"
    result = inspect("nvidia-smi", text)
    assert (result.verdict, result.facts["gpus"]) == ("bad", 3)
    assert judged("    Remapped Rows\n        Pending                       : No\n        Remapping Failure Occurred    : No\n") == (
        "good",
        "HEALTHY",
    )


def test_what_is_left_of_a_gpu_above_the_first_that_is_named_counts() -> None:
    tail = fabric(Summary="Unhealthy") + query(fabric()).partition("\n\n")[2]
    result = inspect("nvidia-smi", tail)
    assert (result.verdict, result.facts["gpus"]) == ("bad", 2)


@pytest.mark.parametrize(
    "stray", ["0", " 0:", "  x : y", "    A New Section", "    A New Section\n        New Field      : 3", "noise of another program"]
)
@pytest.mark.parametrize("at", range(1, 11))
def test_a_stray_line_hides_no_value_behind_it(stray: str, at: int) -> None:
    lines = query(fabric(Summary="Unhealthy", Incorrect_Configuration="No Partition")).splitlines()
    at += lines.index("    Fabric")
    assert judged("\n".join([*lines[:at], stray, *lines[at:]])) == ("bad", "RESET")


def test_the_table_hides_no_query_behind_it() -> None:
    assert judged(table(("76W / 700W", "0")) + query(fabric(Summary="Unhealthy"))) == ("bad", "RESET")
    assert judged(table(("76W / 700W", "0")) + query(fabric())) == ("good", "HEALTHY")
    assert judged(table(("76W / 700W", "2")) + query(fabric())) == ("bad", "RESET")


def table(*gpus: tuple[str, str]) -> str:
    """The table of nvidia-smi: for each GPU its power column and its count of volatile uncorrectable errors."""
    lines = [
        "Mon Mar  2 10:11:12 2026",
        "+-----------------------------------------------------------------------------------------+",
        "| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |",
        "|-----------------------------------------+------------------------+----------------------+",
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|=========================================+========================+======================|",
    ]
    for number, (power, errors) in enumerate(gpus):
        lines += [
            f"|   {number}  NVIDIA H200                    On  |   00000000:{number}B:00.0 Off | {errors:>20} |",
            f"| N/A   31C    P0            {power:>13} |       4MiB / 143771MiB |      0%      Default |",
            "|                                         |                        |             Disabled |",
            "+-----------------------------------------+------------------------+----------------------+",
        ]
    return "\n".join([*lines, "", "| Processes:                                                                              |"]) + "\n"


@each_row
def test_the_plain_table(gpus: list[tuple[str, str]], expected: tuple[str, str]) -> None:
    assert judged(table(*gpus)) == expected
    facts = inspect("nvidia-smi", table(*gpus)).facts
    assert (facts["driver"], facts["cuda"], facts["gpus"]) == ("580.95.05", "13.0", len(gpus))


@each_row
def test_csv(cells: str, expected: tuple[str, str]) -> None:
    head = "index, ecc.errors.uncorrected.volatile.total, remapped_rows.pending, remapped_rows.failure, gpu_recovery_action"
    assert judged(f"{head}\n{cells}\n") == expected
    assert judged(f"$ nvidia-smi --query-gpu=a --format=csv\n{head}\n0, 0, No, No, None\n{cells}\n") == expected


def test_a_listing_does_not_hide_what_a_query_says() -> None:
    text = lookalike("smi-list") + query(fabric(Summary="Unhealthy"))
    assert judged(text) == ("bad", "RESET")
    assert judged(lookalike("smi-list") + query(fabric())) == ("good", "HEALTHY")
    assert judged(lookalike("smi-list")) == ("good", "LISTED")


def test_listings_of_several_pods_may_show_one_gpu() -> None:
    one = "GPU 0: Tesla T4 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
    assert judged(one + "$ kubectl exec b -- nvidia-smi -L\n" + one) == ("good", "LISTED")
    assert judged(one + one.replace("GPU 0", "GPU 1")) == ("bad", "BAD_LISTING")


@pytest.mark.parametrize(
    ("word", "code"), [("Unknown Error", "REBOOT"), ("GPU is lost", "DRIVER_FAILED"), ("[GPU requires reset]", "RESET")]
)
def test_a_gpu_that_cannot_be_read(word: str, code: str) -> None:
    assert judged(query(f"{row('GPU UUID', word, 4)}\n{row('GPU Recovery Action', 'None', 4)}\n")) == ("bad", code)


def test_the_driver_is_away() -> None:
    text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it is installed.\n"
    assert judged(text) == ("bad", "DRIVER_FAILED")
