//! The package manager as a whole: the holder of dpkg's lock, and packages that are not fully installed.

use super::package::{DPKG_ROWS, DpkgRow};
use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{Observation, PackageManagerState, ProbeReading, UnansweredReason};
use crate::model::UntrustedText;
use crate::script::ShellFragment;

/// dpkg locks with `fcntl`, so `/proc/locks` lists the holder with the lock's inode. Device numbers differ there on
/// overlay filesystems; an inode alone could belong to another filesystem, so the holder must have the lock open, if
/// its descriptors can be read. While its dpkg holds `lock`, apt holds `lock-frontend` (`front`). The rows of packages
/// follow.
const SNIPPET: &str = r#"
D=/var/lib/dpkg i=
forge_holds() {
[ -r "/proc/$1/fd" ] || return 0
for f in "/proc/$1/fd"/*; do
if [ "$f" -ef $D/lock-frontend ] || [ "$f" -ef $D/lock ]; then return 0; fi
done
return 1
}
while read -r n kind adv mode pid id rest; do
[ "$kind $mode" = 'POSIX WRITE' ] && [ "$pid" -gt 0 ] || continue
[ -n "$i" ] || { need stat; i="- $(stat --printf='%i ' -- $D/lock-frontend $D/lock 2>/dev/null)"; }
case $i in "- ${id##*:} "*) h=front ;; *" ${id##*:} "*) h=holder ;; *) continue ;; esac
forge_holds "$pid" || continue
need tr; printf '%s\0%s\0' "$h" "$pid"; tr '\0' ' ' <"/proc/$pid/cmdline"; printf '\0'
done </proc/locks || exit
printf 'packages\0'"#;

pub(crate) fn build_section(probes: Vec<Probe>, listing: &ShellFragment) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("`dpkg-query`", probes, read_answers);
    section.before = listing.clone();
    section.body = section.body.code(SNIPPET).code(DPKG_ROWS).code(" && printf '\\0'");
    section.plain = true;
    (!section.probes.is_empty()).then_some(section)
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let state = if raw.is_complete(&[0]) { parse_state(&raw.stdout) } else { None };
    match state {
        Some(state) => {
            for probe in &section.probes {
                out.insert(probe.clone(), Ok::<_, UnansweredReason>(ProbeReading::PackageManager(state.clone())));
            }
        }
        None => section.answer_all_unknown(&raw.explain_missing(section), out),
    }
}

/// Parses fields: `holder` or `front`, pid, command line; and last `packages` with the rows of the listing.
fn parse_state(stdout: &[u8]) -> Option<PackageManagerState> {
    let mut state = PackageManagerState::default();
    let mut fields = NulFields::new(stdout);
    loop {
        match fields.next()? {
            kind @ (b"holder" | b"front") => {
                let [pid, command] = fields.next_row()?;
                let command = String::from_utf8_lossy(command).trim_end().to_owned();
                let pid = parse_utf8(pid)?.parse().ok()?;
                if kind == b"front" || state.lock_holder.is_none() {
                    state.lock_holder = Some((pid, UntrustedText::new(command)));
                }
            }
            b"packages" => {
                let rows = String::from_utf8_lossy(fields.next()?);
                let rows = DpkgRow::parse_all(&rows)?.into_iter().filter(|row| is_broken(row.status));
                state.broken = rows.map(|row| (row.full_name.to_owned(), row.status.to_owned())).collect();
                return Some(state);
            }
            _ => return None,
        }
    }
}

/// Reports whether a package with this status is neither fully installed nor removed.
fn is_broken(status: &str) -> bool {
    !matches!(status, "installed" | "config-files" | "not-installed")
}

#[cfg(test)]
mod tests;
