//! Merges the snippets of `sysctl.d` for one key, as systemd-sysctl does.

use super::value;
use crate::probe::ConfLine;
use crate::resource::EarlierStepEffects;
use serde::Serialize;

/// A line that is read after the step's own file and sets another value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SysctlOverride {
    /// `file:line`.
    pub place: String,
    pub value: String,
}

/// The file that systemd reads under another name.
const LEGACY_FILE: (&str, &str) = ("/etc/sysctl.conf", "99-sysctl.conf");

impl SysctlOverride {
    /// Reports whether an earlier step of the plan may change the file of the line. A file of the same name in another
    /// directory counts: only the first of them is read.
    pub fn may_be_changed_by(&self, earlier: &EarlierStepEffects) -> bool {
        let file = self.place.rsplit_once(':').map_or(self.place.as_str(), |(file, _)| file);
        let reads_as =
            |path: &str| if path == LEGACY_FILE.0 { LEGACY_FILE.1.to_owned() } else { file_name(path).to_owned() };
        let name = reads_as(file);
        earlier.is_opaque || earlier.will_touch.iter().chain(&earlier.will_go).any(|path| reads_as(path) == name)
    }
}

/// Returns the path of a key below `/proc/sys`. Whichever of `.` and `/` occurs first is the separator; the other one
/// is then a literal character. Repeated separators are one, as for the kernel.
pub(super) fn key_path(key: &str) -> String {
    let path = match key.find(['.', '/']) {
        Some(at) if key[at..].starts_with('.') => key
            .chars()
            .map(|c| {
                if c == '.' {
                    '/'
                } else if c == '/' {
                    '.'
                } else {
                    c
                }
            })
            .collect(),
        _ => key.to_owned(),
    };
    path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Returns the usual spelling of a path: with dots, or with slashes if a part contains a dot.
pub(super) fn format_key(place: &str) -> String {
    if place.contains('.') { place.to_owned() } else { place.replace('/', ".") }
}

/// Parses `key = value`; a leading `-` ignores failures. A line without `=` sets nothing.
fn parse_setting(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    let key = key.trim();
    Some((key_path(key.strip_prefix('-').unwrap_or(key)), value::canonical_value(value)))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the last line for `place` that is read after the file at `own` and sets a value other than `wanted`. The
/// step's own file sets the key by name, so a pattern never overrides it.
pub(super) fn find_override(lines: &[ConfLine], own: &str, place: &str, wanted: &str) -> Option<SysctlOverride> {
    let later = |line: &&ConfLine| line.file != own && file_name(&line.file) > file_name(own);
    let (line, found) = lines
        .iter()
        .filter(later)
        .filter_map(|line| Some((line, parse_setting(&line.text)?)))
        .rfind(|(_, (key, _))| is_same_setting(key, place) && !is_pattern(key))?;
    (!value::is_same_value(place, &found.1, wanted))
        .then(|| SysctlOverride { place: line.format_location(), value: found.1 })
}

/// Reports whether two paths are one setting: the kernel shows the forwarding of all interfaces under two names
/// (`ipv4_devconf.data[FORWARDING]` in net/ipv4/devinet.c).
fn is_same_setting(key: &str, place: &str) -> bool {
    const FORWARDING: [&str; 2] = ["net/ipv4/ip_forward", "net/ipv4/conf/all/forwarding"];
    key == place || FORWARDING.contains(&key) && FORWARDING.contains(&place)
}

fn is_pattern(key: &str) -> bool {
    key.contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_line(file: &str, text: &str) -> ConfLine {
        ConfLine { file: format!("/etc/sysctl.d/{file}"), line: 3, text: text.into() }
    }

    fn find_override_text(lines: &[(&str, &str)]) -> Option<String> {
        let lines: Vec<ConfLine> = lines.iter().map(|(file, text)| make_line(file, text)).collect();
        let found = find_override(&lines, "/etc/sysctl.d/90-forge.conf", "net/ipv4/conf/all/rp_filter", "1");
        found.map(|over| format!("{} {}", over.place, over.value))
    }

    #[test]
    fn only_steps_that_touch_its_file_may_change_an_override() {
        let over = |file: &str| SysctlOverride { place: format!("{file}:1"), value: "2".to_owned() };
        let touching = |path: &str| EarlierStepEffects {
            will_touch: [path.to_owned()].into(),
            after: Some("a/b".to_owned()),
            ..EarlierStepEffects::default()
        };
        let zz = over("/etc/sysctl.d/99-zz.conf");
        assert!(!zz.may_be_changed_by(&touching("/etc/motd")));
        assert!(zz.may_be_changed_by(&touching("/etc/sysctl.d/99-zz.conf")));
        assert!(over("/usr/lib/sysctl.d/50-a.conf").may_be_changed_by(&touching("/etc/sysctl.d/50-a.conf")));
        assert!(over("/etc/sysctl.d/99-sysctl.conf").may_be_changed_by(&touching("/etc/sysctl.conf")));
        let gone = EarlierStepEffects { will_go: ["/etc/sysctl.d/99-zz.conf".to_owned()].into(), ..touching("/x") };
        assert!(zz.may_be_changed_by(&gone));
        assert!(zz.may_be_changed_by(&EarlierStepEffects { is_opaque: true, ..touching("/x") }));
    }

    #[test]
    fn dot_and_slash_keys_resolve_to_the_same_path() {
        assert_eq!(key_path("net.ipv4.ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(key_path("net.ipv4.conf.eth0/100.forwarding"), "net/ipv4/conf/eth0.100/forwarding");
        assert_eq!(key_path("net/ipv4/conf/eth0.100/forwarding"), "net/ipv4/conf/eth0.100/forwarding");
        for key in ["net//ipv4/ip_forward", "/net/ipv4///ip_forward", "net..ipv4.ip_forward"] {
            assert_eq!(key_path(key), "net/ipv4/ip_forward");
        }
        for place in ["net/ipv4/ip_forward", "net/ipv4/conf/eth0.100/forwarding"] {
            assert_eq!(key_path(&format_key(place)), place);
        }
    }

    #[test]
    fn only_later_different_values_override() {
        assert_eq!(find_override_text(&[("10-a.conf", "net.ipv4.conf.all.rp_filter = 2")]), None);
        let later =
            [("90-forge.conf", "net.ipv4.conf.all.rp_filter = 1"), ("99-a.conf", "-net/ipv4/conf/all/rp_filter=2")];
        assert_eq!(find_override_text(&later).as_deref(), Some("/etc/sysctl.d/99-a.conf:3 2"));
        assert_eq!(find_override_text(&[("99-a.conf", "net.ipv4.conf.all.rp_filter=0x1")]), None, "the same value");
        let twice = [("95-a.conf", "net.ipv4.conf.all.rp_filter=2"), ("99-b.conf", "net.ipv4.conf.all.rp_filter=1")];
        assert_eq!(find_override_text(&twice), None, "the last one counts");
    }

    #[test]
    fn patterns_and_exclusions_do_not_override_a_key() {
        assert_eq!(find_override_text(&[("99-a.conf", "net.ipv4.conf.*.rp_filter = 2")]), None);
        assert_eq!(find_override_text(&[("99-a.conf", "-net.ipv4.conf.all.rp_filter")]), None);
    }
}
