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
