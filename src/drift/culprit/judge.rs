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
pub fn judge(case: &AttributionContext<'_>) -> Option<ChangeSource> {
    let culprit = match FindingSubject::of(case.finding) {
        FindingSubject::Packages(names) => case.packages(&names),
        FindingSubject::Path(path) => super::files::judge(case, &path),
        FindingSubject::Unit(unit) => super::units::judge(case, &unit),
        subject => case.others(&subject),
    };
    let silent = matches!(culprit.sure, AttributionCertainty::Nobody | AttributionCertainty::Unknown);
    (case.finding.cause != DriftCause::Pending || !silent).then_some(culprit)
}

/// The name of the journal as a source.
pub const JOURNAL: &str = "journal";

impl AttributionContext<'_> {
    /// Returns package manager runs since then, latest first.
    pub fn runs(&self) -> impl Iterator<Item = &PackageManagerRun> {
        self.seen.packages.iter().rev().filter(|run| run.ended >= self.since)
    }

    /// Returns sudo commands since then, latest first, without read-only ones. Earlier commands that were still running
    /// count, too.
    pub fn sudo(&self) -> impl Iterator<Item = &SudoCommand> {
        let late = |sudo: &&SudoCommand| sudo.ended.unwrap_or(sudo.began).max(sudo.began) >= self.since;
        self.seen.sudo.iter().rev().filter(late).filter(|sudo| !sudo.only_reads())
    }

    fn packages(&self, names: &[String]) -> ChangeSource {
        if self.finding.attribute.as_deref().is_some_and(|attribute| attribute.starts_with("hold")) {
            return self.held(names);
        }
        let run = self.runs().find_map(|run| run.change(names).map(|change| (run, change)));
        match run {
            Some((run, change)) if self.is_what_was_seen(change.to.as_deref()) => self.by_run(run, change.at),
            Some((run, change)) => ChangeSource {
                time: Some(clock::told(change.at)),
                source: Some(run.source.into()),
                ..ChangeSource::nobody("the package logs show another version than the observed one")
            },
            None => self.no_run(),
        }
    }

    /// Reports whether a change results in the observed state.
    fn is_what_was_seen(&self, to: Option<&str>) -> bool {
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
    fn held(&self, names: &[String]) -> ChangeSource {
        let tools = ["apt-mark", "dpkg", "apt", "apt-get", "aptitude", "dnf", "yum", "sh", "bash", "dash"];
        let names_it =
            |sudo: &&SudoCommand| tools.contains(&sudo.program()) && names.iter().any(|name| sudo.says(name));
        let held = |sudo: &&SudoCommand| {
            ["hold", "unhold", "--set-selections", "versionlock"].iter().any(|verb| sudo.says(verb))
        };
        match self.sudo().filter(names_it).find(held) {
            Some(sudo) => ChangeSource::by_sudo(AttributionCertainty::Named, sudo, sudo.began),
            None => self.nobody("no command in the journal refers to it", None),
        }
    }

    fn no_run(&self) -> ChangeSource {
        let read = ["apt", "dpkg", "rpm"].into_iter().find(|log| self.seen.lacks(log).is_none());
        match read {
            Some("rpm") => ChangeSource::nobody("dnf's logs do not mention it"),
            Some(_) => ChangeSource::nobody("apt's and dpkg's logs do not mention it"),
            None => ChangeSource::unknown(&format!("{} {}", apt::SOURCE, self.seen.lacks("apt").unwrap_or_default())),
        }
    }

    /// Returns who ran a package manager: the user in its log, else the user who ran it with sudo at that time.
    pub fn by_run(&self, run: &PackageManagerRun, at: Timestamp) -> ChangeSource {
        let told = ChangeSource {
            time: Some(clock::told(at)),
            source: Some(run.source.into()),
            command: run.command.as_deref().map(Into::into),
            program: Some(run.tool.into()),
            ..ChangeSource::blank(AttributionCertainty::Named)
        };
        if run.command.as_deref().is_some_and(|command| command.contains("unattended-upgrade")) && run.user.is_none() {
            return ChangeSource { program: Some("unattended-upgrades".into()), user: Some("root".into()), ..told };
        }
        let during = |sudo: &&SudoCommand| sudo.covers(run.began);
        if let Some(user) = &run.user {
            let by_sudo = self.sudo().filter(during).any(|sudo| sudo.user == *user);
            let program = if by_sudo { "sudo" } else { run.tool };
            return ChangeSource { user: Some(user.as_str().into()), program: Some(program.into()), ..told };
        }
        let calls = |sudo: &&SudoCommand| sudo.program().starts_with(run.tool) || sudo.says(run.tool);
        let callers: Vec<&SudoCommand> = self.sudo().filter(during).filter(calls).collect();
        match (one_user(&callers), callers.first()) {
            (true, Some(sudo)) => {
                return ChangeSource {
                    time: told.time,
                    ..ChangeSource::by_sudo(AttributionCertainty::Named, sudo, at)
                }
                .also(run.source);
            }
            // apt's log names the sudo user: without one, root ran it.
            _ if run.tool == "apt" => return ChangeSource { user: Some("root".into()), ..told },
            _ => {}
        }
        match self.sudo().find(during) {
            Some(sudo) => {
                ChangeSource { time: told.time, ..ChangeSource::by_sudo(AttributionCertainty::Near, sudo, at) }
                    .also(run.source)
            }
            None => ChangeSource {
                program: told.program,
                command: told.command,
                time: told.time,
                source: told.source,
                ..self.nobody("its log names no user, and the journal has no command at that time", Some(at))
            },
        }
    }

    /// Returns a result without a user: nobody, or unknown if the journal does not cover `time` or the last match.
    pub fn nobody(&self, why: &str, time: Option<Timestamp>) -> ChangeSource {
        let from = time.unwrap_or(self.since);
        let told = time.map(clock::told);
        let culprit = match (self.seen.lacks("journal"), self.seen.journal_since) {
            (Some(lack), _) => {
                ChangeSource::unknown(&format!("the journal {}", lack.trim_start_matches("the journal ")))
            }
            (None, Some(begins)) if begins > clock::after(from, 1) => {
                ChangeSource::unknown(&format!("the journal only starts at {}", clock::told(begins)))
            }
            _ => ChangeSource::nobody(why),
        };
        ChangeSource { time: told, ..culprit }
    }

    /// Attributes objects without a time of their own: by the latest command that names them, then by the boot.
    fn others(&self, subject: &FindingSubject) -> ChangeSource {
        if let Some(sudo) = self.sudo().find(|sudo| self.names(subject, sudo)) {
            let sure =
                if self.explains(subject, sudo) { AttributionCertainty::Named } else { AttributionCertainty::Near };
            return ChangeSource::by_sudo(sure, sudo, sudo.began);
        }
        if *subject == FindingSubject::Kernel
            && let Some(culprit) = self.kernel()
        {
            return culprit;
        }
        let boot = boots::reboot(self).filter(|_| subject.is_of_a_boot(self.finding.attribute.as_deref()));
        match boot {
            Some(boot) if matches!(boot.sure, AttributionCertainty::Named | AttributionCertainty::Near) => {
                ChangeSource { sure: AttributionCertainty::Near, ..boot }
            }
            Some(boot) => boot,
            None => self.nobody("the journal does not mention it", None),
        }
    }

    fn names(&self, subject: &FindingSubject, sudo: &SudoCommand) -> bool {
        let program = sudo.program();
        match subject {
            FindingSubject::Sysctl(key) => self.sets(key, sudo),
            FindingSubject::Account(name) => ACCOUNTS.contains(&program) && sudo.says(name),
            FindingSubject::Module(name) => {
                let same = |token: &str| token.replace('-', "_") == name.replace('-', "_");
                ["modprobe", "rmmod", "insmod", "sh", "bash"].contains(&program) && sudo.tokens().any(same)
            }
            FindingSubject::Mount(path) => ["mount", "umount", "systemctl"].contains(&program) && sudo.names_path(path),
            _ => false,
        }
    }

    /// Reports whether the command explains the finding: an account has many attributes, so it must contain the value.
    fn explains(&self, subject: &FindingSubject, sudo: &SudoCommand) -> bool {
        let takes_away = ["userdel", "deluser", "groupdel", "delgroup"].contains(&sudo.program());
        match (subject, self.finding.observed.as_ref()) {
            (FindingSubject::Account(_), Some(seen)) => sudo.says(seen.raw()),
            (FindingSubject::Account(_), None) => takes_away,
            _ => true,
        }
    }

    /// Reports whether a command sets a kernel setting, to the observed value if it contains one.
    fn sets(&self, key: &str, sudo: &SudoCommand) -> bool {
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
    fn kernel(&self) -> Option<ChangeSource> {
        let kernel = |name: &str| KERNELS.iter().any(|prefix| name.starts_with(prefix)) || name == "kernel";
        let (run, change) =
            self.runs().find_map(|run| Some((run, run.changes.iter().rfind(|change| kernel(&change.package))?)))?;
        let finding = self.finding;
        let text = [Some(&finding.title), Some(&finding.reason), finding.observed.as_ref(), finding.desired.as_ref()];
        let release = KERNELS.iter().find_map(|prefix| change.package.strip_prefix(prefix)).unwrap_or_default();
        let says =
            |version: &str| !version.is_empty() && text.iter().flatten().any(|text| text.raw().contains(version));
        let culprit = self.by_run(run, change.at);
        let spoken = says(release) || change.to.as_deref().is_some_and(says);
        Some(match culprit.sure {
            AttributionCertainty::Named if !spoken => ChangeSource { sure: AttributionCertainty::Near, ..culprit },
            _ => culprit,
        })
    }
}

/// Prefixes of kernel packages; the release follows.
const KERNELS: [&str; 6] =
    ["linux-image-unsigned-", "linux-image-", "linux-modules-", "kernel-core-", "kernel-modules-", "kernel-"];

/// Programs that change accounts.
const ACCOUNTS: [&str; 17] = [
    "adduser", "addgroup", "bash", "chage", "chfn", "chsh", "deluser", "delgroup", "gpasswd", "groupadd", "groupdel",
    "groupmod", "passwd", "sh", "useradd", "userdel", "usermod",
];

/// Reports whether the same account ran all commands.
pub fn one_user(all: &[&SudoCommand]) -> bool {
    all.windows(2).all(|pair| pair[0].user == pair[1].user)
}
