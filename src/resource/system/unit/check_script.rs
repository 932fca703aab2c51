//! Shell code that checks a unit or a drop-in with `systemd-analyze verify` before it is installed.

/// Returns the check of the unit in `$FORGE_FILE`.
pub(super) fn render_unit_check() -> String {
    [NEEDS, JUDGE, VERIFY_UNIT].concat()
}

/// Returns the check of the drop-in in `$FORGE_FILE`. `unit` and `file` are the names of both, quoted.
pub(super) fn render_drop_in_check(unit: &str, file: &str) -> String {
    format!("set -- {unit} {file}\n{NEEDS}{JUDGE}{VERIFY_DROP_IN}")
}

const NEEDS: &str = "command -v systemd-analyze >/dev/null 2>&1 || exit 0\n";

/// Judges `$said`, the lines of `systemd-analyze`, for the unit `$1` with the file `$2`. systemd loads a unit without the
/// lines that it cannot read, and only warns about them: then the unit would not be as the step declares. A unit that this
/// one names may come with a later step: a socket and its service name each other. Returns if the exit status decides.
const JUDGE: &str = r#"judge() {
  ignored= missing= wrong=
  while IFS= read -r line; do
    case $line in
      "$2":*", ignoring"* | "$2":*". Ignoring"*) ignored=1 ;;
      "$1: "*": Unit "*" not found." | "$1: "*" not loaded, socket cannot be started.") missing=1 ;;
      "$1: "* | "$2":*) wrong=1 ;;
    esac
  done <<SAID
$said
SAID
  [ -z "$said" ] || printf '%s\n' "$said" >&2
  [ -z "$ignored" ] || exit 1
  [ -z "$missing" ] || [ -n "$wrong" ] || exit 0
}
"#;

/// systemd derives a unit's type from its file name, which the candidate has.
const VERIFY_UNIT: &str = r#"said=$(systemd-analyze verify --man=no "$FORGE_FILE" 2>&1)
status=$?
judge "${FORGE_FILE##*/}" "$FORGE_FILE"
exit "$status""#;

/// Loads the unit `$1` with the candidate as its drop-in `$2`, in a folder that precedes those of systemd. A unit that
/// systemd rejects without it too says nothing about the candidate. A template has no instance to load.
const VERIFY_DROP_IN: &str = r#"case $1 in *@.*) exit 0 ;; esac
from=$(systemctl show --property=FragmentPath --value -- "$1" 2>/dev/null)
[ -f "$from" ] || exit 0
trial=$(mktemp -d) || exit 1
said=$(mkdir -- "$trial/$1.d" && cp -- "$FORGE_FILE" "$trial/$1.d/$2" &&
  SYSTEMD_UNIT_PATH=$trial: systemd-analyze verify --man=no "$from" 2>&1)
status=$?
rm -rf -- "$trial"
judge "$1" "$trial/$1.d/$2"
[ "$status" -ne 0 ] && systemd-analyze verify --man=no "$from" >/dev/null 2>&1 || exit 0
exit "$status""#;
