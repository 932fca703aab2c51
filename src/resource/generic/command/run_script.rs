//! The parts of the shell script that runs a command on a host.

/// Enters the working directory and the account of the step's user.
pub(super) const ENTER: &str = r#"
script=$1 cwd=$2 user=$3 limit=$4
cd -- "$cwd" || fail "cannot enter $cwd"
HOME=/root USER=root LOGNAME=root SHELL=/bin/sh
if [ -n "$user" ]; then
  account=$(getent passwd -- "$user") || fail "user $user does not exist"
  SHELL=${account##*:} HOME=${account%:*}
  HOME=${HOME##*:} USER=$user LOGNAME=$user
fi
export HOME USER LOGNAME SHELL
"#;

/// The script is passed in the environment, which only its user can read: every user on the host can read arguments,
/// and the script may contain a secret.
///
/// `timeout` is the outermost program, so that it ends all processes below it. `setpriv`, which the checks use as well,
/// opens no login session, so the host's logs stay free of session entries.
pub(super) const RUN: &str = r#"export FORGE_RUN="$script"
set -- sh -c 'c=$FORGE_RUN; unset FORGE_RUN; eval "$c"'
if [ -n "$user" ]; then
  set -- setpriv --reuid="$user" --regid="$(id -g -- "$user")" --init-groups "$@"
fi
if [ -n "$limit" ]; then set -- timeout -k 10 "$limit" "$@"; fi
"$@" </dev/null
status=$?
if [ -n "$limit" ] && [ "$status" -eq 124 ]; then fail "the command was stopped after $limit s"; fi
exit "$status"
"#;
