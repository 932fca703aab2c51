//! Who changed something, as a value: the actor, the time, and how sure it is.

use super::clock;
use super::sudo::{self, Sudo};
use crate::model::{SecretStore, Untrusted};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who made a change on a machine, and when, as far as the host's own evidence tells.
///
/// All texts were said by the host. Secrets that forge knows are masked, long command lines cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    pub sure: Sure,
    /// The account on the host: `alice`, `root`. Absent where the evidence names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Untrusted>,
    /// By which means: `sudo`, `apt`, `unattended-upgrades`, `dpkg`, `systemd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Untrusted>,
    /// The command line, or what the program said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Untrusted>,
    /// When it happened. RFC 3339, UTC, by the host's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// What says so: `/var/log/apt/history.log`, `journal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Untrusted>,
    /// Why nobody is named: what was looked through in vain, or what could not be read. A lowercase fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Untrusted>,
}

/// How sure it is who made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sure {
    /// The evidence speaks of this very thing.
    Named,
    /// It happened around the same time, and may have nothing to do with it.
    Near,
    /// The evidence was read and names nobody.
    Nobody,
    /// The evidence could not be read: why.
    Unknown,
}

/// Longer command lines are cut. Characters.
const COMMAND_CHARS: usize = 240;

/// Returns a command line, cut where it is long.
pub(super) fn cut(command: &str) -> Untrusted {
    match command.char_indices().nth(COMMAND_CHARS) {
        Some((end, _)) => format!("{}…", &command[..end]).into(),
        None => command.into(),
    }
}

impl Culprit {
    pub(super) fn blank(sure: Sure) -> Self {
        Self { sure, user: None, program: None, command: None, time: None, source: None, why: None }
    }

    /// Builds that the evidence names nobody, and why.
    pub(super) fn nobody(why: &str) -> Self {
        Self { why: Some(why.into()), ..Self::blank(Sure::Nobody) }
    }

    /// Builds that the evidence could not be read, and why.
    pub fn unknown(why: &str) -> Self {
        Self { why: Some(why.into()), ..Self::blank(Sure::Unknown) }
    }

    /// Builds that somebody did it by sudo.
    pub(super) fn by_sudo(sure: Sure, sudo: &Sudo, time: Timestamp) -> Self {
        Self {
            user: Some(sudo.user.as_str().into()),
            program: Some("sudo".into()),
            command: Some(sudo.line().into()),
            time: Some(clock::told(time)),
            source: Some(super::judge::JOURNAL.into()),
            ..Self::blank(sure)
        }
    }

    /// Adds a further source.
    pub(super) fn also(mut self, source: &str) -> Self {
        let before = self.source.as_ref().map_or("", |source| source.raw());
        self.source = Some(format!("{source}, {before}").into());
        self
    }

    /// Returns it without the secrets that forge knows, and with its command line cut. sudo prints words in quotes and with
    /// escapes, so that a secret is looked for in the words as they were too.
    pub(super) fn harmless(mut self, secrets: &SecretStore) -> Self {
        let scrub = |text: Untrusted| Untrusted::from(secrets.scrub(text.raw()));
        self.user = self.user.map(scrub);
        self.why = self.why.map(scrub);
        self.command = self.command.map(|command| cut(&line(command.raw(), secrets)));
        self
    }
}

fn line(command: &str, secrets: &SecretStore) -> String {
    let whole = secrets.scrub(command);
    let words = sudo::words(&sudo::unescaped(command));
    let scrubbed: Vec<String> = words.iter().map(|word| secrets.scrub(word)).collect();
    match scrubbed == words {
        true => whole,
        false => scrubbed.join(" "),
    }
}
