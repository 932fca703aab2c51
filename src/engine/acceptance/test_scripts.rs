//! The scripts that start, run and stop the programs of a test. Each program is a transient unit with a time limit: if
//! the connection or forge is lost, it ends by itself.

use crate::script::ShellFragment;

/// `$1` unit, `$2` limit, `$3` port, then the program. Returns once the program listens on the port.
/// This run holds the host's lock and tests a host in one pair at a time: other outputs are those of killed runs.
/// The addresses in `/proc/net/tcp` are hexadecimal, and `0A` is a listening socket.
const START_SERVER: &str = r#"[ -d /run/systemd/system ] || { echo 'the host has no systemd' >&2; return 126; }
forge_u=$1 forge_l=$2 forge_p=$(printf '%04X' "$3")
shift 3
rm -f /run/forge-test-*.out
systemd-run --quiet --collect --unit="$forge_u" --description='forge: acceptance test' \
  --property=RuntimeMaxSec="$forge_l" --property=LimitMEMLOCK=infinity \
  --property=StandardOutput="file:/run/$forge_u.out" --property=StandardError="file:/run/$forge_u.out" \
  -- "$@" || return 125
forge_n=0
while [ "$forge_n" -lt 100 ]; do
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$forge_p [0-9A-F]*:0000 0A " && return 0
  systemctl is-active --quiet "$forge_u.service" || break
  forge_n=$((forge_n + 1))
  sleep 0.1
done
systemctl --quiet stop "$forge_u.service" 2>/dev/null
cat "/run/$forge_u.out" >&2
rm -f "/run/$forge_u.out"
return 124
"#;

/// `$1` unit, `$2` limit, then the program. `--wait` returns its exit status.
const RUN_PROGRAM: &str = r#"[ -d /run/systemd/system ] || { echo 'the host has no systemd' >&2; return 126; }
forge_u=$1 forge_l=$2
shift 2
systemd-run --quiet --collect --wait --pipe --unit="$forge_u" --description='forge: acceptance test' \
  --property=RuntimeMaxSec="$forge_l" --property=LimitMEMLOCK=infinity -- "$@" </dev/null
"#;

/// `$1` unit. A server that ended with its client has two seconds to print the rest.
const STOP_SERVER: &str = r#"forge_u=$1 forge_n=0
while [ "$forge_n" -lt 20 ] && systemctl is-active --quiet "$forge_u.service"; do
  forge_n=$((forge_n + 1))
  sleep 0.1
done
systemctl --quiet stop "$forge_u.service" 2>/dev/null
cat "/run/$forge_u.out" 2>/dev/null
rm -f "/run/$forge_u.out"
return 0
"#;

/// Returns the script that starts a server and waits until it listens.
pub(super) fn build_server_script(unit: &str, limit_s: u64, port: u64, words: &[String]) -> ShellFragment {
    let body = ShellFragment::new().code("forge_test() {\n").code(START_SERVER).code("}\nforge_test");
    add_words(body.word(unit).number(limit_s).number(port), words)
}

/// Returns the script that runs a program to its end.
pub(super) fn build_program_script(unit: &str, limit_s: u64, words: &[String]) -> ShellFragment {
    let body = ShellFragment::new().code("forge_test() {\n").code(RUN_PROGRAM).code("}\nforge_test");
    add_words(body.word(unit).number(limit_s), words)
}

/// Returns the script that stops a server and prints its output.
pub(super) fn build_stop_script(unit: &str) -> ShellFragment {
    ShellFragment::new().code("forge_test() {\n").code(STOP_SERVER).code("}\nforge_test").word(unit)
}

fn add_words(body: ShellFragment, words: &[String]) -> ShellFragment {
    words.iter().fold(body, |body, word| body.word(word))
}
