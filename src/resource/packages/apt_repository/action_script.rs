//! Renders the commands of a repository: the new source is tested separately, then installed.

use super::apt_lists;
use super::declaration::AptRepositoryResource;
use crate::resource::packages::package::action_script as apt;
use crate::resource::shared::package_lock;
use crate::resource::shared::shell;
use crate::script::ShellFragment;

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    ("NO_PUBKEY", "the repository is signed with a different key than the declared one"),
    ("is not signed", "the repository has no signature; `trusted: true` skips signature checks"),
    ("The following signatures were invalid", "the repository's signature is expired or invalid"),
    ("does not have a Release file", "the suite does not exist at this URI"),
    ("Malformed entry", "apt cannot parse the sources file named above"),
    ("Could not resolve", "the host cannot resolve the repository's host name"),
    ("Could not connect", "the host cannot connect to the repository"),
    ("Could not handshake", "the host does not trust the repository's certificate; install `ca-certificates`"),
    ("apt-get: not found", "the host has no apt"),
    package_lock::EXPLAIN,
    ("No space left on device", "the file system is full; nothing was installed"),
];

/// Reads `$name`. The directory is world-readable because apt reads the key as its own user (`_apt`).
const PREPARE_TRIAL: &str = r#"
dir=/run/forge-apt-$name
rm -rf -- "$dir"
mkdir -m 755 -- "$dir" || fail "cannot make $dir"
trap 'rm -rf -- "$dir"' EXIT
trap 'exit 143' HUP INT TERM
"#;

const UPDATE_INDEX: &str = r#"
apt -o "Dir::Etc::sourcelist=$dir/trial.sources" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 \
  -o APT::Update::Error-Mode=any update || fail "apt cannot use the repository: nothing was put in place"
"#;

/// Defines `put FILE PATH`, which replaces the file atomically: readers see the complete old or new file.
pub(in crate::resource::packages) const PUT_FUNCTION: &str = r#"
put() {
  folder=${2%/*}
  [ -d "$folder/" ] || mkdir -m 755 -- "$folder" || fail "cannot make $folder"
  tmp=$folder/.${2##*/}.forge
  cp -- "$1" "$tmp" && chown 0:0 -- "$tmp" && chmod 644 -- "$tmp" && sync -- "$tmp" && mv -fT -- "$tmp" "$2" ||
    fail "cannot write $2"
}
"#;

/// Updates the ctime of the indexes: apt keeps the mtime of an unchanged index, but this refresh must be visible. The index of
/// a `file:` URI can be a link to the repository itself, which may be read-only.
const TOUCH_INDEXES: &str = r#"
for index; do
  if [ -e "$index" ]; then touch -h -m -r "$index" -- "$index" || fail "cannot note that $index was looked at"; fi
done
"#;

pub(super) fn render_install(want: &AptRepositoryResource) -> ShellFragment {
    let action = apt::open_apt_script(want.lock_timeout, "").code("set --").word(&want.name).code("\nname=$1\n");
    let trial_key = want.keyring.as_ref().map(|key| {
        let name = key.path.rsplit('/').next().unwrap_or_default();
        format!("/run/forge-apt-{}/{name}", want.name)
    });
    let trial = want.what.render_source(trial_key.as_deref().or(want.signed_by()));
    let action = append_file(action.code(PREPARE_TRIAL), trial.as_bytes(), "trial.sources");
    let action = append_file(action, want.sources.body.bytes(), "live.sources");
    let action = match (&want.keyring, &trial_key) {
        (Some(key), Some(path)) => action
            .code("printf %s")
            .data(key.body.bytes())
            .code(" | base64 -d >")
            .word(path)
            .code(" || fail \"cannot write the key\"\n"),
        _ => action,
    };
    let action =
        action.code("chmod -- 644 \"$dir\"/* || fail \"cannot open $dir\"\n").code(UPDATE_INDEX).code(PUT_FUNCTION);
    let action = match (&want.keyring, &trial_key) {
        (Some(key), Some(path)) => action.code("put").word(path).word(&key.path).code("\n"),
        _ => action,
    };
    let action = action.code("put \"$dir/live.sources\"").word(&want.sources.path).code("\nset --");
    let indexes = apt_lists::index_paths(&want.what).into_iter().flatten();
    shell::close_action(indexes.fold(action, ShellFragment::word).code(TOUCH_INDEXES))
}

pub(in crate::resource::packages) fn append_file(
    action: ShellFragment,
    body: &[u8],
    name: &'static str,
) -> ShellFragment {
    let action = action.code("\nprintf %s").data(body).code(" | base64 -d >\"$dir\"/").code(name);
    action.code(" || fail \"cannot write below $dir\"\n")
}

/// Removes all files that the repository may have.
pub(super) fn render_removal(want: &AptRepositoryResource) -> ShellFragment {
    let opened = shell::open_action();
    let words = want.removal_targets().into_iter().fold(opened, |action, target| action.word(target.path));
    shell::close_action(words.code("\nfor path; do rm -f -- \"$path\" || fail \"cannot remove $path\"; done\n"))
}
