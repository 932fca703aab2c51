//! The classification of what changed in a view, from recorded output.

use super::declared::DeclaredStep;
use super::*;
use crate::model::{ExitCode, HostName, HostOutcome, StepId};
use std::time::Duration;

/// Printed by `view_report.sh` on Debian 12 after a package was installed whose postinst restarts ssh, adds a user and
/// edits a file of another package; shortened. origin: source
const PRINTED: &str = "space\t13020\t11657648
hidden\t/data\tnfs4
software\tplanted:all\t\t1.0
software\tlibhelper:amd64\t\t2.1-3
software\told-tool:amd64\t1.0\t1.1
expected\tplanted\t4
expected\tlibhelper\t9
path\tcreated\td\t/srv/packages\t100.5\t\t
path\tcreated\tf\t/srv/packages/Packages\t100.6\t\t
path\tcreated\tf\t/srv/packages/planted.deb\t100.7\t\t
path\tchanged\tf\t/etc/pam.d/sshd\t205.1\t\topenssh-server
path\tattributes\td\t/etc/ssh\t205.2\tmode 755 to 700\topenssh-server
path\tremoved\t-\t/etc/motd.tail\t\t\t
path\tcreated\tf\t/etc/agent.conf\t300.2\t\t
path\tcreated\tl\t/etc/systemd/system/multi-user.target.wants/planted.service\t205.3\t\t
path\tcreated\tf\t/opt/archive/bin/tool\t300.9\t\t
path\tchanged\tf\t/var/lib/dpkg/status\t205.4\t\t
path\tchanged\tf\t/var/log/dpkg.log\t205.4\t\t
path\tchanged\tf\t/etc/passwd\t205.4\t\t
passwd-before\troot:x:0:0:root:/root:/bin/bash
passwd-before\tgone:x:7:7::/:/bin/sh
passwd-after\troot:x:0:0:root:/root:/bin/zsh
passwd-after\tplanted:x:999:999::/:/bin/sh
passwd-after\ttrain:x:998:998::/:/bin/sh
group-before\troot:x:0:
group-after\troot:x:0:planted
step\t100.0\tgpu-host/package repository
step\t200.0\tgpu-host/agent
unit\t205.0\trestart\tssh.service\t0\tactive\tenabled\tactive\tenabled\t\tgpu-host/agent\tplanted\tpostinst\t/bin/sh /var/lib/dpkg/info/planted.postinst configure
unit\t205.0\ttry-restart\tcron.service\t0\tinactive\tdisabled\tinactive\tdisabled\t\tgpu-host/agent\tplanted\tpostinst\tsh
unit\t206.0\tstart\tplanted.socket\t0\tinactive\tnone\tactive\tnone\tsocket\tgpu-host/agent\tplanted\tpostinst\tsh
step\t300.0\tgpu-host/agent configuration
unit\t301.0\trestart\tgpu-agent.service\t0\tactive\tenabled\tactive\tenabled\t\tgpu-host/agent service\t\t\tsh
unit\t302.0\tstop\tnginx.service\t0\tactive\tenabled\tinactive\tenabled\t\tgpu-host/agent configuration\t\t\tsh -c hook
unit\t303.0\tstop\tgpu-agent.service\t0\tactive\tenabled\tinactive\tenabled\t\t\t\t\tsh
end
";

fn declared() -> DeclaredEffects {
    let step = |id: &str| DeclaredStep { id: id.to_owned(), ..DeclaredStep::default() };
    let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    DeclaredEffects {
        steps: vec![
            step("gpu-host/package repository"),
            DeclaredStep { packages: set(&["planted"]), ..step("gpu-host/agent") },
            DeclaredStep { paths: set(&["/etc/agent.conf", "/opt/archive"]), ..step("gpu-host/agent configuration") },
            DeclaredStep { units: set(&["gpu-agent.service"]), ..step("gpu-host/agent service") },
            DeclaredStep { accounts: set(&["train"]), ..step("base/training account") },
        ],
    }
}

fn found() -> UndeclaredEffects {
    find_undeclared_effects(&ViewChanges::parse(PRINTED).unwrap(), &declared())
}

#[test]
fn unit_of_a_maintainer_script_is_named_with_package_and_step() {
    let units: Vec<String> = found()
        .units
        .iter()
        .map(|unit| {
            let text =
                |text: &Option<crate::model::UntrustedText>| text.as_ref().map_or("-", |text| text.raw()).to_owned();
            let (package, step, kind) = (text(&unit.package), text(&unit.step), text(&unit.not_started));
            format!("{} {} {package} {step} {kind}", unit.unit.raw(), unit.action.name())
        })
        .collect();
    assert_eq!(
        units,
        [
            "ssh.service restarted planted gpu-host/agent -",
            "planted.socket started planted gpu-host/agent socket",
            "nginx.service stopped - gpu-host/agent configuration -",
            "planted.service enabled - gpu-host/agent -",
        ]
    );
}

#[test]
fn files_of_declared_paths_and_of_package_managers_are_no_findings() {
    let found = found();
    let files: Vec<String> = found
        .files
        .iter()
        .map(|file| {
            let step = file.step.as_ref().map_or("-", |step| step.raw());
            let package = file.package.as_ref().map_or("-", |package| package.raw());
            format!("{} {:?} {} {package} {step} {}", file.path.raw(), file.change, file.entries, file.detail.raw())
        })
        .collect();
    assert_eq!(
        files,
        [
            "/etc/motd.tail Removed 0 - - ",
            "/etc/pam.d/sshd Changed 0 openssh-server gpu-host/agent ",
            "/etc/ssh Attributes 0 openssh-server gpu-host/agent mode 755 to 700",
            "/srv/packages Created 2 - gpu-host/package repository ",
        ]
    );
    assert_eq!((found.bookkeeping, found.unlisted), (2, 0));
}

#[test]
fn packages_and_accounts_of_steps_are_no_findings() {
    let found = found();
    let packages: Vec<&str> = found.packages.iter().map(|package| package.name.raw()).collect();
    assert_eq!(packages, ["libhelper:amd64", "old-tool:amd64"]);
    let accounts: Vec<_> = found.accounts.iter().map(|a| (a.group, a.name.raw(), a.change.name())).collect();
    assert_eq!(
        accounts,
        [
            (false, "gone", "removed"),
            (false, "root", "changed"),
            (false, "planted", "created"),
            (true, "root", "changed")
        ]
    );
}

#[test]
fn list_of_changes_that_is_cut_off_or_garbled_is_an_error() {
    assert_eq!(ViewChanges::parse("space\t1\t2\n"), Err("the list of changes is cut off".to_owned()));
    assert_eq!(ViewChanges::parse("path\tlost\nend\n"), Err("unexpected line `path\tlost`".to_owned()));
    let changes = ViewChanges::parse(PRINTED).unwrap();
    assert_eq!(changes.space, Some(ViewSpace { used_kib: 13020, size_kib: 11_657_648 }));
    assert_eq!(changes.hidden, [("/data".to_owned(), "nfs4".to_owned())]);
    assert_eq!(changes.installed.len(), 2);
}

fn host(outcome: HostOutcome, results: &[RehearsedResult], verify: &[bool]) -> HostRehearsal {
    let step = |result: &RehearsedResult| RehearsedStep {
        id: StepId::new("r", "s"),
        title: "t".into(),
        result: *result,
        reason: "".into(),
        output: "".into(),
        only_in_view: false,
        took: Duration::ZERO,
    };
    let check = |unknown: &bool| RehearsedVerification {
        recipe: "r".into(),
        name: "v".into(),
        unknown: *unknown,
        reason: "".into(),
    };
    HostRehearsal {
        host: HostName::new("n1"),
        outcome,
        reason: "".into(),
        hint: None,
        steps: results.iter().map(step).collect(),
        verify: verify.iter().map(check).collect(),
        beyond: UndeclaredEffects::default(),
        installed: Vec::new(),
        space: None,
        notes: Vec::new(),
        took: Duration::ZERO,
    }
}

fn report(hosts: Vec<HostRehearsal>) -> RehearsalReport {
    RehearsalReport {
        version: REHEARSAL_VERSION,
        cluster: "c".into(),
        inventory: "i.yaml".into(),
        plan: "p".into(),
        hosts,
        left_out: Vec::new(),
        interrupted: false,
        took: Duration::ZERO,
    }
}

#[test]
fn exit_code_is_that_of_the_worst_result() {
    use RehearsedResult::{Changed, Failed, NotRehearsed};
    let code = |hosts: Vec<HostRehearsal>| report(hosts).exit_code(false);
    let good = || host(HostOutcome::Changed, &[Changed], &[]);
    assert_eq!(code(vec![good()]), ExitCode::Done);
    assert_eq!(code(vec![good(), host(HostOutcome::Failed, &[Changed, Failed], &[])]), ExitCode::HostsFailed);
    assert_eq!(code(vec![good(), host(HostOutcome::Unknown, &[NotRehearsed], &[])]), ExitCode::Unknown);
    assert_eq!(code(vec![good(), host(HostOutcome::Unknown, &[Changed], &[true])]), ExitCode::Unknown);
    assert_eq!(code(vec![good(), host(HostOutcome::Failed, &[Changed], &[false])]), ExitCode::VerifyFailed);
    assert_eq!(code(vec![good(), host(HostOutcome::Failed, &[], &[])]), ExitCode::HostsFailed);
    assert_eq!(code(vec![good(), host(HostOutcome::Unreachable, &[], &[])]), ExitCode::Unreachable);
    assert_eq!(code(vec![good(), host(HostOutcome::Unknown, &[], &[])]), ExitCode::Unknown, "changes not read");
    assert_eq!(code(vec![good(), host(HostOutcome::Cancelled, &[], &[])]), ExitCode::Interrupted);
    let stopped = RehearsalReport { interrupted: true, ..report(vec![good()]) };
    assert_eq!(stopped.exit_code(false), ExitCode::Interrupted);
}

#[test]
fn changes_beyond_the_plan_count_only_with_a_detailed_exit_code() {
    let mut one = host(HostOutcome::Changed, &[RehearsedResult::Changed], &[]);
    one.beyond = found();
    let report = report(vec![one]);
    assert_eq!((report.exit_code(false), report.exit_code(true)), (ExitCode::Done, ExitCode::Changes));
    assert_eq!(report.summarize().beyond, 14);
}
