//! Fields of a manifest that contain the number of the revision: each upgrade changes them, and only an upgrade does.

use super::{FieldChange, ObjectChange, ObjectChangeKind};
use crate::model::UntrustedText;

/// Returns the changes of a dry-run upgrade; none if `.Release.Revision` explains all of them, as in the annotation
/// `rollme/helm-revision` of Volcano's admission. Otherwise each apply would upgrade the release.
///
/// `rendered` are the changes to the rendered chart, where helm says that the revision is 1; `rehearsed` those to a
/// dry-run upgrade, which has the number after `revision`, the recorded one.
pub(crate) fn drop_revision_changes(
    rendered: &[ObjectChange],
    rehearsed: Vec<ObjectChange>,
    revision: u64,
) -> Vec<ObjectChange> {
    let explained = rehearsed.iter().all(|change| match &change.what {
        ObjectChangeKind::Changed(fields) => {
            fields.iter().all(|field| is_revision(field, find_field(rendered, &change.object, &field.path), revision))
        }
        ObjectChangeKind::Added | ObjectChangeKind::Removed => false,
    });
    if explained { Vec::new() } else { rehearsed }
}

fn find_field<'c>(changes: &'c [ObjectChange], object: &str, path: &str) -> Option<&'c FieldChange> {
    changes.iter().filter(|change| change.object == object).find_map(|change| match &change.what {
        ObjectChangeKind::Changed(fields) => fields.iter().find(|field| field.path == path),
        ObjectChangeKind::Added | ObjectChangeKind::Removed => None,
    })
}

fn is_revision(rehearsed: &FieldChange, rendered: Option<&FieldChange>, revision: u64) -> bool {
    // A rollback records the manifest of an earlier revision.
    let Some(from) = parse_number(rehearsed.from.as_ref()).filter(|from| (1..=revision).contains(from)) else {
        return false;
    };
    let in_chart = rendered.map_or(Some(from), |rendered| parse_number(rendered.to.as_ref()));
    in_chart == Some(1) && parse_number(rehearsed.to.as_ref()) == Some(revision + 1)
}

/// Reads a number, or a text that is one.
fn parse_number(value: Option<&UntrustedText>) -> Option<u64> {
    value?.raw().trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(from: &str, to: &str) -> Vec<ObjectChange> {
        let path = "spec.template.metadata.annotations[rollme/helm-revision]".to_owned();
        let field = FieldChange { path, from: Some(from.into()), to: Some(to.into()), secret: false, by: None };
        let what = ObjectChangeKind::Changed(vec![field]);
        vec![ObjectChange { object: "Deployment volcano-admission".to_owned(), what }]
    }

    #[test]
    fn number_of_the_revision_is_not_a_difference() {
        let dropped = |rendered: &[ObjectChange], from: &str, to: &str| {
            drop_revision_changes(rendered, change(from, to), 2).is_empty()
        };
        assert!(dropped(&change("\"2\"", "\"1\""), "\"2\"", "\"3\""));
        assert!(dropped(&change("2", "1"), "2", "3"));
        // Revision 2 is a rollback to revision 1: its manifest is equal to that of the chart.
        assert!(dropped(&[], "\"1\"", "\"3\""));
        // The chart says another number: these are replicas, for example.
        assert!(!dropped(&change("2", "3"), "2", "3"));
        assert!(!dropped(&change("2", "1"), "2", "1"));
        assert!(!dropped(&change("5", "1"), "5", "3"));
        assert!(!dropped(&[], "\"2\"", "\"3\""));
        // One other difference, and all are shown.
        let mut more = change("\"2\"", "\"3\"");
        more.push(ObjectChange { object: "Service s".to_owned(), what: ObjectChangeKind::Added });
        assert_eq!(drop_revision_changes(&change("\"2\"", "\"1\""), more, 2).len(), 2);
    }
}
