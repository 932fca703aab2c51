//! The shell of artifacts: what tells how far an earlier try came, what takes a file from the session, what fetches it.

use super::{Artifact, content};
use crate::artifact::{Artifact as Source, Login, Source as From};
use crate::resource::{shell, support};
use crate::script::{Fragment, safe_path};

/// Enters the directory of the file. What is still coming lies in a box of its own, named by the digest, until all of it is here;
/// what came of another one is removed. What says that the artifact cannot be had ends with [`LACKING`].
const PLACE: &str = r#"
lacking() { printf 'forge: %s\n' "$*" >&2; exit 69; }
dir=${path%/*} name=${path##*/} box=.${path##*/}.forge-$(printf %.16s "$wanted").part
part=./$name shown=$dir/$box/$name
enter "$dir"
if [ -d "./$name" ] && [ ! -L "./$name" ]; then fail "$path is a directory"; fi
for old in "./.$name.forge-"*.part; do
  if [ "$old" != "./$box" ] || [ ! -d "$old" ] || [ -L "$old" ]; then clear_stray "$old"; fi
done
mine() { [ -f "$part" ] && [ ! -L "$part" ] && [ -O "$part" ]; }
"#;

/// Goes to the box, which lasts until the file is in its place: the next run goes on with what is in it.
const OPEN: &str = r#"
[ -d "./$box" ] || mkdir -m 700 -- "./$box" || fail "cannot make $dir/$box"
enter_box
mine || rm -rf -- "$part"
"#;

/// Prints size and digest of what an earlier try left.
const PART: &str = r#"
if [ -d "./$box" ] && enter_box && mine; then
  sum=$(sha256sum <"$part") && printf '%s %s\n' "$(stat -c %s -- "$part")" "${sum%% *}" || fail "cannot read $shown"
else
  echo '0 -'
fi
"#;

/// Takes the file from descriptor 7, from byte `$FORGE_OFFSET` on; the whole has `$FORGE_SIZE`.
const RECEIVE: &str = r#"
if [ "$FORGE_OFFSET" = 0 ]; then
  rm -f -- "$part"
  set -C
  cat <&7 >"$part" || fail "cannot write $shown"
  set +C
else
  mine && [ "$(stat -c %s -- "$part")" = "$FORGE_OFFSET" ] || fail "$shown is not what it was when it was looked at"
  cat <&7 >>"$part" || fail "cannot write $shown"
fi
have=$(stat -c %s -- "$part") || fail "cannot read $shown"
if [ "$have" -lt "$FORGE_SIZE" ]; then fail "only $have of $FORGE_SIZE bytes came: the next run goes on from there"; fi
"#;

/// Lets `curl` fetch the file. It reads the credentials as its configuration, so that they stand in no argument. What it
/// cannot go on with it begins anew. `$proto` is all that it may speak, redirects included; it shows credentials to
/// the first origin only.
const FETCH: &str = r#"
command -v curl >/dev/null 2>&1 || lacking "there is no curl on the host"
whole() {
  mine && sum=$(sha256sum <"$part") && [ "${sum%% *}" = "$wanted" ]
}
quoted() {
  case $1 in *"
"*) fail "a line break stands in the credentials" ;; esac
  printf '%s' "$1" | sed -e 's/[\\"]/\\&/g'
}
configure() {
  if [ -n "$user" ]; then printf 'user = "%s:%s"\n' "$(quoted "$user")" "$(quoted "$password")"; fi
  if [ -n "$token" ]; then printf 'oauth2-bearer = "%s"\n' "$(quoted "$token")"; fi
}
get() {
  configure | curl --config - --fail --location --max-redirs 10 --proto "=$proto" --proto-redir "=$proto" \
    --silent --show-error --connect-timeout 30 --speed-limit 1 --speed-time 60 --retry 5 --retry-delay 2 \
    --continue-at - --output "$part" -- "$url"
}
if ! whole; then
  umask 077
  [ -e "$part" ] || { set -C; : >"$part"; set +C; } || fail "cannot write $shown"
  get
  status=$?
  if [ "$status" -ne 0 ] && mine && [ -s "$part" ]; then
    case $status in 22|33|36)
      : >"$part"
      get
      status=$? ;;
    esac
  fi
  [ "$status" -eq 0 ] || lacking "curl ended with $status: $url was not fetched"
fi
"#;

/// Puts the part in its place once it is what it must be. Where others may replace the file, nothing is noted of it: it is read
/// each time.
const GO_LIVE: &str = r#"
was=$(stat -c '%s|%i|%.9Y' -- "$part") || fail "cannot read $shown"
found=$(sha256sum <"$part") || fail "cannot read $shown"
found=${found%% *}
if [ "$found" != "$wanted" ]; then
  rm -f -- "$part"
  cd .. && rmdir -- "./$box"
  lacking "what came has the sha256 $found, declared is $wanted: nothing was put in place"
fi
chown -- "$own" "$part" || fail "cannot give $path to $own"
chmod -- "$mode" "$part" || fail "cannot set the mode of $path"
sync -- "$part" || fail "cannot sync $shown"
mv -fT -- "$part" "../$name" || fail "cannot rename $shown to $path"
sync -- .. || fail "cannot sync $dir"
cd .. && rmdir -- "./$box"
if [ -z "$shared$foreign" ] && [ "$(stat -c '%s|%i|%.9Y' -- "./$name")" = "$was" ]; then note "$wanted"; fi
"#;

/// Gives the file to its owner. A note that was true stays true. Where others may replace the file, a copy that is what is
/// declared takes its place.
const GIVE: &str = r#"
dir=${path%/*} name=${path##*/}
enter "$dir"
if [ -L "./$name" ]; then fail "$path is a symbolic link"; fi
if [ -n "$shared" ]; then
  sweep
  stage
  pin
  if [ -L "$from" ] || [ ! -f "$from" ]; then fail "$path is not a regular file"; fi
  cp --reflink=auto -T -- "$from" "./$name" && sum=$(sha256sum <"./$name") || fail "cannot copy $path"
  [ "${sum%% *}" = "$wanted" ] || fail "$path has changed since it was looked at: nothing was written"
  chown -- "$own" "./$name" || fail "cannot give $path to $own"
  chmod -- "$mode" "./$name" || fail "cannot set the mode of $path"
  sync -- "./$name" && mv -fT -- "./$name" "../$name" && sync -- .. || fail "cannot put $path in its place"
  exit 0
fi
sum=
while read -r seen noted; do
  if [ "$seen" = "$(now)" ]; then sum=$noted; fi
done 2>/dev/null <"$note"
chown -h -- "$own" "./$name" || fail "cannot give $path to $own"
chmod -- "$mode" "./$name" || fail "cannot set the mode of $path"
if [ -z "$foreign" ] && [ -n "$sum" ]; then note "$sum"; fi
"#;

/// Notes what the file is, so that it need not be read to be known. Without the note it is read: no reason to fail.
const NOTE: &str = r#"
now() { stat -c '%s|%i|%.9Y|%.9Z|%u|%g' -- "./$name"; }
note() {
  mkdir -p -- "${note%/*}" && printf '%s %s\n' "$(now)" "$1" >"$note.part" && mv -fT -- "$note.part" "$note" ||
    printf 'forge: cannot write %s\n' "$note" >&2
}
"#;

/// The exit status where the artifact cannot be had, or is not what is declared.
pub(super) const LACKING: i32 = 69;

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    shell::NOT_FOLLOWED,
    ("invalid user", "the owner does not exist on the host: add a `user` step before this one"),
    ("invalid group", "the group does not exist on the host: add a step that makes it before this one"),
    ("No space left on device", "the file system is full; the old file is untouched"),
    ("Read-only file system", "the file system is mounted read-only; look for I/O errors in the kernel log"),
    ("there is no curl", "add a `package` step for `curl` before this one, or leave `via: host` out"),
    ("has the sha256", "take the right file, or the right digest"),
    ("curl: (1)", "a redirect that leaves https is not followed: give the address it leads to, if it is to be trusted"),
    ("curl: (6)", "the host cannot resolve the server's name: leave `via: host` out, and the controller sends it"),
    ("curl: (7)", "the host cannot reach the server: leave `via: host` out, and the controller sends it"),
    (
        "curl: (22)",
        "the server refused: look whether the address still holds, and whether it wants `user` and `password`, or `token`",
    ),
    ("curl: (28)", "the server did not answer in time; run forge again: it goes on where it stopped"),
    ("curl: (60)", "the host does not trust the server's certificate: bring its authority with steps before this one"),
];

impl Artifact {
    fn placed(&self, source: &Source) -> Fragment {
        self.named(source)
            .code("\npath=$1 wanted=$2 own=$3 mode=$4 note=$5")
            .code(safe_path::ENTER)
            .code(safe_path::STAGE)
            .code(NOTE)
            .code(PLACE)
    }

    fn named(&self, source: &Source) -> Fragment {
        shell::private()
            .word(&self.path)
            .word(source.sha256.as_str())
            .word(format!("{}:{}", self.owner, self.group))
            .word(support::octal(self.mode))
            .word(content::note(&self.path))
    }

    /// Returns the script that changes owner and mode only.
    pub(super) fn give(&self, source: &Source, run: &str) -> Fragment {
        let action = self.named(source).word(run).code("\npath=$1 wanted=$2 own=$3 mode=$4 note=$5 run=$6");
        shell::close(action.code(safe_path::ENTER).code(safe_path::STAGE).code(NOTE).code(GIVE))
    }

    /// Returns the script that removes the file and its note.
    pub(super) fn remove(&self, run: &str) -> Fragment {
        let removed = shell::remove_file(&self.path, run, false).code("[ $? -eq 0 ] &&\n");
        removed.then(shell::close(shell::private().word(content::note(&self.path)).code("\nrm -f -- \"$1\"\n")))
    }

    /// Returns the script that tells how much of the file an earlier try left.
    pub(super) fn part(&self, source: &Source) -> Fragment {
        shell::close(self.placed(source).code(PART))
    }

    /// Returns the script that takes the file from the session.
    pub(super) fn receive(&self, source: &Source) -> Fragment {
        shell::close(self.placed(source).code(OPEN).code(RECEIVE).code(GO_LIVE))
    }

    /// Returns the script that fetches the file.
    pub(super) fn fetch(&self, source: &Source) -> Fragment {
        let From::Url { address, login } = &source.source else { return self.receive(source) };
        let (user, password, token) = match login {
            Login::None => ("", "", ""),
            Login::Basic { user, password } => (user.as_str(), password.as_str(), ""),
            Login::Bearer { token } => ("", "", token.as_str()),
        };
        let action = self
            .placed(source)
            .code("set --")
            .word(address.to_string())
            .word(if address.is_https() { "https" } else { "http,https" })
            .word(user)
            .word(password)
            .word(token)
            .code("\nurl=$1 proto=$2 user=$3 password=$4 token=$5\nset --")
            .code(OPEN)
            .code(FETCH);
        shell::close(action.code(GO_LIVE))
    }
}
