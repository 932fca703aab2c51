//! The table of exit codes: every number, and the precedence for every combination in a result.

use forge::drift::{
    DriftCause, DriftFinding, DriftNotification, DriftReport, FindingAspect, FindingNovelty, FindingSeverity,
    HostDrift, NotificationState, UndecidedItem,
};
use forge::engine::{HostReport, RunReport, StepFailure, StepReport, StepResult, VerifyReport, VerifyResult};
use forge::facts::outliers::{FactOutlier, OutlierReport};
use forge::model::{
    BlockClass, DisruptionClass, ExitCode, HostName, HostOutcome, StepId, StepScope, StepVerdict, VerifyLevel,
};
use forge::plan::{
    HostPlan, HostReachability, HostWindow, Plan, PlannedReboot, StepPlan, UnreachableReason, VerifyPlan,
};
use std::time::Duration;

/// Worst first, as documented. Written out here so that a change of the type fails the test.
const ORDER: [u8; 15] = [130, 1, 64, 65, 69, 8, 3, 5, 6, 7, 4, 9, 10, 2, 0];

fn worst(codes: impl IntoIterator<Item = u8>) -> u8 {
    let codes: Vec<u8> = codes.into_iter().collect();
    ORDER.into_iter().find(|code| codes.contains(code)).unwrap_or(0)
}

#[test]
fn exit_code_severity_order_matches_the_contract() {
    assert_eq!(ExitCode::WORST_FIRST.map(ExitCode::code), ORDER);
}

#[test]
fn worse_exit_code_wins_in_either_order() {
    for (at, worse) in ExitCode::WORST_FIRST.into_iter().enumerate() {
        for better in ExitCode::WORST_FIRST.into_iter().skip(at) {
            assert_eq!(ExitCode::pick_worst([worse, better]), worse);
            assert_eq!(ExitCode::pick_worst([better, worse]), worse);
        }
    }
    assert_eq!(ExitCode::pick_worst([]), ExitCode::Done);
}

/// Calls `check` with every subset of `all`.
fn subsets<T: Copy>(all: &[T], check: impl Fn(&[T])) {
    for mask in 0..1u32 << all.len() {
        let subset: Vec<T> =
            all.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1).map(|(_, item)| *item).collect();
        check(&subset);
    }
}

// --- reports ------------------------------------------------------------------------------------

fn step(result: StepResult) -> StepReport {
    let (id, took) = (StepId::new("r", "s"), Duration::ZERO);
    StepReport { id, title: "t".into(), result, hint: None, check: None, changes: vec![], took, place: String::new() }
}

fn verify(result: VerifyResult) -> VerifyReport {
    let (recipe, name, place) = ("r".into(), "v".into(), String::new());
    VerifyReport { recipe, name, result, check: None, of_step: false, place }
}

fn ended(outcome: HostOutcome, steps: Vec<StepReport>, verify: Vec<VerifyReport>) -> HostReport {
    let (host, took) = (HostName::new("h"), Duration::ZERO);
    HostReport {
        host,
        outcome,
        reason: "".into(),
        hint: None,
        steps,
        verify,
        reboots: vec![],
        return_tests: vec![],
        node: None,
        undeclared: vec![],
        accepted: vec![],
        not_undone: vec![],
        held_back_by: None,
        took,
    }
}

fn added_up(steps: Vec<StepReport>, verify: Vec<VerifyReport>) -> HostReport {
    ended(HostReport::compute_outcome(&steps, &verify), steps, verify)
}

fn failure() -> StepFailure {
    StepFailure { why: "exit status 1".into(), tail: "".into(), hint: None, log: None, artifact: false }
}

fn why() -> forge::model::UntrustedText {
    "why".into()
}

/// A condition of a run, with its exit code.
type Holds = (u8, fn(&mut RunReport));

const OF_REPORTS: &[Holds] = &[
    (130, |r| r.interrupted = true),
    (69, |r| {
        let failure = StepFailure { artifact: true, ..failure() };
        r.hosts.push(added_up(vec![step(StepResult::Failed { failure })], vec![]));
    }),
    (8, |r| r.budget_spent = true),
    (3, |r| r.hosts.push(added_up(vec![step(StepResult::Failed { failure: failure() })], vec![]))),
    (3, |r| r.hosts.push(added_up(vec![step(StepResult::Blocked { class: BlockClass::Busy, reason: why() })], vec![]))),
    (5, |r| {
        r.hosts.push(added_up(vec![step(StepResult::Changed)], vec![verify(VerifyResult::Failed { reason: why() })]))
    }),
    (6, |r| r.hosts.push(added_up(vec![step(StepResult::Stale { reason: why() })], vec![]))),
    (7, |r| r.hosts.push(ended(HostOutcome::Locked, vec![], vec![]))),
    (4, |r| r.hosts.push(ended(HostOutcome::Unreachable, vec![], vec![]))),
    (9, |r| r.hosts.push(added_up(vec![step(StepResult::Unknown { reason: why() })], vec![]))),
    (9, |r| r.hosts.push(added_up(vec![], vec![verify(VerifyResult::Unknown { reason: why() })]))),
    (10, |r| r.hosts.push(added_up(vec![step(StepResult::Pending { reason: why() })], vec![]))),
    (10, |r| r.hosts.push(added_up(vec![step(StepResult::Held { reason: why() })], vec![]))),
    (0, |r| r.hosts.push(added_up(vec![step(StepResult::Changed)], vec![verify(VerifyResult::Held)]))),
];

fn report() -> RunReport {
    RunReport {
        simulated: Vec::new(),
        version: 1,
        run: "run".into(),
        verb: "apply".into(),
        cluster: "c".into(),
        plan: None,
        hosts: vec![],
        budget_spent: false,
        interrupted: false,
        evict_busy: None,
        took: Duration::ZERO,
    }
}

#[test]
fn report_exits_with_the_worst_code_of_any_combination() {
    subsets(OF_REPORTS, |subset| {
        let mut report = report();
        subset.iter().for_each(|(_, happen)| happen(&mut report));
        let codes: Vec<u8> = subset.iter().map(|(code, _)| *code).collect();
        assert_eq!(report.exit_code().code(), worst(codes.clone()), "{codes:?}");
    });
}

#[test]
fn a_failed_step_outweighs_the_verification_it_breaks() {
    let steps = vec![step(StepResult::Failed { failure: failure() })];
    let mut report = report();
    report.hosts.push(added_up(steps, vec![verify(VerifyResult::Failed { reason: why() })]));
    assert_eq!(report.exit_code(), ExitCode::HostsFailed);
}

#[test]
fn unknown_results_never_make_a_host_ok() {
    let unknown = || step(StepResult::Unknown { reason: why() });
    let skipped = || step(StepResult::Skipped { reason: why() });
    assert_eq!(added_up(vec![step(StepResult::Changed), unknown()], vec![]).outcome, HostOutcome::Unknown);
    assert_eq!(added_up(vec![skipped(), unknown()], vec![]).outcome, HostOutcome::Unknown);
    assert_eq!(added_up(vec![step(StepResult::Changed), skipped()], vec![]).outcome, HostOutcome::Skipped);
    assert_eq!(added_up(vec![], vec![verify(VerifyResult::Unknown { reason: why() })]).outcome, HostOutcome::Unknown);
}

// --- plans --------------------------------------------------------------------------------------

fn planned(verdict: StepVerdict, waits_for: Option<&str>) -> HostPlan {
    let step = StepPlan {
        id: StepId::new("r", "s"),
        kind: "file".into(),
        title: "t".into(),
        verdict,
        reason: why(),
        hint: None,
        changes: vec![],
        check: None,
        disruption: DisruptionClass::D0,
        scope: StepScope::Host,
        level: VerifyLevel::L0,
        basis: String::new(),
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
        waits_for: waits_for.map(|step| Box::new(forge::plan::UnmetDependency::on_step(step))),
        place: "".into(),
        long: false,
    };
    HostPlan {
        host: HostName::new("h"),
        reach: HostReachability::Observed,
        refused: None,
        hold: None,
        left_out: false,
        missing: None,
        steps: vec![step].into(),
        window: None,
        verify: vec![].into(),
        warnings: vec![],
        undeclared: vec![],
        accepted: vec![],
    }
}

fn judged(verdict: StepVerdict) -> HostPlan {
    let verify = VerifyPlan {
        recipe: "r".into(),
        name: "v".into(),
        verdict,
        reason: why(),
        check: None,
        level: VerifyLevel::L0,
        place: "".into(),
    };
    HostPlan { steps: vec![].into(), verify: vec![verify].into(), ..planned(StepVerdict::Ok, None) }
}

fn silent() -> HostPlan {
    HostPlan {
        reach: HostReachability::Unreachable(UnreachableReason::new(why(), None)),
        steps: vec![].into(),
        ..planned(StepVerdict::Ok, None)
    }
}

fn held() -> HostPlan {
    let mut host = planned(StepVerdict::Change, None);
    host.steps[0].held = Some("is D3, and `--max-disruption` is D1".into());
    host
}

/// Returns a host on which a step waits for a reboot that the plan contains: a change to do, no longer pending.
fn rebooting() -> HostPlan {
    let reboot = PlannedReboot { steps: vec![StepId::new("r", "s")], certain: true, guard_s: None };
    HostPlan {
        window: Some(HostWindow { reboots: vec![reboot], ..HostWindow::default() }),
        ..planned(StepVerdict::Pending, None)
    }
}

/// A condition of a plan: its exit code, whether only `--detailed-exitcode` reports it, and the host.
type Found = (u8, bool, fn() -> HostPlan);

const OF_PLANS: &[Found] = &[
    (3, false, || planned(StepVerdict::Blocked(BlockClass::Hardware), None)),
    (3, false, || planned(StepVerdict::Blocked(BlockClass::Rule), None)),
    (5, true, || judged(StepVerdict::Change)),
    (4, false, silent),
    (9, false, || planned(StepVerdict::Unknown, None)),
    (9, false, || judged(StepVerdict::Unknown)),
    (10, true, || planned(StepVerdict::Pending, None)),
    (2, true, || planned(StepVerdict::Change, None)),
    (2, true, || planned(StepVerdict::Change, Some("r/other"))),
    (10, true, held),
    (2, true, || HostPlan { window: Some(HostWindow::default()), ..planned(StepVerdict::Ok, None) }),
    (2, true, rebooting),
    (0, false, || planned(StepVerdict::NotApplicable, None)),
    (0, false, || judged(StepVerdict::Pending)),
];

#[test]
fn plan_exits_with_the_worst_code_of_any_combination() {
    subsets(OF_PLANS, |subset| {
        let hosts = subset.iter().map(|(_, _, host)| host()).collect();
        let plan = Plan {
            version: 1,
            forge: "0".into(),
            cluster: "c".into(),
            inventory: "i".into(),
            id: "x".into(),
            simulated: Vec::new(),
            hosts,
            rollout: Default::default(),
        };
        for detailed in [false, true] {
            let codes: Vec<u8> =
                subset.iter().filter(|(_, only, _)| detailed || !only).map(|(code, _, _)| *code).collect();
            assert_eq!(plan.exit_code(detailed).code(), worst(codes.clone()), "{codes:?}, detailed: {detailed}");
        }
    });
}

// --- drift --------------------------------------------------------------------------------------

fn drifted(cause: DriftCause, verdict: StepVerdict) -> DriftFinding {
    let (text, time) = (|| "x".into(), || "2026-11-21T09:30:00Z".to_owned());
    DriftFinding {
        host: HostName::new("h"),
        recipe: text(),
        step: text(),
        aspect: FindingAspect::Step,
        attribute: None,
        mark: Default::default(),
        object: Default::default(),
        kind: text(),
        title: text(),
        path: None,
        verdict,
        reason: text(),
        hint: None,
        desired: None,
        observed: None,
        diff: None,
        check: None,
        secret: false,
        last_applied: None,
        cause,
        uncompared: false,
        culprit: None,
        severity: FindingSeverity::Low,
        disruption: DisruptionClass::D0,
        level: VerifyLevel::L0,
        action: None,
        place: String::new(),
        standing: FindingNovelty::New,
        first_seen: time(),
        last_seen: time(),
        times: 1,
        also: 0,
    }
}

fn unsure() -> UndecidedItem {
    let text = || "x".into();
    let (host, aspect) = (HostName::new("h"), FindingAspect::Step);
    UndecidedItem { host, recipe: text(), step: text(), aspect, reason: text(), hint: None, place: String::new() }
}

fn looked_at(reach: HostReachability) -> HostDrift {
    let host = HostName::new("h");
    HostDrift { host, reach, settled: 1, follow: 0, warnings: vec![], took: Duration::ZERO }
}

fn odd_one_out() -> OutlierReport {
    let odd = FactOutlier {
        class: 0,
        fact: "kernel".into(),
        path: "kernel.release".into(),
        common: "a".into(),
        hosts: 2,
        odd: vec![],
        unknown: 0,
    };
    OutlierReport { odd: vec![odd], ..OutlierReport::default() }
}

#[test]
fn drift_exits_with_the_worst_code_of_any_combination() {
    type Has = (u8, fn(&mut DriftReport));
    let all: [Has; 8] = [
        (2, |drift| drift.findings.push(drifted(DriftCause::MachineChanged, StepVerdict::Change))),
        // Pending and blocked steps count as findings.
        (2, |drift| drift.findings.push(drifted(DriftCause::Pending, StepVerdict::Pending))),
        (2, |drift| {
            drift.findings.push(drifted(DriftCause::HardwareFault, StepVerdict::Blocked(BlockClass::Hardware)))
        }),
        (9, |drift| drift.unknown.push(unsure())),
        // A failed notification changes the exit code.
        (1, |drift| {
            let state = NotificationState::Failed;
            drift.notified.push(DriftNotification {
                name: "x".into(),
                service: "slack".into(),
                state,
                why: None,
                items: 0,
                left_out: 0,
            });
        }),
        // Outliers do not count as drift, unless `drift.outliers` says so.
        (0, |drift| drift.outliers = Some(odd_one_out())),
        (2, |drift| {
            drift.outliers = Some(odd_one_out());
            drift.outliers_count = true;
        }),
        (4, |drift| {
            drift.hosts.push(looked_at(HostReachability::Unreachable(UnreachableReason::new("why", None))));
        }),
    ];
    subsets(&all, |holds| {
        let text = || "x".to_owned();
        let mut drift = DriftReport {
            version: 1,
            forge: text(),
            run: text(),
            cluster: text(),
            inventory: text(),
            time: text(),
            simulated: vec![],
            hosts: vec![looked_at(HostReachability::Observed)],
            findings: vec![],
            unknown: vec![],
            resolved: vec![],
            ignored: vec![],
            ignored_steps: Default::default(),
            no_history: None,
            notified: Vec::new(),
            outliers: None,
            outliers_count: false,
            took: Duration::ZERO,
        };
        holds.iter().for_each(|(_, hold)| hold(&mut drift));
        assert_eq!(drift.exit_code().code(), worst(holds.iter().map(|(code, _)| *code)));
    });
}
