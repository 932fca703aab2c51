//! Accounts: one `getent passwd` and one `getent shadow` for all names, and the groups of each.

use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{Observation, ProbeReading, UserInfo, UserState};
use std::collections::BTreeMap;

/// Prints fields: `passwd`, status, lines; `groups`, names of existing accounts, an empty field, for each of them its
/// groups and an empty field, and a colon with the status; `shadow`, lines; and `now`, seconds since the epoch, if an
/// account has a date of expiry. Status 2 means that some name is unknown. `id` accepts several names since coreutils 8.31,
/// and fails if a group has no name: each account is then queried separately, and the groups received so far count.
const SNIPPET: &str = r#"need getent; need id
forge_users() {
p=$(getent passwd -- "$@"); r=$?
printf 'passwd\0%s\0%s\0' "$r" "$p"
n=$# r=1
for u; do
case "
$p" in *"
$u:"*) set -- "$@" "$u" ;; esac
done
shift "$n"
[ "$#" -gt 0 ] || return 0
if [ "$#" -gt 1 ]; then
printf 'groups\0'; printf '%s\0' "$@" ''
id -Gnz -- "$@" 2>/dev/null; r=$?
printf ':%s\0' "$r"
fi
[ "$r" = 0 ] || for u; do printf 'groups\0%s\0\0' "$u"; id -Gnz -- "$u"; printf '\0:0\0'; done
s=$(getent shadow -- "$@")
printf 'shadow\0%s\0' "$s"
case $s in *:*:*:*:*:*:*:[0-9]*:*) printf 'now\0%s\0' "$(date +%s)" ;; esac
}
forge_users"#;

/// Reports whether `name` can be an account's name: no characters that a line of `passwd` cannot contain, and not a
/// number, which would be looked up as one.
pub(crate) fn is_user_name(name: &str) -> bool {
    let bad = |c: char| c.is_control() || ":/".contains(c) || c.is_whitespace();
    !name.is_empty() && !name.starts_with('-') && !name.contains(bad) && !name.chars().all(|c| c.is_ascii_digit())
}

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("`getent`", probes, read_answers);
    let body = section.body.code(SNIPPET);
    section.body = section.probes.iter().filter_map(probe_user).fold(body, |body, name| body.word(name));
    section.cap = 65_536 * section.probes.len() as u64;
    section.plain = true;
    (!section.probes.is_empty()).then_some(section)
}

fn probe_user(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::User { name } => Some(name),
        _ => None,
    }
}

/// Output of the snippet, complete or not.
#[derive(Default)]
struct UserOutput<'a> {
    /// Lines by name; `None` if `getent` did not answer or failed.
    passwd: Option<BTreeMap<&'a str, &'a str>>,
    groups: BTreeMap<&'a str, Vec<&'a str>>,
    shadow: Option<BTreeMap<&'a str, &'a str>>,
    /// The host's clock, if an account has a date of expiry.
    now: Option<u64>,
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let seen = UserOutput::parse(&raw.stdout).unwrap_or_default();
    for probe in &section.probes {
        let Some(name) = probe_user(probe) else { continue };
        let answer = seen.answer_user(name).map(ProbeReading::User);
        out.insert(probe.clone(), answer.ok_or_else(|| raw.explain_missing(section)));
    }
}

impl<'a> UserOutput<'a> {
    /// Parses all fields; `None` if they are not the snippet's output.
    fn parse(stdout: &'a [u8]) -> Option<Self> {
        let mut seen = Self::default();
        let mut fields = NulFields::new(stdout);
        while let Some(tag) = fields.next() {
            match tag {
                b"passwd" => {
                    let Some([status, lines]) = fields.next_row() else { break };
                    seen.passwd = matches!(status, b"0" | b"2").then_some(index_by_name(parse_utf8(lines)?));
                }
                b"groups" => {
                    let Some(names) = read_names(&mut fields) else { break };
                    let Some(lists) = read_group_lists(&mut fields) else { break };
                    seen.groups.extend(names.into_iter().zip(lists));
                }
                b"now" => seen.now = fields.next().and_then(parse_utf8).and_then(|now| now.parse().ok()),
                b"shadow" => seen.shadow = fields.next().and_then(parse_utf8).map(index_by_name),
                _ => return None,
            }
        }
        Some(seen)
    }

    fn answer_user(&self, name: &str) -> Option<UserState> {
        let Some(line) = self.passwd.as_ref()?.get(name) else { return Some(UserState::Absent) };
        let groups = self.groups.get(name)?;
        let shadow = self.shadow.as_ref()?.get(name);
        let hash = shadow.and_then(|line| line.split(':').nth(1));
        let fields: Vec<&str> = line.split(':').collect();
        let [_, uid, gid, gecos, home, shell] = fields.get(1..7)? else { return None };
        let (primary, others) = groups.split_first()?;
        let mut others: Vec<String> = others.iter().map(|group| (*group).to_owned()).collect();
        others.sort();
        Some(UserState::Present(Box::new(UserInfo {
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            group: (*primary).to_owned(),
            gecos: (*gecos).into(),
            home: (*home).to_owned(),
            shell: (*shell).to_owned(),
            groups: others,
            locked: hash.map(|hash| hash.starts_with(['!', '*'])),
            // `usermod --unlock` removes a leading `!`; `*` and an empty rest are not passwords.
            ages: shadow.is_some_and(|line| has_ageing(line)),
            expired: shadow.zip(self.now).is_some_and(|(line, now)| has_expired(line, now)),
            has_password: hash.map(|hash| !matches!(hash.trim_start_matches('!').bytes().next(), None | Some(b'*'))),
        })))
    }
}

/// Reports whether a line of shadow has another ageing than Debian's and Rocky's `useradd` give (minimum 0, maximum
/// 99999, warning 7 days, neither inactivity nor expiry), or a password that has to be changed at the next login.
fn has_ageing(line: &str) -> bool {
    let fields: Vec<&str> = line.split(':').skip(3).take(5).collect();
    let is_default = |(at, value): (usize, &&str)| value.is_empty() || *["0", "99999", "7", "-1", "-1"][at] == **value;
    line.split(':').nth(2) == Some("0") || !fields.iter().enumerate().all(is_default)
}

/// Reports whether the account of a line of shadow has expired (`check_shadow_expiry` in pam_unix: on that day).
fn has_expired(line: &str, now: u64) -> bool {
    let day = line.split(':').nth(7).and_then(|day| day.parse::<u64>().ok());
    day.is_some_and(|day| now / 86_400 >= day)
}

fn index_by_name(lines: &str) -> BTreeMap<&str, &str> {
    lines.lines().filter_map(|line| Some((line.split_once(':')?.0, line))).collect()
}

/// Reads names up to the empty field.
fn read_names<'a>(fields: &mut NulFields<'a>) -> Option<Vec<&'a str>> {
    let mut names = Vec::new();
    loop {
        match fields.next()? {
            b"" => return Some(names),
            name => names.push(parse_utf8(name)?),
        }
    }
}

/// Reads lists of groups, each up to its empty field, up to the status. No group name contains a colon. The lists are
/// missing if `id` failed.
fn read_group_lists<'a>(fields: &mut NulFields<'a>) -> Option<Vec<Vec<&'a str>>> {
    let (mut lists, mut list) = (Vec::new(), Vec::new());
    loop {
        match fields.next()? {
            b":0" => return Some(lists),
            [b':', ..] => return Some(Vec::new()),
            b"" => lists.push(std::mem::take(&mut list)),
            group => list.push(parse_utf8(group)?),
        }
    }
}

#[cfg(test)]
mod tests;
