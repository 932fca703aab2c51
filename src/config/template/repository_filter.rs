//! The filter `for_system`: whether the path of a package repository is for a host's distribution and architecture.
//!
//! Vendors name both in the path: `cuda/repos/ubuntu2204/sbsa/` (NVIDIA's driver-installation-guide),
//! `doca/3.2.0/rhel9.4/x86_64/` (linux.mellanox.com), `libnvidia-container/stable/deb/amd64/` (nvidia.github.io),
//! `core:/stable:/v1.30/rpm/` (pkgs.k8s.io). Packages of another release install, and then fail because of their
//! libraries.

use minijinja::value::Value;
use minijinja::{Error, ErrorKind};

/// Distributions that name a release in a path, with the id in `/etc/os-release`: `el9` is for every derivative of RHEL.
const DISTRIBUTIONS: &[(&str, &str)] = &[
    ("ubuntu", "ubuntu"),
    ("debian", "debian"),
    ("rhel", "rhel"),
    ("el", "rhel"),
    ("centos", "rhel"),
    ("rocky", "rhel"),
    ("alma", "rhel"),
    ("almalinux", "rhel"),
    ("ol", "rhel"),
    ("sles", "sles"),
    ("opensuse", "opensuse"),
    ("fedora", "fedora"),
    ("amzn", "amzn"),
    ("azl", "azurelinux"),
];

/// Names of one architecture: `uname -m` first. NVIDIA calls servers with Arm processors `sbsa`.
const ARCHITECTURES: &[&[&str]] = &[&["x86_64", "amd64"], &["aarch64", "arm64", "sbsa"], &["ppc64le", "ppc64el"]];

/// The parts of a host's `/etc/os-release` that decide.
struct HostSystem<'a> {
    id: &'a str,
    version: &'a str,
    like: Vec<String>,
    arch: &'a str,
}

impl HostSystem<'_> {
    fn is_like(&self, id: &str) -> bool {
        self.id == id || self.like.iter().any(|like| like == id)
    }

    /// Returns whether one component of a path allows this host.
    fn fits_component(&self, part: &str) -> bool {
        if let Some(names) = ARCHITECTURES.iter().find(|names| names.contains(&part)) {
            return names.contains(&self.arch);
        }
        match part {
            "deb" => !self.is_like("rhel") && !self.is_like("fedora"),
            "rpm" => !self.is_like("debian"),
            _ => find_release(part).is_none_or(|(id, release)| self.is_like(id) && self.fits_release(id, release)),
        }
    }

    /// Compares a release in a path, with or without dots. A derivative of Debian has releases of its own.
    fn fits_release(&self, id: &str, release: &str) -> bool {
        let own = match id {
            "ubuntu" | "debian" if self.id != id => return false,
            _ => self.version,
        };
        if id == "ubuntu" {
            return release.replace('.', "") == own.replace('.', "");
        }
        let (major, minor) = own.split_once('.').map_or((own, None), |(major, minor)| (major, Some(minor)));
        match release.split_once('.') {
            None => release == major,
            // Debian's `VERSION_ID` has no minor release.
            Some((asked, point)) => asked == major && minor.is_none_or(|minor| minor == point),
        }
    }
}

/// Splits `ubuntu2204` into the id in `/etc/os-release` and the release.
fn find_release(part: &str) -> Option<(&'static str, &str)> {
    let release = part.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let name = part.strip_suffix(release)?;
    let is_release = release.starts_with(|c: char| c.is_ascii_digit())
        && release.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let (_, id) = DISTRIBUTIONS.iter().find(|(known, _)| *known == name).filter(|_| is_release)?;
    Some((id, release))
}

/// Returns whether nothing in the path of `uri` names another distribution, release, architecture or package format than
/// the host's. A path that names none of them is for every host.
pub(super) fn is_for_system(uri: &str, id: &str, version: &Value, like: &Value, arch: &str) -> Result<bool, Error> {
    let wrong = |error: Error| Error::new(ErrorKind::InvalidOperation, format!("`id_like` is not a list: {error}"));
    let like = like.try_iter().map_err(wrong)?.map(|one| one.to_string()).collect();
    let host = HostSystem { id, version: version.as_str().unwrap_or_default(), like, arch };
    let path = uri.split_once("://").map_or(uri, |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    Ok(path.split('/').all(|part| host.fits_component(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(uri: &str, id: &str, version: &str, like: &[&str], arch: &str) -> bool {
        let like = Value::from(like.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        is_for_system(uri, id, &Value::from(version), &like, arch).unwrap()
    }

    #[test]
    fn path_names_the_distribution_and_architecture_of_the_host() {
        let ubuntu = |path: &str| fits(&format!("https://m.example/{path}"), "ubuntu", "22.04", &["debian"], "x86_64");
        let rocky =
            |path: &str| fits(&format!("https://m.example/{path}"), "rocky", "9.4", &["rhel", "fedora"], "aarch64");
        let debian = |path: &str| fits(&format!("https://m.example/{path}"), "debian", "12", &[], "x86_64");
        for (path, on_ubuntu, on_rocky, on_debian) in [
            ("cuda/repos/ubuntu2204/x86_64/", true, false, false),
            ("cuda/repos/ubuntu2004/x86_64/", false, false, false),
            ("cuda/repos/ubuntu2204/sbsa/", false, false, false),
            ("cuda/repos/rhel9/sbsa/", false, true, false),
            ("cuda/repos/rhel8/sbsa/", false, false, false),
            ("cuda/repos/rhel9/x86_64/", false, false, false),
            ("cuda/repos/debian12/x86_64/", false, false, true),
            ("doca/3.2.0/ubuntu22.04/x86_64/", true, false, false),
            ("doca/3.2.0/rhel9.4/aarch64/", false, true, false),
            ("doca/3.2.0/rhel9.2/aarch64/", false, false, false),
            ("doca/3.2.0/debian12.5/x86_64/", false, false, true),
            ("epel/el9/", false, true, false),
            ("libnvidia-container/stable/deb/amd64", true, false, true),
            ("libnvidia-container/stable/rpm/aarch64", false, true, false),
            ("core:/stable:/v1.30/deb/", true, false, true),
            ("core:/stable:/v1.30/rpm/", false, true, false),
            ("site/all/", true, true, true),
            ("electron9/olive2/", true, true, true),
        ] {
            assert_eq!((ubuntu(path), rocky(path), debian(path)), (on_ubuntu, on_rocky, on_debian), "{path}");
        }
        // The name of a server is not a part of the path.
        assert!(fits("https://rpm/site/", "ubuntu", "22.04", &["debian"], "x86_64"));
        assert!(!fits("file:/srv/ubuntu2004/", "ubuntu", "22.04", &["debian"], "x86_64"));
    }
}
