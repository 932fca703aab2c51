//! `authorized_keys` of accounts: each home, and in one `stat` the files in it.

use super::path::{PathOutput, READ_FILE_SNIPPET, SNIPPET as PATHS};
use super::query::{BODY_CAP, Probe};
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{AuthorizedKeysInfo, AuthorizedKeysState, Observation, PathState, ProbeReading};
use crate::script::safe_path;

/// Prints fields: `user`, name, status of `getent` (2: no such account), its line; then the output of the path snippet
/// for the directories above them, for homes, folders and files, in the order of the accounts. `any` never equals the
/// digest of a body. An account owns the files in its home: a link there does not lead to keys, and each file is read
/// separately.
const SNIPPET: &str = r#"need getent
forge_leads_of() {
n=$# seen=$NL
for h; do
at= left=${h#/}/.ssh
while [ -n "$left" ]; do
at=$at/${left%%/*}
case $left in */*) left=${left#*/} ;; *) left= ;; esac
case $seen in *"$NL$at$NL"*) ;; *) seen=$seen$at$NL; set -- "$@" "$at" ;; esac
done
done
shift "$n"
forge_leads "$@"
}
forge_stats_of() {
n=$#
for h; do set -- "$@" "$h" "$h/.ssh" "$h/.ssh/authorized_keys"; done
shift "$n"
forge_stat "$@"
}
forge_bodies_of() {
n=$#
for h; do set -- "$@" any "$h/.ssh/authorized_keys"; done
shift "$n"
forge_bodies "$@"
}
forge_keys() {
n=$#
for u; do
p=$(getent passwd -- "$u"); r=$?
printf 'user\0%s\0%s\0%s\0' "$u" "$r" "$p"
p=${p%:*}
[ "$r" != 0 ] || set -- "$@" "${p##*:}"
done
shift "$n"
[ "$#" -gt 0 ] || return 0
forge_leads_of "$@"
forge_stats_of "$@"
forge_bodies_of "$@"
}
forge_keys"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("`getent`", probes, read_answers);
    let body = section.body.code(safe_path::ENTER_DIRECTORY).code(READ_FILE_SNIPPET).code(PATHS).code(SNIPPET);
    section.body = section.probes.iter().filter_map(probe_user).fold(body, |body, user| body.word(user));
    section.cap = (30_000 + BODY_CAP * 4 / 3) * section.probes.len() as u64;
    (!section.probes.is_empty()).then_some(section)
}

fn probe_user(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::AuthorizedKeys { user } => Some(user),
        _ => None,
    }
}

/// One account, as far as it was read.
struct KeysAccount<'a> {
    name: &'a str,
    /// `None` if the account does not exist; else its home.
    home: Option<&'a str>,
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let (accounts, rest) = parse_accounts(&raw.stdout);
    let seen = PathOutput::parse(rest);
    let mut number = 0;
    for account in &accounts {
        let state = match account.home {
            None => Some(Ok(AuthorizedKeysState::NoAccount)),
            Some(home) => {
                number += 1;
                build_keys_info(&seen, home, number - 1)
                    .map(|info| info.map(|info| AuthorizedKeysState::Account(Box::new(info))))
            }
        };
        let probe = Probe::AuthorizedKeys { user: account.name.to_owned() };
        if let Some(state) = state {
            out.insert(probe, state.map(ProbeReading::AuthorizedKeys));
        }
    }
    let lack = raw.explain_missing(section);
    for probe in section.probes.iter().filter(|probe| !out.has_answer(probe)).cloned().collect::<Vec<_>>() {
        out.insert(probe, Err(lack.clone()));
    }
}

/// Parses the accounts, up to the first incomplete one; returns the rest.
fn parse_accounts(stdout: &[u8]) -> (Vec<KeysAccount<'_>>, &[u8]) {
    let mut accounts = Vec::new();
    let mut rest = stdout;
    loop {
        let mut fields = NulFields::new(rest);
        let Some([b"user", name, status, line]) = fields.next_row() else { return (accounts, rest) };
        let home = match status {
            b"0" => parse_utf8(line).and_then(parse_home).map(Some),
            b"2" => Some(None),
            _ => None,
        };
        if let (Some(name), Some(home)) = (parse_utf8(name), home) {
            accounts.push(KeysAccount { name, home });
        }
        rest = fields.remaining_bytes();
    }
}

fn parse_home(line: &str) -> Option<&str> {
    line.split(':').nth(5).filter(|home| home.starts_with('/'))
}

/// Returns the state of a home; `None` if the output ended before it.
fn build_keys_info(
    seen: &PathOutput<'_>,
    home: &str,
    number: usize,
) -> Option<Result<AuthorizedKeysInfo, super::UnansweredReason>> {
    let at = |path: &str, number| {
        let probe = Probe::Path { path: path.to_owned(), want: Some("any".to_owned()) };
        let answer = seen.answer_path(path, number, &probe)?;
        Some(answer.map(|reading| match reading {
            ProbeReading::Path(state) => state,
            _ => PathState::Absent,
        }))
    };
    let folder = format!("{home}/.ssh");
    let states = (at(home, None)?, at(&folder, None)?, at(&format!("{folder}/authorized_keys"), Some(number))?);
    Some(match states {
        (Ok(home_at), Ok(folder), Ok(file)) => Ok(AuthorizedKeysInfo { home: home.to_owned(), home_at, folder, file }),
        (Err(unknown), ..) | (_, Err(unknown), _) | (.., Err(unknown)) => Err(unknown),
    })
}

#[cfg(test)]
mod tests;
