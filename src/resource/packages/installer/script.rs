//! Shell code of installers: runs the program with its arguments and reports a failure.

use super::declaration::InstallerResource;
use crate::model::Sha256Digest;
use crate::resource::shared::shell;
use crate::script::{ShellFragment, safe_path};

/// forge's own failures exit with a code that no known installer uses, so that `exit_codes` never applies to them.
const READY: &str = r#"
program=$1 sha256=$2 cwd=$3 log=$4 codes=$5 fine=$6
shift 6
fail() { printf 'forge: %s\n' "$*" >&2; exit 99; }
[ -f "$program" ] || fail "there is no program at $program"
trusted "$program"
if [ -n "$sha256" ]; then
  found=$(sha256sum <"$program") || fail "cannot read $program"
  found=${found%% *}
  if [ "$found" != "$sha256" ]; then fail "$program has the sha256 $found, declared is $sha256: it was not run"; fi
fi
enter "$cwd"
mark=$(mktemp) || fail "cannot make a file in /tmp"
trap 'rm -f -- "$mark"' EXIT
trap 'exit 143' HUP INT TERM
HOME=/root USER=root LOGNAME=root SHELL=/bin/sh
export HOME USER LOGNAME SHELL
"#;

/// `$log` is a glob pattern: it is expanded, but not split into words.
const RUN: &str = r#"
if [ -x "$program" ]; then set -- "$program" "$@"; else set -- sh "$program" "$@"; fi
"$@" </dev/null
status=$?
for ok in 0 $fine; do
  if [ "$status" -eq "$ok" ]; then exit 0; fi
done
IFS=
newest=
for file in $log; do
  if [ -f "$file" ] && [ ! "$file" -ot "$mark" ] && { [ -z "$newest" ] || [ "$file" -nt "$newest" ]; }; then newest=$file; fi
done
if [ -n "$newest" ]; then
  printf 'forge: the last lines of %s:\n' "$newest"
  tail -n 15 -- "$newest"
fi
IFS=' '
meaning=$(printf '%s\n' "$codes" | while read -r code text; do
  if [ "$code" = "$status" ]; then printf ': %s' "$text"; fi
done)
printf 'forge: %s ended with %s%s\n' "$program" "$status" "$meaning" >&2
exit "$status"
"#;

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    ("there is no program at", "add a step that installs it before this one, for example an `artifact` step"),
    ("it was not run", "check the program at its source, or correct `sha256`"),
    ("it is not used", "put it where only root can write, for example with an `artifact` step under `/opt`"),
    (
        "No space left on device",
        "a file system is full; the installation may be incomplete, the next run starts it again",
    ),
    ("not found", "a program is missing on the host: add a `package` step that installs it before this one"),
    ("Key was rejected by service", "Secure Boot rejects the module: enroll its signing key, or disable Secure Boot"),
    ("Bad return status for module build", "dkms could not build a module: see its `make.log` under /var/lib/dkms"),
];

impl InstallerResource {
    pub(super) fn render_script(&self) -> ShellFragment {
        let lines: Vec<String> = self.exit_codes.iter().map(|(code, meaning)| format!("{code} {meaning}")).collect();
        let fine: Vec<String> = self.also_ok.iter().map(i64::to_string).collect();
        let opened = shell::open_action()
            .word(&self.program.path)
            .word(self.sha256.as_ref().map(Sha256Digest::as_str).unwrap_or_default())
            .word(&self.cwd)
            .word(&self.log)
            .word(lines.join("\n"))
            .word(fine.join(" "));
        let opened = self.program.args.iter().fold(opened, |action, arg| action.word(arg));
        let opened =
            opened.code("\n").code(safe_path::ENTER_DIRECTORY).code(safe_path::REQUIRE_TRUSTED_FILE).code(READY);
        let with_env = self
            .env
            .iter()
            .fold(opened, |action, (name, value)| action.code("export").word(format!("{name}={value}")).code("\n"));
        with_env.code(RUN)
    }
}
