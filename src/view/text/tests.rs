//! The exact text output, and that no text of a host acts on the terminal.

use super::*;
use crate::drift::{DriftRunSummary, FindingCount, KnownFinding};
use crate::engine::VerifyReport;
use crate::model::HostOutcome;
use crate::probe::UnansweredReason;
use crate::view::escape::{self, tests::HOSTILE};
use crate::view::sample;
use serde_json::json;

fn render_plain(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
}

fn text_writer(verbose: u8) -> TextWriter {
    TextWriter {
        verbose,
        target: Some("inventory.yaml --on gpu".into()),
        resume: Some("-i inventory.yaml --on gpu".into()),
    }
}

fn render_plan(verbose: u8, plan: &Plan) -> String {
    render_plain(|out| text_writer(verbose).write_plan(plan, ExitCode::Done, out))
}

fn render_report(report: &RunReport) -> String {
    render_plain(|out| text_writer(0).write_report(report, report.exit_code(), out))
}

#[test]
fn rich_plan_matches_snapshot() {
    insta::assert_snapshot!(render_plan(0, &sample::rich_plan()));
}

#[test]
fn rich_plan_with_verbose_matches_snapshot() {
    insta::assert_snapshot!(render_plan(1, &sample::rich_plan()));
}

#[test]
fn plan_without_changes_prints_one_line() {
    let hosts = ["a", "b", "c"]
        .map(|name| sample::observed_host(name, (0..14).map(|n| sample::unchanged_step(&n.to_string())).collect()));
    assert_eq!(render_plan(0, &sample::plan(hosts.to_vec())), "no changes: 3 hosts, 42 steps match\n");
}

#[test]
fn step_of_a_single_host_keeps_its_order() {
    let first = sample::observed_host("a", vec![sample::motd_step(), sample::removed_step()]);
    let second = sample::observed_host("b", vec![sample::motd_step(), sample::nginx_step(), sample::removed_step()]);
    let shown = render_plan(0, &sample::plan(vec![first, second]));
    let at = |what: &str| shown.find(what).unwrap();
    assert!(at("/etc/motd") < at("package nginx") && at("package nginx") < at("/etc/legacy.conf"), "{shown}");
}

#[test]
fn equal_steps_with_different_reasons_are_not_folded() {
    let mut other = sample::motd_step();
    other.reason = "content differs".into();
    let hosts = vec![sample::observed_host("a", vec![sample::motd_step()]), sample::observed_host("b", vec![other])];
    let shown = render_plan(0, &sample::plan(hosts));
    assert!(shown.contains("    on a\n") && shown.contains("    on b\n"), "{shown}");
}

/// A step that cannot run stops all of its dependents: they are shown as one group, not one by one.
#[test]
fn steps_waiting_for_the_same_step_are_grouped() {
    let waits = |name: &str, key: Option<&str>, behind: &str| {
        let step = sample::step(name, "file", name, crate::model::StepVerdict::Change, "differs");
        let id = crate::model::StepId { key: key.map(Into::into), ..step.id };
        crate::plan::StepPlan { id, waits_for: Some(Box::new(crate::plan::UnmetDependency::on_step(behind))), ..step }
    };
    let chain = vec![waits("b", None, "base/a"), waits("c", Some("1"), "base/b"), waits("d", None, "base/c")];
    let shown = render_plan(0, &sample::plan(vec![sample::observed_host("x", chain.clone())]));
    assert!(shown.contains("\n. base/b, base/c[1] and base/d wait for base/a\n    on x\n"), "{shown}");
    let each = render_plan(1, &sample::plan(vec![sample::observed_host("x", chain)]));
    assert!(each.contains("    waits for base/c\n"), "-v shows each step: {each}");
    let circle = vec![waits("a", None, "base/b"), waits("b", None, "base/a")];
    assert!(render_plan(0, &sample::plan(vec![sample::observed_host("x", circle)])).contains(". base/a waits for"));
}

/// The entry of a recipe that stays cannot be declared absent: the hint says what works instead.
#[test]
fn undeclared_resources_are_listed_with_a_removal_hint() {
    let shown = |left: Vec<crate::plan::UndeclaredResource>| {
        let host = crate::plan::HostPlan { undeclared: left, ..sample::observed_host("x", vec![]) };
        let shown = render_plan(0, &sample::plan(vec![host]));
        let at = shown.find("no longer declared").unwrap();
        shown[at..].split("\n\n").next().unwrap().to_owned()
    };
    let (gone, moved) = (
        sample::left_behind("old/a", "package", "agent", false),
        sample::left_behind("web/b[1]", "file", "/etc/b", true),
    );
    assert_eq!(
        shown(vec![gone.clone(), moved.clone()]),
        "no longer declared: applied earlier, not removed\n- package agent  old/a  on x\n- file /etc/b  web/b[1]  on x\n  \
         hint: to remove the resources of a recipe, declare its entry with `ensure: absent`\n  \
         hint: to remove a resource while its recipe stays, declare it in a step with `otherwise: absent` whose `when` is false"
    );
    assert!(!shown(vec![gone]).contains("otherwise"));
    assert!(!shown(vec![moved.clone()]).contains("ensure"));
    let twice = shown(vec![moved.clone(), moved]);
    assert!(twice.contains("\n- file /etc/b (2 records)  web/b[1]  on x\n"), "{twice}");
}

/// The report names skipped steps once for each reason, and does not suggest `apply` if only blocked steps are left.
#[test]
fn skipped_steps_are_grouped() {
    use crate::engine::StepResult;
    let step = |name: &str, result| sample::step_report(name, result);
    let skipped_for = |name: &str, why: &str| step(name, StepResult::Skipped { reason: why.into() });
    let skipped = |name: &str| skipped_for(name, "needs `base/a`");
    let blocked = StepResult::Blocked { class: crate::model::BlockClass::Rule, reason: "no".into() };
    let mut host = sample::host_report(
        "x",
        vec![step("a", blocked), skipped("b"), skipped_for("d", "needs `base/x`"), skipped("c")],
        vec![],
    );
    host.outcome = HostOutcome::Blocked;
    let shown = render_report(&sample::report("apply", vec![host]));
    assert!(shown.contains("\n. base/b and base/c\n    needs `base/a`\n    on x\n"), "{shown}");
    assert!(shown.contains("\n. base/d\n    needs `base/x`\n    on x\n"), "{shown}");
    assert!(shown.ends_with("next: forge plan inventory.yaml --on gpu\n"), "{shown}");
}

#[test]
fn interrupted_apply_is_resumed() {
    let mut host = sample::host_report("x", vec![], vec![]);
    host.outcome = HostOutcome::Cancelled;
    let report = RunReport { interrupted: true, ..sample::report("apply", vec![host]) };
    let shown = render_report(&report);
    assert!(shown.ends_with("next: forge resume -i inventory.yaml --on gpu\n"), "{shown}");
    let undone = render_report(&RunReport { verb: "undo".to_owned(), ..report });
    assert!(!undone.contains("resume"), "{undone}");
}

#[test]
fn outcome_without_a_reason_has_no_colon() {
    let mut host = sample::host_report("x", vec![], vec![]);
    (host.outcome, host.reason) = (HostOutcome::Cancelled, "".into());
    assert!(render_report(&sample::report("apply", vec![host])).contains("\nx cancelled\n"));
}

/// The head, the reason and the prediction of a step do not repeat each other.
#[test]
fn step_title_reason_and_prediction_are_not_repeated() {
    let why = "check exited with 1";
    let command = |title: &str, script: &str| {
        let changes = vec![crate::resource::AttributeChange::new("command", Some(why), Some(script))];
        let envelope = crate::plan::PredictedEffects {
            foresight: Default::default(),
            until: "base/motd".into(),
            disruption: crate::model::DisruptionClass::D0,
            resource: format!("command {title}").into(),
        };
        let step = sample::step("run", "command", title, crate::model::StepVerdict::Change, why);
        crate::plan::StepPlan { changes, envelope: Some(Box::new(envelope)), ..step }
    };
    let shown = |step| render_plan(0, &sample::plan(vec![sample::observed_host("a", vec![step])]));
    let predicted = "    check exited with 1\n    ? predicted, at most D0; evaluated again after base/motd\n    on a\n";
    assert!(shown(command("touch /a", "touch /a")).contains(&format!("base/run\n{predicted}")), "one line");
    let whole = shown(command("touch /a …", "touch /a\ntouch /b"));
    assert!(whole.contains("    ~ command: touch /a"), "the head shows only part of it: {whole}");
    assert!(!whole.contains('→'), "{whole}");
    let mut waiting = command("touch /a", "touch /a");
    waiting.changes.clear();
    let waiting = shown(waiting);
    assert!(waiting.contains("? command touch /a") && waiting.contains("at most command touch /a, D0"), "{waiting}");
}

#[test]
fn secret_values_in_changes_are_not_shown() {
    let shown = render_plan(1, &sample::plan(vec![sample::observed_host("a", vec![sample::secret_step()])]));
    assert!(shown.contains("content: (secret, not shown)") && !shown.contains("hunter"), "{shown}");
}

#[test]
fn rich_report_matches_snapshot() {
    insta::assert_snapshot!(render_report(&sample::rich_report()));
}

#[test]
fn successful_report_has_no_next_command() {
    let host = sample::host_report("a", vec![sample::step_report("x", crate::engine::StepResult::Changed)], vec![]);
    assert_eq!(
        render_report(&sample::report("apply", vec![host])),
        "a  changed      1 changed    4.2 s\n\napplied: 1 host: 1 changed; 1 step changed (12 s)\n"
    );
}

#[test]
fn failed_verification_shows_its_check_output() {
    let failed = crate::engine::VerifyResult::Failed { reason: "the check exited 1".into() };
    let check = crate::plan::CheckRun {
        command: "curl -sf http://localhost:8080/".into(),
        status: 1,
        output: "curl: (7) Failed to connect\nto localhost".into(),
    };
    let failed = VerifyReport { check: Some(check), ..sample::verify_report("page answers", failed) };
    let host = sample::host_report("a", vec![], vec![failed]);
    insta::assert_snapshot!(render_report(&sample::report("verify", vec![host])));
}

/// The output of a check may contain the host name: the hosts are still one problem.
#[test]
fn checks_with_host_specific_output_are_grouped() {
    let failed = |output: &str| {
        let result = crate::engine::VerifyResult::Failed { reason: "the check exited 1".into() };
        let check = crate::plan::CheckRun { command: "./look".into(), status: 1, output: output.into() };
        vec![VerifyReport { check: Some(check), ..sample::verify_report("page answers", result) }]
    };
    let hosts = ["a", "b"].map(|name| sample::host_report(name, vec![], failed(&format!("{name}: refused"))));
    let shown = render_report(&sample::report("apply", hosts.to_vec()));
    let told = "x base: page answers\n    the check exited 1\n    $ ./look\n    exit status 1; on a it printed:\n      \
                | a: refused\n    at recipes/base.yaml:30:5\n    = same on 2 hosts: a,b\n";
    assert!(shown.contains(told), "{shown}");
}

/// A summary without names still counts every section.
#[test]
fn section_summary_counts_every_section() {
    let sums = super::plan_sections::summarize_sections(&sample::rich_plan());
    for part in [
        "unreachable\n    on gpu11\n",
        "warnings: 1 warning\n    on gpu01\n",
        "failed: 1 verification\n    on gpu01\n",
        "unknown: 1 verification\n    on gpu01\n",
        "no longer declared: applied earlier, not removed: 1 step\n    on gpu01\n",
    ] {
        assert!(sums.contains(part), "{part}{sums}");
    }
}

#[test]
fn host_that_fails_without_a_step_shows_the_reason() {
    let shown = render_report(&sample::report(
        "apply",
        vec![sample::ended_host_report("a", HostOutcome::Failed, "lost the link twice")],
    ));
    assert!(shown.contains("x failed: lost the link twice\n    hint: run `ssh -v` to see more\n    on a\n"), "{shown}");
}

/// A digest does not show what changed: the diff does.
#[test]
fn stale_step_shows_its_diff() {
    let mut change = crate::resource::AttributeChange::new("content", None, None);
    change.diff = Some("@@ -1 +1 @@\n-theirs\n+ours\n".into());
    let stale = crate::engine::StepResult::Stale { reason: "`content` changed since the plan".into() };
    let step = crate::engine::StepReport { changes: vec![change], ..sample::step_report("banner", stale) };
    let shown = render_report(&sample::report("apply", vec![sample::host_report("a", vec![step], vec![])]));
    let diff = "    `content` changed since the plan\n    content now (- on the host, + declared):\n      @@ -1 +1 @@\n      \
                -theirs\n      +ours\n";
    assert!(shown.contains(diff), "{shown}");
}

/// Each host's own line is not needed to see why it waits.
#[test]
fn pending_step_shows_what_its_check_printed() {
    let pending = |host: &str, printed: &str| {
        let result = crate::engine::StepResult::Pending { reason: "needs restart".into() };
        let check = crate::plan::CheckRun { command: "look".into(), status: 1, output: printed.into() };
        let step = crate::engine::StepReport { check: Some(Box::new(check)), ..sample::step_report("limit", result) };
        sample::host_report(host, vec![step], vec![])
    };
    let hosts = vec![pending("a", "process 812 has the old limit"), pending("b", "process 9 has the old limit")];
    let shown = render_report(&sample::report("apply", hosts));
    let printed = "    needs restart\n    at recipes/base.yaml:7:5\n    the check on a printed:\n      | process 812 has \
                   the old limit\n    = same on 2 hosts: a,b\n";
    assert!(shown.contains(printed), "{shown}");
}

fn sample_facts() -> Vec<ObservedHost> {
    let host = |name: &str, kernel: &str| {
        let mut seen = ObservedHost::from_observation(&sample::host(name), Default::default(), 1);
        seen.facts.0.insert("kernel", Ok(json!(kernel)));
        seen.facts.0.insert("os", Ok(json!({"id": "debian", "version": "12"})));
        seen.facts.0.insert("packages", Ok(json!((0..40).map(|n| format!("p{n}")).collect::<Vec<_>>())));
        seen
    };
    let mut odd = host("gpu03", "6.1.0-30");
    odd.facts.0.insert("os", Err(UnansweredReason::new("timed out after 10 s").with_message("\u{1b}[31mslow")));
    let why = crate::plan::UnreachableReason::new("connection refused", None);
    vec![
        host("gpu01", "6.1.0-28"),
        host("gpu02", "6.1.0-28"),
        odd,
        ObservedHost::from_unreachable(&sample::host("gpu04"), why),
    ]
}

#[test]
fn facts_table_matches_snapshot() {
    insta::assert_snapshot!(render_plain(|out| text_writer(0).write_facts(&sample_facts(), ExitCode::Done, out)));
}

#[test]
fn unknown_parts_of_facts_are_shown_and_counted() {
    let mut seen = ObservedHost::from_observation(&sample::host("gpu01"), Default::default(), 1);
    let unknown = json!({"unknown": "`modinfo` is \u{1b}[31mmissing"});
    seen.facts.0.insert("driver", Ok(json!({"loaded": null, "disk": unknown})));
    seen.facts.0.insert("gpus", Ok(json!([{"bdf": "a", "gsp": unknown, "flavors": unknown}, {"bdf": "b"}])));
    seen.facts.0.insert("modules", Ok(json!({})));
    assert_eq!(
        render_plain(|out| text_writer(0).write_facts(&[seen.clone()], ExitCode::Done, out)),
        "driver\n  disk    unknown: `modinfo` is \\x1b[31mmissing\n  loaded  null\ngpus\n  2 entries, 2 unknown\nmodules\n  {}\n\n\
         facts: 1 host, 2 partly unknown\n"
    );
}

/// Returns the output without forge's own colours. Only these known sequences are removed, so that sequences from a
/// host remain.
fn strip_own_colours(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
    use crate::view::style::{ADD, BAD, CHANGE, DIM, DISRUPT, GOOD, HEAD, REMOVE, UNKNOWN};
    let mut out = Vec::new();
    write(&mut out).unwrap();
    let styles = [DISRUPT, BAD, GOOD, ADD, REMOVE, CHANGE, UNKNOWN, HEAD, DIM];
    let own = styles.iter().flat_map(|style| [format!("{style}"), format!("{style:#}")]);
    own.fold(String::from_utf8(out).unwrap(), |text, sequence| text.replace(&sequence, ""))
}

#[test]
fn host_text_in_plans_reports_and_facts_is_escaped() {
    let harmless = |shown: &str, raw: &str| {
        let acts = shown.chars().find(|c| escape::is_hidden_char(*c));
        assert_eq!(acts, None, "{raw:?} came through in:\n{shown:?}");
    };
    for (raw, _) in HOSTILE {
        harmless(
            &strip_own_colours(|out| text_writer(1).write_plan(&sample::hostile_plan(raw), ExitCode::Done, out)),
            raw,
        );
        harmless(
            &strip_own_colours(|out| text_writer(1).write_report(&sample::hostile_report(raw), ExitCode::Done, out)),
            raw,
        );
    }
    harmless(&strip_own_colours(|out| text_writer(1).write_facts(&sample_facts(), ExitCode::Done, out)), "facts");
}

fn render_drift(verbose: u8, drift: &DriftReport) -> String {
    render_plain(|out| text_writer(verbose).write_drift(drift, drift.exit_code(), out))
}

#[test]
fn rich_drift_matches_snapshot() {
    insta::assert_snapshot!(render_drift(0, &sample::rich_drift()));
}

#[test]
fn rich_drift_with_verbose_matches_snapshot() {
    insta::assert_snapshot!(render_drift(1, &sample::rich_drift()));
}

#[test]
fn drift_history_lists_runs_and_top_hosts() {
    let run = |time: &str, found, exit| DriftRunSummary {
        run: "r".into(),
        time: time.into(),
        hosts: 3,
        unreachable: 0,
        findings: found,
        unknown: 0,
        new: found,
        changed: 0,
        resolved: 1 - found,
        exit,
        took_ms: 1200,
    };
    let rich = sample::rich_drift();
    let open = KnownFinding { resolved: None, times: 3, ..rich.resolved[0].clone() };
    let history = DriftHistory {
        version: 1,
        cluster: "lab".into(),
        since: None,
        runs: vec![run("2026-11-21T08:00:00Z", 1, 2), run("2026-11-21T08:15:00Z", 0, 0)],
        open: vec![open],
        resolved: rich.resolved,
        mean_time_to_repair_s: Some(5400),
        hosts: vec![FindingCount { name: "gpu02".into(), count: 3 }],
        steps: vec![FindingCount { name: "base/hosts".into(), count: 3 }],
    };
    insta::assert_snapshot!(render_plain(|out| text_writer(0).write_drift_history(&history, out)));
}

#[test]
fn outliers_are_listed_rarest_first_and_the_rest_counted() {
    let outliers = sample::outliers("5.15.0-130-generic");
    insta::assert_snapshot!(render_plain(|out| super::outliers::write_outlier_section(&outliers, false, out)));
    insta::assert_snapshot!(
        "outliers_with_everything",
        render_plain(|out| super::outliers::write_outlier_section(&outliers, true, out))
    );
    let quiet = sample::drift(&["a", "b", "c"], vec![]);
    let odd = DriftReport { outliers: Some(outliers), ..quiet };
    assert_eq!(odd.exit_code(), crate::model::ExitCode::Done);
    assert!(
        render_drift(0, &odd).ends_with("no drift: 3 hosts, 36 checks match (1.2 s)\n"),
        "{}",
        render_drift(0, &odd)
    );
}

#[test]
fn host_text_in_an_outlier_is_escaped() {
    for (raw, shown) in HOSTILE {
        let text = render_plain(|out| super::outliers::write_outlier_section(&sample::outliers(raw), true, out));
        assert!(!text.chars().any(escape::is_hidden_char), "{text:?}");
        assert!(text.contains(shown), "{text:?}");
    }
}

#[test]
fn drift_report_without_findings_prints_one_line() {
    let quiet = sample::drift(&["a", "b", "c"], vec![]);
    assert_eq!(render_drift(0, &quiet), "no drift: 3 hosts, 36 checks match (1.2 s)\n");
}

#[test]
fn host_text_in_a_finding_is_escaped() {
    for (raw, shown) in HOSTILE {
        let mut hostile = sample::rich_drift();
        for finding in &mut hostile.findings {
            finding.observed = Some((*raw).into());
            finding.reason = (*raw).into();
            finding.title = (*raw).into();
            finding.diff = Some((*raw).into());
            finding.step = (*raw).into();
        }
        hostile.unknown[0].reason = (*raw).into();
        let text = render_drift(1, &hostile);
        assert!(!text.chars().any(escape::is_hidden_char), "{text:?}");
        assert!(text.contains(shown), "{text:?}");
    }
}

#[test]
fn plan_says_that_the_cluster_does_not_exist_yet_and_what_creates_it() {
    let makers = vec![crate::plan::ClusterMaker {
        step: crate::model::StepId::new("kubeadm", "begin"),
        host: crate::model::HostName::new("cp"),
    }];
    let missing = crate::plan::MissingCluster {
        makers,
        ..crate::plan::MissingCluster::new(
            "kubeconfig `/etc/kubernetes/admin.conf` not found on `cp`".into(),
            crate::object::ClusterAbsence::NoKubeconfig,
        )
    };
    let mut plan = sample::rich_plan();
    plan.hosts = vec![crate::plan::HostPlan { missing: Some(missing), ..sample::observed_host("kubernetes", vec![]) }];
    let mut out = Vec::new();
    super::plan_sections::write_sections(&plan, &plan.count_steps(), false, &mut out).unwrap();
    assert_eq!(
        anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string(),
        "the cluster does not exist yet\n? kubeconfig `/etc/kubernetes/admin.conf` not found on `cp`\n    \
         `kubeadm/begin` on cp creates it\n\n"
    );
    let short = super::plan_sections::summarize_sections(&plan);
    assert!(short.starts_with("the cluster does not exist yet\n    `kubeadm/begin` on cp creates it\n"), "{short}");
}

/// A host whose test failed before its return, with what each of its programs printed.
fn untested_host(name: &str, outputs: &[&str]) -> crate::engine::HostReport {
    use crate::acceptance::TestVerdict;
    use crate::engine::ReturnTest;
    let reason = "40 Gb/s, expected at least 360 Gb/s (0.9 of 400)";
    let result = |test: &str, verdict, outputs: &[&str]| ReturnTest {
        test: test.into(),
        rail: (test != "dcgm-diag").then(|| "mlx5_0".to_owned()),
        verdict,
        unit: String::new(),
        outputs: outputs.iter().map(|output| (*output).into()).collect(),
    };
    let mut host = sample::host_report(name, Vec::new(), Vec::new());
    host.outcome = HostOutcome::Failed;
    host.reason = format!("test `ib-write-bw-loopback` of mlx5_0 failed: {reason}").into();
    host.return_tests = vec![
        result("dcgm-diag", TestVerdict::Pass { value: 3.0, expected: "all of them".into() }, &[]),
        result("ib-write-bw-loopback", TestVerdict::Fail { value: Some(40.0), reason: reason.into() }, outputs),
    ];
    host
}

#[test]
fn failed_test_before_return_is_shown_with_the_last_lines_of_its_programs() {
    let long: String = (1..=30).map(|line| format!("line {line}\n")).collect();
    let one = render_report(&sample::report("apply", vec![untested_host("gpu-01", &["", &long])]));
    let expected = "tests before return
x ib-write-bw-loopback on mlx5_0
    40 Gb/s, expected at least 360 Gb/s (0.9 of 400)
      | line 11
";
    assert!(one.contains(expected) && one.contains("      | line 30\n    on gpu-01\n"), "{one}");
    assert!(!one.contains("hosts that did not finish"), "the failure is named once as a problem: {one}");
    let both = [untested_host("gpu-01", &["server", "client 1"]), untested_host("gpu-02", &["server", "client 2"])];
    let two = render_report(&sample::report("apply", both.to_vec()));
    let expected = "    on gpu-01 it printed:\n      | server\n      | client 1\n    = same on 2 hosts: gpu-[01:02]\n";
    assert!(two.contains(expected), "{two}");
}
