//! Observes the path of a large file with a dedicated probe, which reads the whole file only if it may have changed
//! since forge installed it.

use crate::model::UntrustedText;
use crate::probe::{CheckProbe, Observation, PathInfo, PathState, PathType, Probe, ProbeOutput, UnansweredReason};
use crate::resource::shared::support::{output, sha256_hex};

/// Time limit for reading the file, in seconds.
const LIMIT: u64 = 900;

/// Prints `absent`, or `found` with type, owner, group, mode, size, inode and times, followed by the target of a link
/// or the digest of a file. `$FORGE_NOTE` caches the digest with size, inode, times and owner from when forge installed
/// the file. The ctime of an inode cannot be set back, so any write invalidates the note. If `$FORGE_NOTE` is empty,
/// the file is not read.
const SCRIPT: &str = r#"LC_ALL=C
export LC_ALL
found=$(stat -c '%F|%U|%G|%a|%s|%i|%.9Y|%.9Z|%u|%g' -- "$FORGE_PATH" 2>&1) || {
  case $found in
    *': No such file or directory'|*': Not a directory') echo absent; exit 0 ;;
  esac
  printf '%s\n' "$found" >&2
  exit 3
}
printf 'found %s\n' "$found"
case $found in
  regular*)
    [ -n "$FORGE_NOTE" ] || exit 0
    sum=
    while read -r seen noted; do
      if [ "$seen" = "${found#*|*|*|*|}" ]; then sum=$noted; fi
    done 2>/dev/null <"$FORGE_NOTE"
    [ -n "$sum" ] || sum=$(sha256sum <"$FORGE_PATH") || exit 3
    printf 'sha256 %s\n' "${sum%% *}" ;;
  'symbolic link'*) printf 'target %s\n' "$(readlink -- "$FORGE_PATH")" ;;
esac
"#;

/// Returns the path of the note that caches the digest of the file at `path`.
pub(in crate::resource) fn note_path(path: &str) -> String {
    format!("/var/lib/forge/artifacts/{}", &sha256_hex(path.as_bytes())[..32])
}

/// Returns the probe of the file at `path`; without `digest` the content is not read.
pub(in crate::resource) fn content_probe(path: &str, digest: bool) -> Probe {
    let note = if digest { note_path(path) } else { String::new() };
    Probe::Check(Box::new(CheckProbe {
        id: format!("content of `{path}`"),
        script: SCRIPT.to_owned(),
        user: None,
        cwd: None,
        env: vec![("FORGE_PATH".to_owned(), path.to_owned()), ("FORGE_NOTE".to_owned(), note)],
        timeout_s: Some(LIMIT),
    }))
}

/// Returns the result of [`content_probe`].
///
/// # Errors
/// The host could not read the path.
pub(in crate::resource) fn content_state(
    seen: &Observation,
    path: &str,
    digest: bool,
) -> Result<PathState, UnansweredReason> {
    let output = output(seen, &content_probe(path, digest))?;
    let failed =
        || UnansweredReason::new(format!("`{path}` could not be read")).with_message(output.stderr.raw().trim());
    match output.status {
        0 => parse_path_state(output).ok_or_else(failed),
        _ => Err(failed()),
    }
}

fn parse_path_state(output: &ProbeOutput) -> Option<PathState> {
    let mut lines = output.stdout.raw().lines();
    let Some(found) = lines.next()?.strip_prefix("found ") else {
        return (output.stdout.raw().trim() == "absent").then_some(PathState::Absent);
    };
    let fields: Vec<&str> = found.split('|').collect();
    let [kind, owner, group, mode, size, _, mtime, ctime, uid, gid] = fields.as_slice() else { return None };
    let named = |name: &str, number: &str| UntrustedText::from(if name == "UNKNOWN" { number } else { name });
    let below = lines.next();
    let info = PathInfo {
        kind: match *kind {
            "regular file" | "regular empty file" => PathType::File,
            "directory" => PathType::Directory,
            "symbolic link" => PathType::Symlink,
            _ => PathType::Other,
        },
        owner: named(owner, uid),
        group: named(group, gid),
        mode: u32::from_str_radix(mode, 8).ok()?,
        size: size.parse().ok()?,
        mtime: mtime.parse().ok()?,
        ctime: ctime.parse().ok()?,
        sha256: below.and_then(|line| line.strip_prefix("sha256 ")).map(str::to_owned),
        body: None,
        target: below.and_then(|line| line.strip_prefix("target ")).map(UntrustedText::from),
        dangling: false,
    };
    Some(PathState::Present(Box::new(info)))
}
