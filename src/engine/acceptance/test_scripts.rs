//! The scripts that start, run and stop the programs of a test. Each program is a transient unit with a time limit: if
//! the connection or forge is lost, it ends by itself.
//!
//! The service manager replaces `$name` in the arguments of a unit, and `$$` by `$`: each `$` is doubled.

use crate::config::ServerListening;
use crate::script::ShellFragment;

/// `$@` a program, perhaps after `env` and variables. Succeeds if the program is not installed, and prints that.
/// The service manager looks for programs in the standard directories, a shell of a login perhaps not in all of them.
const FIND_MISSING: &str = r#"forge_misses() {
  [ "$1" != env ] || shift
  while [ "${1#*=}" != "$1" ]; do shift; done
  case ${1-} in ''|-*) return 1 ;; esac
  ! (PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin && command -v "$1") >/dev/null || return 1
  printf 'the program `%s` is not installed\n' "$1" >&2
}
"#;

/// `$1` `tcp` or `rdma`, `$2` port. Succeeds if a program of the host listens there.
/// The addresses in `/proc/net/tcp` are hexadecimal, and `0A` is a listening socket. A server of the RDMA connection
/// manager has no socket. Older kernels may end the list of its identifiers with an error, after some of them
/// (nldev's `-EAGAIN`): the status of `rdma` means nothing.
const FIND_LISTENER: &str = r#"forge_listens() {
  case $1 in
    rdma) PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin rdma resource show cm_id 2>/dev/null | grep -q "state LISTEN .*src-addr [^ ]*:$2\( \|\$\)" ;;
    *) cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$(printf '%04X' "$2") [0-9A-F]*:0000 0A " ;;
  esac
}
"#;

/// `$1` unit, `$2` limit, `$3` where it listens, `$4` port, then the program. Returns once the program listens. A program
/// of others that listens on the port would answer the client in its place.
/// This run holds the host's lock and tests a host in one pair at a time: other outputs are those of killed runs.
const START_SERVER: &str = r#"[ -d /run/systemd/system ] || { echo 'the host has no systemd' >&2; return 126; }
forge_u=$1 forge_l=$2 forge_w=$3 forge_p=$4
shift 4
[ "$forge_w" != rdma ] || ! forge_misses rdma || return 125
! forge_listens "$forge_w" "$forge_p" || { echo "another program listens on port $forge_p" >&2; return 122; }
rm -f /run/forge-test-*.out /run/forge-test-*.result
systemd-run --quiet --collect --unit="$forge_u" --description='forge: acceptance test' \
  --property=ExecStopPost="/bin/sh -c 'echo \$\$SERVICE_RESULT \$\$EXIT_STATUS 2>/dev/null >/run/$forge_u.result || :'" \
  --property=RuntimeMaxSec="$forge_l" --property=LimitMEMLOCK=infinity \
  --property=StandardOutput="file:/run/$forge_u.out" --property=StandardError="file:/run/$forge_u.out" \
  -- "$@" || { forge_misses "$@"; return 125; }
forge_n=0 forge_why='it does not listen on its port after 10 s'
while [ "$forge_n" -lt 100 ]; do
  forge_listens "$forge_w" "$forge_p" && return 0
  systemctl is-active --quiet "$forge_u.service" || { forge_why='it ended before it listened on its port'; break; }
  forge_n=$((forge_n + 1))
  sleep 0.1
done
systemctl --quiet stop "$forge_u.service" 2>/dev/null
cat "/run/$forge_u.out" >&2
rm -f "/run/$forge_u.out" "/run/$forge_u.result"
forge_misses "$@" || echo "$forge_why" >&2
return 124
"#;

/// `$1` unit, `$2` limit, then the program. `--wait` returns its exit status.
/// The service manager forgets a unit that ended, so `ExecStopPost` writes its result to a file, for
/// [`READ_RESULT`]. This run holds the host's lock and tests a host in one measurement at a time: other files are those
/// of killed runs.
const RUN_PROGRAM: &str = r#"[ -d /run/systemd/system ] || { echo 'the host has no systemd' >&2; return 126; }
forge_u=$1 forge_l=$2
shift 2
forge_s=0
rm -f /run/forge-test-*.result
systemd-run --quiet --collect --wait --pipe --unit="$forge_u" --description='forge: acceptance test' \
  --property=ExecStopPost="/bin/sh -c 'echo \$\$SERVICE_RESULT \$\$EXIT_STATUS 2>/dev/null >/run/$forge_u.result || :'" \
  --property=RuntimeMaxSec="$forge_l" --property=LimitMEMLOCK=infinity -- "$@" </dev/null || forge_s=$?
[ "$forge_s" != 0 ] || rm -f "/run/$forge_u.result"
[ "$forge_s" = 0 ] || ! forge_misses "$@" || return 127
return "$forge_s"
"#;

/// `$1` unit, `$2` limit, `$3` TCP port of the server, `0` if it listens elsewhere, then the program, as [`RUN_PROGRAM`].
/// A connection that nothing answers takes the kernel two minutes: the program is stopped after 15 s in which each look at
/// `/proc/net/tcp` finds one of the unit's main process in the state `SYN_SENT` (02). [`READ_RESULT`] says that then.
const RUN_CLIENT: &str = r#"forge_u=$1 forge_l=$2 forge_p=$3
forge_is_unanswered() {
  forge_i=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v p="$(printf ':%04X' "$forge_p")" \
    '$4 == "02" && substr($3, length($3) - 4) == p { print $10 }')
  [ -n "$forge_i" ] || return 1
  forge_m=$(systemctl show --property=MainPID --value "$forge_u.service" 2>/dev/null)
  for i in $forge_i; do ls -l "/proc/$forge_m/fd" 2>/dev/null | grep -qF "socket:[$i]" && return 0; done
  return 1
}
forge_watch() {
  forge_n=0 forge_t=0
  # A shell that ended with its connection leaves the watch behind, for the limit of the program at most.
  while [ "$forge_n" -lt 15 ] && [ "$forge_t" -lt "$forge_l" ] && kill -0 "$$" && sleep 1; do
    forge_n=$((forge_n + 1)) forge_t=$((forge_t + 1))
    forge_is_unanswered || forge_n=0
  done
  [ "$forge_n" -ge 15 ] || return 0
  : >"/run/$forge_u.unanswered"
  systemctl --quiet stop "$forge_u.service"
}
rm -f /run/forge-test-*.unanswered
[ "$forge_p" = 0 ] || { forge_watch </dev/null >/dev/null 2>&1 & forge_b=$!; }
shift 3
forge_c=0
forge_test "$forge_u" "$forge_l" "$@" || forge_c=$?
[ "$forge_p" = 0 ] || kill "$forge_b" 2>/dev/null
[ ! -e "/run/$forge_u.unanswered" ] || return 121
return "$forge_c"
"#;

/// `$1` unit. Prints how the service manager says that the unit ended (`$SERVICE_RESULT` and `$EXIT_STATUS` of
/// systemd.exec(5)), or `unanswered`.
const READ_RESULT: &str = r#"if [ -e "/run/$1.unanswered" ]; then echo unanswered; else cat "/run/$1.result" 2>/dev/null; fi
rm -f "/run/$1.result" "/run/$1.unanswered"
return 0
"#;

/// Like [`RUN_PROGRAM`], with the account as the third argument, and the name of a job of Slurm as the fourth, or none: an
/// `srun` that is ended while it starts its tasks leaves its job. The program has the mark of the measurement. A
/// launcher runs the programs of several groups: files of other units may be in use. `ExecStopPost` runs as the
/// account, which cannot create a file in `/run`.
const RUN_USER_PROGRAM: &str = r#"[ -d /run/systemd/system ] || { echo 'the host has no systemd' >&2; return 126; }
forge_u=$1 forge_l=$2 forge_a=$3 forge_j=$4
shift 4
id -u "$forge_a" >/dev/null 2>&1 || { echo "account $forge_a not found" >&2; return 125; }
forge_s=0
rm -f "/run/$forge_u.result"
: >"/run/$forge_u.result" && chown "$forge_a" "/run/$forge_u.result"
systemd-run --quiet --collect --wait --pipe --unit="$forge_u" --description='forge: acceptance test' \
  --uid="$forge_a" --property=WorkingDirectory='~' --setenv=FORGE_TEST="$forge_u" \
  --property=ExecStopPost="/bin/sh -c 'echo \$\$SERVICE_RESULT \$\$EXIT_STATUS 2>/dev/null >/run/$forge_u.result || :; [ -z $forge_j ] || scancel --quiet --name=$forge_j 2>/dev/null || :'" \
  --property=RuntimeMaxSec="$forge_l" --property=TimeoutStopSec=10 --property=LimitMEMLOCK=infinity \
  -- "$@" </dev/null || forge_s=$?
[ "$forge_s" != 0 ] || rm -f "/run/$forge_u.result"
return "$forge_s"
"#;

/// `$1` unit, `$2` limit, `$3` program of the guard.
const START_GUARD: &str = r#"[ -d /run/systemd/system ] || { echo 'the host has no systemd' >&2; return 126; }
systemd-run --quiet --collect --unit="$1-guard" --description='forge: guard of an acceptance test' \
  -- /bin/sh -c "$3" sh "FORGE_TEST=$1" "$2"
"#;

/// `$1` mark, `$2` limit. Processes that a launcher started through sshd belong to no unit of the test, but inherit its
/// environment. Those that end by themselves have two seconds.
const GUARD_PROGRAM: &str = r#"
list() { grep -lszxF -e "$1" /proc/[0-9]*/environ; }
finish() {
  n=0
  while [ "$n" -lt 20 ] && [ -n "$(list "$1")" ]; do n=$((n + 1)); sleep 0.1; done
  while [ "$n" -lt 100 ]; do
    left=$(list "$1")
    [ -n "$left" ] || exit 0
    for f in $left; do f=${f#/proc/}; kill -9 "${f%/environ}" 2>/dev/null; done
    n=$((n + 1))
    sleep 0.1
  done
  exit 1
}
trap 'finish "$1"' TERM
sleep "$2" & wait
finish "$1"
"#;

/// `$1` unit. Returns once the guard has ended everything; fails if a process with the mark cannot be ended. If the
/// launcher still runs, it ends by SIGTERM first: `srun` then gives its nodes back.
const STOP_GUARD: &str = r#"systemctl --quiet stop "$1.service" 2>/dev/null
systemctl --quiet stop "$1-guard.service" 2>/dev/null
[ -z "$(grep -lszxF -e "FORGE_TEST=$1" /proc/[0-9]*/environ)" ] || { echo 'a process of the test cannot be ended' >&2; return 1; }
"#;

/// `$1` pattern of units: all programs of a run.
const STOP_RUN: &str = r#"systemctl --quiet stop "$1" 2>/dev/null
return 0
"#;

/// The exit status of [`STOP_SERVER`] for a server that ended by itself with an error. Its last line on stderr says how, as
/// [`READ_RESULT`].
pub(super) const SERVER_FAILED: i32 = 123;

/// `$1` unit. A server that ended with its client has two seconds to print the rest. How one ends that is stopped here means
/// nothing.
const STOP_SERVER: &str = r#"forge_u=$1 forge_n=0 forge_r=success
while [ "$forge_n" -lt 20 ] && systemctl is-active --quiet "$forge_u.service"; do
  forge_n=$((forge_n + 1))
  sleep 0.1
done
if systemctl is-active --quiet "$forge_u.service"; then
  systemctl --quiet stop "$forge_u.service" 2>/dev/null
else
  # `ExecStopPost` may still run.
  while [ "$forge_n" -lt 40 ] && ! [ -s "/run/$forge_u.result" ]; do forge_n=$((forge_n + 1)); sleep 0.1; done
  forge_r=$(cat "/run/$forge_u.result" 2>/dev/null)
fi
cat "/run/$forge_u.out" 2>/dev/null
rm -f "/run/$forge_u.out" "/run/$forge_u.result"
case $forge_r in success*) return 0 ;; esac
printf '%s\n' "$forge_r" >&2
return 123
"#;

/// Returns the script that starts a server and waits until it listens. If the server does not
/// listen, its stderr says why, and the exit status is one of forge.
pub(super) fn build_server_script(
    unit: &str,
    limit_s: u64,
    (listens, port): (ServerListening, u16),
    words: &[String],
) -> ShellFragment {
    let body = ShellFragment::new().code(FIND_MISSING).code(FIND_LISTENER).code("forge_test() {\n").code(START_SERVER);
    let body = body.code("}\nforge_test").word(unit).number(limit_s).word(listens.name());
    add_words(body.number(port.into()), words)
}

/// Returns the script that runs a program to its end.
pub(super) fn build_program_script(unit: &str, limit_s: u64, words: &[String]) -> ShellFragment {
    let body = ShellFragment::new().code(FIND_MISSING).code("forge_test() {\n").code(RUN_PROGRAM).code("}\nforge_test");
    add_words(body.word(unit).number(limit_s), words)
}

/// Returns the script that runs the client of a server to its end.
pub(super) fn build_client_script(
    unit: &str,
    limit_s: u64,
    (listens, port): (ServerListening, u16),
    words: &[String],
) -> ShellFragment {
    let body = ShellFragment::new().code(FIND_MISSING).code("forge_test() {\n").code(RUN_PROGRAM).code("}\n");
    let body = body.code("forge_client() {\n").code(RUN_CLIENT).code("}\nforge_client").word(unit).number(limit_s);
    let port = if listens == ServerListening::Tcp { port } else { 0 };
    add_words(body.number(port.into()), words)
}

/// Returns the script that prints how a program's unit ended, and forgets it.
pub(super) fn build_result_script(unit: &str) -> ShellFragment {
    ShellFragment::new().code("forge_test() {\n").code(READ_RESULT).code("}\nforge_test").word(unit)
}

/// Returns the script that stops a server and prints its output.
pub(super) fn build_stop_script(unit: &str) -> ShellFragment {
    ShellFragment::new().code("forge_test() {\n").code(STOP_SERVER).code("}\nforge_test").word(unit)
}

/// Returns the script that runs a program to its end as an account of the host. A job of Slurm that it leaves is ended.
pub(super) fn build_user_program_script(
    (unit, limit_s): (&str, u64),
    user: &str,
    job: Option<&str>,
    words: &[String],
) -> ShellFragment {
    let body = ShellFragment::new().code("forge_test() {\n").code(RUN_USER_PROGRAM).code("}\nforge_test");
    add_words(body.word(unit).number(limit_s).word(user).word(job.unwrap_or_default()), words)
}

/// Returns the script that starts the guard of a measurement.
pub(super) fn build_guard_script(unit: &str, limit_s: u64) -> ShellFragment {
    let body = ShellFragment::new().code("forge_test() {\n").code(START_GUARD).code("}\nforge_test");
    body.word(unit).number(limit_s).word(escape_unit_word(GUARD_PROGRAM))
}

/// Returns the script that stops a guard, which ends the remaining processes of the measurement. It fails if
/// one of them remains.
pub(super) fn build_guard_stop_script(unit: &str) -> ShellFragment {
    ShellFragment::new().code("forge_test() {\n").code(STOP_GUARD).code("}\nforge_test").word(unit)
}

/// Returns the script that stops every program of a run.
pub(super) fn build_run_stop_script(run: &str) -> ShellFragment {
    let body = ShellFragment::new().code("forge_test() {\n").code(STOP_RUN).code("}\nforge_test");
    body.word(format!("forge-test-{run}-*.service"))
}

fn add_words(body: ShellFragment, words: &[String]) -> ShellFragment {
    words.iter().fold(body, |body, word| body.word(escape_unit_word(word)))
}

fn escape_unit_word(word: &str) -> String {
    word.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing ends this process: no guard of that name runs here.
    #[test]
    fn process_that_outlives_its_guard_is_reported() {
        let unit = format!("forge-test-unit-{}", std::process::id());
        let stop = || {
            let script = build_guard_stop_script(&unit).render(&crate::model::SecretStore::default()).unwrap();
            let text = secrecy::ExposeSecret::expose_secret(&script).to_owned();
            std::process::Command::new("sh").arg("-c").arg(text).output().unwrap()
        };
        let mut left = std::process::Command::new("sleep").arg("60").env("FORGE_TEST", &unit).spawn().unwrap();
        let failed = stop();
        left.kill().unwrap();
        left.wait().unwrap();
        assert_eq!(failed.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&failed.stderr), "a process of the test cannot be ended\n");
        assert_eq!(stop().status.code(), Some(0));
    }

    #[test]
    fn missing_program_is_named() {
        let look = |words: &[&str]| {
            let script = add_words(ShellFragment::new().code(FIND_MISSING).code("forge_misses"), &own(words));
            let text = script.render(&crate::model::SecretStore::default()).unwrap();
            let text = secrecy::ExposeSecret::expose_secret(&text).to_owned();
            let out =
                ["dash", "bash"].map(|shell| std::process::Command::new(shell).arg("-c").arg(&text).output().unwrap());
            assert_eq!(out[0], out[1]);
            (out[0].status.code(), String::from_utf8_lossy(&out[0].stderr).into_owned())
        };
        let missing = (Some(0), "the program `no-such-perftest` is not installed\n".to_owned());
        assert_eq!(look(&["env", "A=b", "C=d", "no-such-perftest", "-p", "1"]), missing);
        assert_eq!(look(&["no-such-perftest"]), missing);
        for words in [&["env", "A=b", "sh", "-c", "x"][..], &["/bin/sh"], &["env", "-i", "no-such"], &["env"]] {
            assert_eq!(look(words), (Some(1), String::new()), "{words:?}");
        }
    }

    /// The list of a kernel that ends it with an error: RDMA/nldev, `Return "-EAGAIN"`.
    #[test]
    fn server_of_the_connection_manager_is_seen_in_its_identifiers() {
        let dir = tempfile::tempdir().unwrap();
        let list = include_str!("../../../tests/samples/rdma-resource-cm-id.txt");
        std::fs::write(dir.path().join("list"), list).unwrap();
        let rdma = format!("#!/bin/sh\ncat {}\nexit 92\n", dir.path().join("list").display());
        std::fs::write(dir.path().join("rdma"), rdma).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path().join("rdma"), mode).unwrap();
        let path = format!("{}:/usr/bin:/bin", dir.path().display());
        let listens = |port: &str| {
            let text = format!("{FIND_LISTENER}forge_listens rdma {port}");
            let run = |shell: &str| std::process::Command::new(shell).env("PATH", &path).args(["-c", &text]).status();
            ["dash", "bash"].map(|shell| run(shell).unwrap().success())
        };
        assert_eq!(listens("7174"), [true, true]);
        assert_eq!((listens("717"), listens("174"), listens("71740")), ([false; 2], [false; 2], [false; 2]));
    }

    /// This test starts its program from a shell, which would report it in its own words.
    #[test]
    fn missing_program_of_memory_read_is_named() {
        let text = include_str!("../../../recipes/tests/memory-read.yaml");
        let mut shell = std::process::Command::new("/bin/sh");
        shell.env("PATH", "/nonexistent").arg("-c").arg(read_script(text)).args(["sh", "1", "64M", "10"]);
        let output = shell.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "the program `sysbench` is not installed\n");
        assert_eq!(output.status.code(), Some(127));
    }

    /// Returns the script of a built-in test that starts a shell.
    fn read_script(text: &str) -> String {
        text.lines().filter_map(|line| line.strip_prefix("    ")).collect::<Vec<_>>().join(" ")
    }

    /// The load is a program that ends after a second; the clocks are recorded lines.
    #[test]
    fn clocks_are_read_while_the_load_runs() {
        let script = read_script(include_str!("../../../recipes/tests/gpu-clocks.yaml"));
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(dir.path().join(name), mode).unwrap();
        };
        let run_with = |shell: &str, more: &str| {
            let mut program = std::process::Command::new(format!("/bin/{shell}"));
            program.env("PATH", format!("{}{more}", dir.path().display()));
            let done = program.args(["-c", &script, "sh", "targeted_stress", "1"]).output().unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (done.status.code(), text(&done.stdout), text(&done.stderr))
        };
        let missing = (Some(127), String::new(), "the program `dcgmi` is not installed\n".to_owned());
        // This machine may have the program.
        assert_eq!(run_with("dash", ""), missing);
        let run = |shell: &str| run_with(shell, ":/usr/bin:/bin");
        write("dcgmi", "echo \"$*\"; sleep 1; exit 226");
        write("nvidia-smi", "case $1 in --help*) echo clocks_event_reasons.active ;; *) echo \"$@\" ;; esac");
        let reasons = ["hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"];
        let reasons = reasons.map(|reason| format!(",clocks_event_reasons.{reason}")).concat();
        let query =
            format!("--query-gpu=index,pci.bus_id,utilization.gpu,clocks.current.sm{reasons} --format=csv,nounits\n");
        for shell in ["dash", "bash"] {
            let (status, stdout, stderr) = run(shell);
            assert!(stdout.starts_with(&query) && stdout.ends_with("load ended with exit status 226\n"), "{stdout}");
            assert_eq!(stderr, "diag -r targeted_stress -p targeted_stress.test_duration=1 -j\n");
            assert_eq!(status, Some(0));
        }
        let older = "case $1 in --help*) echo clocks_throttle_reasons.active ;; *) echo \"$@\" ;; esac";
        write("nvidia-smi", older);
        assert!(run("dash").1.starts_with(&query.replace("event", "throttle")));
    }

    fn own(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn dollars_in_arguments_are_not_variables_of_the_service_manager() {
        assert_eq!(escape_unit_word("a$b ${c} $$"), "a$$b $${c} $$$$");
        assert_eq!(escape_unit_word("plain"), "plain");
    }
}
