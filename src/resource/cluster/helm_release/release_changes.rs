//! Renders the differences of a release as changes of a plan.

use crate::object::{FieldChange, FieldOwner, ObjectChange, ObjectChangeKind, ReleaseFieldConflict, ReleaseState};
use crate::resource::AttributeChange;
use std::collections::BTreeSet;

/// Maximum number of manifest fields in a plan; a new version of a large chart changes hundreds.
const MAX_SHOWN_FIELDS: usize = 60;

/// Returns the differences between the release and the declaration.
pub(super) fn declared_changes(state: &ReleaseState) -> Vec<AttributeChange> {
    let values = state.values.iter().map(|field| field_change(&format!("values.{}", field.path), field));
    let mut changes: Vec<AttributeChange> = values.collect();
    let mut manifest: Vec<AttributeChange> = state.manifest.iter().flat_map(object_changes).collect();
    let more = manifest.len().saturating_sub(MAX_SHOWN_FIELDS);
    manifest.truncate(MAX_SHOWN_FIELDS);
    changes.extend(manifest);
    if more > 0 {
        changes.push(AttributeChange::new("manifest", None, Some(&format!("{more} more fields change"))));
    }
    changes
}

fn object_changes(change_of: &ObjectChange) -> Vec<AttributeChange> {
    let object = &change_of.object;
    match &change_of.what {
        ObjectChangeKind::Added => vec![AttributeChange::new(object, None, Some("new"))],
        ObjectChangeKind::Removed => vec![AttributeChange::new(object, Some("in the release"), None)],
        ObjectChangeKind::Changed(fields) => {
            fields.iter().map(|field| field_change(&format!("{object} {}", field.path), field)).collect()
        }
    }
}

/// Returns the differences between live objects and the release.
pub(super) fn live_changes(state: &ReleaseState) -> Vec<AttributeChange> {
    let all = state.live.iter().flat_map(|live| {
        let missing = live.missing.then(|| AttributeChange::new(&live.object, None, Some("present")));
        let changed = live.changed.iter().map(|field| {
            attribute_to_owner(field_change(&format!("{} {}", live.object, field.path), field), field, "set")
        });
        let added = live.added.iter().map(|field| {
            attribute_to_owner(field_change(&format!("{} {}", live.object, field.path), field), field, "added")
        });
        missing.into_iter().chain(changed).chain(added).collect::<Vec<_>>()
    });
    all.collect()
}

/// Merges the changes of an upgrade with drifted fields. A field in both goes from the live to the declared value.
pub(super) fn merge_changes(mut declared: Vec<AttributeChange>, live: Vec<AttributeChange>) -> Vec<AttributeChange> {
    for moved in live {
        match declared.iter_mut().find(|change| change.attribute == moved.attribute) {
            Some(change) => change.from = moved.from,
            None => declared.push(moved),
        }
    }
    declared
}

fn field_change(attribute: &str, field: &FieldChange) -> AttributeChange {
    AttributeChange {
        from: field.from.clone(),
        to: field.to.clone(),
        secret: field.secret,
        ..AttributeChange::new(attribute, None, None)
    }
}

/// Appends the field's owner to the observed value.
fn attribute_to_owner(change: AttributeChange, field: &FieldChange, how: &str) -> AttributeChange {
    let Some(owner) = &field.by else { return change };
    let Some(from) = change.from.as_ref() else { return change };
    let told = format!("{} ({how} by {})", from.raw(), describe_owner(owner));
    AttributeChange { from: Some(told.into()), ..change }
}

fn describe_owner(owner: &FieldOwner) -> String {
    match &owner.time {
        Some(time) => format!("{} at {time}", owner.name.raw()),
        None => owner.name.raw().to_owned(),
    }
}

/// Returns the hooks that an install or an upgrade runs, such as `Job a (pre-upgrade)`.
pub(super) fn list_hooks(state: &ReleaseState, verb: &str) -> Vec<String> {
    let hooks = state.chart.iter().flat_map(|chart| &chart.hooks);
    let due = hooks.filter_map(|hook| {
        let events: Vec<&str> = hook.events.iter().map(String::as_str).filter(|event| event.ends_with(verb)).collect();
        (!events.is_empty()).then(|| format!("{} ({})", hook.object, events.join(", ")))
    });
    due.collect()
}

/// Returns the fields that are taken over, by owner: `2 fields of kubectl-set`. Fields that Helm itself owns are
/// omitted.
pub(super) fn describe_conflicts(conflicts: &[ReleaseFieldConflict]) -> Option<String> {
    let theirs: Vec<&str> = conflicts.iter().map(|conflict| conflict.by.raw()).filter(|by| *by != "helm").collect();
    let fields = if theirs.len() == 1 { "field" } else { "fields" };
    let owners: Vec<&str> = theirs.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    (!theirs.is_empty()).then(|| format!("{} {fields} of {}", theirs.len(), owners.join(", ")))
}

/// Returns the images without a fixed tag or digest.
pub(super) fn find_unpinned_images(images: &[String]) -> Vec<&str> {
    images.iter().map(String::as_str).filter(|image| !is_pinned(image)).collect()
}

fn is_pinned(image: &str) -> bool {
    if image.contains('@') {
        return true;
    }
    // A colon before the last slash is a registry's port.
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_some_and(|(_, tag)| !tag.is_empty() && tag != "latest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_tag_or_digest_are_unpinned() {
        let all = ["a:1", "a", "r:5000/a", "r:5000/a:1", "a:latest", "a@sha256:00", "a:"].map(str::to_owned);
        assert_eq!(find_unpinned_images(&all), ["a", "r:5000/a", "a:latest", "a:"]);
    }
}
