//! dnf's offers: one `dnf repoquery` for the names that need it, from the metadata that dnf keeps on the host.

use super::rpm_order::compare_rpm_versions;
use std::collections::BTreeMap;

/// `forge_rpm_offers NAME…` prints the offered versions, one row each: name and version.
///
/// dnf writes its cache and logs as it reads, and a plan leaves nothing on a host: it gets a folder of links to its cache,
/// in memory where the host has `/dev/shm`, which is removed afterwards. It does not use the network. Packages of all module streams count, because a step may enable
/// another stream before the packages change.
pub(crate) const RPM_OFFERS: &str = r#"
forge_rpm_offers() (
command -v dnf >/dev/null 2>&1 || exit 127
t=/dev/shm
[ -w "$t" ] || t=/var/tmp
t=$(mktemp -d "$t/forge-dnf.XXXXXX") || exit
trap 'rm -rf -- "$t"' EXIT
trap 'exit 143' HUP INT TERM
mkdir -- "$t/cache" || exit
[ ! -d /var/cache/dnf ] || cp -rs /var/cache/dnf/. "$t/cache/" || exit
dnf -C -q --setopt=cachedir="$t/cache" --setopt=logdir="$t" --setopt=persistdir="$t/state" repoquery --disable-modular-filtering --qf '%{name}	%{evr}' -- "$@" 2>/dev/null
)
"#;

/// Returns the offered versions of each package, newest first.
pub(crate) fn parse_offers(rows: &str) -> BTreeMap<&str, Vec<String>> {
    let mut offers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, version) in rows.lines().filter_map(|row| row.split_once('\t')) {
        let version = version.trim();
        let versions = offers.entry(name).or_default();
        // The same version for several architectures, or in several repositories.
        if !version.is_empty() && !versions.iter().any(|known| known == version) {
            versions.push(version.strip_prefix("0:").unwrap_or(version).to_owned());
        }
    }
    offers.values_mut().for_each(|versions| versions.sort_by(|a, b| compare_rpm_versions(b, a)));
    offers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_sorted_by_rpm_rules_and_listed_once() {
        // origin: field, dnf 4.14 on Debian 12, with names of NVIDIA's repository
        let rows = "nvidia-open\t3:580.95.05-1.el9\nnvidia-open\t3:580.105.08-1.el9\nnvidia-open\t3:580.95.05-1.el9\n\
                    nvidia-fabricmanager\t0:580.95.05-1\nerror\n";
        let offers = parse_offers(rows);
        assert_eq!(offers["nvidia-open"], ["3:580.105.08-1.el9", "3:580.95.05-1.el9"]);
        assert_eq!(offers["nvidia-fabricmanager"], ["580.95.05-1"]);
        assert_eq!(offers.len(), 2);
    }
}
