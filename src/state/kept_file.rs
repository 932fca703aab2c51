//! Files that a host keeps next to its records: they are read with them, in one round trip.

use crate::script::ShellFragment;

/// Returns the script that replaces a file next to the records atomically, or removes it. Runs under the lock.
pub fn build_kept_file_script(name: &str, content: Option<String>) -> ShellFragment {
    const FOLDER: &str = "umask 077; mkdir -p /var/lib/forge/applied && cd /var/lib/forge/applied || exit 1\nset --";
    const WRITE: &str = r#"
printf %s "$2" | base64 -d >".new.$1" && sync ".new.$1" && mv -f ".new.$1" "$1" || exit 1
"#;
    let named = ShellFragment::new().code(FOLDER).word(name);
    match content {
        None => named.code("\nrm -f \"$1\" || exit 1\n"),
        Some(content) => named.data(content.into_bytes()).code(WRITE),
    }
}
