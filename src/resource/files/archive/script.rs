//! Shell code of archives: the state probe, the check of the members, unpacking and removal.

use super::declaration::{ArchiveResource, ArchiveSource, INTO_MODE};
use crate::probe::{CheckProbe, Probe};
use crate::resource::AssessmentContext;
use crate::resource::files::directory::set_ownership;
use crate::resource::shared::shell;
use crate::resource::shared::system_directories::refuse_system_directories;
use crate::script::{ShellFragment, safe_path};

/// Time limit for reading the members, in seconds.
const STATE_LIMIT: u64 = 60;

/// Defines `list DIRECTORY`, which prints a sorted record per entry, each terminated by NUL: type, mode, owner, size,
/// time, name. Size and time of a directory change with its entries, so they are always printed as 0.
const LIST: &str = r#"LC_ALL=C
export LC_ALL
list() {
  cd -- "$1" && find . -mindepth 1 \( -type d -printf 'd %m %U:%G 0 0 %P\0' -o -type l -printf 'l %m %U:%G %s %T@ %P -> %l\0' \
    -o -printf '%y %m %U:%G %s %T@ %P\0' \) | sort -z
}
"#;

/// Prints the stamp line, the number of members, up to 200 entries that differ from the unpacked ones, and up to 200
/// members that are missing or modified. Reads `$FORGE_INTO` and `$FORGE_STAMP`. `comm` prints records that are only in
/// the second list with a leading tab.
const STATE: &str = r#"
if [ -e /var/lib/forge ] && ! [ -x /var/lib/forge ]; then echo '/var/lib/forge: Permission denied' >&2; exit 3; fi
noted= members=0
if [ -f "$FORGE_STAMP" ]; then
  [ -r "$FORGE_STAMP" ] || { echo "$FORGE_STAMP: Permission denied" >&2; exit 3; }
  noted=$(head -n 1 -- "$FORGE_STAMP")
  members=$(tail -n +2 -- "$FORGE_STAMP" | tr -cd '\0' | wc -c)
fi
printf 'stamp %s\nmembers %s\n' "$noted" "$((members))"
if [ -L "$FORGE_INTO" ] || ! [ -d "$FORGE_INTO" ]; then exit 0; fi
[ -r "$FORGE_INTO" ] || { echo "$FORGE_INTO: Permission denied" >&2; exit 3; }
stamped() { if [ -n "$noted" ]; then tail -n +2 -- "$FORGE_STAMP"; fi; }
stamped | { list "$FORGE_INTO" | comm -z -3 /dev/fd/3 -; } 3<&0 | tr '\n\0' '?\n' |
  awk '
    /^\t/ { if (++others <= 200) print "+ " substr($0, 2); next }
    ++missing <= 200 { own[missing] = $0 }
    END {
      if (others > 200) print "more +"
      for (i = 1; i <= missing && i <= 200; i++) print "- " own[i]
      if (missing > 200) print "more -"
    }'
"#;

/// Reads `tar -tv` output with quoted names and fails at the first unsafe member. Names keep their quotes and escapes:
/// a path component always has the same quoted text, and an escape never contains a slash.
const CHECK: &str = r#"
function refuse(why) { printf "forge: member %s %s\n", name, why > "/dev/stderr"; bad = 1; exit 1 }
function inside(text,  parts, n, i) {
  n = split(text, parts, "/")
  for (i = 1; i <= n; i++) if (parts[i] == "..") return 0
  return 1
}
# Returns the length of the quoted text at the beginning of s, with its quotes.
function quoted(s,  i, c) {
  for (i = 2; i <= length(s); i++) {
    c = substr(s, i, 1)
    if (c == "\\") i++
    else if (c == "\"") return i
  }
  return 0
}
# Cuts leading parts and dots off, as tar does with --strip-components.
function cut(text,  parts, n, i, out, left) {
  n = split(text, parts, "/"); left = strip; out = ""
  for (i = 1; i <= n; i++) {
    if (parts[i] == "" || parts[i] == ".") continue
    if (left > 0) { left--; continue }
    out = out (out == "" ? "" : "/") parts[i]
  }
  return out
}
function climbs(text, depth,  parts, n, i, down) {
  n = split(text, parts, "/"); down = 0
  for (i = 1; i <= n; i++) {
    if (parts[i] == "" || parts[i] == ".") continue
    if (parts[i] != "..") { down = 1; continue }
    if (down || --depth < 0) return 1
  }
  return 0
}
{
  type = substr($1, 1, 1)
  start = index($0, "\"")
  name = start ? substr($0, start) : $0
  size = start ? quoted(name) : 0
  if (!size) refuse("cannot be read")
  rest = substr(name, size + 1); name = substr(name, 1, size)
  text = substr(name, 2, size - 2)
  if (substr(text, 1, 1) == "/") refuse("has an absolute name")
  if (!inside(text)) refuse("has `..` in its name")
  if (index("-dlh", type) == 0) refuse("is a device, a pipe or something else that is no file")
  if (substr($1, 4, 1) ~ /[sS]/ || substr($1, 7, 1) ~ /[sS]/) refuse("is set-user-id or set-group-id")
  own = cut(text)
  if (own == "") next
  members[++count] = own
  shown[count] = name
  if (type == "l" || type == "h") {
    start = index(rest, "\"")
    target = substr(rest, start + 1, length(rest) - start - 1)
    if (!start) refuse("has no target")
    if (substr(target, 1, 1) == "/") refuse("leads outside, to \"" target "\"")
    if (type == "h" && (!inside(target) || cut(target) == "")) refuse("leads outside, to \"" target "\"")
    if (type == "l") {
      if (climbs(target, split(own, parts, "/") - 1)) refuse("leads outside, to \"" target "\"")
      links[own] = 1
    }
  }
}
END {
  if (bad) exit 1
  if (!count) { print "forge: the archive has no members that would be unpacked" > "/dev/stderr"; exit 1 }
  for (i = 1; i <= count; i++) {
    n = split(members[i], parts, "/"); above = ""
    for (j = 1; j < n; j++) {
      above = above (j > 1 ? "/" : "") parts[j]
      if (above in links) { name = shown[i]; printf "forge: member %s lies below a link\n", name > "/dev/stderr"; exit 1 }
    }
  }
}
"#;

/// Enters the parent directory of `into`, removes leftovers of killed runs, and creates a staging directory next to
/// `into`.
const PREPARE: &str = r#"
path=$1 stamp=$2 own=$3 strip=$4 run=$5 note=$6 wanted=$7 archive=$8 check=$9
dir=${path%/*} name=${path##*/}
enter "$dir"
if [ -L "./$name" ]; then fail "$path is a symbolic link"; fi
sweep
if [ -e "./$name" ]; then
"#;

const BOX: &str = r#"fi
stage
mkdir -m 0700 -- "./$name" || fail "cannot make $dir/$box/$name"
"#;

/// Copies an archive that other users could modify while it is checked and unpacked. Opens neither links nor pipes (a
/// pipe might never end), and copies at most one byte more than the observed size, so that a growing file cannot fill
/// the disk.
const COPY: &str = r#"
bytes=$1
private_copy() (
  enter "${archive%/*}"
  archive=./${archive##*/}
  set -- $(stat -L -c '%u %f' -- "$archive")
  if [ $# -eq 2 ] && [ -z "$shared$foreign" ] && owned "$1" && [ $((0x$2 & 0x12)) -eq 0 ]; then exit 3; fi
  exec dd if="$archive" iflag=nofollow,nonblock,count_bytes bs=1M count=$((bytes + 1)) status=none
)
private_copy > "./$name.tar"
case $? in
  0) [ "$(stat -c %s -- "./$name.tar")" = "$bytes" ] ||
      fail "$archive has changed since it was looked at: it had $bytes bytes, nothing was unpacked"
    archive=./$name.tar ;;
  3) ;;
  *) fail "cannot read $archive" ;;
esac
"#;

const UNPACK: &str = r#"
have=$(sha256sum < "$archive") || fail "cannot read $archive"
[ "${have%% *}" = "$wanted" ] || fail "$archive has changed since it was looked at: nothing was unpacked"
export LC_ALL=C
tar -tvPf "$archive" --quoting-style=c --numeric-owner --full-time > "./$name.list" || fail "tar cannot read the archive"
awk -v strip="$strip" "$check" "./$name.list" || fail "the archive is refused: nothing was unpacked"
tar -xf "$archive" -C "./$name" --strip-components="$strip" --no-same-owner --same-permissions --no-overwrite-dir ||
  fail "tar cannot unpack the archive: $path was left as it was"
chown -hR -- "$own" "./$name" || fail "cannot give the members to $own"
chmod 00755 -- "./$name" || fail "cannot set the mode of $path"
{ printf '%s\n' "$note"; ( list "./$name" ); } > "./$name.note" || fail "cannot note what was unpacked"
sync -f -- "./$name" || fail "cannot sync $dir/$box"
mkdir -p -- "${stamp%/*}" && mv -fT -- "./$name.note" "$stamp.part" && sync -- "$stamp.part" && mv -fT -- "$stamp.part" "$stamp" ||
  fail "cannot write $stamp"
"#;

/// The stamp is written before the members are moved: a run killed in between shows up as missing members.
const SWAP: &str = r#"
if [ -e "../$name" ] || [ -L "../$name" ]; then mv -T -- "../$name" "./$name.old" || fail "cannot move $path away"; fi
mv -T -- "./$name" "../$name" || { [ ! -e "./$name.old" ] || mv -T -- "./$name.old" "../$name"; fail "cannot rename $dir/$box/$name to $path"; }
sync -- .. || fail "cannot sync $dir"
"#;

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    shell::EXPLAIN_UNSAFE_PATH,
    ("(child): xz: Cannot exec", "`xz` is missing: add a `package` step for `xz-utils` before this one"),
    ("(child): zstd: Cannot exec", "`zstd` is missing: add a `package` step for it before this one"),
    ("(child): bzip2: Cannot exec", "`bzip2` is missing: add a `package` step for it before this one"),
    ("the archive is refused", "repack the archive without this member"),
    ("a file system is mounted", "unmount it first"),
    ("invalid user", "the owner does not exist on the host: add a `user` step before this one"),
    ("invalid group", "the group does not exist on the host: add a `group` step before this one"),
    ("No space left on device", "the file system is full; the previously unpacked files are unchanged"),
    ("has changed since", "another process writes the archive; run forge again"),
];

/// Stands for the digest of an archive that does not exist; no archive has it, so that nothing is unpacked.
pub(super) const NO_ARCHIVE: &str = "absent";

impl ArchiveResource {
    /// Returns the probe of the unpacked members.
    pub(super) fn unpacked_probe(&self) -> Probe {
        Probe::Check(Box::new(CheckProbe {
            id: format!("members under `{}`", self.into),
            script: format!("{LIST}{STATE}"),
            user: None,
            cwd: None,
            env: vec![("FORGE_INTO".to_owned(), self.into.clone()), ("FORGE_STAMP".to_owned(), self.stamp_path())],
            timeout_s: Some(STATE_LIMIT),
        }))
    }

    /// Returns the script that unpacks the archive with the SHA-256 `digest`. An archive on the host has `bytes` bytes.
    pub(super) fn render_unpack(&self, digest: &str, bytes: u64, cx: &AssessmentContext<'_>) -> ShellFragment {
        let path = match &self.from {
            ArchiveSource::Host(path) => path.as_str(),
            ArchiveSource::Tree(..) => "",
        };
        let action = shell::open_private_action()
            .word(&self.into)
            .word(self.stamp_path())
            .word(format!("{}:{}", self.owner, self.group))
            .number(self.strip)
            .word(cx.run)
            .word(format!("{digest} {}", self.stamp_options()))
            .word(digest)
            .word(path)
            .word(CHECK)
            .code("\n")
            .code(LIST)
            .code(safe_path::ENTER_DIRECTORY)
            .code(safe_path::STAGE_IN_BOX)
            .code(PREPARE)
            .code(shell::REFUSE_MOUNTS);
        let action = refuse_system_directories(action).code(BOX);
        let action = match &self.from {
            ArchiveSource::Host(_) => action.code("set --").number(bytes).code(COPY),
            ArchiveSource::Tree(body, _) => action
                .code("archive=./$name.tar\nprintf %s")
                .data(body.bytes())
                .code(" | base64 -d > \"$archive\" || fail \"cannot write $dir/$box/$name.tar\"\n"),
        };
        shell::close_action(action.code(UNPACK).code(SWAP))
    }

    /// Returns the script that sets owner and mode of the directory that holds the members.
    pub(super) fn render_ownership_change(&self, cx: &AssessmentContext<'_>) -> ShellFragment {
        set_ownership(&self.into, &format!("{}:{}", self.owner, self.group), INTO_MODE, cx.run)
    }

    pub(super) fn render_removal(&self) -> ShellFragment {
        let removed = shell::remove_tree(&self.into).code("[ $? -eq 0 ] &&\n");
        removed.append_fragment(shell::close_action(
            shell::open_private_action().word(self.stamp_path()).code("\nrm -f -- \"$1\"\n"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SecretStore;
    use secrecy::ExposeSecret;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    /// Copies the archive `source` of `bytes` bytes in a folder; returns stderr and the size of the copy.
    fn run_copy(shell: &str, folder: &Path, bytes: u64) -> (String, Option<u64>) {
        let source = folder.join("source").to_str().unwrap().to_owned();
        let start = "fail() { printf 'forge: %s\\n' \"$*\" >&2; exit 1; }\narchive=$1 name=into\n";
        let code =
            ShellFragment::new().code(start).code(safe_path::ENTER_DIRECTORY).code("set --").number(bytes).code(COPY);
        let code = code.render(&SecretStore::default()).unwrap();
        let run = std::process::Command::new(shell)
            .current_dir(folder.join("box"))
            .args(["-c", code.expose_secret(), "sh", &source])
            .output()
            .unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.success(), said.is_empty(), "{said}");
        (said, std::fs::metadata(folder.join("box/into.tar")).ok().map(|info| info.len()))
    }

    #[test]
    fn copy_fails_if_the_source_size_changed() {
        for shell in ["dash", "bash"] {
            let dir = tempfile::tempdir().unwrap();
            let source = dir.path().join("source");
            std::fs::create_dir(dir.path().join("box")).unwrap();
            std::fs::write(&source, "x".repeat(3_000_000)).unwrap();
            std::fs::set_permissions(&source, PermissionsExt::from_mode(0o666)).unwrap();
            assert_eq!(run_copy(shell, dir.path(), 3_000_000), (String::new(), Some(3_000_000)));
            let why = |bytes: u64| {
                let path = source.display();
                format!(
                    "forge: {path} has changed since it was looked at: it had {bytes} bytes, nothing was unpacked\n"
                )
            };
            assert_eq!(run_copy(shell, dir.path(), 2_000_000), (why(2_000_000), Some(2_000_001)), "{shell}");
            assert_eq!(run_copy(shell, dir.path(), 4_000_000), (why(4_000_000), Some(3_000_000)), "{shell}");
            // A sparse file larger than any disk.
            std::fs::File::options().write(true).open(&source).unwrap().set_len(1 << 42).unwrap();
            assert_eq!(run_copy(shell, dir.path(), 3_000_000), (why(3_000_000), Some(3_000_001)), "{shell}");
            // A file that only root can modify is read in place.
            std::fs::set_permissions(&source, PermissionsExt::from_mode(0o644)).unwrap();
            assert_eq!(run_copy(shell, dir.path(), 3_000_000), (String::new(), Some(0)), "{shell}");
            std::fs::rename(&source, dir.path().join("other")).unwrap();
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
            symlink("other", &source).unwrap();
            let (said, bytes) = run_copy(shell, dir.path(), 3_000_000);
            assert!(said.ends_with(&format!("forge: cannot read {}\n", source.display())), "{shell}: {said}");
            assert_eq!(bytes, Some(0), "{shell}");
        }
    }
}
