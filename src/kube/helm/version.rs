//! Finds the `helm` program of this machine and its version.

use super::super::KubeError;
use camino::Utf8Path;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// The time limit of a query that contacts no cluster.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
const INSTALL_HELM_HINT: &str = "install Helm 3 or 4 on this machine, in a directory on the PATH";

/// The version of helm. Flags and formats differ between major versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmVersion {
    /// As helm prints it: `v3.19.0`.
    pub text: String,
    /// The major version: 3 or 4.
    pub major: u32,
}

/// Queries the version of the `helm` of this machine, which contacts no cluster. `withheld` are the environment
/// variables with secrets.
///
/// # Errors
/// Helm is not found, does not print its version, or has a major version that forge does not support.
pub async fn query_helm_version(program: &Utf8Path, withheld: &BTreeSet<String>) -> Result<HelmVersion, KubeError> {
    let mut helm = Command::new(program);
    withheld.iter().for_each(|name| {
        helm.env_remove(name);
    });
    helm.args(["version", "--template", "{{.Version}}"]).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(VERSION_TIMEOUT, helm.output()).await;
    let output =
        ended.map_err(|_| KubeError::new(format!("`helm version` timed out after {} s", VERSION_TIMEOUT.as_secs())))?;
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => KubeError::new("`helm` not found on this machine").hint(INSTALL_HELM_HINT),
        kind => KubeError::new(format!("cannot start `helm`: {kind}")),
    })?;
    // Warnings go to stderr, also on success.
    parse_helm_version(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
        KubeError::new(format!("`helm version` did not print a version of Helm 3 or 4 ({})", output.status))
            .hint(INSTALL_HELM_HINT)
    })
}

fn parse_helm_version(said: &str) -> Option<HelmVersion> {
    let text = said.trim();
    let (major, rest) = text.strip_prefix('v')?.split_once('.')?;
    let known =
        rest.starts_with(|c: char| c.is_ascii_digit()) && text.len() < 64 && !text.contains(char::is_whitespace);
    let major = major.parse().ok().filter(|major| known && matches!(major, 3 | 4))?;
    Some(HelmVersion { text: text.to_owned(), major })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_helm_3_and_4_are_supported() {
        let major = |said: &str| parse_helm_version(said).map(|version| version.major);
        assert_eq!(major("v3.19.0"), Some(3));
        assert_eq!(major("v4.1.4\n"), Some(4));
        for other in ["v2.16.0", "v5.0.0", "", "3.19.0", "v3", "v3.x", "Client: v3.1 or so", "v3.1.0 v3"] {
            assert_eq!(major(other), None, "{other}");
        }
    }
}
