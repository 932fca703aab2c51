//! Attributes one finding by the evidence of its host. Pure.
//!
//! The order follows the strength of the evidence: first evidence about the object itself, then events at the same
//! time, then none. If the evidence is the same for two users, it names neither.

use super::evidence::HostEvidence;
use super::model::{AttributionCertainty, ChangeSource};
use super::packages::PackageManagerRun;
use super::subject::FindingSubject;
use super::sudo::SudoCommand;
use super::{apt, boots, clock};
use crate::drift::cause::DriftCause;
use crate::drift::model::DriftFinding;
use jiff::Timestamp;

/// A finding with the evidence of its host.
pub struct AttributionContext<'c> {
    pub finding: &'c DriftFinding,
    pub seen: &'c HostEvidence<'c>,
    /// When the object last matched, by the host's clock.
    pub since: Timestamp,
}

/// Returns who made the change of a finding. `None` if there is nothing to report: a reload is pending, and no user is
/// known to have changed anything.
pub fn attribute_finding(case: &AttributionContext<'_>) -> Option<ChangeSource> {
    let culprit = match FindingSubject::from_finding(case.finding) {
        FindingSubject::Packages(names) => case.attribute_package_change(&names),
        FindingSubject::Path(path) => super::files::attribute_file_change(case, &path),
        FindingSubject::Unit(unit) => super::units::attribute_unit_change(case, &unit),
        subject => case.attribute_by_command(&subject),
    };
    let silent = matches!(culprit.sure, AttributionCertainty::Nobody | AttributionCertainty::Unknown);
    (case.finding.cause != DriftCause::Pending || !silent).then_some(culprit)
}

/// The name of the journal as a source.
pub const JOURNAL_SOURCE: &str = "journal";

impl AttributionContext<'_> {
    /// Returns package manager runs since then, latest first.
    pub fn recent_package_runs(&self) -> impl Iterator<Item = &PackageManagerRun> {
        self.seen.packages.iter().rev().filter(|run| run.ended >= self.since)
    }

    /// Returns sudo commands since then, latest first, without read-only ones. Earlier commands that were still running
    /// count, too.
    pub fn recent_sudo_commands(&self) -> impl Iterator<Item = &SudoCommand> {
        let late = |sudo: &&SudoCommand| sudo.ended.unwrap_or(sudo.began).max(sudo.began) >= self.since;
        self.seen.sudo.iter().rev().filter(late).filter(|sudo| !sudo.is_read_only())
    }

    fn attribute_package_change(&self, names: &[String]) -> ChangeSource {
        if self.finding.attribute.as_deref().is_some_and(|attribute| attribute.starts_with("hold")) {
            return self.attribute_hold(names);
        }
        let run = self.recent_package_runs().find_map(|run| run.last_change_of(names).map(|change| (run, change)));
        match run {
            Some((run, change)) if self.leads_to_observed(change.to.as_deref()) => {
                self.attribute_to_run(run, change.at)
            }
            Some((run, change)) => ChangeSource {
                time: Some(clock::format_time(change.at)),
                source: Some(run.source.into()),
                ..ChangeSource::without_match("the package logs show another version than the observed one")
            },
            None => self.explain_missing_run(),
        }
    }

    /// Reports whether a change results in the observed state.
    fn leads_to_observed(&self, to: Option<&str>) -> bool {
        let observed = self.finding.observed.as_ref().map(|text| text.raw());
        match self.finding.attribute.as_deref().map(|name| name.split(" of ").next().unwrap_or(name)) {
            Some("version" | "downgrade") => match (observed, to) {
                (Some(seen), Some(to)) => seen == to || to.split_once(':').is_some_and(|(_, to)| to == seen),
                (None, None) => true,
                _ => false,
            },
            Some("exists" | "package" | "installed") => observed.is_some() == to.is_some(),
            _ => true,
        }
    }

    /// Finds who set a hold, which leaves no trace in the package logs.
    fn attribute_hold(&self, names: &[String]) -> ChangeSource {
        let tools = ["apt-mark", "dpkg", "apt", "apt-get", "aptitude", "dnf", "yum", "sh", "bash", "dash"];
        let names_it =
            |sudo: &&SudoCommand| tools.contains(&sudo.program()) && names.iter().any(|name| sudo.has_token(name));
        let held = |sudo: &&SudoCommand| {
            ["hold", "unhold", "--set-selections", "versionlock"].iter().any(|verb| sudo.has_token(verb))
        };
        match self.recent_sudo_commands().filter(names_it).find(held) {
            Some(sudo) => ChangeSource::from_sudo(AttributionCertainty::Named, sudo, sudo.began),
            None => self.without_match_at("no command in the journal refers to it", None),
        }
    }

    fn explain_missing_run(&self) -> ChangeSource {
        let read = ["apt", "dpkg", "rpm"].into_iter().find(|log| self.seen.missing_reason(log).is_none());
        match read {
            Some("rpm") => ChangeSource::without_match("dnf's logs do not mention it"),
            Some(_) => ChangeSource::without_match("apt's and dpkg's logs do not mention it"),
            None => ChangeSource::without_evidence(&format!(
                "{} {}",
                apt::APT_LOG,
                self.seen.missing_reason("apt").unwrap_or_default()
            )),
        }
    }

    /// Returns who ran a package manager: the user in its log, else the user who ran it with sudo at that time.
    pub fn attribute_to_run(&self, run: &PackageManagerRun, at: Timestamp) -> ChangeSource {
        let told = ChangeSource {
            time: Some(clock::format_time(at)),
            source: Some(run.source.into()),
            command: run.command.as_deref().map(Into::into),
            program: Some(run.tool.into()),
            ..ChangeSource::with_certainty(AttributionCertainty::Named)
        };
        if run.command.as_deref().is_some_and(|command| command.contains("unattended-upgrade")) && run.user.is_none() {
            return ChangeSource { program: Some("unattended-upgrades".into()), user: Some("root".into()), ..told };
        }
        let during = |sudo: &&SudoCommand| sudo.covers_time(run.began);
        if let Some(user) = &run.user {
            let by_sudo = self.recent_sudo_commands().filter(during).any(|sudo| sudo.user == *user);
            let program = if by_sudo { "sudo" } else { run.tool };
            return ChangeSource { user: Some(user.as_str().into()), program: Some(program.into()), ..told };
        }
        let calls = |sudo: &&SudoCommand| sudo.program().starts_with(run.tool) || sudo.has_token(run.tool);
        let callers: Vec<&SudoCommand> = self.recent_sudo_commands().filter(during).filter(calls).collect();
        match (is_single_user(&callers), callers.first()) {
            (true, Some(sudo)) => {
                return ChangeSource {
                    time: told.time,
                    ..ChangeSource::from_sudo(AttributionCertainty::Named, sudo, at)
                }
                .with_source(run.source);
            }
            // apt's log names the sudo user: without one, root ran it.
            _ if run.tool == "apt" => return ChangeSource { user: Some("root".into()), ..told },
            _ => {}
        }
        match self.recent_sudo_commands().find(during) {
            Some(sudo) => {
                ChangeSource { time: told.time, ..ChangeSource::from_sudo(AttributionCertainty::Near, sudo, at) }
                    .with_source(run.source)
            }
            None => ChangeSource {
                program: told.program,
                command: told.command,
                time: told.time,
                source: told.source,
                ..self.without_match_at("its log names no user, and the journal has no command at that time", Some(at))
            },
        }
    }

    /// Returns a result without a user: nobody, or unknown if the journal does not cover `time` or the last match.
    pub fn without_match_at(&self, why: &str, time: Option<Timestamp>) -> ChangeSource {
        let from = time.unwrap_or(self.since);
        let told = time.map(clock::format_time);
        let culprit = match (self.seen.missing_reason("journal"), self.seen.journal_since) {
            (Some(lack), _) => {
                ChangeSource::without_evidence(&format!("the journal {}", lack.trim_start_matches("the journal ")))
            }
            (None, Some(begins)) if begins > from => {
                ChangeSource::without_evidence(&format!("the journal only starts at {}", clock::format_time(begins)))
            }
            _ => ChangeSource::without_match(why),
        };
        ChangeSource { time: told, ..culprit }
    }

    /// Attributes objects without a time of their own: by the latest command that names them, then by the boot.
    fn attribute_by_command(&self, subject: &FindingSubject) -> ChangeSource {
        if let Some(sudo) = self.recent_sudo_commands().find(|sudo| self.is_command_about(subject, sudo)) {
            let sure = if self.explains_finding(subject, sudo) {
                AttributionCertainty::Named
            } else {
                AttributionCertainty::Near
            };
            return ChangeSource::from_sudo(sure, sudo, sudo.began);
        }
        if *subject == FindingSubject::Kernel
            && let Some(culprit) = self.attribute_kernel_change()
        {
            return culprit;
        }
        let boot =
            boots::attribute_reboot(self).filter(|_| subject.is_reset_by_boot(self.finding.attribute.as_deref()));
        match boot {
            Some(boot) if matches!(boot.sure, AttributionCertainty::Named | AttributionCertainty::Near) => {
                ChangeSource { sure: AttributionCertainty::Near, ..boot }
            }
            Some(boot) => boot,
            None => self.without_match_at("the journal does not mention it", None),
        }
    }

    fn is_command_about(&self, subject: &FindingSubject, sudo: &SudoCommand) -> bool {
        let program = sudo.program();
        match subject {
            FindingSubject::Sysctl(key) => self.sets_key(key, sudo),
            FindingSubject::Account(name) => ACCOUNT_PROGRAMS.contains(&program) && sudo.has_token(name),
            FindingSubject::Module(name) => {
                let same = |token: &str| token.replace('-', "_") == name.replace('-', "_");
                ["modprobe", "rmmod", "insmod", "sh", "bash"].contains(&program) && sudo.tokens().any(same)
            }
            FindingSubject::Mount(path) => {
                ["mount", "umount", "systemctl"].contains(&program) && sudo.mentions_path(path)
            }
            _ => false,
        }
    }

    /// Reports whether the command explains the finding: an account has many attributes, so it must contain the value.
    fn explains_finding(&self, subject: &FindingSubject, sudo: &SudoCommand) -> bool {
        let takes_away = ["userdel", "deluser", "groupdel", "delgroup"].contains(&sudo.program());
        match (subject, self.finding.observed.as_ref()) {
            (FindingSubject::Account(_), Some(seen)) => sudo.has_token(seen.raw()),
            (FindingSubject::Account(_), None) => takes_away,
            _ => true,
        }
    }

    /// Reports whether a command sets a kernel setting, to the observed value if it contains one.
    fn sets_key(&self, key: &str, sudo: &SudoCommand) -> bool {
        let named = |token: &str| token.trim_start_matches("/proc/sys/").replace('/', ".") == key;
        let mut tokens = sudo.tokens();
        if !tokens.any(named) {
            return false;
        }
        let value = tokens.next();
        let observed = self.finding.observed.as_ref().map(|text| text.raw().trim());
        match sudo.program() {
            "sysctl" => value.is_some() && (value == observed || value.is_some_and(|v| v.starts_with('-'))),
            _ => true,
        }
    }

    /// Returns the latest package run that changed a kernel. It counts as named if the finding mentions that version.
    fn attribute_kernel_change(&self) -> Option<ChangeSource> {
        let kernel = |name: &str| KERNEL_PACKAGES.iter().any(|prefix| name.starts_with(prefix)) || name == "kernel";
        let (run, change) = self
            .recent_package_runs()
            .find_map(|run| Some((run, run.changes.iter().rfind(|change| kernel(&change.package))?)))?;
        let finding = self.finding;
        let text = [Some(&finding.title), Some(&finding.reason), finding.observed.as_ref(), finding.desired.as_ref()];
        let release = KERNEL_PACKAGES.iter().find_map(|prefix| change.package.strip_prefix(prefix)).unwrap_or_default();
        let says =
            |version: &str| !version.is_empty() && text.iter().flatten().any(|text| text.raw().contains(version));
        let culprit = self.attribute_to_run(run, change.at);
        let spoken = says(release) || change.to.as_deref().is_some_and(says);
        Some(match culprit.sure {
            AttributionCertainty::Named if !spoken => ChangeSource { sure: AttributionCertainty::Near, ..culprit },
            _ => culprit,
        })
    }
}

/// Prefixes of kernel packages; the release follows.
const KERNEL_PACKAGES: [&str; 6] =
    ["linux-image-unsigned-", "linux-image-", "linux-modules-", "kernel-core-", "kernel-modules-", "kernel-"];

/// Programs that change accounts.
const ACCOUNT_PROGRAMS: [&str; 17] = [
    "adduser", "addgroup", "bash", "chage", "chfn", "chsh", "deluser", "delgroup", "gpasswd", "groupadd", "groupdel",
    "groupmod", "passwd", "sh", "useradd", "userdel", "usermod",
];

/// Reports whether the same account ran all commands.
pub fn is_single_user(all: &[&SudoCommand]) -> bool {
    all.windows(2).all(|pair| pair[0].user == pair[1].user)
}
