//! apt's offers: one `apt-cache policy` for the names that need it. It adds to dpkg's answers.

use super::Observation;
use super::package::amend_answers;
use super::query::{AptOfferPolicy, Probe};
use super::section::{ProbeSection, SectionOutput};
use crate::script::ShellFragment;
use std::collections::{BTreeMap, BTreeSet};

/// `forge_policy NAME…` runs `apt-cache policy`.
///
/// Root's `apt-cache` rewrites its caches if they are stale, and a plan writes nothing. As a user who may read
/// everything and write nothing, it uses fresh caches and builds stale ones in memory. If capabilities do not allow
/// that, it runs without caches, which is slower.
pub(crate) const APT_POLICY: &str = r#"
forge_policy() {
need apt-cache
[ -w /var/cache/apt ] || { apt-cache policy -- "$@"; return; }
setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search \
  apt-cache policy -- "$@" 2>/dev/null && return
apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= policy -- "$@"
}"#;

/// Queries the packages that are not in the wanted state according to dpkg's rows: arguments are pairs of name and
/// version, an empty one for any, one that ends in `-` for any revision of an upstream version. Names with an
/// architecture are always queried, and so are packages of several architectures for which it is unclear which row
/// counts. The first line lists the queried names, the second one is the native architecture, if a name has one.
const SNIPPET: &str = r#"
T='	' N='
'
L=$N$R
forge_has() {
case $2 in '' | *-) e= ;; *) e=$T ;; esac
case $L in
*"$N$1$T"*"$N$1$T"*) return 1 ;;
*"$N$1${T}installed$T$2$e"*) return 0 ;;
esac
return 1
}
forge_offers() {
a=
while [ "$#" -gt 1 ]; do
forge_has "$1" "$2" || a="$a $1"
shift 2
done
printf '%s\n' "$a"
case $a in '') return ;; *:*) need dpkg; dpkg --print-architecture || return ;; *) echo ;; esac
forge_policy $a
}
forge_offers"#;

/// The reason for unknown offers that are not needed.
const APT_NOT_ASKED: &str = "apt was not asked";

pub(crate) fn build_section(probes: Vec<Probe>, listing: &ShellFragment) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("`apt-cache`", probes, read_answers);
    section.before = listing.clone();
    section.cap = 65_536 * section.probes.len() as u64;
    section.timeout_s = 30;
    section.plain = true;
    section.body = section.body.code(APT_POLICY).code(SNIPPET);
    let needs: Vec<(&str, String)> = section.probes.iter().filter_map(offer_request).collect();
    section.body = needs.into_iter().fold(section.body, |body, (name, version)| body.word(name).word(version));
    (!section.probes.is_empty()).then_some(section)
}

/// Returns the name to query and the version that makes the query unnecessary, empty for any.
fn offer_request(probe: &Probe) -> Option<(&str, String)> {
    match probe {
        Probe::Package { offers: AptOfferPolicy::Unneeded, .. } => None,
        Probe::Package { name, offers: AptOfferPolicy::UnlessInstalled } => Some((name, String::new())),
        Probe::Package { name, offers: AptOfferPolicy::UnlessVersion(version) } => Some((name, version.clone())),
        Probe::Package { name, offers: AptOfferPolicy::UnlessUpstream(version) } => Some((name, format!("{version}-"))),
        _ => None,
    }
}

/// apt's offers of one package.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AptOffer {
    candidate: Option<String>,
    pub available: Vec<String>,
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    if !raw.is_complete(&[0]) {
        let why = raw.explain_missing(section).why;
        return amend_answers(section, out, |_, state| state.offers_unknown = Some(why.clone()));
    }
    let stdout = String::from_utf8_lossy(&raw.stdout);
    let (asked, rest) = stdout.split_once('\n').unwrap_or_default();
    let (native, policy) = rest.split_once('\n').unwrap_or_default();
    let asked: BTreeSet<&str> = asked.split_whitespace().collect();
    let native = format!(":{native}");
    let offers = parse_policy(policy);
    amend_answers(section, out, |name, state| {
        if !asked.contains(name) {
            state.offers_unknown = Some(APT_NOT_ASKED.to_owned());
        }
        // apt omits the native architecture in its output.
        if let Some(offer) = offers.get(name.strip_suffix(&native).unwrap_or(name)) {
            state.candidate.clone_from(&offer.candidate);
            state.available.clone_from(&offer.available);
        }
    });
}

/// Parses the output of `apt-cache policy`: names have no indent, `Candidate:` is indented by two, versions by five and
/// their sources by eight. A version whose only source is dpkg's status is not offered.
pub(crate) fn parse_policy(text: &str) -> BTreeMap<&str, AptOffer> {
    let mut offers: BTreeMap<&str, AptOffer> = BTreeMap::new();
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
        } else if indent >= 8
            && !words.ends_with("/var/lib/dpkg/status")
            && let Some(version) = version.take()
        {
            offers.entry(name).or_default().available.push(version.to_owned());
        }
    }
    offers
}

#[cfg(test)]
mod tests;
