//! The cause of a difference: a pure function of the declared, the observed and the last applied state.

use super::finding_severity::FindingSeverity;
use crate::model::{BlockClass, DisruptionClass, StepVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What changed: the machine, the recipe, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriftCause {
    /// The declaration was applied; the machine has changed since.
    MachineChanged,
    /// The declaration has changed since the last apply; the machine has not.
    RecipeChanged,
    /// The declaration and the machine have changed since the last apply.
    Both,
    /// It is configured, and needs a reload or a reboot to take effect.
    Pending,
    /// The hardware does not meet the declaration.
    HardwareFault,
    /// It was applied, and no step declares it any more.
    NoLongerDeclared,
    /// A host must be tested: a result no longer holds, or is missing.
    TestDue,
    /// The host has no comparable record of it: it was not applied, that is not known, or the declaration contains a
    /// value that a step exported, which may have changed instead of the recipe.
    Unknown,
}

impl DriftCause {
    /// Every cause, in the order in which summaries list them.
    pub const ALL: [DriftCause; 8] = [
        Self::HardwareFault,
        Self::MachineChanged,
        Self::Both,
        Self::Unknown,
        Self::RecipeChanged,
        Self::Pending,
        Self::TestDue,
        Self::NoLongerDeclared,
    ];

    /// Returns the name in machine formats.
    pub fn name(self) -> &'static str {
        match self {
            Self::MachineChanged => "machine-changed",
            Self::RecipeChanged => "recipe-changed",
            Self::Both => "both",
            Self::Pending => "pending",
            Self::HardwareFault => "hardware-fault",
            Self::NoLongerDeclared => "no-longer-declared",
            Self::TestDue => "test-due",
            Self::Unknown => "unknown",
        }
    }

    /// Returns a lowercase fragment for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::MachineChanged => "the machine changed",
            Self::RecipeChanged => "the last recorded apply had another declaration",
            Self::Both => "the machine changed, and the last recorded apply had another declaration",
            Self::Pending => "configured, not yet effective",
            Self::HardwareFault => "hardware fault",
            Self::NoLongerDeclared => "no longer declared",
            Self::TestDue => "acceptance test due",
            Self::Unknown => "cause unknown: no comparable record",
        }
    }
}

/// The value of one attribute, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// The value is not known: it is secret, or the kind does not record it.
    Untold,
    /// The attribute or object does not exist.
    Nothing,
    /// The value as text.
    Value(&'a str),
}

/// The declared state.
#[derive(Clone, Copy, Debug)]
pub struct DesiredAttribute<'a> {
    /// Digest of the complete declaration. `None` if it cannot be computed: the key of the host is not available.
    pub digest: Option<&'a str>,
    /// The declared value of the attribute.
    pub value: AttributeValue<'a>,
    /// Whether the declaration contains exported values: then another digest does not prove that the recipe changed.
    pub has_exports: bool,
}

/// The observed state.
#[derive(Clone, Copy, Debug)]
pub struct ObservedAttribute<'a> {
    /// The assessment of the step on the host.
    pub verdict: StepVerdict,
    /// The value of the attribute on the host.
    pub value: AttributeValue<'a>,
}

/// The state of the last verified apply, from the host's record.
#[derive(Clone, Copy, Debug)]
pub struct AppliedAttribute<'a> {
    /// Digest of the complete declaration that was applied, to compare with [`DesiredAttribute::digest`].
    pub digest: &'a str,
    /// The value of the attribute that was applied.
    pub value: AttributeValue<'a>,
}

/// Returns why an attribute of a step differs.
///
/// The digests alone show whether the recipe changed. Whether the machine changed, too, requires a value in both the
/// record and the observation: without one, the result is limited to what is certain.
pub fn classify_cause(
    desired: &DesiredAttribute<'_>,
    seen: &ObservedAttribute<'_>,
    last: Option<&AppliedAttribute<'_>>,
) -> DriftCause {
    match (seen.verdict, last, desired.digest) {
        (StepVerdict::Blocked(BlockClass::Hardware), ..) => DriftCause::HardwareFault,
        (StepVerdict::Pending, ..) => DriftCause::Pending,
        (_, None, _) | (_, _, None) => DriftCause::Unknown,
        (_, Some(last), Some(digest)) if last.digest == digest => DriftCause::MachineChanged,
        (_, Some(last), Some(_)) => {
            match (classify_changed_recipe(desired.value, seen.value, last.value), desired.has_exports) {
                (DriftCause::RecipeChanged, true) => DriftCause::Unknown,
                // The object is not as it was applied; whether the recipe changed, too, is not known.
                (DriftCause::Both, true) => DriftCause::MachineChanged,
                (cause, _) => cause,
            }
        }
    }
}

/// Returns the cause for one attribute of a step whose declaration changed since the last apply.
fn classify_changed_recipe(
    desired: AttributeValue<'_>,
    seen: AttributeValue<'_>,
    last: AttributeValue<'_>,
) -> DriftCause {
    match (desired, seen, last) {
        (_, _, AttributeValue::Untold) => DriftCause::RecipeChanged,
        // This attribute is declared as it was applied: another attribute changed.
        (desired, _, last) if desired == last => DriftCause::MachineChanged,
        (_, AttributeValue::Untold, _) => DriftCause::RecipeChanged,
        (_, seen, last) if seen == last => DriftCause::RecipeChanged,
        _ => DriftCause::Both,
    }
}

/// Returns the severity of a finding: hardware faults are the most severe, intended changes the least.
pub fn rate_severity(cause: DriftCause, verdict: StepVerdict, disruption: DisruptionClass) -> FindingSeverity {
    match cause {
        DriftCause::HardwareFault => FindingSeverity::Critical,
        DriftCause::RecipeChanged | DriftCause::Pending | DriftCause::NoLongerDeclared | DriftCause::TestDue => {
            FindingSeverity::Low
        }
        DriftCause::MachineChanged | DriftCause::Both | DriftCause::Unknown => match verdict {
            StepVerdict::Change if disruption >= DisruptionClass::D2 => FindingSeverity::High,
            _ => FindingSeverity::Medium,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AttributeValue::{Nothing, Untold, Value};

    #[test]
    fn cause_follows_from_desired_observed_and_applied_values() {
        let change = StepVerdict::Change;
        let (same, other) = (Some("d"), Some("e"));
        // verdict, desired digest and value, seen value, the record's digest and value, the cause
        type CauseRow<'a> = (
            StepVerdict,
            Option<&'a str>,
            AttributeValue<'a>,
            AttributeValue<'a>,
            Option<(&'a str, AttributeValue<'a>)>,
            DriftCause,
        );
        let rows: [CauseRow<'_>; 21] = [
            (change, same, Value("a"), Value("b"), None, DriftCause::Unknown),
            (change, None, Value("a"), Value("b"), Some(("d", Value("a"))), DriftCause::Unknown),
            (change, same, Value("a"), Value("b"), Some(("d", Value("a"))), DriftCause::MachineChanged),
            (change, same, Value("a"), Nothing, Some(("d", Value("a"))), DriftCause::MachineChanged),
            (change, same, Untold, Untold, Some(("d", Untold)), DriftCause::MachineChanged),
            (change, other, Value("a"), Value("b"), Some(("d", Value("b"))), DriftCause::RecipeChanged),
            (change, other, Nothing, Value("b"), Some(("d", Value("b"))), DriftCause::RecipeChanged),
            (change, other, Value("a"), Nothing, Some(("d", Nothing)), DriftCause::RecipeChanged),
            (change, other, Value("a"), Value("c"), Some(("d", Value("b"))), DriftCause::Both),
            (change, other, Value("a"), Nothing, Some(("d", Value("b"))), DriftCause::Both),
            (change, other, Value("a"), Value("c"), Some(("d", Nothing)), DriftCause::Both),
            // The declaration of another attribute changed; the machine changed this one.
            (change, other, Value("a"), Value("c"), Some(("d", Value("a"))), DriftCause::MachineChanged),
            (change, other, Value("a"), Untold, Some(("d", Value("a"))), DriftCause::MachineChanged),
            // Only the certain part: the recipe changed.
            (change, other, Value("a"), Value("c"), Some(("d", Untold)), DriftCause::RecipeChanged),
            (change, other, Untold, Untold, Some(("d", Untold)), DriftCause::RecipeChanged),
            (change, other, Value("a"), Untold, Some(("d", Value("b"))), DriftCause::RecipeChanged),
            (StepVerdict::Pending, same, Untold, Untold, Some(("d", Untold)), DriftCause::Pending),
            (StepVerdict::Pending, same, Untold, Untold, None, DriftCause::Pending),
            (StepVerdict::Blocked(BlockClass::Hardware), same, Untold, Untold, None, DriftCause::HardwareFault),
            (
                StepVerdict::Blocked(BlockClass::Host),
                same,
                Untold,
                Untold,
                Some(("d", Untold)),
                DriftCause::MachineChanged,
            ),
            (
                StepVerdict::Blocked(BlockClass::Rule),
                other,
                Untold,
                Untold,
                Some(("d", Untold)),
                DriftCause::RecipeChanged,
            ),
        ];
        for (verdict, digest, desired, seen, last, expected) in rows {
            let last = last.map(|(digest, value)| AppliedAttribute { digest, value });
            let (desired, seen) = (
                DesiredAttribute { digest, value: desired, has_exports: false },
                ObservedAttribute { verdict, value: seen },
            );
            let found = classify_cause(&desired, &seen, last.as_ref());
            assert_eq!(found, expected, "{desired:?} {seen:?} {last:?}");
            let exported = match expected {
                DriftCause::RecipeChanged => DriftCause::Unknown,
                DriftCause::Both => DriftCause::MachineChanged,
                cause => cause,
            };
            let desired = DesiredAttribute { has_exports: true, ..desired };
            assert_eq!(classify_cause(&desired, &seen, last.as_ref()), exported, "{desired:?} {seen:?} {last:?}");
        }
    }

    #[test]
    fn severity_depends_on_cause_verdict_and_disruption() {
        let change = |cause, class| rate_severity(cause, StepVerdict::Change, class);
        assert_eq!(change(DriftCause::MachineChanged, DisruptionClass::D1), FindingSeverity::Medium);
        assert_eq!(change(DriftCause::Both, DisruptionClass::D2), FindingSeverity::High);
        assert_eq!(change(DriftCause::Unknown, DisruptionClass::D3), FindingSeverity::High);
        assert_eq!(change(DriftCause::HardwareFault, DisruptionClass::D0), FindingSeverity::Critical);
        for cause in [DriftCause::RecipeChanged, DriftCause::Pending, DriftCause::NoLongerDeclared] {
            assert_eq!(change(cause, DisruptionClass::D3), FindingSeverity::Low);
        }
        let blocked = StepVerdict::Blocked(BlockClass::Busy);
        assert_eq!(rate_severity(DriftCause::MachineChanged, blocked, DisruptionClass::D3), FindingSeverity::Medium);
    }

    #[test]
    fn cause_names_match_their_json_values() {
        for cause in DriftCause::ALL {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
            assert!(!cause.describe().is_empty());
        }
    }
}
