//! Mounts: the kernel's table, fstab, and the devices that sources name. Nothing here opens or queries a mount point,
//! so a network file system whose server is gone cannot block the observation. The directories above a mount point are
//! checked separately, for ten seconds: if users other than root can replace a part of a path, nothing is mounted
//! there.

use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{FstabLine, MountState, Observation, ObservedMount, ProbeReading, UnansweredReason};
use crate::model::UntrustedText;
use crate::script::{ShellFragment, safe_path};
use std::collections::{BTreeMap, BTreeSet};

/// Prints fields for each mount point and source: `point`, both, why forge does not mount them, what a mount lacks,
/// and the path that the mount point has without links; the last three are empty if there is nothing to say.
const POINTS_SNIPPET: &str = r#"need timeout; need stat
forge_points() {
run=$1
shift
while [ $# -gt 1 ]; do
timeout 10 sh -c "$run" sh "$1" "$2" 2>/dev/null &
shift 2
done
wait
}
forge_points"#;

/// A missing directory cannot be replaced. An entry at which something is mounted is not examined: its server may not
/// respond. The kernel's table escapes blanks, so names with blanks are not examined either.
const ONE_POINT_SNIPPET: &str = r#"
fail() { exit 1; }
barred() { printf %s "$*"; exit 9; }
mounted() {
case $1 in *[[:space:]\\]*) return 0 ;; esac
while read -r _ _ _ _ at _; do [ "$at" != "$1" ] || return 0; done </proc/self/mountinfo
return 1
}
real= lack=
why=$(require_fixed_name "$1" && readlink -e -- .)
case $? in
9) ;;
0) real=${why%/}/${1##*/} why=
[ "$real" != "$1" ] || real=
if mounted "$1"; then :
elif [ -L "$1" ]; then lack="$1 is a symbolic link"
elif [ -e "$1" ] && [ ! -d "$1" ]; then lack="$1 is not a directory"
fi ;;
*) why= above=${1%/*}
if [ -d "$above/" ]; then :
elif [ -e "$above" ]; then lack="$above is not a directory"
else lack="directory $above does not exist"
fi ;;
esac
if [ -z "$why" ]; then
why=$(require_fixed_source "$2")
[ $? = 9 ] || why=
fi
case $2 in
//* | /dev/*) ;;
/*) [ -n "$lack" ] || [ -e "$2" ] || lack="the source $2 does not exist" ;;
esac
printf 'point\0%s\0%s\0%s\0%s\0%s\0' "$1" "$2" "$why" "$lack" "$real"
"#;

/// Prints fields: `table` and the kernel's table; `fstab` and its text; for each source that is a device `device`, its
/// name, and the final target of its link. Only names below `/dev` are followed.
const SNIPPET: &str = r#"need cat; need readlink
forge_mounts() {
t=$(cat /proc/self/mountinfo) || exit 2
printf 'table\0%s\0' "$t"
f=
[ ! -e /etc/fstab ] || f=$(cat /etc/fstab) || exit 2
printf 'fstab\0%s\0' "$f"
set -f
for d in $(printf '%s\n' "$t" | sed -n 's/.* - [^ ]* \(\/dev\/[^ ]*\) .*/\1/p' | sort -u) "$@"; do
case $d in /dev/*) ;; *) continue ;; esac
r=$(readlink -e -- "$d") || r=
printf 'device\0%s\0%s\0' "$d" "$r"
done
printf 'end\0'
}
need sed; need sort
forge_mounts"#;

/// Folders in which udev keeps the links for tags.
const TAG_DIRECTORIES: [(&str, &str); 4] = [
    ("UUID=", "/dev/disk/by-uuid/"),
    ("LABEL=", "/dev/disk/by-label/"),
    ("PARTUUID=", "/dev/disk/by-partuuid/"),
    ("PARTLABEL=", "/dev/disk/by-partlabel/"),
];

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("reading the mounts", probes, read_answers);
    let one = ShellFragment::new()
        .code(safe_path::ENTER_DIRECTORY)
        .code(safe_path::REQUIRE_FIXED_NAME)
        .code(ONE_POINT_SNIPPET);
    let points = section.body.code(POINTS_SNIPPET).nested_word(one);
    let points = section
        .probes
        .iter()
        .filter_map(mount_request)
        .fold(points, |body, (path, source)| body.word(path).word(source));
    let body = points.code("\n").code(SNIPPET);
    section.body =
        section.probes.iter().filter_map(mount_request).fold(body, |body, (_, source)| body.word(device_path(source)));
    (!section.probes.is_empty()).then_some(section)
}

fn mount_request(probe: &Probe) -> Option<(&str, &str)> {
    match probe {
        Probe::Mount { path, source } => Some((path, source)),
        _ => None,
    }
}

/// Returns the device name for a source. udev escapes characters that a file name cannot contain.
fn device_path(source: &str) -> String {
    for (tag, folder) in TAG_DIRECTORIES {
        if let Some(value) = source.strip_prefix(tag) {
            let value = value.trim_matches('"');
            return format!("{folder}{}", value.replace('\\', "\\x5c").replace('/', "\\x2f").replace(' ', "\\x20"));
        }
    }
    source.to_owned()
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let seen = if raw.is_complete(&[0]) { MountOutput::parse(&raw.stdout) } else { None };
    for probe in &section.probes {
        let answer =
            seen.as_ref().zip(mount_request(probe)).map(|(seen, (path, source))| seen.answer_probe(path, source));
        out.insert(probe.clone(), answer.unwrap_or_else(|| Err(raw.explain_missing(section))));
    }
}

/// One row of the kernel's table.
struct MountTableRow {
    /// Number of the mount, and of the mount that its point is in.
    id: String,
    parent: String,
    /// `8:1`.
    number: String,
    /// The path within the file system that is visible at the mount point.
    root: String,
    point: String,
    mounted: ObservedMount,
    /// The options of the mount without those of its file system.
    own_options: Vec<String>,
    /// `shared:1`: mounts of one group get each other's mounts. `None` for a private mount.
    peer_group: Option<String>,
}

/// What the directories above a mount point show. A text is empty if there is nothing to say.
struct MountPoint {
    /// Why nothing is mounted there.
    bar: String,
    lack: String,
    real_path: String,
}

/// The parsed output.
struct MountOutput {
    /// For a mount point and a source.
    points: BTreeMap<(String, String), MountPoint>,
    rows: Vec<MountTableRow>,
    fstab: Vec<(String, FstabLine)>,
    devices: BTreeMap<String, String>,
}

impl MountOutput {
    fn parse(stdout: &[u8]) -> Option<Self> {
        let mut fields = NulFields::new(stdout);
        let mut points = BTreeMap::new();
        let table = loop {
            match fields.next()? {
                b"point" => {
                    let [path, source, bar, lack, real_path] = fields.next_row()?;
                    let key = (parse_utf8(path)?.to_owned(), parse_utf8(source)?.to_owned());
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    let (bar, lack, real_path) = (text(bar), text(lack), text(real_path));
                    points.insert(key, MountPoint { bar, lack, real_path });
                }
                b"table" => break fields.next()?,
                _ => return None,
            }
        };
        let [b"fstab", fstab] = fields.next_row()? else { return None };
        let rows: Vec<MountTableRow> = parse_utf8(table)?.lines().map(parse_mountinfo_row).collect::<Option<_>>()?;
        let fstab = String::from_utf8_lossy(fstab);
        let fstab = fstab.lines().zip(1..).filter_map(|(text, line)| parse_fstab_entry(text, line)).collect();
        let mut devices = BTreeMap::new();
        loop {
            match fields.next()? {
                b"device" => {
                    let [name, target] = fields.next_row()?;
                    devices.insert(parse_utf8(name)?.to_owned(), parse_utf8(target)?.to_owned());
                }
                b"end" => return Some(Self { points, rows, fstab, devices }),
                _ => return None,
            }
        }
    }

    fn answer_probe(&self, path: &str, source: &str) -> Result<ProbeReading, UnansweredReason> {
        match self.points.get(&(path.to_owned(), source.to_owned())) {
            None => Err(UnansweredReason::new(format!("the directories above `{path}` did not answer within 10 s"))),
            Some(point) if point.bar.is_empty() => {
                let text = |text: &String| Some(text).filter(|text| !text.is_empty()).map(|text| text.as_str().into());
                let (lack, real_path) = (text(&point.lack), text(&point.real_path));
                let state = MountState { lack, real_path, ..self.mount_state(path, source) };
                Ok(ProbeReading::Mount(Box::new(state)))
            }
            Some(point) => Err(UnansweredReason { barred: true, ..UnansweredReason::new(point.bar.as_str()) }),
        }
    }

    fn mount_state(&self, path: &str, source: &str) -> MountState {
        let below = format!("{}/", path.trim_end_matches('/'));
        let visible = self.list_visible_mounts(path);
        let is_visible = |row: &&MountTableRow| visible.as_ref().is_none_or(|ids| ids.contains(row.id.as_str()));
        let here = self.rows.iter().filter(|row| row.point == path).filter(is_visible);
        MountState {
            mounts: here.map(|row| self.resolve_mount(row)).collect(),
            below: self.rows.iter().filter(|row| row.point.starts_with(&below)).map(|row| row.point.clone()).collect(),
            fstab: self.fstab.iter().filter(|(point, _)| point == path).map(|(_, line)| line.clone()).collect(),
            device: self.resolve_device(&device_path(source)),
            bind: self.resolve_bind(path, source),
            source_restrictions: self.list_source_restrictions(path, source),
            lack: None,
            real_path: None,
        }
    }

    /// Returns the mounts that a walk from the root to `path` meets. A mount that it does not meet is hidden under a later
    /// mount of a directory above it. `None` if the table has no root.
    fn list_visible_mounts(&self, path: &str) -> Option<BTreeSet<&str>> {
        let covers = |row: &MountTableRow| {
            let point = row.point.trim_end_matches('/');
            path.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut at = self.rows.iter().find(|row| row.point == "/")?;
        let mut met = BTreeSet::from([at.id.as_str()]);
        // The first mount on the way is the one with the shortest path; a mount over the whole of `at` comes before it.
        while let Some(next) = self
            .rows
            .iter()
            .filter(|row| row.parent == at.id && covers(row) && !met.contains(row.id.as_str()))
            .min_by_key(|row| row.point.len())
        {
            met.insert(next.id.as_str());
            at = next;
        }
        Some(met)
    }

    fn resolve_mount(&self, row: &MountTableRow) -> ObservedMount {
        let device = self.resolve_device(&row.mounted.source);
        ObservedMount { device, root: format!("{} {}", row.number, row.root), ..row.mounted.clone() }
    }

    fn resolve_device(&self, name: &str) -> Option<String> {
        self.devices.get(name).filter(|target| !target.is_empty()).cloned()
    }

    /// Returns the mount that contains the folder `source`, other than one at `path`.
    fn find_holder(&self, path: &str, source: &str) -> Option<&MountTableRow> {
        let inside = |row: &&MountTableRow| {
            let point = row.point.trim_end_matches('/');
            row.point != path && source.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // Among equal mount points, the later one covers the earlier one.
        let holders = self.rows.iter().filter(inside).filter(|row| !self.is_copy_of_cover(row, path));
        holders.max_by_key(|row| row.point.trim_end_matches('/').len())
    }

    /// Reports whether the kernel made the mount as a copy of one that covers a mount at `path`. What is mounted over a
    /// bind mount is also mounted over its source if both are in one peer group (`mount_namespaces(7)`), as systemd
    /// arranges it; then both show the same, and neither shows the bound directory.
    fn is_copy_of_cover(&self, row: &MountTableRow, path: &str) -> bool {
        let find_parent = |row: &MountTableRow| self.rows.iter().find(|other| other.id == row.parent);
        self.rows.iter().filter(|cover| cover.point == path).any(|cover| {
            let parents = find_parent(cover).filter(|below| below.point == path).zip(find_parent(row));
            (&cover.number, &cover.root) == (&row.number, &row.root)
                && parents.is_some_and(|(one, other)| one.peer_group.is_some() && one.peer_group == other.peer_group)
        })
    }

    /// Returns the root that a bind mount of the folder `source` would have: its place in the file system that contains
    /// it.
    fn resolve_bind(&self, path: &str, source: &str) -> Option<String> {
        let holder = self.find_holder(path, source)?;
        let rest = &source[holder.point.trim_end_matches('/').len()..];
        let root = format!("{}{rest}", holder.root.trim_end_matches('/'));
        Some(format!("{} {}", holder.number, if root.is_empty() { "/" } else { &root }))
    }

    /// Returns the restrictions that a bind mount of the folder `source` takes over from the mount that contains it.
    fn list_source_restrictions(&self, path: &str, source: &str) -> Vec<String> {
        let holder = self.find_holder(path, source);
        let options = holder.into_iter().flat_map(|row| &row.own_options);
        options.filter(|option| RESTRICTIONS.contains(&option.as_str())).cloned().collect()
    }
}

/// Options that restrict the use of a mount.
const RESTRICTIONS: [&str; 4] = ["ro", "noexec", "nosuid", "nodev"];

/// Parses `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue`.
fn parse_mountinfo_row(line: &str) -> Option<MountTableRow> {
    let (own, file_system) = line.split_once(" - ")?;
    let own: Vec<&str> = own.split(' ').collect();
    let [id, parent, number, root, point, options, tags @ ..] = own.as_slice() else { return None };
    let mut parts = file_system.split(' ');
    let (fstype, source, more) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
    let own_options: Vec<String> = options.split(',').map(unescape_octal).collect();
    let mut all = own_options.clone();
    for option in more.split(',').filter(|o| !o.is_empty()).map(unescape_octal) {
        // The file system's own `rw` says nothing about a mount that is read-only.
        if !all.contains(&option) && option != "rw" {
            all.push(option);
        }
    }
    let mounted = ObservedMount {
        source: unescape_octal(source),
        fstype: fstype.to_owned(),
        options: all,
        ..ObservedMount::default()
    };
    Some(MountTableRow {
        id: (*id).to_owned(),
        parent: (*parent).to_owned(),
        number: (*number).to_owned(),
        root: unescape_octal(root),
        point: unescape_octal(point),
        mounted,
        own_options,
        peer_group: tags.iter().find(|tag| tag.starts_with("shared:")).map(|tag| (*tag).to_owned()),
    })
}

/// Returns the mount point of a line of fstab; `None` for comments.
fn parse_fstab_entry(text: &str, line: u64) -> Option<(String, FstabLine)> {
    let mut fields = text.split_ascii_whitespace();
    if fields.next()?.starts_with('#') {
        return None;
    }
    let point = unescape_octal(fields.next()?);
    let point = if point.len() > 1 { point.trim_end_matches('/').to_owned() } else { point };
    Some((point, FstabLine { line, text: UntrustedText::from(text) }))
}

/// Decodes `\040` and the like: a backslash and three octal digits represent a byte.
fn unescape_octal(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let byte = code.and_then(|code| u8::from_str_radix(super::section::parse_utf8(code)?, 8).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed, recorded};

    /// Answers for a host on which only root can replace the path.
    fn ask(path: &str, source: &str, raw: &SectionOutput) -> Result<MountState, String> {
        let point = format!("point\0{path}\0{source}\0\0\0\0").into_bytes();
        ask_raw(path, source, &printed([point, raw.stdout.clone()].concat()))
    }

    fn ask_raw(path: &str, source: &str, raw: &SectionOutput) -> Result<MountState, String> {
        let probe = Probe::Mount { path: path.to_owned(), source: source.to_owned() };
        let seen = answers(&build_section(vec![probe.clone()]).expect("a section"), raw);
        match seen.get(&probe) {
            Ok(ProbeReading::Mount(state)) => Ok(MountState::clone(state)),
            Ok(other) => panic!("{other:?}"),
            Err(unknown) => Err(unknown.why),
        }
    }

    fn sample() -> SectionOutput {
        let raw = recorded(include_str!("../../tests/fixtures/probe/mount.txt"));
        printed(String::from_utf8(raw.stdout).unwrap().replace("<BS>", "\\"))
    }

    #[test]
    fn mount_is_parsed_with_device_options_and_fstab_line() {
        let data = ask("/data", "UUID=2a7c11f0-7f0e-4a6f-9d6f-6d2f3c1b9a55", &sample()).unwrap();
        let [mounted] = data.mounts.as_slice() else { panic!("{data:?}") };
        assert_eq!((mounted.source.as_str(), mounted.fstype.as_str()), ("/dev/mapper/vg-data", "ext4"));
        assert_eq!(mounted.device, data.device);
        assert_eq!(data.device.as_deref(), Some("/dev/dm-0"));
        assert_eq!(mounted.options, ["rw", "noatime", "errors=remount-ro"]);
        assert_eq!(data.fstab.iter().map(|line| line.line).collect::<Vec<_>>(), [4, 6]);
        assert_eq!(data.below, ["/data/with space"]);
    }

    #[test]
    fn bind_mount_can_be_read_only_on_a_writable_file_system() {
        let bind = ask("/srv/ro", "/data/pub", &sample()).unwrap();
        assert_eq!(bind.mounts[0].options, ["ro", "relatime", "errors=remount-ro"]);
        assert_eq!(bind.bind, Some(bind.mounts[0].root.clone()));
        assert_eq!(ask("/x", "/etc", &sample()).unwrap().bind.as_deref(), Some("8:1 /etc"));
        assert_eq!(ask("/x", "/srv/ro/a", &sample()).unwrap().source_restrictions, ["ro"]);
        assert_eq!(bind.source_restrictions, [""; 0]);
    }

    /// After an error the kernel makes the file system read-only, not the mount: a bind mount does not take that over.
    #[test]
    fn read_only_file_system_is_no_restriction_of_its_mount() {
        let row =
            parse_mountinfo_row("36 35 8:1 / / rw,noexec shared:1 - ext4 /dev/sda1 ro,errors=remount-ro").unwrap();
        assert_eq!(row.own_options, ["rw", "noexec"]);
        assert!(row.mounted.options.contains(&"ro".to_owned()));
    }

    /// origin: `mount --bind /srv /at`, then `mount -t tmpfs other /at`, on Debian 12
    #[test]
    fn mount_over_a_bind_mount_is_not_its_source() {
        let table = |cover: &str| {
            printed(format!(
                "table\0111 110 254:0 / / rw,relatime shared:278 - ext4 /dev/vda rw\n\
                 137 111 254:0 /srv /at rw,relatime shared:278 - ext4 /dev/vda rw\n{cover}\0fstab\0\0end\0"
            ))
        };
        let bound = ask("/at", "/srv", &table("")).unwrap();
        assert_eq!(bound.bind, Some(bound.mounts.last().unwrap().root.clone()));
        let copied = "138 137 0:60 / /at rw,relatime shared:304 - tmpfs other rw\n\
             139 111 0:60 / /srv rw,relatime shared:304 - tmpfs other rw\n";
        let covered = ask("/at", "/srv", &table(copied)).unwrap();
        assert_eq!(covered.mounts.last().unwrap().root, "0:60 /");
        assert_eq!(covered.bind.as_deref(), Some("254:0 /srv"));
        // A file system at the source that was bound over something else does not count as a copy.
        let own = "138 111 0:61 / /at rw shared:305 - tmpfs first rw\n139 111 8:1 / /srv rw shared:306 - ext4 /dev/sda1 rw\n\
             140 138 8:1 / /at rw shared:306 - ext4 /dev/sda1 rw\n";
        assert_eq!(ask("/at", "/srv", &table(own)).unwrap().bind.as_deref(), Some("8:1 /"));
    }

    #[test]
    fn mount_below_a_later_mount_is_hidden() {
        let row = |id, parent, point: &str| format!("{id} {parent} 0:{id} / {point} rw - tmpfs t{id} rw\n");
        let ask = |rows: &[String]| ask("/a/b", "t2", &printed(format!("table\0{}\0fstab\0\0end\0", rows.concat())));
        let sources = |rows: &[String]| {
            let mounts = ask(rows).unwrap().mounts;
            mounts.into_iter().map(|mount| mount.source).collect::<Vec<_>>().join(" ")
        };
        let (root, own) = (row(1, 0, "/"), row(2, 1, "/a/b"));
        assert_eq!(sources(&[root.clone(), own.clone()]), "t2");
        assert_eq!(sources(&[root.clone(), own.clone(), row(3, 1, "/a")]), "", "hidden");
        assert_eq!(sources(&[root.clone(), own.clone(), row(3, 1, "/a"), row(4, 3, "/a/b")]), "t4");
        assert_eq!(sources(&[root.clone(), row(3, 1, "/a"), row(2, 3, "/a/b"), row(5, 2, "/a/b")]), "t2 t5", "stacked");
        assert_eq!(
            sources(&[root, row(3, 1, "/a"), row(6, 3, "/a"), row(2, 3, "/a/b")]),
            "",
            "a second one over the first"
        );
    }

    #[test]
    fn mount_points_with_spaces_and_unknown_labels_are_parsed() {
        let odd = ask("/data/with space", "LABEL=none such", &sample()).unwrap();
        assert_eq!((odd.mounts.len(), odd.fstab.len(), odd.device), (1, 1, None));
        assert_eq!(device_path("LABEL=a b/c"), "/dev/disk/by-label/a\\x20b\\x2fc");
    }

    #[test]
    fn replaceable_or_unresponsive_mount_point_is_unknown() {
        let rest = "table\0\0fstab\0\0end\0";
        let why = ask_raw("/home/a/m", "tmpfs", &printed(format!("point\0/home/a/m\0tmpfs\0user a can\0\0\0{rest}")));
        assert_eq!(why, Err("user a can".to_owned()));
        let other = ask_raw("/nfs/m", "tmpfs", &printed(format!("point\0/home/a/m\0tmpfs\0\0\0\0{rest}")));
        assert_eq!(other, Err("the directories above `/nfs/m` did not answer within 10 s".to_owned()));
    }

    #[test]
    fn truncated_answer_is_unknown() {
        assert!(ask("/data", "tmpfs", &printed("table\0\0fstab\0\0")).is_err());
        assert!(ask("/data", "tmpfs", &printed("table\0half a row\0fstab\0\0end\0")).is_err());
        assert_eq!(ask("/data", "tmpfs", &printed("table\0\0fstab\0\0end\0")), Ok(MountState::default()));
    }
}
