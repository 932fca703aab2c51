//! What apt offers: one `apt-cache policy` over all names. It adds to what `dpkg-query` answered.

use super::package::{amend, name, names};
use super::section::{Raw, Section};
use super::{Observation, Probe};
use std::collections::BTreeMap;

/// Root's `apt-cache` writes its caches anew when they are stale, and a plan writes nothing. As a user
/// who may read everything and write nothing it uses fresh caches and builds stale ones in memory. Where
/// capabilities do not allow that, it goes without caches, which is slower.
const SNIPPET: &str = r#"
forge_policy() {
need apt-cache
[ -w /var/cache/apt ] || exec apt-cache policy -- "$@"
setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search \
  apt-cache policy -- "$@" 2>/dev/null && exit 0
exec apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= policy -- "$@"
}
forge_policy"#;

/// Prints the native architecture first. Only names with an architecture need it.
const ARCH: &str = "need dpkg; dpkg --print-architecture || exit";

pub(crate) fn section(probes: Vec<Probe>) -> Option<Section> {
    let mut section = Section::new("`apt-cache`", probes, read);
    let qualified = section.probes.iter().filter_map(name).any(|name| name.contains(':'));
    let arch = if qualified { ARCH } else { "echo" };
    section.body = names(section.body.code(arch).code(SNIPPET), &section.probes);
    section.cap = 65_536 * section.probes.len() as u64;
    section.timeout_s = 30;
    (!section.probes.is_empty()).then_some(section)
}

/// What apt offers of one package.
#[derive(Debug, Default, PartialEq)]
struct Offer {
    candidate: Option<String>,
    available: Vec<String>,
}

fn read(section: &Section, raw: &Raw, out: &mut Observation) {
    if !raw.is_whole(&[0]) {
        let why = raw.lack(section).why;
        return amend(section, out, |_, state| state.offers_unknown = Some(why.clone()));
    }
    let stdout = String::from_utf8_lossy(&raw.stdout);
    let (native, policy) = stdout.split_once('\n').unwrap_or_default();
    let native = format!(":{native}");
    let offers = parse(policy);
    amend(section, out, |name, state| {
        // apt leaves the native architecture out of what it prints.
        if let Some(offer) = offers.get(name.strip_suffix(&native).unwrap_or(name)) {
            state.candidate.clone_from(&offer.candidate);
            state.available.clone_from(&offer.available);
        }
    });
}

/// Reads `apt-cache policy`: names stand at the margin, `Candidate:` two deep, versions five deep with
/// their sources eight deep. A version whose only source is dpkg's status is not offered.
fn parse(text: &str) -> BTreeMap<&str, Offer> {
    let mut offers: BTreeMap<&str, Offer> = BTreeMap::new();
    let (mut name, mut version) = ("", None);
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let words = line.trim();
        if indent == 0 {
            (name, version) = (words.strip_suffix(':').unwrap_or(words), None);
            offers.entry(name).or_default();
        } else if let Some(candidate) = words.strip_prefix("Candidate: ") {
            let candidate = (candidate != "(none)").then(|| candidate.to_owned());
            offers.entry(name).or_default().candidate = candidate;
        } else if indent == 5 || words.starts_with("*** ") {
            version = words.trim_start_matches("*** ").split(' ').next();
        } else if indent >= 8 && !words.ends_with("/var/lib/dpkg/status") {
            if let Some(version) = version.take() {
                offers.entry(name).or_default().available.push(version.to_owned());
            }
        }
    }
    offers
}

#[cfg(test)]
mod tests;
