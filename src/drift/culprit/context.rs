//! A finding with the evidence of its host, and what every attribution reads from it.

use super::clock;
use super::evidence::HostEvidence;
use super::model::{AttributionCertainty, ChangeSource};
use super::packages::PackageManagerRun;
use super::sudo::SudoCommand;
use crate::drift::model::DriftFinding;
use jiff::Timestamp;

/// A finding with the evidence of its host.
pub struct AttributionContext<'c> {
    pub finding: &'c DriftFinding,
    pub seen: &'c HostEvidence<'c>,
    /// When the object last matched, by the host's clock.
    pub since: Timestamp,
}

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
            (None, Some(_)) => ChangeSource::without_match(why),
            (None, None) => ChangeSource::without_evidence("the first entry of the journal could not be read"),
        };
        ChangeSource { time: told, ..culprit }
    }
}

/// Reports whether the same account ran all commands.
pub fn is_single_user(all: &[&SudoCommand]) -> bool {
    all.windows(2).all(|pair| pair[0].user == pair[1].user)
}
