//! Functions that all kinds share: typed probe results, word lists, common diagnostics.

use crate::diag::{Diag, DiagCode};
use crate::model::SecretStore;
use crate::object::{NamespaceContents, ObjectState, ProofState, ReleaseState};
use crate::probe::{
    AuthorizedKeysState, GroupState, KeyFileState, ModuleState, MountState, Observation, PackageFileState, ProbeOutput,
};
use crate::probe::{CmdlineState, InitramfsState, UserState};
use crate::probe::{
    PackageFamilyState, PackageManagerState, PackageState, PathState, Probe, ProbeReading, SysctlState,
    UnansweredReason, UnitState,
};
use crate::resource::{EarlierStepEffects, FieldSpec, FieldType, ProvidedItem};
use sha2::{Digest, Sha256};

macro_rules! answer {
    ($name:ident, $variant:ident) => {
        answer!($name, $variant, $variant);
    };
    ($name:ident, $variant:ident, $ty:ident) => {
        /// Returns the typed result of `probe`.
        pub(in crate::resource) fn $name<'a>(
            seen: &'a Observation,
            probe: &Probe,
        ) -> Result<&'a $ty, UnansweredReason> {
            match seen.get(probe)? {
                ProbeReading::$variant(state) => Ok(state),
                _ => Err(UnansweredReason::new("the host returned the result of another probe")),
            }
        }
    };
}

answer!(path_state, Path, PathState);
answer!(package_state, Package, PackageState);
answer!(family_state, PackageFamily, PackageFamilyState);
answer!(manager_state, PackageManager, PackageManagerState);
answer!(unit_state, Unit, UnitState);
answer!(user_state, User, UserState);
answer!(keys_state, AuthorizedKeys, AuthorizedKeysState);
answer!(group_state, Group, GroupState);
answer!(package_file_state, PackageFile, PackageFileState);
answer!(key_state, Key, KeyFileState);
answer!(output, Output, ProbeOutput);
answer!(sysctl_state, Sysctl, SysctlState);
answer!(module_state, Module, ModuleState);
answer!(mount_state, Mount, MountState);
answer!(cmdline_state, Cmdline, CmdlineState);
answer!(initramfs_state, Initramfs, InitramfsState);
answer!(object_state, Object, ObjectState);
answer!(contents, Contents, NamespaceContents);
answer!(proof, Proof, ProofState);
answer!(release_state, Release, ReleaseState);

/// The suffixes of unit names.
const UNIT_TYPES: [&str; 11] =
    ["service", "socket", "timer", "target", "path", "mount", "automount", "swap", "slice", "scope", "device"];

/// Returns the full name of a unit; without a type it is a service.
pub(crate) fn unit_name(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((_, suffix)) if UNIT_TYPES.contains(&suffix) => name.to_owned(),
        _ => format!("{name}.service"),
    }
}

impl EarlierStepEffects {
    /// Reports whether an earlier step provides `thing`, or a package that may provide it.
    pub fn will_provide(&self, thing: &ProvidedItem) -> bool {
        let first_package = ProvidedItem::Package(String::new());
        matches!(self.will_exist.range(first_package..).next(), Some(ProvidedItem::Package(_)))
            || self.will_provide_by_name(thing)
    }

    /// Reports whether an earlier step provides `thing` by name.
    pub fn will_provide_by_name(&self, thing: &ProvidedItem) -> bool {
        if self.will_exist.contains(thing) {
            return true;
        }
        let ProvidedItem::Unit(unit) = thing else { return false };
        self.will_exist
            .iter()
            .any(|brought| matches!(brought, ProvidedItem::Unit(brought) if provides_unit(brought, unit)))
    }
}

/// Reports whether the unit `brought` is `unit`, or the template of which `unit` is an instance.
pub(in crate::resource) fn provides_unit(brought: &str, unit: &str) -> bool {
    let (brought, unit) = (unit_name(brought), unit_name(unit));
    brought == unit || template_of(&unit).is_some_and(|template| template == brought)
}

/// Returns the template of an instance: `w@.service` of `w@1.service`.
fn template_of(unit: &str) -> Option<String> {
    let (name, instance) = unit.split_once('@')?;
    let (_, suffix) = instance.rsplit_once('.')?;
    Some(format!("{name}@.{suffix}"))
}

/// Reports whether `predicted` provides `thing`.
pub(in crate::resource) fn will_be_provided(predicted: Option<&EarlierStepEffects>, thing: &ProvidedItem) -> bool {
    predicted.is_some_and(|p| p.will_provide(thing))
}

/// Returns `a`, `a and b`, or `a, b and c`.
pub(in crate::resource) fn join_words<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// Returns each of `words` in backticks, joined.
pub(in crate::resource) fn join_quoted<T: AsRef<str>>(words: &[T]) -> String {
    join_words(&words.iter().map(|w| format!("`{}`", w.as_ref())).collect::<Vec<_>>())
}

/// Returns the lowercase hex SHA-256 of `bytes`.
pub(in crate::resource) fn sha256_hex(bytes: &[u8]) -> String {
    crate::model::to_hex(&Sha256::digest(bytes))
}

/// Returns permission bits as four octal digits.
pub(in crate::resource) fn format_mode(mode: u32) -> String {
    format!("{mode:04o}")
}

/// Returns the parent directory of `path`, `None` for the root.
pub(in crate::resource) fn parent_path(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some((_, "")) | None => None,
        Some(("", _)) => Some("/"),
        Some((parent, _)) => Some(parent),
    }
}

/// The field that guards a removal: an undo must not take later changes with it.
pub(in crate::resource) const ONLY_UNCHANGED: &str = "only_unchanged";

/// The field for the owner of a file.
pub(in crate::resource) const OWNER_FIELD: FieldSpec = FieldSpec::optional(
    "owner",
    FieldType::Name,
    "Name of the owner, who exists or is created by an earlier step. Default `root`.",
);
/// The field for the group of a file.
pub(in crate::resource) const GROUP_FIELD: FieldSpec = FieldSpec::optional(
    "group",
    FieldType::Name,
    "Name of the group, which exists or is created by an earlier step. Default `root`.",
);

/// Returns owner and group of a file, by default `root`.
pub(in crate::resource) fn parse_owner_and_group(
    fields: &crate::resource::FieldValues,
) -> Result<(String, String), Diag> {
    let (owner, group) = (fields.get_text("owner").unwrap_or("root"), fields.get_text("group").unwrap_or("root"));
    check_account_name("owner", owner)?;
    check_account_name("group", group)?;
    Ok((owner.to_owned(), group.to_owned()))
}

/// Returns the `path` of a file.
pub(in crate::resource) fn require_file_path(fields: &crate::resource::FieldValues) -> Result<String, Diag> {
    match required_text(fields, "path")? {
        "/" => Err(bad_value("`/` is not a file")),
        path => Ok(path.to_owned()),
    }
}

/// Rejects secrets in kinds whose files or status every account on the host can read.
pub(in crate::resource) fn reject_secrets(
    kind: &str,
    fields: &crate::resource::FieldValues,
    hint: &str,
) -> Result<(), Diag> {
    let held = fields.0.iter().find(|(_, value)| SecretStore::has_placeholder(&value.to_string()));
    held.map_or(Ok(()), |(name, _)| {
        let message = format!("`{name}` of a `{kind}` contains a secret, and every account on the host can read it");
        Err(bad_value(message).hint(hint))
    })
}

/// Checks the text of a script whose exit code is a result.
pub(in crate::resource) fn check_script_text(field: &'static str, script: &str) -> Result<(), Diag> {
    match crate::script::find_check_fault(script) {
        Some(fault) => Err(bad_value(format!("`{field}` {}", fault.describe())).with_field(field).hint(fault.hint())),
        None => Ok(()),
    }
}

/// Returns the diagnostic of an invalid value.
pub(in crate::resource) fn bad_value(message: impl Into<String>) -> Diag {
    Diag::error(DiagCode::BadValue, message)
}

/// Returns the text of a required field. The checker has verified that it exists; otherwise this is an error.
pub(in crate::resource) fn required_text<'a>(
    fields: &'a crate::resource::FieldValues,
    name: &str,
) -> Result<&'a str, Diag> {
    fields.get_text(name).ok_or_else(|| Diag::error(DiagCode::MissingKey, format!("`{name}` is required")))
}

/// Rejects a name that chown, usermod or similar tools would not treat as a single name.
pub(in crate::resource) fn check_account_name(field: &'static str, name: &str) -> Result<(), Diag> {
    if name.contains(':') {
        return Err(bad_value(format!("`{field}` contains `:`, which separates owner and group")).with_field(field));
    }
    if name.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad_value(format!("`{field}` is a number, not a name"))
            .with_field(field)
            .hint("use the name of the account"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_joined_with_commas_and_and() {
        assert_eq!(join_words::<&str>(&[]), "");
        assert_eq!(join_words(&["a"]), "a");
        assert_eq!(join_words(&["a", "b"]), "a and b");
        assert_eq!(join_quoted(&["a", "b", "c"]), "`a`, `b` and `c`");
    }

    #[test]
    fn unit_name_defaults_to_service_type() {
        assert_eq!(unit_name("nginx"), "nginx.service");
        assert_eq!(unit_name("a.timer"), "a.timer");
        assert_eq!(unit_name("org.example.thing"), "org.example.thing.service");
        assert_eq!(unit_name("getty@tty1"), "getty@tty1.service");
    }

    #[test]
    fn template_provides_its_instances() {
        assert!(provides_unit("w@", "w@1") && provides_unit("w@.service", "w@a.b.service"));
        assert!(provides_unit("w@1", "w@1.service") && provides_unit("w@.timer", "w@1.timer"));
        assert!(!provides_unit("w@1", "w@2") && !provides_unit("w@", "w") && !provides_unit("w@.timer", "w@1"));
    }

    #[test]
    fn parent_path_stops_at_the_root() {
        assert_eq!(parent_path("/etc/motd"), Some("/etc"));
        assert_eq!(parent_path("/etc"), Some("/"));
        assert_eq!(parent_path("/"), None);
    }

    #[test]
    fn numeric_or_combined_owner_is_rejected() {
        assert_eq!(check_account_name("owner", "0").unwrap_err().message, "`owner` is a number, not a name");
        assert_eq!(
            check_account_name("owner", "a:b").unwrap_err().message,
            "`owner` contains `:`, which separates owner and group"
        );
        assert!(check_account_name("owner", "www-data").is_ok());
    }
}
