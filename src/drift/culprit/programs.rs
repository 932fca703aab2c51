//! Programs by what they can do to the objects that their arguments name.

/// Read-only programs: naming an object in their arguments is not evidence.
pub(super) const READ_ONLY_PROGRAMS: [&str; 40] = [
    "[",
    "awk",
    "b2sum",
    "cat",
    "cksum",
    "cmp",
    "cut",
    "df",
    "diff",
    "dpkg-query",
    "du",
    "egrep",
    "fgrep",
    "file",
    "find",
    "getfacl",
    "grep",
    "head",
    "hexdump",
    "id",
    "journalctl",
    "less",
    "ls",
    "lsattr",
    "md5sum",
    "more",
    "namei",
    "od",
    "readlink",
    "realpath",
    "rg",
    "sha1sum",
    "sha256sum",
    "sort",
    "stat",
    "strings",
    "tail",
    "test",
    "wc",
    "xxd",
];

/// Programs that keep a file open while the user views it.
pub(super) const EDITOR_PROGRAMS: [&str; 16] = [
    "ed", "editor", "emacs", "ex", "helix", "hx", "jed", "joe", "mcedit", "micro", "nano", "ne", "nvim", "sudoedit",
    "vi", "vim",
];

/// Programs in which a user may run any command without a journal entry.
pub(super) const SHELL_PROGRAMS: [&str; 14] =
    ["bash", "byobu", "csh", "dash", "fish", "ksh", "login", "mc", "screen", "sh", "su", "tcsh", "tmux", "zsh"];

/// Verbs of `systemctl` that change nothing.
const READ_ONLY_UNIT_VERBS: [&str; 13] = [
    "cat",
    "get-default",
    "help",
    "is-active",
    "is-enabled",
    "is-failed",
    "is-system-running",
    "list-dependencies",
    "list-timers",
    "list-unit-files",
    "list-units",
    "show",
    "status",
];

/// Reports whether a command changes nothing, by its name and arguments.
pub(super) fn is_read_only_command(program: &str, arguments: &[String]) -> bool {
    let verb = || arguments.iter().find(|word| !word.starts_with('-'));
    READ_ONLY_PROGRAMS.contains(&program)
        || program == "systemctl" && verb().is_some_and(|verb| READ_ONLY_UNIT_VERBS.contains(&verb.as_str()))
}
