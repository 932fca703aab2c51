//! Attributes one finding by the evidence of its host. Pure.
//!
//! The order follows the strength of the evidence: first evidence about the object itself, then events at the same
//! time, then none. If the evidence is the same for two users, it names neither.

use super::accounts::{self, ACCOUNT_PROGRAMS, REMOVAL_PROGRAMS};
use super::context::AttributionContext;
use super::model::{AttributionCertainty, ChangeSource};
use super::subject::is_reset_by_boot;
use super::sudo::SudoCommand;
use super::{apt, boots, clock, dnf};
use crate::drift::cause::DriftCause;
use crate::resource::{ChangeAspect, ChangedObject};

/// Returns who made the change of a finding. `None` if there is nothing to report: a reload is pending, and no user is
/// known to have changed anything.
pub fn attribute_finding(case: &AttributionContext<'_>) -> Option<ChangeSource> {
    let culprit = match case.finding.object.clone() {
        ChangedObject::Packages(names) => case.attribute_package_change(&names),
        ChangedObject::Path(path) => super::files::attribute_file_change(case, &path),
        ChangedObject::Unit(unit) => super::units::attribute_unit_change(case, &unit),
        subject => case.attribute_by_command(&subject),
    };
    let silent = matches!(culprit.sure, AttributionCertainty::Nobody | AttributionCertainty::Unknown);
    (case.finding.cause != DriftCause::Pending || !silent).then_some(culprit)
}

impl AttributionContext<'_> {
    fn attribute_package_change(&self, names: &[String]) -> ChangeSource {
        if self.finding.mark.aspect == ChangeAspect::Hold {
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
        match self.finding.mark.aspect {
            ChangeAspect::Version => match (observed, to) {
                (Some(seen), Some(to)) => seen == to || to.split_once(':').is_some_and(|(_, to)| to == seen),
                (None, None) => true,
                _ => false,
            },
            ChangeAspect::Existence => observed.is_some() == to.is_some(),
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
        let missing = |part: &str| self.seen.missing_reason(part);
        let read = [("apt", "apt's"), ("dpkg", "dpkg's"), ("rpm", "dnf's")].into_iter();
        let read: Vec<&str> = read.filter(|(part, _)| missing(part).is_none()).map(|(_, whose)| whose).collect();
        if let [.., last] = &read[..] {
            let others = &read[..read.len() - 1];
            let whose =
                if others.is_empty() { (*last).to_owned() } else { format!("{} and {last}", others.join(", ")) };
            return ChangeSource::without_match(&format!("{whose} logs do not mention it"));
        }
        let lacks = [("apt", apt::APT_LOG), ("rpm", dnf::DNF_LOG)]
            .map(|(part, log)| format!("{log} {}", missing(part).unwrap_or_default()));
        ChangeSource::without_evidence(&lacks.join(", "))
    }

    /// Attributes objects without a time of their own: by the latest command that names them, then by the boot.
    fn attribute_by_command(&self, subject: &ChangedObject) -> ChangeSource {
        let about = self.recent_sudo_commands().find(|sudo| self.is_command_about(subject, sudo));
        if let Some(sudo) = about.filter(|sudo| self.explains_finding(subject, sudo)) {
            return ChangeSource::from_sudo(AttributionCertainty::Named, sudo, sudo.began);
        }
        if let ChangedObject::Account(name) = subject
            && let Some(culprit) = accounts::attribute_account_change(self, name)
        {
            return culprit;
        }
        if let Some(sudo) = about {
            return ChangeSource::from_sudo(AttributionCertainty::Near, sudo, sudo.began);
        }
        if *subject == ChangedObject::Kernel
            && let Some(culprit) = self.attribute_kernel_change()
        {
            return culprit;
        }
        let boot = boots::attribute_reboot(self).filter(|_| is_reset_by_boot(subject, self.finding.mark.aspect));
        match boot {
            Some(boot) if matches!(boot.sure, AttributionCertainty::Named | AttributionCertainty::Near) => {
                ChangeSource { sure: AttributionCertainty::Near, ..boot }
            }
            Some(boot) => doubt_reboot(boot),
            None => self.without_match_at("the journal does not mention it", None),
        }
    }

    fn is_command_about(&self, subject: &ChangedObject, sudo: &SudoCommand) -> bool {
        let program = sudo.program();
        match subject {
            ChangedObject::Sysctl(key) => self.sets_key(key, sudo),
            ChangedObject::Account(name) => ACCOUNT_PROGRAMS.contains(&program) && sudo.has_token(name),
            ChangedObject::Module(name) => {
                let same = |token: &str| token.replace('-', "_") == name.replace('-', "_");
                ["modprobe", "rmmod", "insmod", "sh", "bash"].contains(&program) && sudo.tokens().any(same)
            }
            ChangedObject::Mount(path) => {
                ["mount", "umount", "systemctl"].contains(&program) && sudo.mentions_path(path)
            }
            _ => false,
        }
    }

    /// Reports whether the command explains the finding: an account has many attributes, so it must contain the value.
    fn explains_finding(&self, subject: &ChangedObject, sudo: &SudoCommand) -> bool {
        let takes_away = REMOVAL_PROGRAMS.contains(&sudo.program());
        match (subject, self.finding.observed.as_ref()) {
            (ChangedObject::Account(_), Some(seen)) => sudo.has_token(seen.raw()),
            (ChangedObject::Account(_), None) => takes_away,
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

/// Returns a reboot that nothing connects with the change: its time is not that of the change, which may be a later one
/// that left no trace.
fn doubt_reboot(boot: ChangeSource) -> ChangeSource {
    let (Some(time), Some(why)) = (&boot.time, &boot.why) else { return boot };
    let why = format!("whether it changed at the boot at {time} or at another time is not known; {}", why.raw());
    ChangeSource { why: Some(why.into()), time: None, source: None, ..boot }
}

/// Prefixes of kernel packages; the release follows.
const KERNEL_PACKAGES: [&str; 6] =
    ["linux-image-unsigned-", "linux-image-", "linux-modules-", "kernel-core-", "kernel-modules-", "kernel-"];
