//! Field tables of kinds. One table drives validation, "did you mean" suggestions, the JSON schema and the reference.

use crate::model::Value;
use indexmap::IndexMap;

/// The declared type of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldType {
    /// Any text.
    Text,
    /// Text without line breaks, which may become part of a line of a file or of an argument.
    Line,
    /// An absolute path on the host, normalized: no `..`, no trailing slash.
    Path,
    /// A path in the inventory's tree on the controller; replaced at load by the file's text or bytes.
    LocalFile,
    /// A path in the inventory's tree on the controller, for files too large to read at load; replaced by the full
    /// path.
    LocalPath,
    /// A path in the inventory's tree on the controller; replaced at load by the list of YAML documents in the file.
    LocalDocuments,
    /// Permission bits as quoted octal text: `"0644"`.
    Mode,
    /// `true` or `false`; YAML's other spellings (`yes`, `off`) are rejected.
    Bool,
    /// A whole number within limits.
    Int {
        /// The smallest valid value.
        min: i64,
        /// The largest valid value.
        max: i64,
    },
    /// Text newtype: `560.10` stays `560.10`.
    Version,
    /// `30s`, `10m`, `4h`, longer than zero.
    Duration,
    /// A duration that may be zero.
    Wait,
    /// One of these words.
    Enum(&'static [&'static str]),
    /// A list of values of one type.
    List(&'static FieldType),
    /// Text keys to values of one type.
    Map(&'static FieldType),
    /// A secret text.
    Secret,
    /// Name of a user, group, unit or package: `[A-Za-z0-9_.@:+-]+`, no leading dash.
    Name,
    /// Any YAML value.
    Any,
    /// A nested table.
    Table(&'static [FieldSpec]),
}

/// One field of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldSpec {
    /// The key in YAML.
    pub name: &'static str,
    /// The type of its value.
    pub ty: FieldType,
    /// Whether it is an error to omit it.
    pub required: bool,
    /// Whether text that contains a secret is passed to the kind, which accepts it or refuses it with its own reason.
    pub passes_secrets: bool,
    /// Meaning, unit and default as Markdown, one or two sentences.
    pub doc: &'static str,
}

impl FieldSpec {
    /// Builds a field that must not be omitted.
    pub(crate) const fn required(name: &'static str, ty: FieldType, doc: &'static str) -> Self {
        Self { name, ty, required: true, passes_secrets: false, doc }
    }

    /// Builds a field that may be omitted.
    pub(crate) const fn optional(name: &'static str, ty: FieldType, doc: &'static str) -> Self {
        Self { name, ty, required: false, passes_secrets: false, doc }
    }

    /// Returns the field as one that passes secrets to the kind.
    pub(crate) const fn passing_secrets(self) -> Self {
        Self { passes_secrets: true, ..self }
    }
}

/// Checked values of one table: keys are known, types match, defaults are not filled in. Modes are numbers, durations
/// are whole seconds, paths are normalized, local files are replaced by their content, secrets by placeholders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldValues(pub IndexMap<&'static str, Value>);

impl FieldValues {
    /// Reports whether the field is declared.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns a text; like all getters, `None` if the field is not declared or has another type.
    pub(crate) fn get_text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// Returns a boolean.
    pub(crate) fn get_bool(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }

    /// Returns a whole number; durations are in seconds.
    pub(crate) fn get_int(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_i64()
    }

    /// Returns permission bits.
    pub(crate) fn get_mode(&self, name: &str) -> Option<u32> {
        self.get_int(name)?.try_into().ok()
    }

    /// Returns a list of texts. Lists of text contain no numbers or booleans.
    pub(crate) fn get_text_list(&self, name: &str) -> Option<Vec<String>> {
        let list = self.0.get(name)?.as_array()?;
        Some(list.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
    }

    /// Returns a list of whole numbers.
    pub(crate) fn get_int_list(&self, name: &str) -> Option<Vec<i64>> {
        Some(self.0.get(name)?.as_array()?.iter().filter_map(Value::as_i64).collect())
    }

    /// Returns a nested table.
    pub(crate) fn get_table(&self, name: &str) -> Option<&serde_json::Map<String, Value>> {
        self.0.get(name)?.as_object()
    }

    /// Returns a map of texts, in the order of its declaration.
    pub(crate) fn get_text_map(&self, name: &str) -> Option<Vec<(String, String)>> {
        let map = self.0.get(name)?.as_object()?;
        Some(map.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect())
    }
}
