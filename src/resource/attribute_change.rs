//! One attribute of a resource before and after a change.

use super::change_mark::{ChangeAspect, ChangeMark, ChangedPart, RecordedValue};
use crate::model::UntrustedText;
use compact_str::CompactString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One attribute that differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct AttributeChange {
    /// `content`, `mode`, `version`, `enabled` …
    #[schemars(with = "String")]
    pub attribute: CompactString,
    /// Observed value; `None` if nothing exists (or the value is secret).
    pub from: Option<UntrustedText>,
    /// Desired value; `None` for a removal (or if the value is secret).
    pub to: Option<UntrustedText>,
    /// A unified diff of a file's content, without file headers; empty if `from` and `to` are sufficient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<UntrustedText>,
    /// Whether the values are withheld because they are secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// What the change is about, for code.
    #[serde(skip)]
    pub mark: ChangeMark,
    /// Whether it is one of several objects of the step, and not an attribute of the only one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// Whether it is a part of an object that exists and stays: adding or removing it creates or removes no object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inner: bool,
}

impl AttributeChange {
    /// Builds a change without a diff whose values are not secret.
    pub fn new(attribute: &str, from: Option<&str>, to: Option<&str>) -> Self {
        Self {
            attribute: attribute.into(),
            from: from.map(UntrustedText::from),
            to: to.map(UntrustedText::from),
            diff: None,
            secret: false,
            mark: ChangeMark::default(),
            whole: false,
            inner: false,
        }
    }

    /// Sets what differs.
    pub(crate) fn with_aspect(mut self, aspect: ChangeAspect) -> Self {
        self.mark.aspect = aspect;
        self
    }

    /// Sets where records have the value.
    pub(crate) fn recorded(mut self, recorded: RecordedValue) -> Self {
        self.mark.recorded = recorded;
        self
    }

    /// Marks a part of an object that exists and stays.
    pub(crate) fn mark_inner(mut self) -> Self {
        self.inner = true;
        self
    }

    /// Sets the part that differs.
    pub(crate) fn with_part(mut self, part: ChangedPart) -> Self {
        self.mark.part = part;
        self
    }

    /// Sets the one of several packages or paths that differs.
    pub(crate) fn with_member(mut self, member: &str) -> Self {
        self.mark.member = Some(member.into());
        self
    }
}

/// A value before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValueChange<T> {
    /// The observed value; `None` if the host has none.
    pub from: Option<T>,
    /// The desired value; `None` if the change removes it.
    pub to: Option<T>,
}

impl<T> ValueChange<T> {
    /// Returns the change of a value that exists on the host.
    pub fn new(from: T, to: T) -> Self {
        Self { from: Some(from), to: Some(to) }
    }

    /// Returns the change of a value that does not exist on the host yet.
    pub fn create(to: T) -> Self {
        Self { from: None, to: Some(to) }
    }

    /// Returns the change with both values converted.
    pub fn map_values<U>(&self, convert: impl Fn(&T) -> U) -> ValueChange<U> {
        ValueChange { from: self.from.as_ref().map(&convert), to: self.to.as_ref().map(&convert) }
    }
}

impl<T: ToString> ValueChange<T> {
    /// Renders the change for people, under the name `attribute`.
    pub fn render_change(&self, attribute: &str) -> AttributeChange {
        let text = |value: &Option<T>| value.as_ref().map(ToString::to_string);
        AttributeChange::new(attribute, text(&self.from).as_deref(), text(&self.to).as_deref())
    }
}
