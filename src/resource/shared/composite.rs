//! Resources with parts that are evaluated separately: a file and the loaded state, two units and a timer.

use crate::model::{StepVerdict, UntrustedText, Value};
use crate::resource::{Assessment, AttributeChange, ChangedPart, ResourceDiff};
use serde_json::{Map, Value as Json};

/// Judgements of the parts of one resource, each with its name.
#[derive(Default)]
pub(in crate::resource) struct PartAssessments(Vec<(&'static str, Assessment)>);

impl PartAssessments {
    /// Adds a part. Its diff goes into the diff of the whole: see [`combine_with`](Self::combine_with).
    pub fn with_part<D>(mut self, name: &'static str, judgement: Assessment<D>) -> Self {
        self.0.push((name, judgement.with_diff(None)));
        self
    }

    /// Combines the parts into one judgement, like [`combine`](Self::combine), with the differences of all parts.
    pub fn combine_with<D: ResourceDiff>(self, diff: Option<D>) -> Assessment<D> {
        let all = self.combine();
        let diff = diff.filter(|_| all.verdict == StepVerdict::Change);
        let changes = diff.as_ref().map(ResourceDiff::render_changes);
        Assessment { changes: changes.unwrap_or_default(), ..all.with_diff(diff) }
    }

    /// Combines the parts into one judgement. An unknown or blocked part decides alone; otherwise changes of all parts
    /// come first, then pending parts. A part with an empty reason adds nothing to the combined reason.
    pub fn combine(self) -> Assessment {
        let of = |wanted: fn(StepVerdict) -> bool| self.0.iter().find(|(_, part)| wanted(part.verdict));
        let stopped = of(|v| v == StepVerdict::Unknown).or_else(|| of(|v| matches!(v, StepVerdict::Blocked(_))));
        if let Some((_, part)) = stopped {
            return Assessment { basis: self.combined_basis(), ..part.clone() };
        }
        for deciding in [StepVerdict::Change, StepVerdict::Pending] {
            if self.0.iter().any(|(_, part)| part.verdict == deciding) {
                return self.combine_with_verdict(deciding);
            }
        }
        Assessment { hint: None, ..self.combine_with_verdict(StepVerdict::Ok) }
    }

    fn combine_with_verdict(&self, verdict: StepVerdict) -> Assessment {
        let parts = || self.0.iter().filter(|(_, part)| part.verdict == verdict);
        let reasons: Vec<&str> =
            parts().map(|(_, part)| part.reason.raw()).filter(|reason| !reason.is_empty()).collect();
        Assessment {
            verdict,
            reason: UntrustedText::new(reasons.join("; ")),
            changes: parts().flat_map(|(name, part)| part.changes.iter().map(|c| label_change(name, c))).collect(),
            disruption: parts().map(|(_, part)| part.disruption).max().unwrap_or_default(),
            basis: self.combined_basis(),
            // A prediction of one part may affect the others.
            predicted: parts().any(|(_, part)| part.predicted),
            matches_now: false,
            // A change of one part and a pending part take effect together.
            by_reboot: self.0.iter().any(|(_, part)| part.by_reboot),
            reboot_failed: false,
            notes_only: false,
            images: self.0.iter().flat_map(|(_, part)| part.images.clone()).collect(),
            image_sources: self.0.iter().flat_map(|(_, part)| part.image_sources.clone()).collect(),
            runs_unknown_images: self.0.iter().any(|(_, part)| part.runs_unknown_images),
            hint: parts().find_map(|(_, part)| part.hint.clone()),
            hint_for_host: parts().find(|(_, part)| part.hint.is_some()).is_some_and(|(_, part)| part.hint_for_host),
            diff: None,
        }
    }

    fn combined_basis(&self) -> Value {
        Json::Object(self.0.iter().map(|(name, part)| ((*name).to_owned(), part.basis.clone())).collect::<Map<_, _>>())
    }
}

/// Renders the differences of a part: each label begins with the part's name, unless both are the same.
pub(in crate::resource) fn render_part<D: ResourceDiff>(
    name: &str,
    part: ChangedPart,
    diff: Option<&D>,
) -> Vec<AttributeChange> {
    let changes = diff.map(ResourceDiff::render_changes).unwrap_or_default();
    changes.iter().map(|change| label_change(name, change).with_part(part)).collect()
}

/// Prefixes attributes with their part.
pub(in crate::resource) fn label_changes(part: &str, changes: &[AttributeChange]) -> Vec<AttributeChange> {
    changes.iter().map(|change| label_change(part, change)).collect()
}

/// Prefixes an attribute with its part, unless both have the same name.
fn label_change(part: &str, change: &AttributeChange) -> AttributeChange {
    let attribute = match part == change.attribute {
        true => part.into(),
        false => compact_str::format_compact!("{part} {}", change.attribute),
    };
    AttributeChange { attribute, ..change.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BlockClass, DisruptionClass};
    use crate::probe::UnansweredReason;
    use serde_json::json;

    fn change_assessment(attribute: &str) -> Assessment {
        let change = AttributeChange::new(attribute, None, Some("1"));
        Assessment::change(format!("{attribute} differs"), vec![change], DisruptionClass::D1, json!("c"))
    }

    fn ok_assessment() -> Assessment {
        Assessment::ok("matches", json!("o"))
    }

    fn pending_assessment() -> Assessment {
        Assessment { verdict: StepVerdict::Pending, ..Assessment::ok("waits", json!("p")) }
    }

    #[test]
    fn unknown_part_outranks_blocked_and_blocked_outranks_change() {
        let unknown = <Assessment>::unknown(&UnansweredReason::new("no answer"));
        let blocked = <Assessment>::blocked(BlockClass::Rule, "never", json!("b"));
        let all = PartAssessments::default()
            .with_part("file", change_assessment("content"))
            .with_part("other", blocked.clone())
            .combine();
        assert_eq!((all.verdict, all.changes.len()), (blocked.verdict, 0));
        let all = PartAssessments::default()
            .with_part("a", blocked)
            .with_part("b", ok_assessment())
            .with_part("c", unknown)
            .combine();
        assert_eq!((all.verdict, all.reason.raw()), (StepVerdict::Unknown, "no answer"));
        assert_eq!(all.basis, json!({ "a": "b", "b": "o", "c": null }));
    }

    #[test]
    fn change_outranks_pending_and_pending_outranks_ok() {
        let all = PartAssessments::default()
            .with_part("file", change_assessment("content"))
            .with_part("loaded", pending_assessment())
            .combine();
        assert_eq!((all.verdict, all.reason.raw()), (StepVerdict::Change, "content differs"));
        assert_eq!(all.changes[0].attribute, "file content");
        let all = PartAssessments::default()
            .with_part("file", ok_assessment())
            .with_part("loaded", pending_assessment())
            .combine();
        assert_eq!((all.verdict, all.reason.raw()), (StepVerdict::Pending, "waits"));
        let all = PartAssessments::default()
            .with_part("file", ok_assessment())
            .with_part("loaded", ok_assessment())
            .combine();
        assert_eq!((all.verdict, all.reason.raw()), (StepVerdict::Ok, "matches; matches"));
    }

    #[test]
    fn combined_assessment_is_predicted_if_any_part_is() {
        let all = PartAssessments::default()
            .with_part("a", change_assessment("x").mark_predicted())
            .with_part("b", change_assessment("y"))
            .combine();
        assert!(all.predicted);
        assert!(
            !PartAssessments::default()
                .with_part("a", change_assessment("x"))
                .with_part("b", ok_assessment())
                .combine()
                .predicted
        );
    }

    #[test]
    fn combined_assessment_requires_reboot_if_any_part_does() {
        let waits = |other| {
            PartAssessments::default()
                .with_part("a", pending_assessment().mark_reboot_required())
                .with_part("b", other)
                .combine()
                .by_reboot
        };
        assert!(waits(ok_assessment()) && waits(change_assessment("x")));
        let blocked = <Assessment>::blocked(BlockClass::Rule, "never", json!("b"));
        assert!(!waits(blocked), "a blocked change never takes effect");
        assert!(!PartAssessments::default().with_part("a", pending_assessment()).combine().by_reboot);
    }
}
