#!/bin/sh
# The gate around an upgrade: judge the cluster, upgrade it, judge it again, and let only what is no worse stay.
#
#   upgrade-gate.sh before                 judge the cluster and keep the report
#   upgrade-gate.sh after                  judge it again and compare; the exit code is the gate's
#   upgrade-gate.sh run COMMAND [ARG...]   both, with the upgrade's command between them
#
# Settings are environment variables; none of them is taken from the cluster:
#
#   GATE_KUBECONFIG   kubeconfig of the cluster. Without it: the ServiceAccount of the pod that this runs in
#   GATE_CONTEXT      context of the kubeconfig; default: its current one
#   GATE_FOLDER       where reports are written; default: upgrade-gate
#   GATE_POLICY       what you expect of the cluster (docs/policy.md), its gate section included
#   GATE_WAIVERS      failures that their owners accept (docs/waivers.md)
#   GATE_SETTLE       seconds to wait for roll-outs before the cluster is judged; default: 600
#   GATE_RUN          more options of both runs, such as "--access read --level must"
#   GATE_COMPARE      more options of the comparison, such as "--accept-not-judged NET"
#   GATE_GREEN        "yes": do not upgrade a cluster that is not conformant before the upgrade
#   GATE_SNAPSHOT     "yes": also keep what kubectl reads of the cluster, unredacted, in snapshot/ (never publish that)
#   GPU_CONFORMANCE   the command; default: gpu-conformance
#
# Exit codes: 0 the upgrade may stay, 1 something is worse, 2 interrupted, 3 an error of the suite's own, 4 wrong use,
# 10 the runs do not tell, 11 a run left something in the cluster. "before" ends with 0 if the upgrade may begin.
set -euf # -f: a glob among the options is the suite's
umask 077

tool=${GPU_CONFORMANCE:-gpu-conformance}
folder=${GATE_FOLDER:-upgrade-gate}
before=$folder/before
after=$folder/after

# A run adds its report to GitHub's summary of the step. Here the decision comes first, and the report once.
step_summary=${GITHUB_STEP_SUMMARY:-}
unset GITHUB_STEP_SUMMARY

say() {
    printf 'upgrade-gate: %s\n' "$*" >&2
}

# judge FOLDER [OPTION...]: one run of the suite. Sets $code and never ends the script.
judge() {
    report=$1
    shift
    if [ -n "${GATE_KUBECONFIG:-}" ]; then
        set -- "$@" --kubeconfig "$GATE_KUBECONFIG"
        [ -z "${GATE_CONTEXT:-}" ] || set -- "$@" --context "$GATE_CONTEXT"
    else
        set -- "$@" --in-cluster
    fi
    [ -z "${GATE_POLICY:-}" ] || set -- "$@" --policy "$GATE_POLICY"
    [ -z "${GATE_WAIVERS:-}" ] || set -- "$@" --waivers "$GATE_WAIVERS"
    code=0
    # shellcheck disable=SC2086  # GPU_CONFORMANCE and GATE_RUN hold several words
    $tool run --report-dir "$report" --evidence --settle "${GATE_SETTLE:-600}" "$@" ${GATE_RUN:-} || code=$?
}

# What kubectl reads, by the commands that the suite prints, for a run with --snapshot later.
snapshot() {
    command -v kubectl >/dev/null || { say "GATE_SNAPSHOT needs kubectl"; exit 4; }
    [ -n "${GATE_KUBECONFIG:-}" ] || { say "GATE_SNAPSHOT needs GATE_KUBECONFIG"; exit 4; }
    config=$(cd "$(dirname "$GATE_KUBECONFIG")" && pwd)/$(basename "$GATE_KUBECONFIG")
    rm -rf "$folder/snapshot"
    mkdir -p "$folder/snapshot"
    if ! commands=$($tool list --snapshot-command) || ! (cd "$folder/snapshot" && KUBECONFIG=$config sh -c "$commands"); then
        say "the snapshot could not be taken: do not upgrade"
        exit 3
    fi
}

# The summary that people read: the gate's words, then the report of the later run.
summary() {
    {
        printf '## Upgrade gate\n\n```text\n'
        cat "$folder/gate.txt"
        printf '```\n\n'
        cat "$after/report.md" 2>/dev/null || printf 'The run after the upgrade left no report.\n'
    } >"$folder/summary.md"
    [ -z "$step_summary" ] || cat "$folder/summary.md" >>"$step_summary"
}

judge_before() {
    mkdir -p "$folder"
    rm -rf "$before" "$after" "$folder/gate.txt" "$folder/summary.md"
    [ "${GATE_SNAPSHOT:-}" != yes ] || snapshot
    judge "$before"
    case $code in
    0) ;;
    1)
        if [ "${GATE_GREEN:-}" = yes ]; then
            say "the cluster is not conformant, and GATE_GREEN asks for that: do not upgrade"
            exit 1
        fi
        say "the cluster is not conformant before the upgrade; what fails already will not close the gate"
        ;;
    *)
        say "the run before the upgrade ended with exit code $code, and nothing can be compared with it: do not upgrade"
        exit "$code"
        ;;
    esac
}

judge_after() {
    if [ ! -f "$before/report.json" ]; then
        say "$before/report.json is missing: run \"$0 before\" ahead of the upgrade"
        exit 4
    fi
    rm -rf "$after"
    judge "$after" --baseline "$before"
    ended=$code
    code=0
    # shellcheck disable=SC2086  # GATE_COMPARE holds several words
    $tool gate "$before" "$after" ${GATE_POLICY:+--policy "$GATE_POLICY"} ${GATE_COMPARE:-} >"$folder/gate.txt" 2>&1 || code=$?
    cat "$folder/gate.txt"
    summary
    # The run itself may have failed for what failed before. What only a run can tell must not be lost either.
    if [ "$code" -eq 0 ] && [ "$ended" -ne 0 ] && [ "$ended" -ne 1 ]; then
        say "the run after the upgrade ended with exit code $ended"
        code=$ended
    fi
    exit "$code"
}

case ${1:-} in
before)
    judge_before
    ;;
after)
    judge_after
    ;;
run)
    shift
    if [ $# -eq 0 ]; then
        say "name the command of the upgrade"
        exit 4
    fi
    judge_before
    if ! "$@"; then
        say "the upgrade itself failed; the cluster is judged nevertheless"
        upgrade_failed=yes
    fi
    (judge_after) || exit $?
    [ "${upgrade_failed:-}" != yes ] || exit 1
    ;;
*)
    say "expected before, after, or run COMMAND"
    exit 4
    ;;
esac
