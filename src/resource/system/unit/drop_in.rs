//! Drop-ins: their declaration, the folder that holds them, their check, and the unit that they need.

use super::unit_text::UNITS_FOLDER;
use crate::diag::{Diag, DiagCode};
use crate::model::Value;
use crate::probe::UnitState;
use crate::resource::shared::shell;
use crate::resource::shared::support::bad_value;
use crate::resource::{FieldSpec, FieldType};
use crate::script::ShellFragment;

pub(super) const DROP_IN: &[FieldSpec] = &[
    FieldSpec::required("name", FieldType::Name, "Name of the drop-in; `.conf` is added."),
    FieldSpec::required("content", FieldType::Text, "The part of the unit, with its section headers."),
    FieldSpec::optional("unit_required", FieldType::Bool, UNIT_REQUIRED),
];

const UNIT_REQUIRED: &str = "Whether the unit must exist; `false`: it may be installed later. Default `true`.";

/// Returns the path and the text of a drop-in of `unit`.
///
/// # Errors
/// Fails without a name, and for a name that systemd ignores.
pub(super) fn parse_drop_in<'a>(
    unit: &str,
    table: &'a serde_json::Map<String, Value>,
) -> Result<(String, &'a str), Diag> {
    let text = |key: &str| table.get(key).and_then(Value::as_str);
    let name = text("name").ok_or_else(|| Diag::error(DiagCode::MissingKey, "`drop_in` needs `name`"))?;
    let name = name.strip_suffix(".conf").unwrap_or(name);
    if name.is_empty() || name.starts_with('.') {
        return Err(bad_value(format!("`{name}` is not a valid drop-in name: systemd ignores hidden files"))
            .with_field("drop_in"));
    }
    Ok((format!("{UNITS_FOLDER}/{unit}.d/{name}.conf"), text("content").unwrap_or_default()))
}

/// Reports whether a drop-in of the unit has no effect, because the unit does not exist.
///
/// A name that ends with `-` before its type is that of several units (systemd.unit(5)). The manager itself makes units of
/// the other types, for fstab, devices and logins: they may exist only while they are needed.
pub(super) fn lacks_unit(name: &str, unit: &UnitState) -> bool {
    let (stem, suffix) = name.rsplit_once('.').unwrap_or_default();
    let has_file = matches!(suffix, "service" | "socket" | "target" | "timer" | "path");
    unit.load == "not-found" && has_file && !stem.ends_with('-')
}

/// Creates the folder of a drop-in if it does not exist: a removal of the last drop-in takes the folder with it. Code that
/// follows runs only if this succeeds.
pub(in crate::resource) fn make_drop_in_folder(path: &str) -> ShellFragment {
    shell::close_action(shell::open_private_action().word(path).code(FOLDER)).code("[ $? -eq 0 ] &&\n")
}

/// Removes the folder of a drop-in if nothing is left in it.
pub(in crate::resource) fn remove_empty_drop_in_folder(path: &str) -> ShellFragment {
    shell::close_action(shell::open_private_action().word(path).code(REMOVE_EMPTY_FOLDER))
}

const FOLDER: &str = r#"
dir=${1%/*}
[ -d "$dir" ] || mkdir -m 0755 -- "$dir" || fail "cannot make $dir"
"#;

const REMOVE_EMPTY_FOLDER: &str = r#"
rmdir --ignore-fail-on-non-empty -- "${1%/*}"
"#;

/// Loads the unit `$1` with the candidate as its drop-in `$2`, in a folder that precedes those of systemd. A unit that
/// systemd rejects without it too says nothing about the candidate, and as with a whole unit, one that it names may come
/// later. A template has no instance to load.
pub(super) const VERIFY_DROP_IN: &str = r#"command -v systemd-analyze >/dev/null 2>&1 || exit 0
case $1 in *@.*) exit 0 ;; esac
from=$(systemctl show --property=FragmentPath --value -- "$1" 2>/dev/null)
[ -f "$from" ] || exit 0
trial=$(mktemp -d) || exit 1
said=$(mkdir -- "$trial/$1.d" && cp -- "$FORGE_FILE" "$trial/$1.d/$2" &&
  SYSTEMD_UNIT_PATH=$trial: systemd-analyze verify --man=no "$from" 2>&1)
status=$? ignored= missing= wrong=
while IFS= read -r line; do
  case $line in
    "$trial/$1.d/$2":*", ignoring"* | "$trial/$1.d/$2":*". Ignoring"*) ignored=1 ;;
    "$1: "*": Unit "*" not found." | "$1: "*" not loaded, socket cannot be started.") missing=1 ;;
    "$1: "* | "$trial/$1.d/$2":*) wrong=1 ;;
  esac
done <<SAID
$said
SAID
rm -rf -- "$trial"
[ -z "$said" ] || printf '%s\n' "$said" >&2
[ -z "$ignored" ] || exit 1
[ -z "$missing" ] || [ -n "$wrong" ] || exit 0
[ "$status" -ne 0 ] && systemd-analyze verify --man=no "$from" >/dev/null 2>&1 || exit 0
exit "$status""#;
