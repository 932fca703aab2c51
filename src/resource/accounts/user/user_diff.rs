//! What differs between a declared account and a host.

use crate::model::{DisruptionClass, Value};
use crate::probe::UserInfo;
use crate::resource::shared::file_target::describe_differences;
use crate::resource::shared::support::join_words;
use crate::resource::{Assessment, AttributeChange, ResourceDiff, ValueChange};
use serde::Serialize;
use serde_json::json;

/// How an account differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum UserDiff {
    Create { name: String, attributes: UserAttributes },
    Modify(UserAttributes),
    Remove { name: String, before: UserInfo },
}

impl UserDiff {
    /// Returns the supplementary groups before and after a change of an existing account.
    pub fn list_changed_groups(&self) -> impl Iterator<Item = &String> {
        let groups = match self {
            Self::Modify(attributes) => attributes.groups.as_ref(),
            Self::Create { .. } | Self::Remove { .. } => None,
        };
        groups.into_iter().flat_map(|change| change.from.iter().chain(&change.to)).flatten()
    }

    pub fn sets_uid(&self) -> bool {
        match self {
            Self::Create { attributes, .. } | Self::Modify(attributes) => attributes.uid.is_some(),
            Self::Remove { .. } => false,
        }
    }
}

impl ResourceDiff for UserDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Create { name, attributes } => {
                let created = AttributeChange::new("user", None, Some(name));
                [created].into_iter().chain(attributes.render_changes()).collect()
            }
            Self::Modify(attributes) => attributes.render_changes(),
            Self::Remove { name, .. } => vec![AttributeChange::new("user", Some(name), None)],
        }
    }

    fn leads_elsewhere(&self) -> bool {
        matches!(self, Self::Modify(attributes) if attributes.uid.is_some() || attributes.home.is_some())
    }

    fn may_bar_login(&self) -> bool {
        !matches!(self, Self::Create { .. })
    }
}

/// Attributes of an account, as far as they differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct UserAttributes {
    pub uid: Option<ValueChange<u32>>,
    pub group: Option<ValueChange<String>>,
    /// The supplementary groups.
    pub groups: Option<ValueChange<Vec<String>>>,
    pub home: Option<ValueChange<String>>,
    pub shell: Option<ValueChange<String>>,
    pub comment: Option<ValueChange<String>>,
    /// Whether the password is locked.
    pub locked: Option<ValueChange<bool>>,
}

impl UserAttributes {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the fields that declare the observed state before.
    pub fn declare_before(&self, name: &str) -> Value {
        let text =
            |change: &Option<ValueChange<String>>| json!(change.as_ref().and_then(|change| change.from.as_ref()));
        let mut fields = json!({
            "name": name,
            // An account that was deleted since has other attributes, too.
            "create": false,
            "uid": self.uid.as_ref().and_then(|uid| uid.from),
            "group": text(&self.group),
            "groups": self.groups.as_ref().and_then(|groups| groups.from.as_ref()),
            "home": text(&self.home),
            "shell": text(&self.shell),
            "comment": text(&self.comment),
            "locked": self.locked.as_ref().and_then(|locked| locked.from),
        });
        if let Value::Object(entries) = &mut fields {
            entries.retain(|_, value| !value.is_null());
        }
        fields
    }

    /// Reports whether at most the lock of the password differs.
    pub fn changes_only_lock(&self) -> bool {
        Self { locked: None, ..self.clone() }.is_empty()
    }

    fn render_changes(&self) -> Vec<AttributeChange> {
        let text = |name: &str, change: &Option<ValueChange<String>>| Some(change.as_ref()?.render_change(name));
        let groups = self.groups.as_ref().map(|change| change.map_values(|groups| groups.join(", ")));
        let password = self.locked.as_ref().map(|change| change.map_values(|locked| describe_lock(*locked).to_owned()));
        let all = [
            self.uid.as_ref().map(|change| change.render_change("uid")),
            text("group", &self.group),
            text("groups", &groups),
            text("home", &self.home),
            text("shell", &self.shell),
            text("comment", &self.comment),
            text("password", &password),
        ];
        all.into_iter().flatten().collect()
    }
}

/// The compared attributes with their observed values.
#[derive(Default)]
pub(super) struct UserComparison {
    names: Vec<&'static str>,
    basis: serde_json::Map<String, Value>,
}

impl UserComparison {
    /// Compares an attribute if it is declared.
    pub fn compare<T: PartialEq>(
        &mut self,
        attribute: &'static str,
        found: T,
        wanted: Option<T>,
        text: impl Fn(&T) -> String,
    ) -> Option<ValueChange<T>> {
        let wanted = wanted?;
        self.names.push(attribute);
        self.basis.insert(attribute.to_owned(), json!(text(&found)));
        (found != wanted).then(|| ValueChange::new(found, wanted))
    }

    pub fn into_assessment(self, attributes: UserAttributes) -> Assessment<UserDiff> {
        let basis = json!({ "user": self.basis });
        if attributes.is_empty() {
            return Assessment::ok(describe_unchanged(&self.names), basis);
        }
        let renumbered = attributes.uid.is_some();
        let former_home = attributes.home.as_ref().and_then(|home| home.from.as_deref());
        let more = match (renumbered, former_home) {
            (false, _) => String::new(),
            (true, None) => "; running processes and files outside home keep the old uid".to_owned(),
            (true, Some(home)) => {
                format!("; running processes and files outside the new home, `{home}` included, keep the old uid")
            }
        };
        let diff = UserDiff::Modify(attributes);
        let disruption = if renumbered { DisruptionClass::D1 } else { DisruptionClass::D0 };
        let reason = format!("{}{more}", describe_differences(&diff.render_changes()));
        Assessment::differs(reason, diff, disruption, basis)
    }
}

/// Returns the reason of a step without changes.
fn describe_unchanged(compared: &[&str]) -> String {
    match compared {
        [] => "the account exists".to_owned(),
        [one] if !one.ends_with('s') => format!("the account exists, {one} matches"),
        several => format!("the account exists, {} match", join_words(several)),
    }
}

pub(super) fn describe_lock(locked: bool) -> &'static str {
    if locked { "locked" } else { "not locked" }
}
