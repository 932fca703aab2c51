//! Whether an object was changed after the run whose changes are undone.

use super::ObjectRestoration;
use crate::model::Value;
use crate::object::{FormerFields, ObjectInfo, extract_fields, find_differences, is_manual_manager};

impl ObjectRestoration {
    /// Returns how the object was changed after the run: a lowercase fragment. `None` if it was not, or if that does not
    /// matter.
    pub(super) fn find_moved(&self, info: &ObjectInfo) -> Option<String> {
        let id = &self.declared.id;
        let Some(live) = &info.live else {
            let was_there = !self.absent && self.fields.is_some();
            return (was_there && !self.overwrite).then(|| format!("{id} was deleted after the run"));
        };
        // Another object of the same name is never taken for that of the run.
        if self.uid.as_ref().is_some_and(|uid| *uid != info.uid) {
            return Some(format!("{id} was deleted after the run and created again"));
        }
        match (&self.fields, self.absent) {
            (_, true) => self.find_moved_creation(info),
            (Some(fields), false) => self.find_moved_field(fields, info, live),
            (None, false) => (!self.overwrite).then(|| format!("{id} was created again after the run")),
        }
    }

    /// Checks an object that the run created. Controllers work on it; a person's change would be lost.
    fn find_moved_creation(&self, info: &ObjectInfo) -> Option<String> {
        let id = &self.declared.id;
        // The run ended before it noted the uid.
        if let Some(since) = self.since.as_ref().filter(|_| self.uid.is_none())
            && !info.managers.iter().any(|known| known.manager == "forge" && known.time >= *since)
        {
            return Some(format!("{id} was not created by the run"));
        }
        let person = info.managers.iter().find(|known| is_manual_manager(&known.manager))?;
        (!self.overwrite).then(|| format!("{id} was changed after the run: by `{}` at {}", person.manager, person.time))
    }

    fn find_moved_field(&self, fields: &FormerFields, info: &ObjectInfo, live: &Value) -> Option<String> {
        let now = extract_fields(live, &fields.names);
        let differing = find_differences(&fields.after, &now);
        // An interrupted undo may have restored some fields.
        let moved = differing.iter().find(|found| found.to.as_ref() != found.path.find_value(&fields.before))?;
        let path = moved.path.to_string();
        let by = info.conflicts.iter().find(|held| held.field == path && !held.manager.is_empty());
        let by = by.map(|held| format!(" (by `{}` at {})", held.manager, held.time)).unwrap_or_default();
        (!self.overwrite).then(|| format!("{path} of {} was changed after the run{by}", self.declared.id))
    }
}
