//! The order of package versions by the rules of rpm.

use rpm_version::Evr;
use std::cmp::Ordering;

/// Compares two versions `EPOCH:VERSION-RELEASE` by rpm's rules. A missing epoch is epoch 0; if one has no release, any
/// release of the other is equal.
pub fn compare_rpm_versions(a: &str, b: &str) -> Ordering {
    let (a, b) = (split_version(a), split_version(b));
    let (a_release, b_release) = a.release.zip(b.release).unwrap_or_default();
    Evr::new(a.epoch, a.version, a_release).cmp(&Evr::new(b.epoch, b.version, b_release))
}

struct VersionParts<'a> {
    epoch: &'a str,
    version: &'a str,
    release: Option<&'a str>,
}

/// Splits a version like `parseEVR` of rpm (rpmio/rpmver.c): an epoch has only digits, and the release follows the last
/// hyphen. `Evr::parse` splits at the first colon and the first hyphen.
fn split_version(text: &str) -> VersionParts<'_> {
    let epoch = text.split_once(':').filter(|(epoch, _)| epoch.bytes().all(|byte| byte.is_ascii_digit()));
    let (epoch, rest) = epoch.unwrap_or(("", text));
    let release = rest.rsplit_once('-');
    VersionParts { epoch, version: release.map_or(rest, |(version, _)| version), release: release.map(|(_, r)| r) }
}
