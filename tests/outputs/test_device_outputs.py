from __future__ import annotations

from conformance.cli.inspect import inspect
from conformance.outputs import dcgm, job_logs, nvidia_smi, xid
from fixtures.model.devices import xid_catalogue
from fixtures.model.devices.xid_catalogue import XidClass
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
    codes = [code for _, _, text in xid_catalogue._ROWS for code in xid_catalogue._codes(text)]
    assert len(codes) == len(set(codes))
    assert {code for code, entry in xid_catalogue.CATALOGUE.items() if entry.action == "RESET_GPU"} >= {
        *(46, 62, 64, 95, 109, 110, 119, 120, 140),
    }


def test_job_logs() -> None:
    assert job_logs.parse_vector_add("[Vector addition of 5 elements]\n").passed is None
    assert job_logs.parse_vector_add("[Vector addition of 5 elements]\nFailed to allocate device vector A\n").passed is False
    failed = "Changing the 'nvidia.com/mig.config.state' node label to 'failed'"
    assert inspect("mig-manager-log", f'time="x" level=error msg="bad"\n{failed}').verdict == "bad"
    assert inspect("mig-manager-log", "Walking MigConfig for MIG config").verdict == "undecidable"
