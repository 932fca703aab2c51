//! A handwritten rehearsal with every kind of finding, for the tests of all writers.

use crate::model::{HostName, HostOutcome, StepId, UntrustedText};
use crate::plan::{
    AccountChange, AccountEffect, FileChange, FileEffect, HostRehearsal, InstalledFiles, PackageEffect, Plan,
    REHEARSAL_VERSION, RehearsalReport, RehearsedResult, RehearsedStep, RehearsedVerification, UndeclaredEffects,
    UnitAction, UnitEffect, ViewSpace,
};
use std::time::Duration;

/// Returns a rehearsal of a plan on two hosts, one of them unreachable.
pub fn rehearsal_report(plan: &Plan) -> RehearsalReport {
    RehearsalReport {
        version: REHEARSAL_VERSION,
        cluster: plan.cluster.clone(),
        inventory: plan.inventory.clone(),
        plan: plan.id.clone(),
        hosts: vec![rehearsed_host(), unreachable_host()],
        left_out: vec!["steps through the cluster's API".to_owned()],
        interrupted: false,
        took: Duration::from_secs(14),
    }
}

fn empty_host(name: &str, outcome: HostOutcome) -> HostRehearsal {
    HostRehearsal { took: Duration::from_secs(12), ..HostRehearsal::new(&HostName::new(name), outcome) }
}

fn unreachable_host() -> HostRehearsal {
    HostRehearsal {
        reason: "no route to host".into(),
        hint: Some("check the cable".into()),
        ..empty_host("n2", HostOutcome::Unreachable)
    }
}

fn rehearsed_host() -> HostRehearsal {
    let step = |name: &str, result, reason: &str| RehearsedStep {
        id: StepId::new("base", name),
        title: name.into(),
        result,
        reason: reason.into(),
        output: UntrustedText::default(),
        only_in_view: false,
        took: Duration::from_millis(1200),
    };
    let failed = RehearsedStep {
        output: "broken\x1b[2J\nagain".into(),
        ..step("config", RehearsedResult::Failed, "exit status 7")
    };
    let only = RehearsedStep { only_in_view: true, ..step("service", RehearsedResult::Changed, "") };
    HostRehearsal {
        steps: vec![
            step("agent", RehearsedResult::Changed, ""),
            step("kernel", RehearsedResult::Pending, "takes effect at the next boot"),
            step("motd", RehearsedResult::Unchanged, "content matches"),
            failed,
            step("gpu", RehearsedResult::NotRehearsed, "unknown: no device"),
            only,
        ],
        verify: vec![RehearsedVerification {
            recipe: "base".into(),
            name: "the agent runs".into(),
            unknown: false,
            reason: "exit status 1".into(),
        }],
        beyond: undeclared_effects(),
        installed: vec![InstalledFiles { package: "agent".into(), files: 3 }],
        space: Some(ViewSpace { used_kib: 22_528, size_kib: 8_388_608 }),
        notes: vec!["`/data` (nfs4) is empty in the view".into()],
        ..empty_host("n1", HostOutcome::Failed)
    }
}

fn undeclared_effects() -> UndeclaredEffects {
    let unit = UnitEffect {
        unit: "ssh.service".into(),
        action: UnitAction::Restarted,
        step: Some("base/agent".into()),
        package: Some("agent".into()),
        script: Some("postinst".into()),
        caller: None,
        not_started: None,
    };
    let hook = UnitEffect {
        unit: "dbus.service".into(),
        package: None,
        script: None,
        caller: Some("needrestart".into()),
        not_started: Some("dbus".into()),
        ..unit.clone()
    };
    let package = |name: &str, before: Option<&str>, after: Option<&str>| PackageEffect {
        name: name.into(),
        before: before.map(UntrustedText::from),
        after: after.map(UntrustedText::from),
    };
    let file = |path: &str, change, entries, detail: &str, package: Option<&str>| FileEffect {
        path: path.into(),
        change,
        entries,
        detail: detail.into(),
        package: package.map(UntrustedText::from),
        step: Some("base/agent".into()),
    };
    UndeclaredEffects {
        units: vec![unit, hook],
        packages: vec![
            package("libagent:amd64", None, Some("2.1-3")),
            package("old:all", Some("1.0"), None),
            package("tool:all", Some("1.0"), Some("1.1")),
        ],
        accounts: vec![
            AccountEffect { group: false, name: "agent".into(), change: AccountChange::Created },
            AccountEffect { group: true, name: "adm".into(), change: AccountChange::Changed },
        ],
        files: vec![
            file("/etc/issue", FileChange::Changed, 0, "", Some("base-files")),
            file("/etc/ssh", FileChange::Attributes, 0, "mode 755 to 700", None),
            file("/etc/motd\x1b[2J.tail", FileChange::Removed, 0, "", None),
            file("/srv/packages", FileChange::Created, 2, "", None),
        ],
        bookkeeping: 12,
        unlisted: 1,
    }
}
