//! The meaning of an Ansible variable in forge, and the forms of its value that settings share.

use super::inventory::{AnsibleValue, AnsibleVar};
use super::template;
use crate::model::Value;

/// Target of a variable in forge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SettingSlot {
    Var(String),
    /// A key of `connect`.
    Connect(&'static str),
    Address,
}

/// Conversion of one variable.
pub(super) enum VarMeaning {
    /// A value for a slot; `None` overrides lower layers without a value.
    Is(SettingSlot, Option<Value>),
    /// Several settings, and the parts of the variable that are not converted.
    Parts(Vec<(SettingSlot, Option<Value>)>, Vec<String>),
    /// A slot whose value cannot be converted, with the reason: a lowercase fragment that follows the variable's name.
    Lost(SettingSlot, String),
    /// Forge does not need the variable or has no equivalent, with the reason.
    Nowhere(&'static str),
    /// The variable states forge's default behaviour.
    Anyway,
}

/// Returns the text of a string or a number.
pub(super) fn to_scalar_text(var: &AnsibleVar) -> Result<String, String> {
    match &var.value {
        AnsibleValue::Value(Value::String(text)) => Ok(text.clone()),
        AnsibleValue::Value(value @ Value::Number(_)) => Ok(value.to_string()),
        AnsibleValue::Value(_) => Err("is not converted: it is not text".to_owned()),
        AnsibleValue::Template(_) => Err(template::NOT_CARRIED.to_owned()),
        AnsibleValue::Lost(why) => Err(why.clone()),
    }
}

pub(super) fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.chars().any(char::is_control)
}
