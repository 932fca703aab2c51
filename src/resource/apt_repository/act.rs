//! The commands of a repository: tried beside the live one, then put in its place.

use super::Repository;
use super::lists;
use crate::resource::lock;
use crate::resource::package::act as apt;
use crate::resource::shell;
use crate::script::Fragment;

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    ("NO_PUBKEY", "the repository is signed by another key than the declared one"),
    ("is not signed", "the repository has no signature; `trusted: true` would leave it unchecked"),
    ("The following signatures were invalid", "the repository's signature is expired or wrong"),
    ("does not have a Release file", "there is no such suite at this URI"),
    ("Malformed entry", "apt cannot read a file of sources: its name stands above"),
    ("Could not resolve", "the host cannot resolve the name of the repository"),
    ("Could not connect", "the host cannot reach the repository"),
    ("Could not handshake", "the host does not trust the repository's certificate: is `ca-certificates` there?"),
    ("apt-get: not found", "the host has no apt"),
    lock::EXPLAIN,
    ("No space left on device", "the file system is full; nothing was put in place"),
];

/// Reads `$name` and `$ends`. The folder is open to apt's own account, which reads the key.
const TRY: &str = r#"
dir=/run/forge-apt-$name
rm -rf -- "$dir"
mkdir -m 755 -- "$dir" || fail "cannot make $dir"
trap 'rm -rf -- "$dir"' EXIT
trap 'exit 143' HUP INT TERM
"#;

const UPDATE: &str = r#"
apt -o "Dir::Etc::sourcelist=$dir/trial.sources" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 \
  -o APT::Update::Error-Mode=any update || fail "apt cannot use the repository: nothing was put in place"
"#;

/// `put FILE PATH`: whoever opens the path sees the whole old file or the whole new one.
const PUT: &str = r#"
put() {
  folder=${2%/*}
  [ -d "$folder/" ] || mkdir -m 755 -- "$folder" || fail "cannot make $folder"
  tmp=$folder/.${2##*/}.forge
  cp -- "$1" "$tmp" && chown 0:0 -- "$tmp" && chmod 644 -- "$tmp" && sync -- "$tmp" && mv -fT -- "$tmp" "$2" ||
    fail "cannot write $2"
}
"#;

/// An index that apt found unchanged keeps its times; that it was looked at now must show all the same.
const NOTE: &str = r#"
for index; do
  if [ -e "$index" ]; then touch -m -r "$index" -- "$index" || fail "cannot note that $index was looked at"; fi
done
"#;

pub(super) fn action(want: &Repository) -> Fragment {
    let opened = apt::opened(want.lock_timeout, "").code("set --").word(&want.name).code("\nname=$1\n");
    shell::close(if want.absent { remove(want) } else { put(want, opened) })
}

fn put(want: &Repository, action: Fragment) -> Fragment {
    let trial_key = want.keyring.as_ref().map(|key| {
        let name = key.path.rsplit('/').next().unwrap_or_default();
        format!("/run/forge-apt-{}/{name}", want.name)
    });
    let trial = want.what.body(trial_key.as_deref().or(want.signed_by()));
    let action = write(action.code(TRY), trial.as_bytes(), "trial.sources");
    let action = write(action, want.sources.body.bytes(), "live.sources");
    let action = match (&want.keyring, &trial_key) {
        (Some(key), Some(path)) => action
            .code("printf %s")
            .data(key.body.bytes())
            .code(" | base64 -d >")
            .word(path)
            .code(" || fail \"cannot write the key\"\n"),
        _ => action,
    };
    let action = action.code("chmod -- 644 \"$dir\"/* || fail \"cannot open $dir\"\n").code(UPDATE).code(PUT);
    let action = match (&want.keyring, &trial_key) {
        (Some(key), Some(path)) => action.code("put").word(path).word(&key.path).code("\n"),
        _ => action,
    };
    let action = action.code("put \"$dir/live.sources\"").word(&want.sources.path).code("\nset --");
    lists::indexes(&want.what).into_iter().flatten().fold(action, Fragment::word).code(NOTE)
}

fn write(action: Fragment, body: &[u8], name: &'static str) -> Fragment {
    let action = action.code("\nprintf %s").data(body).code(" | base64 -d >\"$dir\"/").code(name);
    action.code(" || fail \"cannot write below $dir\"\n")
}

fn remove(want: &Repository) -> Fragment {
    let opened = shell::usual();
    let words = want.leftovers().into_iter().fold(opened, |action, target| action.word(target.path));
    words.code("\nfor path; do rm -f -- \"$path\" || fail \"cannot remove $path\"; done\n")
}
