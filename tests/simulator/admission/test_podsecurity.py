from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.kubernetes.podsecurity import Level, evaluate, message, parse_rejection, policy_of, warning
from tests.samples import sample
from tests.simulator.admission.cluster import restricted_pod
from tests.tables import each_row

BASELINE, RESTRICTED = Level.BASELINE, Level.RESTRICTED


def spec_of(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **(container or {})}], **spec}


def secured(**security: Any) -> dict[str, Any]:
    return spec_of({"securityContext": security})


def found(spec: dict[str, Any], level: Level, version: str = "latest", annotations: dict[str, str] | None = None) -> dict[str, str]:
    return {v.reason: v.detail for v in evaluate(spec, annotations or {}, level, version)}


def test_a_host_process_of_pod_and_container_is_reported_at_once() -> None:
    """Windows pods are left out of the comparison with a real API server, which proves the other controls and their words."""
    windows = {"securityContext": {"windowsOptions": {"hostProcess": True}}}
    stated = 'pod and container "c" must not set securityContext.windowsOptions.hostProcess=true'
    assert found(spec_of(windows, **windows), BASELINE) == {"hostProcess": stated}


def test_the_minimal_restricted_gpu_pod_is_clean() -> None:
    assert evaluate(restricted_pod()["spec"], {}, RESTRICTED) == []


@each_row
def test_policy_versions(spec: dict[str, Any], level: Level, reason: str, strict: str, relaxed: str) -> None:
    made = spec_of(**spec)
    assert reason in found(made, level, strict)
    assert reason not in found(made, level, relaxed)


def test_a_user_namespace_never_excuses_unmasked_proc_at_restricted() -> None:
    spec = spec_of({"securityContext": {"procMount": "Unmasked"}}, hostUsers=False)
    assert found(spec, RESTRICTED)["procMount"]


def test_a_bad_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r'must be "latest" or "v1.x"'):
        evaluate({}, {}, BASELINE, "1.30")


def test_annotations_of_old() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    assert found(spec_of(), BASELINE, annotations={key: "runtime/default"}) == {}
    details = found(spec_of(), BASELINE, annotations={key: "unconfined"})["forbidden AppArmor profile"]
    assert details == f'annotation must not set AppArmor profile type to "{key}="unconfined""'
    seccomp = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    assert "seccompProfile" in found(spec_of(), BASELINE, "v1.18", seccomp)
    assert found(spec_of(), BASELINE, "v1.19", seccomp) == {}


def test_message_and_back() -> None:
    violations = evaluate(spec_of({"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}, hostIPC=True), {}, RESTRICTED, "v1.36")
    text = message("mpi-0", RESTRICTED, "v1.36", violations)
    assert text.startswith('pods "mpi-0" is forbidden: violates PodSecurity "restricted:v1.36": host namespaces (hostIPC=true), ')
    rejection = parse_rejection(text)
    assert rejection is not None
    assert rejection.reasons == [v.reason for v in violations]
    assert rejection.details == [v.detail for v in violations]
    assert (rejection.level, rejection.version, rejection.denied, rejection.truncated) == (RESTRICTED, "v1.36", True, False)
    warned = parse_rejection("Warning: " + warning(RESTRICTED, "v1.36", violations))
    assert warned is not None
    assert not warned.denied


def test_text_around_and_inside_a_rejection() -> None:
    text = (
        'Error creating: pods "x-abc" is forbidden: violates PodSecurity \\"baseline:latest\\": host namespaces\n'
        '   (hostNetwork=true),\n privileged (container \\"c\\" must not set\n securityContext.privileged=true)\nWarning: something else'
    )
    rejection = parse_rejection(text)
    assert rejection is not None
    assert rejection.reasons == ["host namespaces", "privileged"]
    assert rejection.details[1] == 'container "c" must not set securityContext.privileged=true'
    cut = parse_rejection(text[:-80])
    assert cut is not None
    assert cut.truncated
    assert parse_rejection('pods "x" is forbidden: User "u" cannot create resource "pods"') is None


@each_row
def test_rejections_seen_elsewhere(name: str, reasons: list[str], unknown: list[str]) -> None:
    rejection = parse_rejection(sample(name))
    assert rejection is not None
    assert rejection.reasons == reasons
    assert rejection.unknown_reasons == unknown


def test_namespace_labels() -> None:
    prefix = "pod-security.kubernetes.io/"
    policy, errors = policy_of({prefix + "enforce": "restricted", prefix + "enforce-version": "v1.30"})
    assert not errors
    assert str(policy.enforce) == str(policy.warn) == "restricted:v1.30"
    assert str(policy.audit) == "privileged:latest"
    policy, errors = policy_of({prefix + "enforce": "strict", prefix + "warn-version": "1.30"})
    assert [(e.label, e.value) for e in errors] == [(prefix + "enforce", "strict"), (prefix + "warn-version", "1.30")]
    assert errors[0].detail == "must be one of privileged, baseline, restricted"
    assert str(policy.enforce) == "restricted:latest"
    assert str(policy.warn) == "privileged:latest"


KEYS = st.sampled_from(
    [
        "name", "containers", "initContainers", "ephemeralContainers", "securityContext", "privileged", "capabilities", "add", "drop",
        "volumes", "hostPath", "ports", "hostPort", "seccompProfile", "type", "seLinuxOptions", "runAsUser", "runAsNonRoot",
        "procMount", "sysctls", "os", "livenessProbe", "httpGet", "host", "hostUsers",
    ]
)  # fmt: skip
WILD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "ALL", "Unconfined", "windows", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)


@pytest.mark.test_all
@settings(max_examples=100, deadline=None)
@given(st.dictionaries(KEYS, WILD, max_size=8), WILD, st.sampled_from(["latest", "v1.0", "v1.18", "v1.24", "v1.36", "v1.99"]))
def test_wild_specs(spec: dict[str, Any], annotations: Any, version: str) -> None:
    assert evaluate(spec, annotations, Level.PRIVILEGED, version) == []
    low = {v.reason for v in evaluate(spec, annotations, BASELINE, version)}
    high = {v.reason for v in evaluate(spec, annotations, RESTRICTED, version)}
    if version not in ("v1.0", "v1.18"):
        replaced = {"non-default capabilities": "unrestricted capabilities", "hostPath volumes": "restricted volume types"}
        excused = {"non-default capabilities", "seccompProfile"} if spec.get("os") == {"name": "windows"} else set()
        assert {replaced.get(reason, reason) for reason in low - excused} - high <= excused_types(spec)


def excused_types(spec: dict[str, Any]) -> set[str]:
    """A volume of two types at once, which no API accepts, is judged by its allowed type at restricted."""
    volumes = [v for v in spec.get("volumes") or [] if isinstance(v, dict)] if isinstance(spec.get("volumes"), list) else []
    return {"restricted volume types"} if any(len(v) > 1 for v in volumes) else set()


@given(st.text(max_size=200))
def test_any_text_may_be_asked_for_a_rejection(tail: str) -> None:
    rejection = parse_rejection(f'violates PodSecurity "baseline:latest": {tail}')
    assert rejection is not None
    assert len(rejection.reasons) == len(rejection.details)


def test_host_network_makes_every_container_port_a_host_port() -> None:
    """The API server's defaulting comes before the evaluation (seen on 1.36.3)."""
    spec = {"hostNetwork": True, "containers": [{"name": "main", "ports": [{"containerPort": 443}]}]}
    found = {violation.reason: violation.detail for violation in evaluate(spec, {}, Level.BASELINE)}
    assert found["hostPort"] == 'container "main" uses hostPort 443'
    assert "hostPort" not in {violation.reason for violation in evaluate({**spec, "hostNetwork": False}, {}, Level.BASELINE)}
