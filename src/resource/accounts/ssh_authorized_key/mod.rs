//! `ssh_authorized_key`: public keys that may log in to an account.

mod assessment;
mod difference;
mod key;
mod options;

use crate::diag::{Diag, DiagCode};
use crate::model::{GuardEffect, UndoEffect, Value};
use crate::probe::{AuthorizedKeysState, Observation, Probe, ProbeReading};
use crate::resource::shared::shell;
use crate::resource::shared::support::{bad_value, check_account_name, required_text};
use crate::resource::traits::{EffectReach, GuardSupport, KindTraits};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource, FieldSpec,
    FieldType, FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use crate::script::{ShellFragment, safe_path};
use difference::{AuthorizedKeysDiff, SECOND_FILE};
use key::PublicKey;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "ssh_authorized_key",
    summary: "Public keys in the `authorized_keys` of an account.",
    example: include_str!("../../examples/ssh_authorized_key.yaml"),
    doc: "\
The file is `.ssh/authorized_keys` in the home directory from the account database. A different `AuthorizedKeysFile` in
sshd's configuration is not read. sshd also reads `.ssh/authorized_keys2` by default: forge writes no keys there, but
removes them, whether or not sshd's configuration names the file.

**Compared** are type and key, never the comment, and the options of the key; if `options` is omitted, there must be
none. An unchanged step reports `the key exists and its options match`. With `exclusive: true` any other key is a
difference too; comments and lines without a key stay. The same keys are a difference in `authorized_keys2`, and so is a
declared key with other options there. Owner and mode of directory and file are compared by sshd's rules: both must
belong to the account and must not be writable by other users, and since sshd opens the file as the account, the account
itself must be able to search the directory and read the file.

**A change** shows the diff of the file. The file is written as the account itself, so that nothing in a home directory
can redirect root to another path. A missing `.ssh` is created with mode 0700, a missing file with 0600. The new body is
written to a file in the same directory and renamed over the old file, provided that the old file has not changed since
it was observed; directory and file then have at least the modes 0700 and 0600. If one key is in several lines with
options other than declared, these become one line.

**Blocked**: the account or its home directory does not exist; the home directory belongs to another user or is writable
by other users (sshd then ignores its keys); the account cannot search its home directory or one above it, which is
tried as the account itself; directory or file is a link or not of the expected type. So is, with `exclusive: true` or
for a removal, an `authorized_keys2` that is not a readable file, or has such keys and belongs to another user. Also
blocked is a directory or file of another account below a directory that users other than root can write to, such as a
home directory: these users may have put it there. forge does not change its owner and does not show its content. For
the same reason the keys of root are not read in a `.ssh` that other users can write to.

**Rejected when the inventory is loaded**: text that is not a complete public key, a private key, an option that sshd(8)
does not list or whose value lacks its double quotes (sshd ignores the whole line of such a key), and an empty list with
`exclusive: true`, which would lock out all users.

**Guarded** is a change that removes or replaces a key: unless a new login succeeds, the host restores the file.

**Removal** removes these keys, whatever their options; other keys, directory and file stay.",
    fields: FIELDS,
    build,
    traits: KindTraits { guard: GuardSupport::Own, reach: EffectReach::Resource, ..KindTraits::DEFAULT },
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("user", FieldType::Name, "The account."),
    FieldSpec::optional("key", FieldType::Text, "A public key: type, base64, comment. Excludes `keys`."),
    FieldSpec::optional("keys", FieldType::List(&FieldType::Text), "Several public keys. Excludes `key`."),
    FieldSpec::optional(
        "options",
        FieldType::Line,
        "Options of the keys: `restrict,from=\"10.0.0.0/8\"`. Default: none.",
    ),
    FieldSpec::optional("comment", FieldType::Line, "Comment to write instead of the key's own. Only with `key`."),
    FieldSpec::optional("exclusive", FieldType::Bool, "Remove every other key. Default `false`."),
];

#[derive(Debug)]
struct SshAuthorizedKeyResource {
    user: String,
    keys: Vec<PublicKey>,
    options: String,
    exclusive: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let user = required_text(fields, "user")?.to_owned();
    check_account_name("user", &user)?;
    let exclusive = fields.get_bool("exclusive").unwrap_or(false);
    let mut keys = parse_keys(fields)?;
    if keys.is_empty() && exclusive {
        return Err(bad_value("`keys` is empty and `exclusive: true` would lock out all users")
            .with_field("keys")
            .hint("use an `absent` step to remove the file"));
    }
    if let Some(comment) = fields.get_text("comment") {
        let [key] = keys.as_mut_slice() else {
            return Err(
                bad_value("`comment` requires `key`: each key in `keys` has its own comment").with_field("comment")
            );
        };
        comment.trim().clone_into(&mut key.comment);
    }
    let options = fields.get_text("options").unwrap_or_default().trim().to_owned();
    if crate::model::SecretStore::has_placeholder(&options) {
        return Err(bad_value("`options` contains a secret, and the file is shown as a diff").with_field("options"));
    }
    options::check_options(&options).map_err(|diag| diag.with_field("options"))?;
    Ok(Box::new(SshAuthorizedKeyResource { user, keys, options, exclusive, absent }))
}

fn parse_keys(fields: &FieldValues) -> Result<Vec<PublicKey>, Diag> {
    let keys = match (fields.get_text("key"), fields.get_text_list("keys")) {
        (Some(_), Some(_)) => return Err(Diag::error(DiagCode::Exclusive, "`key` and `keys` exclude each other")),
        (None, None) => return Err(Diag::error(DiagCode::MissingKey, "`key` or `keys` is required")),
        (Some(key), None) => vec![PublicKey::parse("key", key)?],
        (None, Some(keys)) => keys
            .iter()
            .enumerate()
            .map(|(at, key)| PublicKey::parse(&format!("keys[{at}]"), key))
            .collect::<Result<_, _>>()?,
    };
    let mut once: Vec<PublicKey> = Vec::new();
    for key in keys {
        if !once.iter().any(|other| other.blob == key.blob) {
            once.push(key);
        }
    }
    Ok(once)
}

impl SshAuthorizedKeyResource {
    fn probe(&self) -> Probe {
        Probe::AuthorizedKeys { user: self.user.clone() }
    }

    fn render_script(&self, diff: &AuthorizedKeysDiff, cx: &AssessmentContext<'_>) -> ShellFragment {
        let (edit, second) = match diff {
            AuthorizedKeysDiff::Write { edit, second, .. } => (edit, second),
            // It is evaluated again before it runs.
            AuthorizedKeysDiff::Later { .. } => return shell::failing_action("the new body is not known"),
        };
        let action = shell::open_private_action()
            .word(&self.user)
            .word(cx.run)
            .word(if self.absent { "absent" } else { "" })
            .code("\n")
            .code(safe_path::ENTER_DIRECTORY)
            .code(ENTER);
        let write = |action: ShellFragment, name: &str, old: &str, body: &str| {
            let keep = action.code("keep").word(name).code("\nprintf %s").data(body.as_bytes());
            let run = keep.code(" | as sh -c").nested_word(ShellFragment::new().code(WRITE)).code(" sh \"$dir\"");
            run.word(old).code(" \"$run\"").word(name).code(" || fail \"$path was left as it was\"\n")
        };
        // A removal from the second file alone creates no first one.
        let action = match diff.changes_first_file() {
            true => write(action, "authorized_keys", edit.digest_before(), &edit.body),
            false => action,
        };
        shell::close_action(match second {
            Some(second) => write(action, SECOND_FILE, second.digest_before(), &second.body),
            None => action,
        })
    }
}

/// An account can replace the contents of its home directory at any time, including by moving files of other users
/// into it. So root changes the owner only of entries that only root can have created there, and keeps a copy; all
/// other work runs as the account.
const ENTER: &str = r#"
user=$1 run=$2 absent=$3
# Without its account a key opens nothing: an earlier step of a removal may have taken that.
account=$(getent passwd -- "$user") || { [ -n "$absent" ] && exit 0; fail "user $user does not exist"; }
home=${account%:*}
home=${home##*:} group=$(id -g -- "$user") && uid=$(id -u -- "$user") || exit 1
dir=$home/.ssh
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
# Keeps a copy of the file and gives it to the account.
keep() {
  name=$1 path=$dir/$1
  if [ -L "./$name" ]; then fail "$dir or what is in it is a symbolic link"; fi
  [ -f "./$name" ] || return 0
  set -- $(stat -c '%u %h' -- "./$name")
  [ $# -eq 2 ] || fail "cannot look at $path"
  if [ "$1" != "$uid" ]; then
    [ -z "$others" ] || not_given "$path" "./$name"
    [ "$2" -eq 1 ] || fail "$path has $2 hard links: forge does not give it away"
    chown -h -- "$user" "./$name" || fail "cannot give $path to $user"
  fi
  kept=/var/lib/forge/backups/$run$path
  [ -e "$kept" ] || { mkdir -p -- "${kept%/*}" && cp -aT -- "./$name" "$kept"; } || fail "cannot keep the body of $path"
}
"#;

const WRITE: &str = r#"umask 077
fail() { printf 'forge: %s\n' "$*" >&2; exit 1; }
dir=$1 old=$2 tmp=$1/.$4.forge-$3 path=$1/$4
# sshd opens the file as the account: it must be able to reach and read it.
chmod u+rwx,go-w -- "$dir" && cd -- "$dir" || fail "cannot enter $dir"
rm -f -- "$dir/.$4.forge-"????????T*
if [ -L "$path" ]; then fail "$path is a symbolic link"; fi
have=
[ -r "$path" ] || [ ! -e "$path" ] || chmod u+rw -- "$path" || fail "cannot make $path readable"
if [ -e "$path" ]; then have=$(sha256sum < "$path") || fail "cannot read $path"; fi
[ "${have%% *}" = "$old" ] || fail "$path has changed since it was looked at: nothing was written"
trap 'rm -f -- "$tmp"' EXIT
trap 'exit 143' HUP INT TERM
set -C
base64 -d > "$tmp" || fail "cannot write $tmp"
set +C
if [ -n "$old" ]; then
  cp --attributes-only --preserve=all -T -- "$path" "$tmp" && touch -- "$tmp" && chmod u+rw,go-w -- "$tmp" || fail "cannot give $tmp the attributes of $path"
fi
sync -- "$tmp" || fail "cannot sync $tmp"
mv -fT -- "$tmp" "$path" || fail "cannot rename $tmp to $path"
sync -- "$dir/" || fail "cannot sync $dir"
"#;

/// Hint for a directory or file of another account.
const CHANGE_OWNER_HINT: &str = "check its content, then `chown` or remove it on the host and run forge again";

const EXPLAIN: &[(&str, &str)] = &[
    ("has changed since", "another process changed this file; run forge again"),
    ("is a symbolic link", "remove the link; forge writes keys only to a file in the home directory itself"),
    ("forge does not give it away", CHANGE_OWNER_HINT),
    ("does not exist", "add the `user` step before this one"),
    ("setpriv", "install the package `util-linux`, which provides `setpriv`"),
    ("No space left on device", "the file system is full; the old file is unchanged"),
];

impl DeclaredResource for SshAuthorizedKeyResource {
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

    /// The account's home is known only on the host; this is its usual place.
    fn changed_object(&self, mark: &ChangeMark) -> ChangedObject {
        let home = if self.user == "root" { "/root".to_owned() } else { format!("/home/{}", self.user) };
        ChangedObject::Path(format!("{home}/.ssh/{}", mark.member.as_deref().unwrap_or("authorized_keys")))
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.probe()]
    }

    fn desired_value(&self) -> Value {
        let keys: Vec<String> = self.keys.iter().map(|key| format!("{} {}", key.kind, key.blob)).collect();
        match self.absent {
            true => json!({ "user": self.user, "keys": keys, "absent": true }),
            false => json!({ "user": self.user, "keys": keys, "options": self.options, "exclusive": self.exclusive }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        let one = |key: &PublicKey| ("ssh key", format!("{} of {}", key.fingerprint(), self.user));
        let whole = (self.exclusive && !self.absent).then(|| ("set of ssh keys", self.user.clone()));
        self.keys.iter().map(one).chain(whole).collect()
    }

    fn shared_claims(&self) -> Vec<(&'static str, String)> {
        if self.exclusive && !self.absent { Vec::new() } else { vec![("set of ssh keys", self.user.clone())] }
    }
}

impl TypedResource for SshAuthorizedKeyResource {
    type Diff = AuthorizedKeysDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<AuthorizedKeysDiff> {
        self.try_assess(seen, cx).unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &AuthorizedKeysDiff, cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript { body: self.render_script(diff, cx), long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &AuthorizedKeysDiff) -> UndoEffect {
        match diff {
            AuthorizedKeysDiff::Later { .. } => UndoEffect::irreversible("the account did not exist yet"),
            AuthorizedKeysDiff::Write { edit, new_folder, second, .. } => {
                let ProbeReading::AuthorizedKeys(AuthorizedKeysState::Account(account)) = &edit.becomes else {
                    return UndoEffect::irreversible("the home directory is not known");
                };
                let first = diff.changes_first_file().then_some("authorized_keys");
                let names = first.into_iter().chain(second.as_ref().map(|_| SECOND_FILE));
                let restored = UndoEffect::restore_paths(names.map(|name| format!("{}/.ssh/{name}", account.home)));
                let folder = new_folder.then(|| format!("the directory `{}/.ssh`", account.home));
                folder.into_iter().fold(restored, UndoEffect::leaving)
            }
        }
    }

    fn guard(&self, diff: &AuthorizedKeysDiff) -> GuardEffect {
        GuardEffect { only_admits: diff.only_admits(), ..GuardEffect::restore_paths(self.undo(diff).paths) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me";

    fn build_error(fields: &[(&'static str, Value)]) -> String {
        let fields = fields.iter().cloned().chain([("user", json!("train"))]);
        build(&FieldValues(fields.collect()), false).unwrap_err().message
    }

    #[test]
    fn lockout_and_conflicting_key_fields_are_rejected() {
        assert_eq!(build_error(&[]), "`key` or `keys` is required");
        assert_eq!(build_error(&[("key", json!(KEY)), ("keys", json!([KEY]))]), "`key` and `keys` exclude each other");
        assert_eq!(
            build_error(&[("keys", json!([])), ("exclusive", json!(true))]),
            "`keys` is empty and `exclusive: true` would lock out all users"
        );
        assert_eq!(
            build_error(&[("keys", json!([])), ("comment", json!("x"))]),
            "`comment` requires `key`: each key in `keys` has its own comment"
        );
        for options in ["no-pty, restrict", "from=\"10.0.0.1", "# x"] {
            assert_eq!(
                build_error(&[("key", json!(KEY)), ("options", json!(options))]),
                "`options` has an unquoted blank or an unterminated quote"
            );
        }
        assert_eq!(build_error(&[("keys", json!([KEY, "x"]))]), "`keys[1]` does not begin with a public key type");
    }

    #[test]
    fn duplicate_keys_are_removed() {
        let fields = FieldValues([("keys", json!([KEY, KEY]))].into_iter().collect());
        assert_eq!(parse_keys(&fields).unwrap().len(), 1);
    }
}
