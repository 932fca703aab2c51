//! The folder for control sockets of ssh.

use camino::{Utf8Path, Utf8PathBuf};

/// Maximum length of the folder's path. A socket's path may have 107 bytes on Linux and 103 on macOS; ssh adds a suffix
/// of 17 while it creates the socket, and our part below the folder takes 15.
const PATH_CAP: usize = 70;
/// Returns the folder for control sockets: `forge` below the user's runtime folder (`$XDG_RUNTIME_DIR`, read by the
/// caller), or `/tmp/forge-UID` if there is none or its path is too long for a socket.
pub fn control_dir(runtime: Option<&Utf8Path>) -> Utf8PathBuf {
    let short = |dir: &Utf8PathBuf| {
        dir.is_absolute() && dir.as_str().len() <= PATH_CAP && dir.parent().is_some_and(Utf8Path::is_dir)
    };
    let uid = rustix::process::getuid().as_raw();
    runtime.map(|dir| dir.join("forge")).filter(short).unwrap_or_else(|| format!("/tmp/forge-{uid}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_folder_that_is_too_long_or_missing_is_not_used() {
        let tmp = format!("/tmp/forge-{}", rustix::process::getuid().as_raw());
        assert_eq!(control_dir(None), tmp);
        assert_eq!(control_dir(Some(Utf8Path::new("/nonexistent"))), tmp);
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        assert_eq!(control_dir(Some(&path)), path.join("forge"));
        let long = path.join("x".repeat(80));
        std::fs::create_dir(&long).unwrap();
        assert_eq!(control_dir(Some(&long)), tmp);
    }
}
