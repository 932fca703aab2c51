//! Directories without which a host does not boot, or cannot be reached.

use super::support::bad_value;
use crate::diag::Diag;
use crate::script::ShellFragment;

/// Directories that every host needs. Entries below them may be removed.
const SYSTEM_DIRECTORIES: &[&str] = &[
    "/boot/efi",
    "/boot/grub",
    "/etc/apt",
    "/etc/default",
    "/etc/init.d",
    "/etc/pam.d",
    "/etc/security",
    "/etc/ssh",
    "/etc/ssl",
    "/etc/sudoers.d",
    "/etc/systemd",
    "/etc/systemd/system",
    "/root/.ssh",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/systemd",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var/cache",
    "/var/lib",
    "/var/lib/dpkg",
    "/var/lib/forge",
    "/var/lib/rpm",
    "/var/lib/systemd",
    "/var/log",
    "/var/spool",
    "/var/tmp",
];

/// Reports whether the kernel and udev own the path. `/dev/shm` is a file system for programs.
pub(in crate::resource) fn is_device_path(path: &str) -> bool {
    path.starts_with("/dev/") && !path.starts_with("/dev/shm/")
}

/// Rejects a path at which a declared entry would take the place of a device.
pub(in crate::resource) fn check_writable(path: &str) -> Result<(), Diag> {
    match is_device_path(path) {
        true => Err(bad_value(describe_device_path(path))
            .with_field("path")
            .hint("an entry there would replace a device for all programs; declare a path outside of /dev")),
        false => Ok(()),
    }
}

/// Returns why nothing is written at a path of a device.
pub(in crate::resource) fn describe_device_path(path: &str) -> String {
    format!("`{path}` is below /dev, where the kernel and udev make the entries")
}

/// Rejects paths that every host needs.
pub(in crate::resource) fn check_removable(path: &str) -> Result<(), Diag> {
    if path.matches('/').count() < 2 {
        return Err(bad_value(format!("`{path}` is a top-level directory and is never removed")));
    }
    if is_device_path(path) {
        return Err(bad_value(format!("`{path}` is below /dev and is never removed"))
            .hint("remove the rule of udev or the module that makes it"));
    }
    if SYSTEM_DIRECTORIES.contains(&path) {
        return Err(bad_value(format!("`{path}` is a system directory and is never removed"))
            .hint("list the entries below it that should be removed"));
    }
    Ok(())
}

/// Appends code that fails if the directory at `$real`, its path without links, is one that [`check_removable`] rejects: a
/// link above a declared path can lead to it. Requires `fail` and `path`.
pub(in crate::resource) fn refuse_system_directories(action: ShellFragment) -> ShellFragment {
    let action = action.code(REFUSE_TOP_LEVEL).code("for system in");
    let action = SYSTEM_DIRECTORIES.iter().fold(action, |action, name| action.word(*name));
    action.code(REFUSE_SYSTEM)
}

const REFUSE_TOP_LEVEL: &str = r#"case $real in
  /*/*) ;;
  *) fail "$path is $real, a top-level directory, which is never removed" ;;
esac
"#;

const REFUSE_SYSTEM: &str = r#"; do
  [ "$real" != "$system" ] || fail "$path is $real, a system directory, which is never removed"
done
"#;
