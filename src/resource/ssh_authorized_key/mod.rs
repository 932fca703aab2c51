//! `ssh_authorized_key`: public keys that may log into an account.

mod judge;
mod key;

use super::shell;
use super::support::{account_name, bad_value, required};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::{Code, Diag};
use crate::model::Value;
use crate::probe::{Observation, Probe};
use crate::script::{Fragment, safe_path};
use key::Key;
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "ssh_authorized_key",
    summary: "Public keys in the `authorized_keys` of an account.",
    example: include_str!("../examples/ssh_authorized_key.yaml"),
    doc: "\
The file is `.ssh/authorized_keys` in the home that the account database names. An `AuthorizedKeysFile` of
sshd's configuration that says otherwise is not looked at.

**Compared** are type and key itself, never the comment, and the options before it: left out means none. Nothing to do
reads `the key is there, with its options as declared`. With `exclusive: true` any other key differs too; comments and
lines without a key stay. Owner and mode of folder and file are compared as sshd does: they belong to the
account, and nobody else may write them.

**A change** shows the diff of the file. It is written as the account itself, so that nothing in a home can lead root
elsewhere; a missing `.ssh` is made with mode 0700, a missing file with 0600. The new body is written beside the file
and renamed over it, if the file is still the one that was looked at. One key in several lines with other options
than declared becomes one line.

**Blocked**: no such account or home, a home that belongs to somebody else or that others may write (sshd ignores its keys
then), a link or something else in the place of folder or file. So is a folder or file of another account in a
directory that others than root can write to, as a home is: they may have put it there. It is not given away, and its
content is not shown.

**Refused when the inventory is read**: what is no whole public key, a private key, an empty list with
`exclusive: true`, which would lock everybody out.

**Removal** removes these keys, whatever their options; others, folder and file stay.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::required("user", Type::Name, "The account."),
    Field::optional("key", Type::Text, "A public key: type, base64, comment. Excludes `keys`."),
    Field::optional("keys", Type::List(&Type::Text), "Several public keys. Excludes `key`."),
    Field::optional(
        "options",
        Type::Line,
        "What restricts the keys: `restrict,from=\"10.0.0.0/8\"`. Default: nothing.",
    ),
    Field::optional(
        "comment",
        Type::Line,
        "The comment of a key that is written, instead of its own. With `key` only.",
    ),
    Field::optional("exclusive", Type::Bool, "Whether every other key is removed. Default `false`."),
];

#[derive(Debug)]
struct SshAuthorizedKey {
    user: String,
    keys: Vec<Key>,
    options: String,
    exclusive: bool,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let user = required(fields, "user")?.to_owned();
    account_name("user", &user)?;
    let exclusive = fields.bool("exclusive").unwrap_or(false);
    let mut keys = keys(fields)?;
    if keys.is_empty() && exclusive {
        return Err(bad_value("`keys` is empty, and with `exclusive: true` nobody could log in any more")
            .hint("an `absent` step removes the file, if that is what is wanted"));
    }
    if let Some(comment) = fields.text("comment") {
        let [key] = keys.as_mut_slice() else {
            return Err(bad_value("`comment` goes with one `key`; of `keys` each has its own"));
        };
        comment.trim().clone_into(&mut key.comment);
    }
    let options = fields.text("options").unwrap_or_default().trim().to_owned();
    if crate::model::SecretStore::mentions(&options) {
        return Err(bad_value("`options` holds a secret, and the file would be shown as a diff"));
    }
    if !options.is_empty() && !well_formed(&options) {
        return Err(bad_value("`options` has a blank outside of quotes, or a quote that does not end")
            .hint("options are separated by commas: `no-pty,from=\"10.0.0.0/8\"`"));
    }
    Ok(Box::new(SshAuthorizedKey { user, keys, options, exclusive, absent }))
}

fn keys(fields: &Fields) -> Result<Vec<Key>, Diag> {
    let keys = match (fields.text("key"), fields.texts("keys")) {
        (Some(_), Some(_)) => return Err(Diag::error(Code::Exclusive, "`key` and `keys` exclude each other")),
        (None, None) => return Err(Diag::error(Code::MissingKey, "an `ssh_authorized_key` needs `key` or `keys`")),
        (Some(key), None) => vec![Key::parse("key", key)?],
        (None, Some(keys)) => keys
            .iter()
            .enumerate()
            .map(|(at, key)| Key::parse(&format!("keys[{at}]"), key))
            .collect::<Result<_, _>>()?,
    };
    let mut once: Vec<Key> = Vec::new();
    for key in keys {
        if !once.iter().any(|other| other.blob == key.blob) {
            once.push(key);
        }
    }
    Ok(once)
}

/// Whether sshd reads these options as one word.
fn well_formed(options: &str) -> bool {
    let probe = format!("{options} ssh-rsa AAAA");
    key::entry(&probe).is_some_and(|entry| entry.options == options) && !options.starts_with('#')
}

impl SshAuthorizedKey {
    fn probe(&self) -> Probe {
        Probe::AuthorizedKeys { user: self.user.clone() }
    }

    fn action(&self, judgement: &Judgement, cx: &Context<'_>) -> Fragment {
        let Some(edit) = &judgement.edit else { return shell::refuse("the new body is not known") };
        let action = shell::private()
            .word(&self.user)
            .word(edit.old.as_deref().unwrap_or_default())
            .word(cx.run)
            .word(if self.absent { "absent" } else { "" })
            .code("\n")
            .code(safe_path::ENTER)
            .code(ENTER)
            .code("printf %s")
            .data(edit.body.as_bytes())
            .code(" | as sh -c")
            .nested(Fragment::new().code(WRITE))
            .code(" sh \"$dir\" \"$old\" \"$run\" || fail \"$path was left as it was\"\n");
        shell::close(action)
    }
}

/// An account can replace what is in its home at any time, also by moving files of others there. So root gives away only
/// what nobody but root can have put there, and keeps a copy; all else is done as the account.
const ENTER: &str = r#"
user=$1 old=$2 run=$3 absent=$4
# Without its account a key opens nothing: an earlier step of a removal may have taken that.
account=$(getent passwd -- "$user") || { [ -n "$absent" ] && exit 0; fail "user $user does not exist"; }
home=${account%:*}
home=${home##*:} group=$(id -g -- "$user") && uid=$(id -u -- "$user") || exit 1
dir=$home/.ssh path=$home/.ssh/authorized_keys
as() {
  if [ "$user" = "$(id -un)" ]; then "$@"; else setpriv --reuid="$user" --regid="$group" --init-groups "$@"; fi
}
not_given() { fail "$1 belongs to $(stat -c %U -- "$2"), and others may have put it there: forge does not give it away"; }
enter "$home"
home_id=$here
if [ -L ./.ssh ]; then fail "$dir or what is in it is a symbolic link"; fi
[ -d ./.ssh ] || as mkdir -m 0700 -- ./.ssh || fail "cannot make $dir"
cd -P ./.ssh || fail "cannot enter $dir"
set -- $(stat -c '%u %f %d:%i' -- . .. ../.ssh)
[ $# -eq 9 ] && [ "$6" = "$home_id" ] && [ "$9" = "$3" ] || fail "$dir was replaced while forge entered it"
above "$1" "$2"
others=$foreign$shared
if [ "$1" != "$uid" ]; then
  [ -z "$others" ] || not_given "$dir" .
  chown -- "$user" . || fail "cannot give $dir to $user"
fi
others=$others$open
if [ -L ./authorized_keys ]; then fail "$dir or what is in it is a symbolic link"; fi
if [ -f ./authorized_keys ]; then
  set -- $(stat -c '%u %h' -- ./authorized_keys)
  [ $# -eq 2 ] || fail "cannot look at $path"
  if [ "$1" != "$uid" ]; then
    [ -z "$others" ] || not_given "$path" ./authorized_keys
    [ "$2" -eq 1 ] || fail "$path has $2 hard links: forge does not give it away"
    chown -h -- "$user" ./authorized_keys || fail "cannot give $path to $user"
  fi
  kept=/var/lib/forge/backups/$run$path
  [ -e "$kept" ] || { mkdir -p -- "${kept%/*}" && cp -aT -- ./authorized_keys "$kept"; } || fail "cannot keep the body of $path"
fi
"#;

const WRITE: &str = r#"umask 077
fail() { printf 'forge: %s\n' "$*" >&2; exit 1; }
dir=$1 old=$2 tmp=$1/.authorized_keys.forge-$3 path=$1/authorized_keys
cd -- "$dir" && chmod go-w -- "$dir" || fail "cannot enter $dir"
rm -f -- "$dir/.authorized_keys.forge-"????????T*
if [ -L "$path" ]; then fail "$path is a symbolic link"; fi
have=
if [ -e "$path" ]; then have=$(sha256sum < "$path") || fail "cannot read $path"; fi
[ "${have%% *}" = "$old" ] || fail "$path has changed since it was looked at: nothing was written"
trap 'rm -f -- "$tmp"' EXIT
trap 'exit 143' HUP INT TERM
set -C
base64 -d > "$tmp" || fail "cannot write $tmp"
set +C
if [ -n "$old" ]; then
  cp --attributes-only --preserve=all -T -- "$path" "$tmp" && touch -- "$tmp" && chmod go-w -- "$tmp" || fail "cannot give $tmp the attributes of $path"
fi
sync -- "$tmp" || fail "cannot sync $tmp"
mv -fT -- "$tmp" "$path" || fail "cannot rename $tmp to $path"
sync -- "$dir/" || fail "cannot sync $dir"
"#;

/// What to do about a folder or file of another account.
const GIVE_BY_HAND: &str = "look at what it holds; `chown` it on the host, or remove it, and forge goes on";

const EXPLAIN: &[(&str, &str)] = &[
    ("has changed since", "something else writes this file; run forge again"),
    ("is a symbolic link", "remove the link; keys are only written to a file in the home itself"),
    ("forge does not give it away", GIVE_BY_HAND),
    ("does not exist", "add the `user` step before this one"),
    ("setpriv", "`setpriv` of the package `util-linux` is needed"),
    ("No space left on device", "the file system is full; the old file is untouched"),
];

impl Resource for SshAuthorizedKey {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        match self.keys.as_slice() {
            [one] if !one.comment.is_empty() => format!("{} ({})", self.user, one.comment),
            [_] => self.user.clone(),
            several => format!("{} ({} keys)", self.user, several.len()),
        }
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.probe()]
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        self.try_judge(seen, cx).unwrap_or_else(|unknown| Judgement::unknown(&unknown))
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        Action { body: self.action(judgement, cx), long: false, explain: EXPLAIN }
    }

    fn desired(&self) -> Value {
        let keys: Vec<String> = self.keys.iter().map(|key| format!("{} {}", key.kind, key.blob)).collect();
        match self.absent {
            true => json!({ "user": self.user, "keys": keys, "absent": true }),
            false => json!({ "user": self.user, "keys": keys, "options": self.options, "exclusive": self.exclusive }),
        }
    }

    fn provides(&self) -> Vec<Provision> {
        Vec::new()
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        let one = |key: &Key| ("ssh key", format!("{} of {}", key.fingerprint(), self.user));
        let whole = (self.exclusive && !self.absent).then(|| ("set of ssh keys", self.user.clone()));
        self.keys.iter().map(one).chain(whole).collect()
    }

    fn shares(&self) -> Vec<(&'static str, String)> {
        if self.exclusive && !self.absent { Vec::new() } else { vec![("set of ssh keys", self.user.clone())] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me";

    fn refused(fields: &[(&'static str, Value)]) -> String {
        let fields = fields.iter().cloned().chain([("user", json!("train"))]);
        build(&Fields(fields.collect()), false).unwrap_err().message
    }

    #[test]
    fn what_would_lock_out_or_mean_something_else_is_refused() {
        assert_eq!(refused(&[]), "an `ssh_authorized_key` needs `key` or `keys`");
        assert_eq!(refused(&[("key", json!(KEY)), ("keys", json!([KEY]))]), "`key` and `keys` exclude each other");
        assert_eq!(
            refused(&[("keys", json!([])), ("exclusive", json!(true))]),
            "`keys` is empty, and with `exclusive: true` nobody could log in any more"
        );
        assert_eq!(
            refused(&[("keys", json!([])), ("comment", json!("x"))]),
            "`comment` goes with one `key`; of `keys` each has its own"
        );
        for options in ["no-pty, restrict", "from=\"10.0.0.1", "# x"] {
            assert_eq!(
                refused(&[("key", json!(KEY)), ("options", json!(options))]),
                "`options` has a blank outside of quotes, or a quote that does not end"
            );
        }
        assert_eq!(refused(&[("keys", json!([KEY, "x"]))]), "`keys[1]` does not begin with the type of a public key");
    }

    #[test]
    fn one_key_counts_once() {
        let fields = Fields([("keys", json!([KEY, KEY]))].into_iter().collect());
        assert_eq!(keys(&fields).unwrap().len(), 1);
    }
}
