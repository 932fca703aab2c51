//! Packages that belong together, by patterns of their names: one `dpkg-query` for all families, and one `apt-cache` for
//! their packages that are not of the wanted version. On a host without a dpkg database, one `rpm -qa` and one
//! `dnf repoquery`.

use super::apt::{APT_POLICY, parse_policy};
use super::query::Probe;
use super::rpm_offers::{RPM_OFFERS, parse_offers};
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{FamilyMember, Observation, PackageFamilyState, PackageManagerKind, ProbeReading};
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::collections::BTreeMap;

/// Arguments are pairs of patterns, separated by spaces, and a version, empty if no offers are needed. Prints the
/// manager, the rows, apt's status and its answer, each ended by a NUL.
const SNIPPET: &str = r#"
T='	'
forge_unlike() {
v=${2#*:}
[ "${v%-*}" = "$3" ] && return 1
for p in $4; do
case ${1%%:*} in $p) return 0 ;; esac
done
return 1
}
forge_family() {
set -f
a=
for w; do a="$a $w"; done
if [ ! -s /var/lib/dpkg/status ]; then
need rpm
R=$(rpm -qa --qf '%{NAME}\t%{EVR}\n' -- $a) || return
printf 'rpm\0%s\0' "$R"
o=
while [ "$#" -gt 1 ]; do
if [ -n "$2" ]; then
while IFS="$T" read -r n v; do
forge_unlike "$n" "$v" "$2" "$1" && o="$o $n"
done <<FORGE_ROWS
$R
FORGE_ROWS
fi
shift 2
done
[ -n "$o" ] || { printf '0\0\0'; return 0; }
P=$(forge_rpm_offers $o)
printf '%s\0%s\0' "$?" "$P"
return 0
fi
need dpkg-query
R=$(dpkg-query -W -f='${Package}\t${Version}\t${db:Status-Status}\t${Architecture}\n' -- dpkg $a 2>/dev/null)
printf 'dpkg\0%s\0' "$R"
o= A=
while IFS="$T" read -r n v s c; do
case $n in dpkg) A=$c ;; esac
done <<FORGE_ROWS
$R
FORGE_ROWS
while [ "$#" -gt 1 ]; do
if [ -n "$2" ]; then
while IFS="$T" read -r n v s c; do
case $c in all | "$A") ;; *) n=$n:$c ;; esac
[ "$s" = installed ] && forge_unlike "$n" "$v" "$2" "$1" && o="$o $n"
done <<FORGE_ROWS
$R
FORGE_ROWS
fi
shift 2
done
[ -n "$o" ] || { printf '0\0\0'; return 0; }
P=$(forge_policy $o)
printf '%s\0%s\0' "$?" "$P"
}
forge_family"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("`dpkg-query`", probes, read_answers);
    section.timeout_s = 30;
    let pairs: Vec<(String, String)> = section.probes.iter().filter_map(family_words).collect();
    let body = section.body.code(APT_POLICY).code(RPM_OFFERS).code(SNIPPET);
    section.body = pairs.into_iter().fold(body, |body, (patterns, upstream)| body.word(patterns).word(upstream));
    (!section.probes.is_empty()).then_some(section)
}

fn family_words(probe: &Probe) -> Option<(String, String)> {
    let Probe::PackageFamily { patterns, upstream } = probe else { return None };
    Some((patterns.join(" "), upstream.clone().unwrap_or_default()))
}

/// Reports whether `pattern` is a package's name in which `*` stands for any text.
pub(crate) fn is_family_pattern(pattern: &str) -> bool {
    pattern.starts_with(|c: char| c.is_ascii_alphanumeric())
        && pattern.chars().all(|c| c.is_ascii_alphanumeric() || "+.-_*".contains(c))
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let listing = FamilyListing::parse(raw).filter(|_| raw.is_complete(&[0]));
    for probe in &section.probes {
        let Probe::PackageFamily { patterns, .. } = probe else { continue };
        let state = listing.as_ref().and_then(|listing| listing.select_members(patterns));
        let answer = state.map(|state| ProbeReading::PackageFamily(Box::new(state)));
        out.insert(probe.clone(), answer.ok_or_else(|| raw.explain_missing(section)));
    }
}

/// The rows of all families.
struct FamilyListing<'a> {
    manager: PackageManagerKind,
    rows: Vec<(String, &'a str)>,
    offers: BTreeMap<&'a str, Vec<String>>,
    offers_unknown: Option<String>,
}

impl<'a> FamilyListing<'a> {
    /// Only a listing with dpkg's own row is complete.
    fn parse(raw: &'a SectionOutput) -> Option<Self> {
        let [manager, rows, status, policy] = NulFields::new(&raw.stdout).next_row::<4>()?;
        let manager = if manager == b"rpm" { PackageManagerKind::Rpm } else { PackageManagerKind::Dpkg };
        let lines: Vec<Vec<&str>> = parse_utf8(rows)?.lines().map(|line| line.split('\t').collect()).collect();
        if manager.is_dpkg() && !lines.iter().any(|words| words.first() == Some(&"dpkg")) {
            return None;
        }
        let unpacked = |status: Option<&&str>| !matches!(status, Some(&"not-installed" | &"config-files"));
        let native = lines.iter().find(|words| words.first() == Some(&"dpkg")).and_then(|words| words.get(3));
        let rows = lines.iter().filter(|words| unpacked(words.get(2)));
        let rows = rows.filter_map(|words| Some((qualify_name(words, native.copied())?, *words.get(1)?))).collect();
        let program = if manager.is_dpkg() { "apt-cache" } else { "dnf repoquery" };
        let offers_unknown = (status != b"0").then(|| format!("`{program}` failed"));
        let policy = parse_utf8(policy)?;
        let offers = match manager {
            PackageManagerKind::Dpkg => {
                parse_policy(policy).into_iter().map(|(name, offer)| (name, offer.available)).collect()
            }
            PackageManagerKind::Rpm => parse_offers(policy),
        };
        Some(Self { manager, rows, offers, offers_unknown })
    }

    fn select_members(&self, patterns: &[String]) -> Option<PackageFamilyState> {
        let patterns = build_patterns(patterns)?;
        let of_family = |name: &str| patterns.is_match(name.split_once(':').map_or(name, |(name, _)| name));
        let members = self.rows.iter().filter(|(name, _)| of_family(name)).map(|(name, version)| FamilyMember {
            name: name.clone(),
            version: (*version).to_owned(),
            available: self.offers.get(name.as_str()).cloned().unwrap_or_default(),
        });
        let mut members: Vec<FamilyMember> = members.collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        Some(PackageFamilyState { manager: self.manager, members, offers_unknown: self.offers_unknown.clone() })
    }
}

/// Returns the name of a row, with its architecture if that is a foreign one.
fn qualify_name(words: &[&str], native: Option<&str>) -> Option<String> {
    let name = words.first()?;
    match words.get(3) {
        Some(arch) if *arch != "all" && native.is_some_and(|native| native != *arch) => Some(format!("{name}:{arch}")),
        _ => Some((*name).to_owned()),
    }
}

fn build_patterns(patterns: &[String]) -> Option<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).ok()?);
    }
    set.build().ok()
}

#[cfg(test)]
mod tests;
