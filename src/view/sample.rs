//! Handwritten plans and reports for the tests of all writers.

mod drift;
mod rehearsal;

pub use drift::{drift, finding, outliers, rich_drift};
pub use rehearsal::rehearsal_report;

use crate::engine::{
    DoctorFinding, DoctorReport, DoctorSeverity, ExecCommand, ExecHostResult, ExecReport, HostHealth, HostReport,
    ReturnTest, RunReport, StepFailure, StepReport, StepResult, VerifyReport, VerifyResult,
};
use crate::model::{
    BlockClass, DisruptionClass, HostName, HostOutcome, StepId, StepScope, StepVerdict, UntrustedText, VerifyLevel,
};
use crate::plan::{
    CheckRun, HostPlan, HostReachability, HostWarning, Plan, PredictedEffects, StepPlan, UndeclaredResource,
    UnreachableReason, VerifyPlan,
};
use crate::resource::AttributeChange;
use std::collections::BTreeMap;
use std::time::Duration;

pub fn host(name: &str) -> HostName {
    HostName::new(name)
}

pub fn step(step: &str, kind: &str, title: &str, verdict: StepVerdict, reason: &str) -> StepPlan {
    StepPlan {
        id: StepId::new("base", step),
        kind: kind.into(),
        title: title.into(),
        verdict,
        reason: reason.into(),
        hint: None,
        changes: Vec::new(),
        check: None,
        disruption: DisruptionClass::D0,
        scope: StepScope::Host,
        level: VerifyLevel::L0,
        basis: "sha256:00".into(),
        before: Vec::new(),
        after: None,
        envelope: None,
        by_reboot: false,
        reboot_failed: false,
        notes_only: false,
        irreversible: None,
        partly_reversible: false,
        installs_artifact: false,
        images: Vec::new(),
        image_sources: Default::default(),
        runs_unknown_images: false,
        at_once: None,
        guard_s: None,
        stage: Default::default(),
        held: None,
        waits_for: None,
        place: "recipes/base.yaml:7:5".into(),
        long: false,
    }
}

pub fn unchanged_step(name: &str) -> StepPlan {
    step(name, "file", &format!("/etc/{name}"), StepVerdict::Ok, "content, owner and mode match")
}

pub fn motd_step() -> StepPlan {
    let mut content = AttributeChange::new("content", None, None);
    content.diff = Some("@@ -1,2 +1,2 @@\n-old\tline\n+new\tline\n same\n".into());
    StepPlan {
        changes: vec![content, AttributeChange::new("mode", Some("0600"), Some("0644"))],
        ..step("banner", "file", "/etc/motd", StepVerdict::Change, "content and mode differ")
    }
}

pub fn nginx_step() -> StepPlan {
    StepPlan {
        changes: vec![AttributeChange::new("version", None, Some("1.22.1-9"))],
        disruption: DisruptionClass::D1,
        ..step("nginx", "package", "nginx", StepVerdict::Change, "not installed")
    }
}

pub fn secret_step() -> StepPlan {
    let change = AttributeChange { secret: true, ..AttributeChange::new("content", Some("hunter2"), Some("hunter3")) };
    StepPlan { changes: vec![change], ..step("token", "file", "/etc/token", StepVerdict::Change, "content differs") }
}

pub fn predicted_step() -> StepPlan {
    let envelope = PredictedEffects {
        foresight: Default::default(),
        until: "base/nginx has run".into(),
        disruption: DisruptionClass::D1,
        resource: "file /etc/nginx/nginx.conf".into(),
    };
    StepPlan {
        envelope: Some(Box::new(envelope)),
        ..step(
            "config",
            "file",
            "/etc/nginx/nginx.conf",
            StepVerdict::Change,
            "cannot be evaluated before `nginx` is installed",
        )
    }
}

pub fn removed_step() -> StepPlan {
    StepPlan {
        changes: vec![AttributeChange::new("exists", Some("file"), None)],
        irreversible: Some("the step declares `backup: false`".into()),
        partly_reversible: false,
        ..step("legacy", "file", "/etc/legacy.conf", StepVerdict::Change, "exists")
    }
}

pub fn observed_host(name: &str, steps: Vec<StepPlan>) -> HostPlan {
    HostPlan {
        host: host(name),
        reach: HostReachability::Observed,
        refused: None,
        hold: None,
        left_out: false,
        missing: None,
        steps: steps.into(),
        window: None,
        verify: Default::default(),
        warnings: Vec::new(),
        accepted: Vec::new(),
        undeclared: Vec::new(),
    }
}

pub fn unreachable_host(name: &str, why: &str) -> HostPlan {
    let why = UnreachableReason::new(why, Some("check that the host is up and its address is right".into()));
    HostPlan { reach: HostReachability::Unreachable(why), ..observed_host(name, Vec::new()) }
}

pub fn left_behind(step: &str, kind: &str, title: &str, applied: bool) -> UndeclaredResource {
    UndeclaredResource { step: step.into(), kind: kind.into(), title: title.into(), applied }
}

pub fn verify_plan(name: &str, verdict: StepVerdict, reason: &str) -> VerifyPlan {
    VerifyPlan {
        recipe: "base".into(),
        name: name.into(),
        verdict,
        reason: reason.into(),
        check: None,
        level: VerifyLevel::L2,
        place: "recipes/base.yaml:30:5".into(),
    }
}

pub fn plan(hosts: Vec<HostPlan>) -> Plan {
    Plan {
        simulated: Vec::new(),
        version: 1,
        forge: "0.1.0".into(),
        cluster: "h100-prod".into(),
        inventory: "inventory.yaml".into(),
        id: "sha256:11".into(),
        hosts,
        rollout: Default::default(),
    }
}

/// Returns a plan with every section: nine equal hosts, a different one and an unreachable one.
pub fn rich_plan() -> Plan {
    let changing =
        || vec![unchanged_step("hosts"), motd_step(), nginx_step(), predicted_step(), secret_step(), removed_step()];
    let mut hosts: Vec<_> = (2..=10).map(|n| observed_host(&format!("gpu{n:02}"), changing())).collect();
    hosts.iter_mut().for_each(|host| host.verify.push(verify_plan("page answers", StepVerdict::Pending, "")));
    let mut odd = observed_host("gpu01", odd_steps());
    odd.verify = vec![
        verify_plan("page answers", StepVerdict::Change, "exit status 7"),
        verify_plan("GSP is off", StepVerdict::Unknown, "timed out after 10 s"),
    ]
    .into();
    odd.undeclared = vec![left_behind("old/agent", "package", "agent", false)];
    odd.warnings = vec![HostWarning { why: "reports the host name `gpu02`".into(), hint: Some("compare them".into()) }];
    hosts.push(odd);
    hosts.push(unreachable_host("gpu11", "connection refused by 10.0.0.11 port 22"));
    plan(hosts)
}

fn odd_steps() -> Vec<StepPlan> {
    let blocked = |name, class, why| step(name, "command", name, StepVerdict::Blocked(class), why);
    vec![
        unchanged_step("hosts"),
        StepPlan { waits_for: Some(Box::new(crate::plan::UnmetDependency::on_step("base/repo"))), ..nginx_step() },
        step("repo", "file", "/etc/apt/sources.list.d/x.list", StepVerdict::Unknown, "permission denied"),
        step("gsp", "file", "/etc/modprobe.d/gsp.conf", StepVerdict::Pending, "loaded with another value"),
        blocked("fabric", BlockClass::Hardware, "no NVSwitch found"),
        blocked("gpu-rule", BlockClass::Rule, "open kernel modules ignore it"),
        blocked("folder", BlockClass::Host, "directory `/opt/x` does not exist and no earlier step makes it"),
        blocked("value", BlockClass::Declaration, "`facts.os.idd` does not exist (at recipes/x.yaml:7:20)"),
        blocked("unload", BlockClass::Busy, "pid 4711 (python3) holds /dev/nvidia0"),
        step("mlx", "command", "mlx", StepVerdict::NotApplicable, "`when` is false"),
    ]
}

/// Returns a plan in which every field from a host or an author is `text`.
pub fn hostile_plan(text: &str) -> Plan {
    let texts = || Some(UntrustedText::from(text));
    let change =
        AttributeChange { attribute: text.into(), from: texts(), to: texts(), ..AttributeChange::new("", None, None) };
    let diff = AttributeChange { diff: texts(), ..change.clone() };
    let hostile = |verdict| StepPlan {
        id: StepId { recipe: text.into(), step: text.into(), key: Some(text.into()) },
        changes: vec![change.clone(), diff.clone()],
        envelope: Some(Box::new(PredictedEffects {
            until: text.into(),
            disruption: DisruptionClass::D3,
            resource: text.into(),
            foresight: Default::default(),
        })),
        irreversible: Some(text.into()),
        partly_reversible: false,
        place: text.into(),
        ..step(text, text, text, verdict, text)
    };
    let mut first = observed_host(
        text,
        vec![
            hostile(StepVerdict::Change),
            hostile(StepVerdict::Unknown),
            hostile(StepVerdict::Ok),
            hostile(StepVerdict::Blocked(BlockClass::Busy)),
        ],
    );
    first.steps.push(StepPlan {
        waits_for: Some(Box::new(crate::plan::UnmetDependency::on_step(text))),
        ..hostile(StepVerdict::Change)
    });
    let check = Some(CheckRun { command: text.into(), status: 1, output: text.into() });
    first.verify =
        vec![VerifyPlan { recipe: text.into(), check, ..verify_plan(text, StepVerdict::Change, text) }].into();
    first.undeclared = vec![left_behind(text, text, text, true)];
    first.warnings = vec![HostWarning { why: text.into(), hint: None }];
    let why = UnreachableReason::new(text, texts());
    let second = HostPlan { reach: HostReachability::Unreachable(why), ..observed_host(text, Vec::new()) };
    Plan {
        simulated: Vec::new(),
        cluster: text.into(),
        inventory: text.into(),
        forge: text.into(),
        id: text.into(),
        ..plan(vec![first, second])
    }
}

pub fn report(verb: &str, hosts: Vec<HostReport>) -> RunReport {
    RunReport {
        simulated: Vec::new(),
        version: 1,
        run: "20261121T093015-4f2a".into(),
        verb: verb.into(),
        cluster: "h100-prod".into(),
        plan: Some("sha256:11".into()),
        hosts,
        budget_spent: false,
        interrupted: false,
        evict_busy: None,
        took: Duration::from_millis(12_300),
    }
}

pub fn step_report(step: &str, result: StepResult) -> StepReport {
    StepReport {
        id: StepId::new("base", step),
        title: step.into(),
        result,
        hint: None,
        check: None,
        changes: Vec::new(),
        took: Duration::from_millis(2_100),
        place: "recipes/base.yaml:7:5".into(),
    }
}

pub fn verify_report(name: &str, result: VerifyResult) -> VerifyReport {
    VerifyReport {
        recipe: "base".into(),
        name: name.into(),
        result,
        check: None,
        of_step: false,
        place: "recipes/base.yaml:30:5".into(),
    }
}

/// Returns a host report whose outcome follows from its steps and verifications.
pub fn host_report(name: &str, steps: Vec<StepReport>, verify: Vec<VerifyReport>) -> HostReport {
    let outcome = HostReport::compute_outcome(&steps, &verify);
    HostReport {
        host: host(name),
        outcome,
        reason: "".into(),
        hint: None,
        steps,
        verify,
        reboots: Vec::new(),
        return_tests: Vec::new(),
        node: None,
        undeclared: Vec::new(),
        accepted: Vec::new(),
        not_undone: Vec::new(),
        held_back_by: None,
        took: Duration::from_millis(4_200),
    }
}

pub fn ended_host_report(name: &str, outcome: HostOutcome, reason: &str) -> HostReport {
    HostReport {
        outcome,
        reason: reason.into(),
        hint: Some("run `ssh -v` to see more".into()),
        ..host_report(name, Vec::new(), Vec::new())
    }
}

pub fn failed_result() -> StepResult {
    StepResult::Failed {
        failure: StepFailure {
            artifact: false,
            why: "exit status 100".into(),
            tail: "Reading package lists...\nE: Unable to locate package nginx\n".into(),
            hint: Some("run `apt-get update` on the host".into()),
            log: Some("/var/lib/forge/logs/base-nginx.log".into()),
        },
    }
}

pub fn untrusted_text(text: &str) -> UntrustedText {
    text.into()
}

/// Returns a report with every outcome, and every result of steps and verifications.
pub fn rich_report() -> RunReport {
    let fails = || {
        vec![
            step_report("banner", StepResult::Changed),
            step_report("nginx", failed_result()),
            step_report("page", StepResult::Skipped { reason: untrusted_text("needs `base/nginx`") }),
        ]
    };
    let odd = vec![
        step_report("a", StepResult::AlreadyOk { reason: untrusted_text("matches") }),
        step_report("b", StepResult::Pending { reason: untrusted_text("waits for a reboot") }),
        step_report(
            "c",
            StepResult::Blocked {
                class: BlockClass::Busy,
                reason: untrusted_text("pid 4711 (python3) holds /dev/nvidia0"),
            },
        ),
        step_report("d", StepResult::Unknown { reason: untrusted_text("timed out after 10 s") }),
        step_report("e", StepResult::Stale { reason: untrusted_text("`content` changed since the plan") }),
        step_report("f", StepResult::NotApplicable { reason: untrusted_text("`when` is false") }),
        step_report("g", StepResult::Cancelled),
    ];
    let unproven = vec![
        verify_report("page answers", VerifyResult::Failed { reason: untrusted_text("exit status 7") }),
        verify_report("GSP is off", VerifyResult::Unknown { reason: untrusted_text("timed out after 10 s") }),
        verify_report("fabric is up", VerifyResult::Skipped { reason: untrusted_text("`base` failed") }),
        verify_report("held", VerifyResult::Held),
    ];
    report(
        "apply",
        vec![
            host_report(
                "node-01",
                vec![step_report("banner", StepResult::Changed)],
                vec![verify_report("page answers", VerifyResult::Held)],
            ),
            host_report("node-02", fails(), Vec::new()),
            host_report("node-03", fails(), Vec::new()),
            host_report("node-04", odd, unproven),
            ended_host_report("node-05", HostOutcome::Unreachable, "no route to host"),
            ended_host_report(
                "node-06",
                HostOutcome::Locked,
                "held by root@ci-7 since 09:30, run 20261121T093015-4f2a",
            ),
            ended_host_report("node-07", HostOutcome::Cancelled, "the run was stopped before this host started"),
        ],
    )
}

/// Returns a report in which every field from a host or an author is `text`.
pub fn hostile_report(text: &str) -> RunReport {
    let failed = StepFailure {
        why: text.into(),
        tail: text.into(),
        hint: Some(text.into()),
        log: Some(text.into()),
        artifact: false,
    };
    let results = [
        StepResult::Failed { failure: failed },
        StepResult::Skipped { reason: text.into() },
        StepResult::Blocked { class: BlockClass::Rule, reason: text.into() },
    ];
    let steps = results.map(|result| StepReport {
        id: StepId { recipe: text.into(), step: text.into(), key: Some(text.into()) },
        title: text.into(),
        place: text.into(),
        ..step_report("x", result)
    });
    let verify = VerifyReport {
        recipe: text.into(),
        name: text.into(),
        result: VerifyResult::Failed { reason: text.into() },
        check: Some(CheckRun { command: text.into(), status: 1, output: text.into() }),
        of_step: false,
        place: text.into(),
    };
    let mut first = host_report(text, steps.to_vec(), vec![verify]);
    first.reason = text.into();
    first.return_tests = vec![ReturnTest {
        test: text.into(),
        rail: Some(text.into()),
        verdict: crate::acceptance::TestVerdict::Fail { value: None, reason: text.into() },
        unit: text.into(),
        outputs: vec![text.into()],
    }];
    let mut second = ended_host_report(text, HostOutcome::Unreachable, text);
    second.hint = Some(text.into());
    RunReport {
        simulated: Vec::new(),
        run: text.into(),
        verb: text.into(),
        cluster: text.into(),
        plan: Some(text.into()),
        ..report("apply", vec![first, second])
    }
}

/// Returns a report in which every host prints the words of the command.
pub fn acceptance_report() -> crate::engine::AcceptanceReport {
    use crate::acceptance::TestVerdict;
    use crate::engine::{
        AcceptanceReport, ComparedValues, FabricFault, MeasuredScope, SkippedHost, TestReport, TestRow,
    };
    let row = |hosts: &[&str], verdict| TestRow {
        hosts: hosts.iter().map(|name| host(name)).collect(),
        rail: None,
        round: 1,
        isolation: false,
        verdict,
        worse: None,
        outputs: Vec::new(),
        lost: Vec::new(),
    };
    let expected = "at least 1 Gb/s (declared)";
    let rows = vec![
        row(&["a", "c"], TestVerdict::Pass { value: 9.5, expected: expected.into() }),
        row(&["b", "a"], TestVerdict::Fail { value: Some(0.1), reason: format!("0.1 Gb/s, expected {expected}") }),
        row(&["c"], TestVerdict::not_measured("exit status 127: command not found")),
    ];
    let fault = FabricFault {
        part: "host `a`, its adapter or its cable".into(),
        host: Some(host("a")),
        evidence: vec!["a, b: 0.1".into()],
    };
    AcceptanceReport {
        version: 1,
        run: "r2".into(),
        cluster: "c".into(),
        set: "quick".into(),
        simulated: Vec::new(),
        tests: vec![TestReport {
            test: "ucx-bandwidth".into(),
            parameters: BTreeMap::new(),
            about: "Bandwidth of UCX".into(),
            scope: MeasuredScope::Pair,
            unit: "Gb/s".into(),
            rows,
            faults: vec![fault],
            suspects: Vec::new(),
            comparison: ComparedValues { compared: 1, other_parameters: 0, without_earlier: 1 },
        }],
        skipped: vec![SkippedHost { host: host("d"), reason: "in use: pid 7".into(), unreachable: false }],
        unstored: Vec::new(),
        mislabeled: Vec::new(),
        not_returned: Vec::new(),
        against: Some("r1".into()),
        interrupted: false,
        took: Duration::from_secs(2),
    }
}

pub fn exec_report(command: &ExecCommand, hosts: &[HostName]) -> ExecReport {
    let text = match command {
        ExecCommand::Shell(text) => text.clone(),
        ExecCommand::Words(words) => words.join(" "),
    };
    let one = |host: &HostName| ExecHostResult {
        host: host.clone(),
        outcome: HostOutcome::Ok,
        status: Some(0),
        stdout: text.as_str().into(),
        stderr: UntrustedText::default(),
        left_out: 0,
        reason: UntrustedText::default(),
        hint: None,
        took: Duration::ZERO,
    };
    let hosts = hosts.iter().map(one).collect();
    ExecReport { command: command.clone(), hosts, simulated: Vec::new(), interrupted: false, took: Duration::ZERO }
}

/// Returns a checkup in which no host has free disk space.
pub fn full_disk_checkup(hosts: &[HostName]) -> DoctorReport {
    let full = || DoctorFinding {
        check: "room",
        weight: DoctorSeverity::Problem,
        what: "no room in `/var`".into(),
        hint: Some("free some there".into()),
    };
    let one =
        |host: &HostName| HostHealth { host: host.clone(), reach: HostReachability::Observed, findings: vec![full()] };
    DoctorReport {
        here: Vec::new(),
        cluster: Vec::new(),
        hosts: hosts.iter().map(one).collect(),
        simulated: Vec::new(),
        took: Duration::ZERO,
    }
}
