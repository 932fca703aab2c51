//! Paths that lead to one place through links in their directories.

use std::collections::VecDeque;

/// The number of links that Linux follows in one path.
const MAX_LINKS: usize = 40;

/// Returns a path without the links in its directories, whose targets `find_target` returns. The last component is not
/// followed. Returns the path itself if the links lead in a circle.
pub fn resolve_directories(path: &str, find_target: impl Fn(&str) -> Option<String>) -> String {
    let mut left: VecDeque<String> = path.split('/').map(str::to_owned).collect();
    let (mut resolved, mut links) = (String::new(), 0);
    while let Some(part) = left.pop_front() {
        match part.as_str() {
            "" | "." => continue,
            ".." => {
                resolved.truncate(resolved.rfind('/').unwrap_or_default());
                continue;
            }
            _ => {}
        }
        let entered = format!("{resolved}/{part}");
        match find_target(&entered).filter(|_| !left.is_empty()) {
            None => resolved = entered,
            Some(_) if links == MAX_LINKS => return path.to_owned(),
            Some(target) => {
                links += 1;
                if target.starts_with('/') {
                    resolved.clear();
                }
                target.split('/').rev().for_each(|part| left.push_front(part.to_owned()));
            }
        }
    }
    resolved
}

/// Returns the directories of a path, without `/`.
pub fn list_directories(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').skip(1).map(|(end, _)| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_directories_are_followed_and_the_last_one_is_not() {
        let links = [("/var/run", "/run"), ("/bin", "usr/bin"), ("/a", "b/../c"), ("/x", "/y"), ("/y", "/x")];
        let find = |path: &str| links.iter().find(|(link, _)| *link == path).map(|(_, target)| (*target).to_owned());
        let resolve = |path: &str| resolve_directories(path, find);
        assert_eq!(resolve("/var/run/app/pid"), "/run/app/pid");
        assert_eq!(resolve("/var/run"), "/var/run");
        assert_eq!(resolve("/bin/sh"), "/usr/bin/sh");
        assert_eq!(resolve("/a/file"), "/c/file");
        assert_eq!(resolve("/x/file"), "/x/file", "a circle");
        assert_eq!(list_directories("/var/run/x").collect::<Vec<_>>(), ["/var", "/var/run"]);
    }
}
