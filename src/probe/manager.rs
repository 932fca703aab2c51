//! The package manager as a whole: who holds dpkg's lock, and what is not fully installed.

use super::section::{End, Fields, Raw, Section, text};
use super::{Observation, PackageManagerState, Probe, Reading, Unknown};
use crate::model::Untrusted;

/// dpkg locks with `fcntl`, so the holder stands in `/proc/locks` beside the lock's inode. Device numbers
/// differ there on overlay filesystems; an inode alone could be another filesystem's, so the holder must
/// have the lock open, as far as its descriptors may be read.
const SNIPPET: &str = r#"need stat; need dpkg-query; need grep; need tr
D=/var/lib/dpkg
forge_holds() {
[ -r "/proc/$1/fd" ] || return 0
for f in "/proc/$1/fd"/*; do
if [ "$f" -ef $D/lock-frontend ] || [ "$f" -ef $D/lock ]; then return 0; fi
done
return 1
}
for i in $(stat -c %i -- $D/lock-frontend $D/lock 2>/dev/null); do
while read -r n kind adv mode pid id rest; do
case $id in *:"$i") ;; *) continue ;; esac
[ "$n" != '->' ] && [ "$kind" != '->' ] && [ "$pid" -gt 0 ] && forge_holds "$pid" || continue
printf 'holder\0%s\0' "$pid"; tr '\0' ' ' <"/proc/$pid/cmdline"; printf '\0'
done </proc/locks || exit
done
printf 'packages\0'
p=$(dpkg-query -W -f='${db:Status-Status}\t${binary:Package}\n') || exit
printf '%s\n' "$p" | grep -v -e '^installed	' -e '^config-files	' -e '^not-installed	'
printf '\0'
"#;

pub(crate) fn section(probes: Vec<Probe>) -> Option<Section> {
    let mut section = Section::new("`dpkg-query`", probes, read);
    section.body = section.body.code(SNIPPET);
    (!section.probes.is_empty()).then_some(section)
}

fn read(section: &Section, raw: &Raw, out: &mut Observation) {
    let state = if raw.end == End::Exited(0) { parse(&raw.stdout) } else { None };
    match state {
        Some(state) => {
            for probe in &section.probes {
                out.insert(probe.clone(), Ok::<_, Unknown>(Reading::PackageManager(state.clone())));
            }
        }
        None => section.all_unknown(&raw.lack(section), out),
    }
}

/// Reads fields: `holder`, pid, command line; and last `packages` with lines of status and name.
fn parse(stdout: &[u8]) -> Option<PackageManagerState> {
    let mut state = PackageManagerState::default();
    let mut fields = Fields::new(stdout);
    loop {
        match fields.next()? {
            b"holder" => {
                let [pid, command] = fields.row()?;
                let command = String::from_utf8_lossy(command).trim_end().to_owned();
                let pid = text(pid)?.parse().ok()?;
                state.lock_holder.get_or_insert((pid, Untrusted::new(command)));
            }
            b"packages" => {
                let lines = String::from_utf8_lossy(fields.next()?);
                let rows = lines.lines().filter_map(|line| line.split_once('\t'));
                state.broken = rows.map(|(status, name)| (name.to_owned(), status.to_owned())).collect();
                return Some(state);
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
