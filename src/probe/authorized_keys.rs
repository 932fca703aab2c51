//! `authorized_keys` of accounts: each home, in one `stat` the files in it, and whether the account can search the way
//! to them.

use super::path::{PathOutput, READ_FILE_SNIPPET, SNIPPET as PATHS};
use super::query::{BODY_CAP, Probe};
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{AuthorizedKeysInfo, AuthorizedKeysState, Observation, PathState, ProbeReading};
use crate::script::safe_path;

/// Prints fields: `user`, name, status of `getent` (2: no such account), its line; perhaps
/// `unsearchable`, name, the first directory on the way to the home that the account itself cannot search; then the
/// output of the path snippet for the directories above them, for homes, folders and files, in the order of the
/// accounts: bodies of all first files, then of all second files. `any` never equals the digest of a body. An account
/// owns the files in its home: a link there does not lead to keys, and each file is read separately.
///
/// sshd opens the files as the account. Only a process of the account tells whether it reaches them: groups and access
/// lists count too. It gets none of forge's channels, since the account could write to them. Without a line for `/`, forge
/// could not act as the account.
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
for h; do set -- "$@" "$h" "$h/.ssh" "$h/.ssh/authorized_keys" "$h/.ssh/authorized_keys2"; done
shift "$n"
forge_stat "$@"
}
forge_bodies_of() {
n=$#
for h; do set -- "$@" any "$h/.ssh/authorized_keys"; done
i=0
for h; do [ "$i" -lt "$n" ] || break; i=$((i + 1)); set -- "$@" any "$h/.ssh/authorized_keys2"; done
shift "$n"
forge_bodies "$@"
}
forge_search() {
u=$1 g=$2 at= left=${3#/}
set -- /.
while [ -n "$left" ]; do
at=$at/${left%%/*}
case $left in */*) left=${left#*/} ;; *) left= ;; esac
set -- "$@" "$at/."
done
s=$(setpriv --reuid="$u" --regid="$g" --init-groups stat --printf='%i\n' -- "$@" </dev/null 2>/dev/null 3>&-)
[ -n "$s" ] || return 0
for d; do
case $s in
'') printf 'unsearchable\0%s\0%s\0' "$u" "${d%/.}"; return 0 ;;
*"$NL"*) s=${s#*"$NL"} ;;
*) s= ;;
esac
done
}
forge_keys() {
n=$#
for u; do
p=$(getent passwd -- "$u"); r=$?
printf 'user\0%s\0%s\0%s\0' "$u" "$r" "$p"
[ "$r" = 0 ] || continue
h=${p%:*} p=${p#*:*:}
h=${h##*:} g=${p#*:}
set -- "$@" "$h"
case $p in 0:*) ;; *) forge_search "$u" "${g%%:*}" "$h" ;; esac
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
    section.cap = (40_000 + 2 * BODY_CAP * 4 / 3) * section.probes.len() as u64;
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
    /// The first directory on the way to the home that the account cannot search, if this was tried.
    unsearchable: Option<&'a str>,
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let (accounts, rest) = parse_accounts(&raw.stdout);
    let seen = PathOutput::parse(rest);
    let homes = accounts.iter().filter(|account| account.home.is_some()).count();
    let mut number = 0;
    for account in &accounts {
        let state = match account.home {
            None => Some(Ok(AuthorizedKeysState::NoAccount)),
            Some(home) => {
                number += 1;
                let info = build_keys_info(&seen, home, [number - 1, homes + number - 1]);
                info.map(|info| {
                    let unsearchable = account.unsearchable.map(str::to_owned);
                    info.map(|info| AuthorizedKeysState::Account(Box::new(AuthorizedKeysInfo { unsearchable, ..info })))
                })
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
        if let Some(b"unsearchable") = fields.next() {
            let Some([name, directory]) = fields.next_row() else { return (accounts, rest) };
            if let Some(account) = accounts.last_mut().filter(|account| account.name.as_bytes() == name) {
                account.unsearchable = parse_utf8(directory);
            }
            rest = fields.remaining_bytes();
            continue;
        }
        let mut fields = NulFields::new(rest);
        let Some([b"user", name, status, line]) = fields.next_row() else { return (accounts, rest) };
        let home = match status {
            b"0" => parse_utf8(line).and_then(parse_home).map(Some),
            b"2" => Some(None),
            _ => None,
        };
        if let (Some(name), Some(home)) = (parse_utf8(name), home) {
            accounts.push(KeysAccount { name, home, unsearchable: None });
        }
        rest = fields.remaining_bytes();
    }
}

fn parse_home(line: &str) -> Option<&str> {
    line.split(':').nth(5).filter(|home| home.starts_with('/'))
}

/// Returns the state of a home with the bodies of these numbers; `None` if the output ended before it.
fn build_keys_info(
    seen: &PathOutput<'_>,
    home: &str,
    [first, second]: [usize; 2],
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
    let home_at = at(home, None)?;
    let folder_at = at(&folder, None)?;
    let file = at(&format!("{folder}/authorized_keys"), Some(first))?;
    let second_file = at(&format!("{folder}/authorized_keys2"), Some(second))?;
    let build = || {
        Ok(AuthorizedKeysInfo {
            home: home.to_owned(),
            home_at: home_at?,
            folder: folder_at?,
            file: file?,
            second_file: second_file?,
            unsearchable: None,
        })
    };
    Some(build())
}

#[cfg(test)]
mod tests;
