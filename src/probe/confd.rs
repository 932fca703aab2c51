//! Folders of configuration snippets (`sysctl.d`, `modprobe.d`, `modules-load.d`): all their files and lines, in the
//! order in which they take effect.

use super::ConfLine;
use super::section::{NulFields, parse_utf8};
use std::collections::BTreeMap;

/// `forge_confd DIR…`, highest priority first, prints fields: `file` and a path for each snippet; `lines`, followed by
/// repetitions of path, NUL, number, colon and one line, as printed by `grep`; `end`. Empty lines and comments are
/// omitted. A link to `/dev/null` has no lines but still masks its name.
pub(super) const SNIPPET: &str = r#"need grep
forge_confd() {
n=$#
for d; do
for f in "$d"/*.conf; do
[ -e "$f" ] || [ -L "$f" ] || continue
printf 'file\0%s\0' "$f"
[ ! -f "$f" ] || set -- "$@" "$f"
done
done
shift "$n"
printf 'lines\0'
[ "$#" = 0 ] || grep -aHnZv '^[[:space:]]*\([#;].*\)\{0,1\}$' -- "$@" || [ "$?" = 1 ] || exit 2
printf 'end\0'
}
"#;

/// Parses the output of `forge_confd`, up to and including `end`; `None` if it is malformed.
pub(super) fn read_conf_lines(fields: &mut NulFields<'_>) -> Option<Vec<ConfLine>> {
    // The first folder that contains a name wins; a sorted map gives the order in which programs read names.
    let mut winners: BTreeMap<String, (String, Vec<ConfLine>)> = BTreeMap::new();
    loop {
        match fields.next()? {
            b"file" => {
                let path = parse_utf8(fields.next()?)?.to_owned();
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                winners.entry(name).or_insert((path, Vec::new()));
            }
            b"lines" => break,
            _ => return None,
        }
    }
    while let Some(line) = read_conf_line(fields)? {
        let name = line.file.rsplit('/').next().unwrap_or_default();
        let winner = winners.get_mut(name)?;
        if winner.0 == line.file {
            winner.1.push(line);
        }
    }
    Some(winners.into_values().flat_map(|(_, lines)| lines).collect())
}

/// Parses one line as printed by `grep -HnZ`; `Some(None)` at the end.
pub(super) fn read_conf_line(fields: &mut NulFields<'_>) -> Option<Option<ConfLine>> {
    let file = parse_utf8(fields.next()?)?.to_owned();
    if file == "end" {
        return Some(None);
    }
    let rest = fields.next_line()?;
    let rest = String::from_utf8_lossy(rest);
    let (number, text) = rest.split_once(':')?;
    Some(Some(ConfLine { file, line: number.parse().ok()?, text: text.trim().to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(printed: &str) -> Option<Vec<(String, String)>> {
        let lines = read_conf_lines(&mut NulFields::new(printed.as_bytes()))?;
        Some(lines.into_iter().map(|line| (format!("{}:{}", line.file, line.line), line.text)).collect())
    }

    #[test]
    fn files_are_sorted_by_name_and_duplicates_overridden() {
        let printed = "file\0/etc/x.d/50.conf\0file\0/etc/x.d/99.conf\0file\0/usr/lib/x.d/10.conf\0\
                       file\0/usr/lib/x.d/50.conf\0lines\0/etc/x.d/50.conf\x003:ours\n\
                       /usr/lib/x.d/10.conf\x001: first:one \n/usr/lib/x.d/50.conf\x001:masked\nend\0";
        let read = read(printed).unwrap();
        let pairs: Vec<(&str, &str)> = read.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(pairs, [("/usr/lib/x.d/10.conf:1", "first:one"), ("/etc/x.d/50.conf:3", "ours")]);
    }

    #[test]
    fn empty_file_masks_file_of_the_same_name() {
        let printed = "file\0/etc/x.d/50.conf\0file\0/usr/lib/x.d/50.conf\0lines\0\
                       /usr/lib/x.d/50.conf\x001:masked\nend\0";
        assert_eq!(read(printed), Some(vec![]));
    }

    #[test]
    fn truncated_output_is_rejected() {
        assert_eq!(read("file\0/etc/x.d/50.conf\0lines\0"), None);
        assert_eq!(read("file\0/etc/x.d/50.conf\0lines\0/etc/x.d/50.conf\x001:a"), None);
        assert_eq!(read("nonsense\0"), None);
    }
}
