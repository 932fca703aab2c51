//! Shell code of artifacts: finding a partial transfer, receiving the file from the session, downloading it.

use super::content;
use super::declaration::ArtifactResource;
use crate::model::{Artifact as Source, ArtifactCredentials, ArtifactSource as From};
use crate::resource::shared::{shell, support};
use crate::script::{ShellFragment, safe_path};

/// Enters the directory of the file. A partial file is stored in a private directory named after the digest until it is
/// complete; partial files with another digest are removed. `lacking` reports an unavailable artifact with exit code
/// [`UNAVAILABLE_STATUS`].
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

/// Enters the private directory, which persists until the file is installed, so that the next run can resume.
const OPEN: &str = r#"
[ -d "./$box" ] || mkdir -m 700 -- "./$box" || fail "cannot make $dir/$box"
enter_box
mine || rm -rf -- "$part"
"#;

/// Prints size and digest of the partial file of an earlier attempt.
const PART: &str = r#"
if [ -d "./$box" ] && enter_box && mine; then
  sum=$(sha256sum <"$part") && printf '%s %s\n' "$(stat -c %s -- "$part")" "${sum%% *}" || fail "cannot read $shown"
else
  echo '0 -'
fi
"#;

/// Reads the file from descriptor 7, starting at byte `$FORGE_OFFSET`; the complete size is `$FORGE_SIZE`.
const RECEIVE: &str = r#"
if [ "$FORGE_OFFSET" = 0 ]; then
  rm -f -- "$part"
  set -C
  cat <&7 >"$part" || fail "cannot write $shown"
  set +C
else
  mine && [ "$(stat -c %s -- "$part")" = "$FORGE_OFFSET" ] || fail "$shown has changed since it was read"
  cat <&7 >>"$part" || fail "cannot write $shown"
fi
have=$(stat -c %s -- "$part") || fail "cannot read $shown"
if [ "$have" -lt "$FORGE_SIZE" ]; then fail "received only $have of $FORGE_SIZE bytes: the next run resumes there"; fi
"#;

/// Downloads the file with `curl`, which reads the credentials from its configuration on stdin, so that they do not
/// appear in arguments. If the server cannot resume, the download restarts. `$proto` limits the protocols, including
/// redirects; `curl` sends credentials to the first origin only.
const FETCH: &str = r#"
command -v curl >/dev/null 2>&1 || lacking "curl is not installed on the host"
whole() {
  mine && sum=$(sha256sum <"$part") && [ "${sum%% *}" = "$wanted" ]
}
quoted() {
  case $1 in *"
"*) fail "the credentials contain a line break" ;; esac
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
  [ "$status" -eq 0 ] || lacking "curl exited with $status: $url was not fetched"
fi
"#;

/// Installs the partial file if its digest matches. If other users can replace the file, its digest is not cached, so
/// it is read on every run.
const GO_LIVE: &str = r#"
was=$(stat -c '%s|%i|%.9Y' -- "$part") || fail "cannot read $shown"
found=$(sha256sum <"$part") || fail "cannot read $shown"
found=${found%% *}
if [ "$found" != "$wanted" ]; then
  rm -f -- "$part"
  cd .. && rmdir -- "./$box"
  lacking "the received file has the sha256 $found, declared is $wanted: nothing was installed"
fi
chown -- "$own" "$part" || fail "cannot give $path to $own"
chmod -- "$mode" "$part" || fail "cannot set the mode of $path"
sync -- "$part" || fail "cannot sync $shown"
mv -fT -- "$part" "../$name" || fail "cannot rename $shown to $path"
sync -- .. || fail "cannot sync $dir"
cd .. && rmdir -- "./$box"
if [ -z "$shared$foreign" ] && [ "$(stat -c '%s|%i|%.9Y' -- "./$name")" = "$was" ]; then note "$wanted"; fi
"#;

/// Sets owner and mode of the file. A valid note stays valid. If other users can replace the file, a verified copy
/// takes its place.
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

/// Caches the digest in a note, so that later runs need not read the file. Failing to write it is not an error.
const NOTE: &str = r#"
now() { stat -c '%s|%i|%.9Y|%.9Z|%u|%g' -- "./$name"; }
note() {
  mkdir -p -- "${note%/*}" && printf '%s %s\n' "$(now)" "$1" >"$note.part" && mv -fT -- "$note.part" "$note" ||
    printf 'forge: cannot write %s\n' "$note" >&2
}
"#;

/// Exit code for an artifact that is unavailable or does not match its digest.
pub(super) const UNAVAILABLE_STATUS: i32 = 69;

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    shell::EXPLAIN_UNSAFE_PATH,
    ("invalid user", "the owner does not exist on the host: add a `user` step before this one"),
    ("invalid group", "the group does not exist on the host: add a `group` step before this one"),
    ("No space left on device", "the file system is full; the old file is unchanged"),
    ("Read-only file system", "the file system is mounted read-only; check the kernel log for I/O errors"),
    ("curl is not installed", "add a `package` step for `curl` before this one, or remove `via: host`"),
    ("has the sha256", "check the file at the source, or correct `sha256`"),
    ("curl: (1)", "redirects from https to http are rejected: set `url` to the redirect target if you trust it"),
    ("curl: (6)", "the host cannot resolve the server's name: remove `via: host` to send it from the controller"),
    ("curl: (7)", "the host cannot connect to the server: remove `via: host` to send it from the controller"),
    (
        "curl: (22)",
        "the server rejected the request: check `url`, and whether it requires `user` and `password`, or `token`",
    ),
    ("curl: (28)", "the request timed out; run forge again to resume the download"),
    ("curl: (60)", "the host does not trust the server's certificate: install its CA in a step before this one"),
];

impl ArtifactResource {
    fn open_transfer(&self, source: &Source) -> ShellFragment {
        self.open_script(source)
            .code("\npath=$1 wanted=$2 own=$3 mode=$4 note=$5")
            .code(safe_path::ENTER_DIRECTORY)
            .code(safe_path::STAGE_IN_BOX)
            .code(NOTE)
            .code(PLACE)
    }

    fn open_script(&self, source: &Source) -> ShellFragment {
        shell::open_private_action()
            .word(&self.path)
            .word(source.sha256.as_str())
            .word(format!("{}:{}", self.owner, self.group))
            .word(support::format_mode(self.mode))
            .word(content::note_path(&self.path))
    }

    /// Returns the script that changes only owner and mode.
    pub(super) fn render_ownership_change(&self, source: &Source, run: &str) -> ShellFragment {
        let action = self.open_script(source).word(run).code("\npath=$1 wanted=$2 own=$3 mode=$4 note=$5 run=$6");
        shell::close_action(action.code(safe_path::ENTER_DIRECTORY).code(safe_path::STAGE_IN_BOX).code(NOTE).code(GIVE))
    }

    /// Returns the script that removes the file and its note.
    pub(super) fn render_removal(&self, run: &str) -> ShellFragment {
        let removed = shell::remove_file(&self.path, run, false).code("[ $? -eq 0 ] &&\n");
        removed.append_fragment(shell::close_action(
            shell::open_private_action().word(content::note_path(&self.path)).code("\nrm -f -- \"$1\"\n"),
        ))
    }

    /// Returns the script that prints how much of the file an earlier attempt left.
    pub(super) fn render_progress_query(&self, source: &Source) -> ShellFragment {
        shell::close_action(self.open_transfer(source).code(PART))
    }

    /// Returns the script that receives the file from the session.
    pub(super) fn render_receive(&self, source: &Source) -> ShellFragment {
        shell::close_action(self.open_transfer(source).code(OPEN).code(RECEIVE).code(GO_LIVE))
    }

    /// Returns the script that downloads the file.
    pub(super) fn render_fetch(&self, source: &Source) -> ShellFragment {
        let From::Url { address, login } = &source.source else { return self.render_receive(source) };
        let (user, password, token) = match login {
            ArtifactCredentials::None => ("", "", ""),
            ArtifactCredentials::Basic { user, password } => (user.as_str(), password.as_str(), ""),
            ArtifactCredentials::Bearer { token } => ("", "", token.as_str()),
        };
        let action = self
            .open_transfer(source)
            .code("set --")
            .word(address.to_string())
            .word(if address.is_https() { "https" } else { "http,https" })
            .word(user)
            .word(password)
            .word(token)
            .code("\nurl=$1 proto=$2 user=$3 password=$4 token=$5\nset --")
            .code(OPEN)
            .code(FETCH);
        shell::close_action(action.code(GO_LIVE))
    }
}
