//! Paths at which apt stores the index of a suite.

use super::declaration::AptSourceSpec;

const LISTS_FOLDER: &str = "/var/lib/apt/lists/";

/// Names of an index without a release file: with `Acquire::GzipIndexes`, the default in containers, apt keeps it
/// compressed.
const PACKAGES_NAMES: [&str; 7] =
    ["Packages", "Packages.lz4", "Packages.gz", "Packages.xz", "Packages.zst", "Packages.bz2", "Packages.lzma"];

/// Returns the candidate paths for each URI and suite: `InRelease` (inline signature), `Release` (detached signature), and
/// `Packages` of a trusted suite that is an exact path, which apt also reads without a release file.
pub(super) fn index_paths(what: &AptSourceSpec) -> Vec<Vec<String>> {
    let pairs = what.uris.iter().flat_map(|uri| what.suites.iter().map(move |suite| (uri, suite)));
    pairs.map(|(uri, suite)| suite_index_paths(uri, suite, what.trusted)).collect()
}

fn suite_index_paths(uri: &str, suite: &str, trusted: bool) -> Vec<String> {
    let base = format!("{}/", uri.trim_end_matches('/'));
    let folder = match suite.strip_suffix('/') {
        // A suite that ends with `/` is an exact path; `/` is the URI itself.
        Some("") => base,
        Some(_) => format!("{base}{suite}"),
        None => format!("{base}dists/{suite}/"),
    };
    let packages = if trusted && suite.ends_with('/') { &PACKAGES_NAMES[..] } else { &[] };
    let names = ["InRelease", "Release"].into_iter().chain(packages.iter().copied());
    names.map(|name| format!("{LISTS_FOLDER}{}", list_file_name(&format!("{folder}{name}")))).collect()
}

/// Returns the name that apt gives to a file fetched from `uri`: scheme and user are dropped, some characters are
/// percent-encoded, and slashes become underscores.
fn list_file_name(uri: &str) -> String {
    let rest = uri.split_once(':').map_or(uri, |(_, rest)| rest);
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let mut name = String::new();
    for byte in rest.bytes() {
        match byte {
            b'/' => name.push('_'),
            b'%' | b'\\' | b'|' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b'"' | b'^' | b'~' | b'_' | b'=' | b'!'
            | b'@' | b'#' | b'$' | b'&' | b'*' => name.push_str(&format!("%{byte:02x}")),
            0x21..0x7f => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// origin: field, /var/lib/apt/lists of Debian 12; the last one from apt's `URItoFileName`
    #[test]
    fn index_paths_follow_apt_file_naming() {
        let released = |uri: &str, suite: &str| suite_index_paths(uri, suite, false)[1].clone();
        assert_eq!(released("file:/srv/forge-repo", "./"), "/var/lib/apt/lists/_srv_forge-repo_._Release");
        assert_eq!(
            released("http://deb.example/debian/", "bookworm-updates"),
            "/var/lib/apt/lists/deb.example_debian_dists_bookworm-updates_Release"
        );
        assert_eq!(
            suite_index_paths("https://h.example:8080/a_b", "/", false)[0],
            "/var/lib/apt/lists/h.example:8080_a%5fb_InRelease"
        );
        assert_eq!(
            suite_index_paths("file:/srv/repo2", "./", true)[2],
            "/var/lib/apt/lists/_srv_repo2_._Packages",
            "seen on Debian 12 with a repository of dpkg-scanpackages"
        );
        assert_eq!(
            suite_index_paths("file:/srv/repo", "./", true)[3],
            "/var/lib/apt/lists/_srv_repo_._Packages.lz4",
            "seen on Debian 12 with `Acquire::GzipIndexes` in apt.conf.d"
        );
        assert_eq!(suite_index_paths("file:/srv/repo2", "stable", true).len(), 2);
    }
}
