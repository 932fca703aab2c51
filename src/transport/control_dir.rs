//! Chooses the folder of control sockets on this machine.

use camino::{Utf8Path, Utf8PathBuf};

/// Maximum length of the folder's path. A socket's path may have 107 bytes on Linux and 103 on macOS; ssh adds a suffix
/// of 17 while it creates the socket, and our part below the folder takes 15.
pub(super) const PATH_CAP: usize = 70;

/// Returns the folder for control sockets: `forge` below the user's runtime folder (`$XDG_RUNTIME_DIR`, read by the
/// caller), or `/tmp/forge-UID` if there is none or its path is too long for a socket.
pub fn control_dir(runtime: Option<&Utf8Path>) -> Utf8PathBuf {
    let short = |dir: &Utf8PathBuf| {
        dir.is_absolute() && dir.as_str().len() <= PATH_CAP && dir.parent().is_some_and(Utf8Path::is_dir)
    };
    let uid = rustix::process::getuid().as_raw();
    runtime.map(|dir| dir.join("forge")).filter(short).unwrap_or_else(|| format!("/tmp/forge-{uid}").into())
}
