//! The culprit of a change: the user, the time, and the certainty.

use super::clock;
use super::sudo::{self, SudoCommand};
use crate::model::{SecretStore, UntrustedText};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who made a change on a machine, and when, according to the host's own evidence.
///
/// All texts come from the host. Secrets that forge knows are masked, and long command lines are cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ChangeSource {
    /// How certain the attribution is.
    pub sure: AttributionCertainty,
    /// The account on the host: `alice`, `root`. Absent where the evidence names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UntrustedText>,
    /// The means: `sudo`, `apt`, `unattended-upgrades`, `dpkg`, `systemd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<UntrustedText>,
    /// The command line, or the message of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<UntrustedText>,
    /// When it happened. RFC 3339, UTC, by the host's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The source of the evidence: `/var/log/apt/history.log`, `journal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<UntrustedText>,
    /// Why no user is named: which logs have no evidence, or could not be read. A lowercase fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<UntrustedText>,
}

/// The certainty of an attribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttributionCertainty {
    /// The evidence is about the changed object itself.
    Named,
    /// An event around the same time, possibly unrelated.
    Near,
    /// The evidence was read and names no user.
    Nobody,
    /// The evidence could not be read.
    Unknown,
}

/// Maximum length of a command line, in characters.
const MAX_COMMAND_CHARS: usize = 240;

/// Returns a command line, cut to the maximum length.
pub(super) fn truncate_command(command: &str) -> UntrustedText {
    match command.char_indices().nth(MAX_COMMAND_CHARS) {
        Some((end, _)) => format!("{}…", &command[..end]).into(),
        None => command.into(),
    }
}

impl ChangeSource {
    pub(super) fn with_certainty(sure: AttributionCertainty) -> Self {
        Self { sure, user: None, program: None, command: None, time: None, source: None, why: None }
    }

    /// Builds a result without a user: the evidence names none.
    pub(super) fn without_match(why: &str) -> Self {
        Self { why: Some(why.into()), ..Self::with_certainty(AttributionCertainty::Nobody) }
    }

    /// Builds a result without evidence: it could not be read.
    pub fn without_evidence(why: &str) -> Self {
        Self { why: Some(why.into()), ..Self::with_certainty(AttributionCertainty::Unknown) }
    }

    /// Builds a result with a user who ran a command with sudo.
    pub(super) fn from_sudo(sure: AttributionCertainty, sudo: &SudoCommand, time: Timestamp) -> Self {
        Self {
            user: Some(sudo.user.as_str().into()),
            program: Some("sudo".into()),
            command: Some(sudo.command_line().into()),
            time: Some(clock::format_time(time)),
            source: Some(JOURNAL_SOURCE.into()),
            ..Self::with_certainty(sure)
        }
    }

    /// Adds another source.
    pub(super) fn with_source(mut self, source: &str) -> Self {
        let before = self.source.as_ref().map_or("", |source| source.raw());
        self.source = Some(format!("{source}, {before}").into());
        self
    }

    /// Masks known secrets, and cuts the command line. sudo prints words with quotes and escapes, so secrets are also
    /// searched in the unescaped words.
    pub(super) fn redact_secrets(mut self, secrets: &SecretStore) -> Self {
        let scrub = |text: UntrustedText| UntrustedText::from(secrets.scrub_secrets(text.raw()));
        self.user = self.user.map(scrub);
        self.why = self.why.map(scrub);
        self.command = self.command.map(|command| truncate_command(&redact_command(command.raw(), secrets)));
        self
    }
}

fn redact_command(command: &str, secrets: &SecretStore) -> String {
    let whole = secrets.scrub_secrets(command);
    let words = sudo::split_words(&sudo::unescape_octal(command));
    let scrubbed: Vec<String> = words.iter().map(|word| secrets.scrub_secrets(word)).collect();
    match scrubbed == words {
        true => whole,
        false => scrubbed.join(" "),
    }
}

/// The name of the journal as a source.
pub const JOURNAL_SOURCE: &str = "journal";
