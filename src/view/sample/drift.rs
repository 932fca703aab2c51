//! Handwritten drift results.

use super::host;
use crate::drift::{
    DriftCause, DriftFinding, DriftReport, FindingAspect, FindingNovelty, FindingSeverity, HostDrift, IgnoreRuleResult,
    KnownFinding, LastApplied, RepairAction, UndecidedItem,
};
use crate::facts::outliers::{FactOutlier, HostClass, OutlierReport, OutlierValue, UndecidedFact, UnknownHostFact};
use crate::model::{BlockClass, DisruptionClass, StepVerdict, UntrustedText, Value, VerifyLevel};
use crate::plan::{HostReachability, HostWarning, UnreachableReason};
use crate::resource::{ChangeMark, ChangedObject};
use std::time::Duration;

/// The time of the run that found the findings of [`rich_drift`].
const FOUND_TIME: &str = "2026-11-21T09:30:00Z";

pub fn finding(on: &str, step: &str, cause: DriftCause, severity: FindingSeverity) -> DriftFinding {
    DriftFinding {
        host: host(on),
        recipe: "base".into(),
        step: step.into(),
        aspect: FindingAspect::Step,
        attribute: None,
        mark: ChangeMark::default(),
        object: ChangedObject::Nameless,
        kind: "file".into(),
        title: format!("/etc/{step}").into(),
        path: None,
        verdict: StepVerdict::Change,
        reason: "mode differs".into(),
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
        severity,
        disruption: DisruptionClass::D0,
        level: VerifyLevel::L0,
        action: None,
        place: "recipes/base.yaml:7:5".into(),
        standing: FindingNovelty::New,
        first_seen: FOUND_TIME.into(),
        last_seen: FOUND_TIME.into(),
        times: 1,
        also: 0,
    }
}

fn applied_record(value: Option<&str>) -> Option<LastApplied> {
    Some(LastApplied {
        value: value.map(UntrustedText::from),
        time: "2026-11-20T18:00:00Z".into(),
        run: "20261120T180000-4f2a".into(),
        user: "ann".into(),
        controller: "ctl-1".into(),
    })
}

fn mode_finding(on: &str) -> DriftFinding {
    DriftFinding {
        attribute: Some("mode".into()),
        desired: Some("0644".into()),
        observed: Some("0600".into()),
        last_applied: applied_record(Some("0644")),
        ..finding(on, "motd", DriftCause::MachineChanged, FindingSeverity::Medium)
    }
}

fn content_finding(on: &str) -> DriftFinding {
    DriftFinding {
        attribute: Some("content".into()),
        desired: Some("4 bytes, sha256 aa".into()),
        observed: Some("5 bytes, sha256 bb".into()),
        diff: Some("@@ -1 +1 @@\n-old\n+new\n".into()),
        reason: "content differs".into(),
        first_seen: "2026-11-19T09:30:00Z".into(),
        times: 3,
        ..mode_finding(on)
    }
}

pub fn drift(hosts: &[&str], findings: Vec<DriftFinding>) -> DriftReport {
    let of = |name: &&str| HostDrift {
        host: host(name),
        reach: HostReachability::Observed,
        settled: 12,
        follow: 0,
        warnings: Vec::new(),
        took: Duration::from_millis(800),
    };
    DriftReport {
        version: 1,
        forge: "0.1.0".into(),
        run: "20261121T093000-77aa".into(),
        cluster: "h100-prod".into(),
        inventory: "inventory.yaml".into(),
        time: FOUND_TIME.into(),
        simulated: Vec::new(),
        hosts: hosts.iter().map(of).collect(),
        findings,
        unknown: Vec::new(),
        resolved: Vec::new(),
        ignored: Vec::new(),
        ignored_steps: Default::default(),
        no_history: None,
        notified: Vec::new(),
        outliers: None,
        outliers_count: false,
        took: Duration::from_millis(1200),
    }
}

/// Returns drift with every cause and every section of the text output.
pub fn rich_drift() -> DriftReport {
    let fault = DriftFinding {
        aspect: FindingAspect::Health,
        kind: "gpu".into(),
        title: "GPU 0000:9b:00.0".into(),
        reason: "a row remap failed".into(),
        action: Some(RepairAction::Rma),
        ..finding("gpu03", "remaps", DriftCause::HardwareFault, FindingSeverity::Critical)
    };
    let verification = DriftFinding {
        aspect: FindingAspect::Verification,
        kind: "".into(),
        title: "".into(),
        reason: "failed: facts.gpus | length == 8".into(),
        ..finding("gpu03", "eight GPUs", DriftCause::MachineChanged, FindingSeverity::High)
    };
    let recipe = DriftFinding {
        attribute: Some("version".into()),
        desired: Some("560.35.03".into()),
        observed: Some("550.54.15".into()),
        last_applied: applied_record(Some("550.54.15")),
        disruption: DisruptionClass::D2,
        reason: "another version is installed".into(),
        ..finding("gpu01", "driver", DriftCause::RecipeChanged, FindingSeverity::Low)
    };
    let secret = DriftFinding {
        attribute: Some("content".into()),
        secret: true,
        ..finding("gpu01", "token", DriftCause::Both, FindingSeverity::Medium)
    };
    let pending = DriftFinding {
        verdict: StepVerdict::Pending,
        reason: "needs reboot".into(),
        ..finding("gpu02", "gsp", DriftCause::Pending, FindingSeverity::Low)
    };
    let blocked = DriftFinding {
        verdict: StepVerdict::Blocked(BlockClass::Rule),
        also: 3,
        reason: "open kernel modules ignore it".into(),
        ..finding("gpu02", "rule", DriftCause::Unknown, FindingSeverity::Medium)
    };
    let left = DriftFinding {
        aspect: FindingAspect::Undeclared,
        place: String::new(),
        reason: "previously applied, no longer declared".into(),
        last_applied: applied_record(None),
        ..finding("gpu02", "agent", DriftCause::NoLongerDeclared, FindingSeverity::Low)
    };
    let same = ["gpu01", "gpu02"].iter().flat_map(|on| [content_finding(on), mode_finding(on)]);
    let findings = same.chain([fault, verification, recipe, secret, pending, blocked, left]).collect();
    let mut drift = drift(&["gpu01", "gpu02", "gpu03", "gpu04"], findings);
    drift.hosts[3].reach =
        HostReachability::Unreachable(UnreachableReason::new("connection refused", Some("check the network".into())));
    let warning = HostWarning { why: "reports the host name `gpu02`".into(), hint: Some("compare them".into()) };
    drift.hosts[0].warnings = vec![warning];
    let known = KnownFinding {
        host: host("gpu02"),
        recipe: "base".into(),
        step: "hosts".into(),
        attribute: Some("content".into()),
        cause: DriftCause::MachineChanged,
        severity: FindingSeverity::Medium,
        first_seen: "2026-11-21T08:00:00Z".into(),
        since: "2026-11-21T08:00:00Z".into(),
        applied: None,
        times: 1,
        print: "aa".into(),
        resolved: Some(FOUND_TIME.into()),
    };
    drift.resolved = vec![known.clone(), KnownFinding { host: host("gpu01"), ..known }];
    let ignored = |what: &str, count, expired| IgnoreRuleResult {
        what: what.into(),
        why: "site banner".into(),
        until: "2026-11-20".into(),
        count,
        expired,
        place: "inventory.yaml:9:7".into(),
    };
    drift.ignored = vec![ignored("path /etc/issue", 4, false), ignored("step base/motd", 0, true)];
    drift.no_history = Some("cannot write the state folder `.forge`: read-only file system".into());
    drift.unknown = vec![UndecidedItem {
        host: host("gpu03"),
        recipe: "base".into(),
        step: "sysctl".into(),
        aspect: FindingAspect::Step,
        reason: "timed out after 20 s".into(),
        hint: None,
        place: "recipes/base.yaml:9:5".into(),
    }];
    drift
}

/// Returns outliers among six hosts. `said` is text from a host.
pub fn outliers(said: &str) -> OutlierReport {
    let hosts = |names: &[&str]| names.iter().map(|name| host(name)).collect::<Vec<_>>();
    let odd = |fact: &str, path: String, common: Value, odd: Vec<(Value, &[&str])>| FactOutlier {
        class: 0,
        fact: fact.into(),
        path: path.into(),
        common,
        hosts: 6 - odd.iter().map(|(_, names)| names.len()).sum::<usize>(),
        odd: odd.into_iter().map(|(value, names)| OutlierValue { value, hosts: hosts(names) }).collect(),
        unknown: 0,
    };
    let packages = (1..8)
        .map(|n| odd("packages", format!("packages.installed.p{n}"), "1.0".into(), vec![(Value::Null, &["gpu04"])]));
    let mut all = vec![
        odd("kernel", "kernel.release".into(), "5.15.0-131-generic".into(), vec![(said.into(), &["gpu03"])]),
        odd(
            "kernel",
            format!("modules.{said}"),
            serde_json::json!(["iommu=pt", "ro"]),
            vec![(serde_json::json!(["ro", said]), &["gpu03"])],
        ),
    ];
    all.extend(packages);
    all.push(odd(
        "driver",
        "driver.loaded".into(),
        "560.35.03".into(),
        vec![("550.54.15".into(), &["gpu02"]), (Value::Null, &["gpu05"])],
    ));
    let names: Vec<String> = (1..=6).map(|n| format!("gpu0{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    OutlierReport {
        classes: vec![HostClass {
            hardware: "Supermicro, SYS-821GE-TNHR, H100 SXM".into(),
            groups: vec!["gpu".into()],
            hosts: hosts(&names),
        }],
        odd: all,
        undecided: vec![UndecidedFact { class: 0, path: "cpu.model".into(), values: 2, hosts: 6 }],
        unknown: vec![UnknownHostFact {
            class: Some(0),
            path: "topology".into(),
            why: said.into(),
            hosts: hosts(&["gpu01", "gpu06"]),
        }],
        alone: vec![HostClass { hardware: said.into(), groups: vec![], hosts: hosts(&["login01"]) }],
        compared: 312,
    }
}
