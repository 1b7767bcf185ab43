from collections.abc import Callable

import pytest

from conformance.net.judging import judge_transport
from conformance.net.two_nodes import FabricRun
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive
from tests.net.logs import a_run, gdr, nccl_log, run_of

ACCEPTED = ("GDR_ENGAGED",)


def judged(run: FabricRun, *accepted: str) -> list[Finding]:
    return list(judge_transport(run, accepted or ACCEPTED))


def outcomes(findings: list[Finding], kind: str) -> dict[str, Outcome]:
    return {finding.subject.name: finding.outcome for finding in findings if finding.subject.kind == kind}


def bad_messages(findings: list[Finding]) -> str:
    return " / ".join(finding.message for finding in findings if finding.outcome is Outcome.BAD)


def test_a_socket_is_never_accepted_whatever_the_policy_says() -> None:
    findings = judged(run_of(lambda source, target, direction: "NET/Socket/0"), "SOCKET_FALLBACK")
    assert Outcome.BAD in outcomes(findings, "rank pair").values()


def test_rdma_without_gpudirect_conforms_where_the_owner_accepts_it() -> None:
    findings = judged(run_of(lambda source, target, direction: "NET/IB/0"), "GDR_ENGAGED", "RDMA_WITHOUT_GDR")
    assert bad_messages(findings) == ""


@pytest.mark.parametrize(
    ("via", "first", "word"),
    [
        (lambda *end: "NET/Socket/0" if end[0] == 3 else gdr(*end), Outcome.OK, ""),
        (lambda *end: "NET/IB/0" + ("/GDRDMA" if end[2] == "receive" else ""), Outcome.BAD, ""),
        (lambda *end: gdr(*end) if end[2] == "send" else "", Outcome.BAD, "no [receive] line"),
    ],
    ids=["one socket", "sent without GPUDirect", "logged by one side"],
)
def test_channels_that_are_not_direct_do_not_conform(via: Callable[[int, int, str], str], first: Outcome, word: str) -> None:
    findings = judged(run_of(via))
    assert outcomes(findings, "rank pair") == {"1 -> 2": first, "3 -> 0": Outcome.BAD}
    assert word in bad_messages(findings)


def test_pods_on_one_node_prove_nothing() -> None:
    run = a_run(nccl_log(0), nccl_log(1), nodes=("gpu-0", "gpu-0"))
    assert outcomes(judged(run), "Pod") == {"net-fabric-0": Outcome.UNDECIDED, "net-fabric-1": Outcome.UNDECIDED}


def test_multi_node_nvlink_counts_where_the_policy_names_it() -> None:
    run = run_of(lambda source, target, direction: "P2P/MNNVL" if direction == "send" else "")
    assert bad_messages(judged(run, "GDR_ENGAGED", "MNNVL")) == ""
    assert "network.accepted" in bad_messages(judged(run))


def test_gpudirect_tcpx_counts_where_the_policy_names_it() -> None:
    logs = [nccl_log(node, via=lambda *_: "").replace("Using network IB", "Using network FasTrak") for node in range(2)]
    assert {finding.outcome for finding in judged(a_run(*logs), "TCPX_GPUDIRECT")} == {Outcome.OK}
    assert Outcome.BAD in {finding.outcome for finding in judged(a_run(*logs))}


def test_a_failing_warning_does_not_conform_though_all_channels_are_direct() -> None:
    message = "NET/IB: Got completion from peer 10.0.0.2 with status=IBV_WC_RETRY_EXC_ERR(12)"
    warning = f"net-fabric-0:10:10 [0] transport/net_ib.cc:100 NCCL WARN {message}"
    findings = judged(run_of(extra=warning))
    assert "Got completion" in bad_messages(findings)


def test_no_evidence_is_never_a_pass() -> None:
    findings = judged(run_of(lambda *_: ""))
    assert list(outcomes(findings, "NCCL run").values()) == [Outcome.UNDECIDED]
    assert Outcome.BAD not in {finding.outcome for finding in findings}


@pytest.mark.parametrize("text", ["", "hello\n", "Killed\n", "\0\0"])
def test_pods_without_an_nccl_log_are_inconclusive(text: str) -> None:
    with pytest.raises(Inconclusive) as raised:
        judged(a_run(text, text))
    assert raised.value.code == "NoEvidence"


def test_a_pod_whose_log_is_missing_is_inconclusive() -> None:
    with pytest.raises(Inconclusive, match="net-fabric-1"):
        judged(a_run(nccl_log(0), "starting\n"))


def test_an_image_without_the_command_is_inconclusive() -> None:
    with pytest.raises(Inconclusive) as raised:
        judged(a_run("sh: torchrun: not found", "sh: torchrun: not found", exit_code=127, state="Failed"))
    assert raised.value.code == "CommandNotFound"
    assert "torchrun" in raised.value.message


def test_a_rank_in_no_channel_line_is_undecided() -> None:
    log = "\n".join(line for line in nccl_log(0, per_node=3).splitlines() if "-> 1[" not in line and " 1[" not in line)
    findings = judged(a_run(log, nccl_log(1, per_node=3), per_node=3))
    assert outcomes(findings, "rank") == {"1": Outcome.UNDECIDED}


def test_ranks_that_were_not_asked_for_are_undecided() -> None:
    findings = judged(a_run(nccl_log(0, nodes=3, host="a"), nccl_log(1, nodes=3, host="b")))
    assert "not asked for" in " ".join(finding.message for finding in findings if finding.outcome is Outcome.UNDECIDED)


def test_the_order_of_ranks_follows_the_hosts_in_the_log() -> None:
    run = a_run(nccl_log(1, host="net-fabric-0"), nccl_log(0, host="net-fabric-1"))
    assert {finding.outcome for finding in judged(run)} == {Outcome.OK}


@pytest.mark.parametrize("strange", ["NET/IB/0/GDRDMA/HOSTMEM", "WARP/0/GDRDMA"])
def test_a_transport_that_is_not_understood_does_not_conform(strange: str) -> None:
    findings = judged(
        run_of(lambda source, target, direction: strange if source == 3 else gdr(source, target, direction)),
        *("GDR_ENGAGED", "RDMA_WITHOUT_GDR", "PARTIAL_GDR"),
    )
    assert outcomes(findings, "rank pair") == {"1 -> 2": Outcome.OK, "3 -> 0": Outcome.BAD}
    assert "not understood" in bad_messages(findings)


def test_channels_to_switches_that_reduce_belong_to_their_rank() -> None:
    line = "net-fabric-0:10:10 [0] NCCL INFO CollNet 00/0 : {} [send] via COLLNET/SHARP/0{}"
    direct = judged(run_of(extra=line.format(0, "/GDRDMA")))
    assert outcomes(direct, "rank") == {"0 -> switches": Outcome.OK}
    assert "not asked for" not in " ".join(finding.message for finding in direct)
    copied = judged(run_of(extra=line.format(0, "")))
    assert outcomes(copied, "rank") == {"0 -> switches": Outcome.BAD}


def test_a_run_that_failed_before_its_first_channel_does_not_conform() -> None:
    warning = "\nnet-fabric-0:10:10 [0] init.cc:9 NCCL WARN Multiple Ranks are using the same GPU/Partition. Set X=1\n"
    logs = [nccl_log(node, via=lambda *_: "") + warning for node in range(2)]
    findings = judged(a_run(*logs))
    assert list(outcomes(findings, "NCCL run").values()) == [Outcome.BAD]
    assert "Multiple Ranks" in bad_messages(findings)


def test_a_warning_of_an_unknown_error_is_undecided() -> None:
    findings = judged(run_of(extra="net-fabric-0:10:10 [0] x.cc:9 NCCL WARN The new thing failed with error 7"))
    assert list(outcomes(findings, "NCCL run").values()) == [Outcome.UNDECIDED]
    assert set(outcomes(findings, "rank pair").values()) == {Outcome.OK}


def test_an_nvlink_domain_over_both_nodes_conforms_where_it_is_accepted() -> None:
    logs = [nccl_log(node, via=lambda _s, _t, direction: "P2P/MNNVL" if direction == "send" else "") for node in range(2)]
    domain = [log.replace("nNodes 2", "nNodes 1").replace("MNNVL 0", "MNNVL 1").replace("network IB", "network Socket") for log in logs]
    assert bad_messages(judged(a_run(*domain), "MNNVL")) == ""
    assert "MNNVL" in bad_messages(judged(a_run(*domain)))


def one_side(source: int, target: int, direction: str) -> str:
    return "NET/IB/1" if (source if direction == "send" else target) < 2 else "NET/IB/0/GDRDMA"


@pytest.mark.parametrize(
    ("run", "causes"),
    [
        # https://github.com/NVIDIA/nccl/issues/897: one of two machines has no peer memory module; each logs its own side
        (run_of(one_side), {"TrafficNotDirect", "NodeWithoutFastPath"}),
        # https://github.com/NVIDIA/nccl/issues/1676: an upgrade of the system takes GPUDirect from every adapter
        (
            run_of(lambda *_: "NET/IB/0", extra="net-fabric-0:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"),
            {"TrafficNotDirect"},
        ),
        # https://github.com/NVIDIA/nccl/issues/905: a bad cable; all channels are direct and the link goes down and up
        (run_of(extra="net-fabric-0:1:1 [0] net_ib.cc:1 NCCL WARN NET/IB : Got async event : port error"), {"NcclWarns"}),
        # https://github.com/areal-project/AReaL/issues/639: TCP over the bond beside idle adapters
        (run_of(lambda *_: "NET/Socket/0"), {"TrafficOverSockets"}),
    ],
)
def test_what_others_reported_of_traffic_that_is_not_direct(run: FabricRun, causes: set[str]) -> None:
    findings = judged(run)
    assert {finding.cause for finding in findings if finding.outcome is Outcome.BAD} == causes
    assert [str(one.subject) for one in findings if one.cause == "NodeWithoutFastPath"] == ["Node gpu-0"] * (
        "NodeWithoutFastPath" in causes
    )
