//! The folder of control sockets on this machine: private, with a short path, and cleaned of leftovers of killed runs.

use super::{ConnectionTarget, TransportError, TransportErrorKind};
use camino::{Utf8Path, Utf8PathBuf};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// Minimum age of leftovers: younger folders may belong to a run that is connecting.
const LEFTOVER_AGE: Duration = Duration::from_secs(120);
const DIR_PREFIX: &str = "s";
/// Prefix of the sockets of persistent connections.
const KEPT: &str = "k";

/// Creates the folder if it does not exist, and checks that no other user can access it.
pub(super) fn prepare_control_dir(dir: &Utf8Path) -> Result<(), TransportError> {
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(unusable_dir_error(dir, &error.to_string()));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(dir).map_err(|error| unusable_dir_error(dir, &error.to_string()))?;
    let ours = found.uid() == rustix::process::getuid().as_raw();
    match (found.is_dir(), ours, found.mode() & 0o077) {
        (true, true, 0) => Ok(()),
        (false, ..) => Err(unusable_dir_error(dir, "not a directory")),
        (_, false, _) => Err(unusable_dir_error(dir, "it belongs to another user")),
        _ => Err(unusable_dir_error(dir, "other users can access it")),
    }
}

/// Checks that control sockets can be kept in `dir`, which is created if it does not exist.
///
/// # Errors
/// It cannot be created, or other users can access it.
pub fn check_control_dir(dir: &Utf8Path) -> Result<(), TransportError> {
    prepare_control_dir(dir)
}

fn unusable_dir_error(dir: &Utf8Path, why: &str) -> TransportError {
    TransportError::new(TransportErrorKind::Controller, format!("cannot keep control sockets in `{dir}`: {why}"))
        .hint(format!("remove `{dir}`, or set XDG_RUNTIME_DIR to a directory that belongs to you"))
}

/// Creates a fresh folder for one connection; its name's prefix identifies leftovers.
pub(super) fn create_connection_dir(dir: &Utf8Path) -> Result<TempDir, TransportError> {
    tempfile::Builder::new()
        .prefix(DIR_PREFIX)
        .tempdir_in(dir)
        .map_err(|error| unusable_dir_error(dir, &error.to_string()))
}

/// Removes leftovers of dead connections, once per folder and process: a run opens many connections.
pub(super) fn clean_leftovers_once(dir: &Utf8Path) {
    static CLEANED: Mutex<BTreeSet<Utf8PathBuf>> = Mutex::new(BTreeSet::new());
    if CLEANED.lock().unwrap_or_else(PoisonError::into_inner).insert(dir.to_owned()) {
        clean_leftovers(dir);
    }
}

fn clean_leftovers(dir: &Utf8Path) {
    let Ok(entries) = fs_err::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Another run may be cleaning at the same time; the second finds nothing.
        if name.starts_with(DIR_PREFIX) && is_old(&path) && UnixStream::connect(path.join("master")).is_err() {
            let _ = fs::remove_dir_all(&path);
        } else if is_kept_socket_name(&name) && is_dead_socket(&path) {
            let _ = fs_err::remove_file(&path);
        }
    }
}

/// Reports whether a socket exists that nothing listens on, and that no run has replaced in the meantime.
fn is_dead_socket(path: &std::path::Path) -> bool {
    let found =
        || fs::symlink_metadata(path).ok().filter(|found| found.file_type().is_socket()).map(|found| found.ino());
    let Some(before) = found().filter(|_| is_old(path)) else { return false };
    let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    UnixStream::connect(path).is_err_and(refused) && found() == Some(before)
}

/// Reports whether [`kept_socket_path`] creates such names.
fn is_kept_socket_name(name: &str) -> bool {
    let digest = name.strip_prefix(KEPT).unwrap_or_default();
    digest.len() == 12 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_old(path: &std::path::Path) -> bool {
    let age = fs_err::metadata(path).ok().and_then(|found| found.modified().ok()).and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age > LEFTOVER_AGE)
}

/// Returns the socket path of a persistent connection to `target`; the same target gives the same path.
pub(super) fn kept_socket_path(target: &ConnectionTarget) -> Utf8PathBuf {
    let ConnectionTarget { address, user, port, identity, config, known_hosts, jump, host_key, .. } = target;
    let text = format!("{:?}", (address, user, port, identity, config, known_hosts, jump, host_key));
    let digest = Sha256::digest(text.as_bytes());
    let name: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    target.socket_folder().join(format!("{KEPT}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn temporary_dir() -> (TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        (folder, path)
    }

    #[test]
    fn control_dir_must_be_private() {
        let (_folder, path) = temporary_dir();
        let dir = path.join("forge");
        prepare_control_dir(&dir).unwrap();
        prepare_control_dir(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        let error = prepare_control_dir(&dir).unwrap_err();
        assert_eq!(error.message, format!("cannot keep control sockets in `{dir}`: other users can access it"));
    }

    #[test]
    fn symlink_as_control_dir_is_refused() {
        let (_folder, path) = temporary_dir();
        std::os::unix::fs::symlink("/tmp", path.join("forge")).unwrap();
        assert!(prepare_control_dir(&path.join("forge")).unwrap_err().message.ends_with("not a directory"));
    }

    #[test]
    fn stale_dirs_are_removed_and_live_ones_kept() {
        let (_folder, path) = temporary_dir();
        let (dead, live, young) = (path.join("sdead"), path.join("slive"), path.join("syoung"));
        for dir in [&dead, &live, &young] {
            fs::create_dir(dir).unwrap();
        }
        let _listener = std::os::unix::net::UnixListener::bind(live.join("master")).unwrap();
        let long_ago = std::time::SystemTime::now() - 2 * LEFTOVER_AGE;
        for dir in [&dead, &live] {
            fs::File::open(dir).unwrap().set_modified(long_ago).unwrap();
        }
        clean_leftovers(&path);
        assert_eq!((dead.exists(), live.exists(), young.exists()), (false, true, true));
    }

    #[test]
    fn stale_sockets_of_kept_connections_are_removed() {
        let (_folder, path) = temporary_dir();
        let target = |address: &str| ConnectionTarget {
            address: address.into(),
            control_dir: path.clone(),
            ..ConnectionTarget::default()
        };
        let (dead, live) = (kept_socket_path(&target("a")), kept_socket_path(&target("b")));
        let (foreign, file) = (path.join("keys"), path.join("k0123456789ab"));
        let bind = |at: &Utf8PathBuf| std::os::unix::net::UnixListener::bind(at).unwrap();
        drop((bind(&dead), bind(&foreign)));
        let _listener = bind(&live);
        fs::write(&file, "").unwrap();
        let past = jiff::Timestamp::now().as_second() - 2 * LEFTOVER_AGE.as_secs() as i64;
        for at in [&dead, &live, &foreign, &file] {
            let touched = std::process::Command::new("touch").args(["-d", &format!("@{past}"), at.as_str()]).status();
            assert!(touched.unwrap().success());
        }
        let young = kept_socket_path(&target("c"));
        drop(bind(&young));
        clean_leftovers(&path);
        let there = [&dead, &live, &foreign, &file, &young].map(|at| at.exists());
        assert_eq!(there, [false, true, true, true, true]);
    }
}
