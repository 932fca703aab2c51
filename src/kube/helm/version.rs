//! The `helm` program of this machine.

use super::super::KubeError;
use camino::Utf8Path;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// The limit of a question that asks no cluster.
const LIMIT: Duration = Duration::from_secs(10);
const HINT: &str = "install Helm 3 or 4 on this machine, and have it on the PATH";

/// Which helm there is. Flags and formats differ between majors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmVersion {
    /// As it says itself: `v3.19.0`.
    pub text: String,
    pub major: u32,
}

/// Asks the `helm` of this machine for its version. It contacts nobody for that. `withheld` are the environment variables
/// that hold secrets.
///
/// # Errors
/// If there is none, if it does not say its version, or if that is of a major that forge does not know.
pub async fn helm_version(program: &Utf8Path, withheld: &BTreeSet<String>) -> Result<HelmVersion, KubeError> {
    let mut helm = Command::new(program);
    withheld.iter().for_each(|name| {
        helm.env_remove(name);
    });
    helm.args(["version", "--template", "{{.Version}}"]).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(LIMIT, helm.output()).await;
    let output = ended.map_err(|_| KubeError::new("`helm version` does not end"))?;
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => KubeError::new("there is no `helm` on this machine").hint(HINT),
        kind => KubeError::new(format!("`helm` cannot be started: {kind}")),
    })?;
    // Warnings go to stderr, also where all is well.
    read(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
        KubeError::new(format!("`helm version` does not tell one of Helm 3 or 4 ({})", output.status)).hint(HINT)
    })
}

fn read(said: &str) -> Option<HelmVersion> {
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
    fn both_majors_are_known_and_no_other() {
        let major = |said: &str| read(said).map(|version| version.major);
        assert_eq!(major("v3.19.0"), Some(3));
        assert_eq!(major("v4.1.4\n"), Some(4));
        for other in ["v2.16.0", "v5.0.0", "", "3.19.0", "v3", "v3.x", "Client: v3.1 or so", "v3.1.0 v3"] {
            assert_eq!(major(other), None, "{other}");
        }
    }
}
