//! The cause of a difference: a pure function of the declared, the observed and the last applied state.

use super::model::Severity;
use crate::model::{BlockClass, Disruption, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What changed: the machine, the recipe, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
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
    /// The host has no comparable record of it: it was not applied, or that is not known.
    Unknown,
}

impl Cause {
    pub const ALL: [Cause; 7] = [
        Self::HardwareFault,
        Self::MachineChanged,
        Self::Both,
        Self::Unknown,
        Self::RecipeChanged,
        Self::Pending,
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
            Self::Unknown => "unknown",
        }
    }

    /// Returns a lowercase fragment for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::MachineChanged => "the machine changed",
            Self::RecipeChanged => "the recipe changed and was not applied",
            Self::Both => "the machine and the recipe changed",
            Self::Pending => "configured, not yet effective",
            Self::HardwareFault => "hardware fault",
            Self::NoLongerDeclared => "no longer declared",
            Self::Unknown => "cause unknown: no record",
        }
    }
}

/// The value of one attribute, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// The value is not known: it is secret, or the kind does not record it.
    Untold,
    /// The attribute or object does not exist.
    Nothing,
    Value(&'a str),
}

/// The declared state.
#[derive(Clone, Copy, Debug)]
pub struct Desired<'a> {
    /// Digest of the complete declaration. `None` if it cannot be computed: the key of the host is not available.
    pub digest: Option<&'a str>,
    pub value: Told<'a>,
}

/// The observed state.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub verdict: Verdict,
    pub value: Told<'a>,
}

/// The state of the last verified apply, from the host's record.
#[derive(Clone, Copy, Debug)]
pub struct Last<'a> {
    pub digest: &'a str,
    pub value: Told<'a>,
}

/// Returns why an attribute of a step differs.
///
/// The digests alone show whether the recipe changed. Whether the machine changed, too, requires a value in both the
/// record and the observation: without one, the result is limited to what is certain.
pub fn cause(desired: &Desired<'_>, seen: &Seen<'_>, last: Option<&Last<'_>>) -> Cause {
    match (seen.verdict, last, desired.digest) {
        (Verdict::Blocked(BlockClass::Hardware), ..) => Cause::HardwareFault,
        (Verdict::Pending, ..) => Cause::Pending,
        (_, None, _) | (_, _, None) => Cause::Unknown,
        (_, Some(last), Some(digest)) if last.digest == digest => Cause::MachineChanged,
        (_, Some(last), Some(_)) => since_the_recipe_changed(desired.value, seen.value, last.value),
    }
}

/// Returns the cause for one attribute of a step whose declaration changed since the last apply.
fn since_the_recipe_changed(desired: Told<'_>, seen: Told<'_>, last: Told<'_>) -> Cause {
    match (desired, seen, last) {
        (_, _, Told::Untold) => Cause::RecipeChanged,
        // This attribute is declared as it was applied: another attribute changed.
        (desired, _, last) if desired == last => Cause::MachineChanged,
        (_, Told::Untold, _) => Cause::RecipeChanged,
        (_, seen, last) if seen == last => Cause::RecipeChanged,
        _ => Cause::Both,
    }
}

/// Returns the severity of a finding: hardware faults are the most severe, intended changes the least.
pub fn severity(cause: Cause, verdict: Verdict, disruption: Disruption) -> Severity {
    match cause {
        Cause::HardwareFault => Severity::Critical,
        Cause::RecipeChanged | Cause::Pending | Cause::NoLongerDeclared => Severity::Low,
        Cause::MachineChanged | Cause::Both | Cause::Unknown => match verdict {
            Verdict::Change if disruption >= Disruption::D2 => Severity::High,
            _ => Severity::Medium,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Told::{Nothing, Untold, Value};

    #[test]
    fn the_cause_of_every_combination() {
        let change = Verdict::Change;
        let (same, other) = (Some("d"), Some("e"));
        // verdict, desired digest and value, seen value, the record's digest and value, the cause
        type Row<'a> = (Verdict, Option<&'a str>, Told<'a>, Told<'a>, Option<(&'a str, Told<'a>)>, Cause);
        let rows: [Row<'_>; 21] = [
            (change, same, Value("a"), Value("b"), None, Cause::Unknown),
            (change, None, Value("a"), Value("b"), Some(("d", Value("a"))), Cause::Unknown),
            (change, same, Value("a"), Value("b"), Some(("d", Value("a"))), Cause::MachineChanged),
            (change, same, Value("a"), Nothing, Some(("d", Value("a"))), Cause::MachineChanged),
            (change, same, Untold, Untold, Some(("d", Untold)), Cause::MachineChanged),
            (change, other, Value("a"), Value("b"), Some(("d", Value("b"))), Cause::RecipeChanged),
            (change, other, Nothing, Value("b"), Some(("d", Value("b"))), Cause::RecipeChanged),
            (change, other, Value("a"), Nothing, Some(("d", Nothing)), Cause::RecipeChanged),
            (change, other, Value("a"), Value("c"), Some(("d", Value("b"))), Cause::Both),
            (change, other, Value("a"), Nothing, Some(("d", Value("b"))), Cause::Both),
            (change, other, Value("a"), Value("c"), Some(("d", Nothing)), Cause::Both),
            // The declaration of another attribute changed; the machine changed this one.
            (change, other, Value("a"), Value("c"), Some(("d", Value("a"))), Cause::MachineChanged),
            (change, other, Value("a"), Untold, Some(("d", Value("a"))), Cause::MachineChanged),
            // Only the certain part: the recipe changed.
            (change, other, Value("a"), Value("c"), Some(("d", Untold)), Cause::RecipeChanged),
            (change, other, Untold, Untold, Some(("d", Untold)), Cause::RecipeChanged),
            (change, other, Value("a"), Untold, Some(("d", Value("b"))), Cause::RecipeChanged),
            (Verdict::Pending, same, Untold, Untold, Some(("d", Untold)), Cause::Pending),
            (Verdict::Pending, same, Untold, Untold, None, Cause::Pending),
            (Verdict::Blocked(BlockClass::Hardware), same, Untold, Untold, None, Cause::HardwareFault),
            (Verdict::Blocked(BlockClass::Host), same, Untold, Untold, Some(("d", Untold)), Cause::MachineChanged),
            (Verdict::Blocked(BlockClass::Rule), other, Untold, Untold, Some(("d", Untold)), Cause::RecipeChanged),
        ];
        for (verdict, digest, desired, seen, last, expected) in rows {
            let last = last.map(|(digest, value)| Last { digest, value });
            let (desired, seen) = (Desired { digest, value: desired }, Seen { verdict, value: seen });
            let found = cause(&desired, &seen, last.as_ref());
            assert_eq!(found, expected, "{desired:?} {seen:?} {last:?}");
        }
    }

    #[test]
    fn how_much_each_cause_matters() {
        let change = |cause, class| severity(cause, Verdict::Change, class);
        assert_eq!(change(Cause::MachineChanged, Disruption::D1), Severity::Medium);
        assert_eq!(change(Cause::Both, Disruption::D2), Severity::High);
        assert_eq!(change(Cause::Unknown, Disruption::D3), Severity::High);
        assert_eq!(change(Cause::HardwareFault, Disruption::D0), Severity::Critical);
        for cause in [Cause::RecipeChanged, Cause::Pending, Cause::NoLongerDeclared] {
            assert_eq!(change(cause, Disruption::D3), Severity::Low);
        }
        let blocked = Verdict::Blocked(BlockClass::Busy);
        assert_eq!(severity(Cause::MachineChanged, blocked, Disruption::D3), Severity::Medium);
    }

    #[test]
    fn every_cause_has_a_name_that_json_has_too() {
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
            assert!(!cause.meaning().is_empty());
        }
    }
}
