//! Packages on hosts without a dpkg database: one `rpm -q` for all names, dnf's version locks, and the holders of its
//! locks.
//!
//! It answers the same probes as `package`, `apt` and `manager`, and runs after them: if dpkg has packages, it prints
//! nothing, and their answers stay.

use super::query::{AptOfferPolicy, Probe};
use super::rpm_offers::{RPM_OFFERS, parse_offers};
use super::rpm_order::compare_rpm_versions;
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::version_lock::{VersionLock, find_hold_obstacle, find_version_lock};
use super::{Observation, PackageManagerKind, PackageManagerState, PackageState, ProbeReading};
use crate::model::UntrustedText;
use std::cmp::Ordering;

/// `forge_rpm_rows NAME…` prints a row for each installed package, and rpm's messages about the others.
pub(crate) const RPM_ROWS: &str = r#"
forge_rpm_rows() { rpm -q --qf '%{NAME}\t%{ARCH}\t%{EVR}\n' -- "$@" 2>&1; }
"#;

/// `forge_rpm_locks` prints the list of dnf's versionlock after its path; nothing if that plugin is not installed, and
/// the setting after `off` if one disables it. dnf 5 keeps another file, in another format.
pub(crate) const RPM_LOCKS: &str = r#"
forge_rpm_off() {
v=$(sed -n "s/^[[:space:]]*$2[[:space:]]*=[[:space:]]*\([^[:space:]]*\).*/\1/p" "$1" 2>/dev/null | tail -n 1)
case $v in 0 | [Ff]* | [Nn]* | [Oo][Ff]*) printf 'off %s %s %s\n' "$1" "$2" "$v" ;; *) return 1 ;; esac
}
forge_rpm_locks() {
if command -v dnf5 >/dev/null 2>&1; then
l=/etc/dnf/versionlock.toml
else
[ -e /etc/dnf/plugins/versionlock.conf ] || return 0
forge_rpm_off /etc/dnf/dnf.conf plugins && return
forge_rpm_off /etc/dnf/plugins/versionlock.conf enabled && return
l=$(sed -n 's/^ *locklist *= *//p' /etc/dnf/plugins/versionlock.conf)
l=${l:-/etc/dnf/plugins/versionlock.list}
fi
printf '%s\n' "$l"
[ ! -e "$l" ] || cat -- "$l" || return
}
"#;

/// `/proc/locks` lists the holder of rpm's lock; dnf 4 writes its pid to its own files.
const SNIPPET: &str = r#"
forge_rpm_holder() {
for f in /var/lib/dnf/*_lock.pid /var/cache/dnf/*_lock.pid; do
[ -s "$f" ] && read -r pid <"$f" && [ -r "/proc/$pid/cmdline" ] || continue
printf '%s\0' "$pid"; tr '\0' ' ' <"/proc/$pid/cmdline"; printf '\0'
return
done
need stat
i=$(stat -c %i -- "$(rpm --eval '%_dbpath')/.rpm.lock" 2>/dev/null)
while read -r n kind adv mode pid id rest; do
[ "$kind $mode" = 'POSIX WRITE' ] && [ "$pid" -gt 0 ] || continue
[ "${id##*:}" = "$i" ] || continue
for f in "/proc/$pid/fd"/*; do
case $(readlink -- "$f") in */.rpm.lock) ;; *) continue ;; esac
printf '%s\0' "$pid"; tr '\0' ' ' <"/proc/$pid/cmdline"; printf '\0'
return
done
done </proc/locks
printf '\0\0'
}
forge_rpm_has() {
while IFS='	' read -r p c v; do
[ "$p" = "$1" ] || continue
v=${v#*:}
[ "${v%-*}" != "$2" ] || return 0
done <<FORGE_RPM
$r
FORGE_RPM
return 1
}
forge_rpm() {
[ ! -s /var/lib/dpkg/status ] && command -v rpm >/dev/null 2>&1 || return 0
printf 'rpm\0'
forge_rpm_holder
[ "$#" -gt 0 ] || return 0
r=$(forge_rpm_rows $1)
printf '%s\0' "$r"
shift
l=$(forge_rpm_locks) || return
printf '%s\0' "$l"
o=
while [ "$#" -gt 1 ]; do
forge_rpm_has "$1" "$2" || o="$o $1"
shift 2
done
[ -n "$o" ] || return 0
r=$(forge_rpm_offers $o)
printf '%s\0%s\0' "$?" "$r"
}
forge_rpm"#;

pub(crate) fn build_section(packages: Vec<Probe>, manager: Vec<Probe>) -> Option<ProbeSection> {
    let probes: Vec<Probe> = packages.into_iter().chain(manager).collect();
    let mut section = ProbeSection::new("`rpm`", probes, read_answers);
    let body = section.body.code(RPM_ROWS).code(RPM_LOCKS).code(RPM_OFFERS).code(SNIPPET);
    let names: Vec<&str> = section.probes.iter().filter_map(super::package::probe_package).collect();
    let body = if names.is_empty() { body } else { body.word(names.join(" ")) };
    let wanted = section.probes.iter().filter_map(upstream_words);
    section.body = wanted.fold(body, |body, (name, upstream)| body.word(name).word(upstream));
    section.plain = true;
    (!section.probes.is_empty()).then_some(section)
}

/// Returns the package and the upstream version that needs dnf's offers unless it is installed.
fn upstream_words(probe: &Probe) -> Option<(&String, &String)> {
    match probe {
        Probe::Package { name, offers: AptOfferPolicy::UnlessUpstream(upstream) } => Some((name, upstream)),
        _ => None,
    }
}

/// On a dpkg host this section prints nothing: the answers of dpkg's own sections stay.
fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    if raw.stdout.is_empty() && raw.is_complete(&[0]) {
        return;
    }
    let mut fields = NulFields::new(&raw.stdout);
    let head = fields.next_row().filter(|[tag, _, _]| *tag == b"rpm" && raw.is_complete(&[0]));
    let Some([_, pid, command]) = head else { return section.answer_all_unknown(&raw.explain_missing(section), out) };
    let books = fields.next_row::<2>().and_then(|[rows, locks]| Some((parse_utf8(rows)?, parse_utf8(locks)?)));
    // Missing if no package needs it.
    let asked = fields.next_row::<2>().and_then(|[status, rows]| Some((status == b"0", parse_utf8(rows)?)));
    let offered = asked.filter(|(ok, _)| *ok).map(|(_, rows)| parse_offers(rows));
    for probe in &section.probes {
        let answer = match (probe, books) {
            (Probe::PackageManager, _) => Some(ProbeReading::PackageManager(parse_manager_state(pid, command))),
            (Probe::Package { name, offers }, Some((rows, locks))) => {
                let state = read_package(name, offers, rows, locks);
                state.map(|state| {
                    add_offers(
                        state,
                        upstream_words(probe).and(offered.as_ref()).and_then(|all| all.get(name.as_str())),
                    )
                })
            }
            _ => None,
        };
        out.insert(probe.clone(), answer.ok_or_else(|| raw.explain_missing(section)));
    }
}

fn parse_manager_state(pid: &[u8], command: &[u8]) -> PackageManagerState {
    let command = String::from_utf8_lossy(command).trim_end().to_owned();
    let pid = parse_utf8(pid).and_then(|pid| pid.parse().ok());
    let lock_holder = pid.map(|pid| (pid, UntrustedText::new(command)));
    PackageManagerState { kind: PackageManagerKind::Rpm, lock_holder, ..Default::default() }
}

fn add_offers(state: PackageState, available: Option<&Vec<String>>) -> ProbeReading {
    ProbeReading::Package(Box::new(match available {
        Some(available) => PackageState { available: available.clone(), offers_unknown: None, ..state },
        None => state,
    }))
}

fn read_package(name: &str, offers: &AptOfferPolicy, rows: &str, locks: &str) -> Option<PackageState> {
    let wanted = match offers {
        AptOfferPolicy::UnlessVersion(version) => Some(version.as_str()),
        _ => None,
    };
    let state = parse_package_state(name, wanted, rows)?;
    Some(PackageState { cannot_hold: find_hold_obstacle(locks), ..add_version_lock(state, name, rows, locks) })
}

/// Adds what the versionlock list says about `name`, of which rpm printed these rows.
pub(crate) fn add_version_lock(state: PackageState, name: &str, rows: &str, locks: &str) -> PackageState {
    match find_version_lock(locks, name, &installed_versions(name, rows).collect::<Vec<_>>()) {
        VersionLock::None => state,
        VersionLock::Held => PackageState { held: true, ..state },
        VersionLock::Elsewhere(entry) => PackageState { other_lock: Some(entry), ..state },
    }
}

/// Returns the versions of `name` in rpm's rows.
fn installed_versions<'r>(name: &'r str, rows: &'r str) -> impl Iterator<Item = &'r str> {
    rows.lines().filter_map(move |row| {
        let words: Vec<&str> = row.split('\t').collect();
        let [of, arch, version] = words[..] else { return None };
        (of == name || name.strip_prefix(of).and_then(|rest| rest.strip_prefix('.')) == Some(arch)).then_some(version)
    })
}

/// Returns the state of `name`; `None` if rpm reported neither that it is installed nor that it is not. Among several
/// versions installed in parallel, the `wanted` one counts, else the highest.
pub(crate) fn parse_package_state(name: &str, wanted: Option<&str>, rows: &str) -> Option<PackageState> {
    let versions = installed_versions(name, rows);
    let is_wanted =
        |version: &str| wanted.is_some_and(|wanted| compare_rpm_versions(wanted, version) == Ordering::Equal);
    let best = versions.max_by(|a, b| (is_wanted(a).cmp(&is_wanted(b))).then_with(|| compare_rpm_versions(a, b)));
    let gone = format!("package {name} is not installed");
    // With a broken database, rpm prints an error and then reports each package as not installed.
    let complained = rows.lines().any(|line| line.starts_with("error: "));
    let known = best.is_some() || (!complained && rows.lines().any(|line| line == gone));
    known.then(|| PackageState {
        manager: PackageManagerKind::Rpm,
        version: best.map(str::to_owned),
        status: if best.is_some() { "installed" } else { "not-installed" }.to_owned(),
        offers_unknown: Some("dnf was not asked".to_owned()),
        ..PackageState::default()
    })
}

#[cfg(test)]
mod tests;
