//! sudo's journal entries: which command ran for which user, and how long.
//!
//! Any user can write journal entries in the name of sudo. The kernel records the actual writer: an entry counts if
//! root wrote it with sudo's own program, or if the writer is the very account in the entry. So a forged entry can only
//! accuse its writer.

use super::clock;
use super::journal::SystemJournalEntry;
use super::path_effects::{PathEffect, list_path_effects, normalize_path, split_tokens};
use super::programs::{EDITOR_PROGRAMS, SHELL_PROGRAMS, is_read_only_command};
use crate::script::is_own_shell;
use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Paths of sudo's program.
const SUDO_PATHS: [&str; 5] =
    ["/usr/bin/sudo", "/bin/sudo", "/usr/local/bin/sudo", "/usr/lib/cargo/bin/sudo", "/run/wrappers/bin/sudo"];

/// One command that sudo ran for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SudoCommand {
    pub began: Timestamp,
    /// When it ended; `None` if it is running, or the journal does not contain its end.
    pub ended: Option<Timestamp>,
    pub boot: String,
    pub user: String,
    cwd: Utf8PathBuf,
    /// In the form in which sudo printed it.
    pub command: String,
    pub words: Vec<String>,
}

/// Parses sudo commands, oldest first. `users` maps uids to names.
pub fn parse_commands(entries: &[SystemJournalEntry], users: &BTreeMap<String, String>) -> Vec<SudoCommand> {
    let mut all: Vec<SudoCommand> = Vec::new();
    let mut open: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| may_be_sudo(entry)) {
        let key = (entry.boot.as_str(), entry.pid.as_str());
        if let Some(sudo) = parse_command(entry).filter(|sudo| is_genuine(entry, &sudo.user, users)) {
            open.insert(key, all.len());
            all.push(sudo);
        } else if let Some((at, rest)) = continued_command(entry).and_then(|rest| Some((*open.get(&key)?, rest))) {
            all[at].append_continuation(rest);
        } else if entry.message.starts_with(SESSION_CLOSED)
            && let Some(at) = open.remove(&key)
        {
            all[at].ended = Some(entry.time);
        }
    }
    close_at_shutdown(&mut all, entries);
    // Sessions of forge itself run during every observation.
    all.retain(|sudo| !is_own_shell(&sudo.words));
    all
}

/// Ends commands that were running when the host went down.
fn close_at_shutdown(all: &mut [SudoCommand], entries: &[SystemJournalEntry]) {
    let Some(current) = entries.last().map(|entry| &entry.boot) else { return };
    for sudo in all.iter_mut().filter(|sudo| sudo.ended.is_none() && sudo.boot != *current) {
        sudo.ended = entries.iter().rfind(|entry| entry.boot == sudo.boot).map(|entry| entry.time);
    }
}

const SESSION_CLOSED: &str = "pam_unix(sudo:session): session closed";

/// Returns the rest of a long command, which sudo logs in separate entries.
fn continued_command(entry: &SystemJournalEntry) -> Option<&str> {
    entry.message.trim_start().split_once(" : (command continued) ").map(|(_, rest)| rest)
}

/// Reports whether sudo may have written an entry. A short-lived sudo may be gone before the journal looks up its
/// program; its user ID comes with the message itself, so [`is_genuine`] still holds.
fn may_be_sudo(entry: &SystemJournalEntry) -> bool {
    entry.comm == "sudo" || (entry.comm.is_empty() && entry.identifier == "sudo")
}

/// Reports whether the entry was written by root's sudo, or by the user whom it names: the kernel tells the user ID.
fn is_genuine(entry: &SystemJournalEntry, user: &str, users: &BTreeMap<String, String>) -> bool {
    let by_sudo = entry.comm.is_empty() || SUDO_PATHS.contains(&entry.exe.as_str());
    let by_root = entry.uid == "0" && by_sudo;
    by_root || users.get(&entry.uid).is_some_and(|name| name == user)
}

/// Parses `deploy : TTY=pts/0 ; PWD=/home/deploy ; USER=root ; COMMAND=/usr/bin/id`. Refused commands have the reason
/// before these fields, so they do not match.
fn parse_command(entry: &SystemJournalEntry) -> Option<SudoCommand> {
    let (user, rest) = entry.message.trim_start().split_once(" : ")?;
    let (about, command) = rest.split_once("COMMAND=")?;
    let known = ["HOST=", "TTY=", "PWD=", "CHROOT=", "CWD=", "USER=", "GROUP=", "TSID=", "ENV="];
    if user.contains(char::is_whitespace) || !known.iter().any(|key| about.starts_with(key)) {
        return None;
    }
    let cwd = about.split(" ; ").find_map(|field| field.strip_prefix("PWD=")).unwrap_or("/");
    let plain = unescape_octal(command);
    Some(SudoCommand {
        began: entry.time,
        ended: None,
        boot: entry.boot.clone(),
        user: user.to_owned(),
        cwd: cwd.into(),
        words: split_words(&plain),
        command: command.to_owned(),
    })
}

/// Decodes sudo's `#012` for control characters.
pub fn unescape_octal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('#') {
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push_str(&rest[..at]);
        match code.filter(u8::is_ascii_control) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('#');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

/// Splits a command as sudo prints it: words with blanks are quoted, and a backslash escapes the next character, also
/// inside quotes.
pub fn split_words(command: &str) -> Vec<String> {
    let (mut out, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => out.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    out.extend(word);
    out
}

impl SudoCommand {
    fn append_continuation(&mut self, rest: &str) {
        self.command = format!("{} {rest}", self.command);
        self.words = split_words(&unescape_octal(&self.command));
    }

    /// Returns the name of the program that sudo ran.
    pub fn program(&self) -> &str {
        let first = self.words.first().map_or("", String::as_str);
        first.rsplit('/').next().unwrap_or(first)
    }

    /// Returns the command line as typed: with the program's name instead of its path.
    pub fn command_line(&self) -> String {
        match self.command.split_once(' ') {
            Some((_, rest)) => format!("{} {rest}", self.program()),
            None => self.program().to_owned(),
        }
    }

    pub fn is_read_only(&self) -> bool {
        is_read_only_command(self.program(), self.words.get(1..).unwrap_or_default())
    }

    /// Reports whether the user may have run any command in it.
    pub fn is_shell(&self) -> bool {
        SHELL_PROGRAMS.contains(&self.program()) && !self.words.iter().any(|word| word == "-c")
    }

    /// Reports whether it was running at that time, within a second. If its end is unknown, an editor may still be
    /// open then.
    pub fn covers_time(&self, time: Timestamp) -> bool {
        let end = match self.ended {
            Some(ended) => clock::add_seconds(ended, 1),
            None if EDITOR_PROGRAMS.contains(&self.program()) || self.is_shell() => Timestamp::MAX,
            None => clock::add_seconds(self.began, 60),
        };
        clock::add_seconds(self.began, -1) <= time && time <= end
    }

    /// Returns the words of the command, including those of embedded scripts, without quotes and assignments.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.words.iter().skip(1).flat_map(|word| split_tokens(word))
    }

    pub fn has_token(&self, token: &str) -> bool {
        self.tokens().any(|one| one == token)
    }

    /// Reports whether the command names a path, as an absolute path or relative to its working directory.
    pub fn mentions_path(&self, path: &str) -> bool {
        let wanted = normalize_path(Utf8Path::new("/"), path);
        self.tokens().any(|token| normalize_path(&self.cwd, token) == wanted)
    }

    /// Returns what the command does to a path that it names, as far as the position of the path shows it.
    pub fn path_effects(&self, path: &str) -> BTreeSet<PathEffect> {
        list_path_effects(&self.words, &self.cwd, path)
    }
}

#[cfg(test)]
mod tests;
