//! Why something differs: a pure function of what is desired, what was seen, and what was applied last.

use super::model::Severity;
use crate::model::{BlockClass, Disruption, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who moved: the machine, the recipe, both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// What is declared was applied; the machine is not like that any more.
    MachineChanged,
    /// Something else is declared since it was applied; the machine is as it was applied.
    RecipeChanged,
    /// Something else is declared, and the machine is not as it was applied either.
    Both,
    /// It is configured and waits for a reload or a reboot.
    Pending,
    /// The hardware is not fit for what is declared.
    HardwareFault,
    /// It was applied once and is declared by no step any more.
    NoLongerDeclared,
    /// The host has no record of it, or none that can be compared: it was never applied, or is not known to be.
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

/// The value of one attribute, as far as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// Nobody says: it is secret, or the kind keeps no such value.
    Untold,
    /// It is not there.
    Nothing,
    Value(&'a str),
}

/// What is declared now.
#[derive(Clone, Copy, Debug)]
pub struct Desired<'a> {
    /// Over all that the step declares. `None` where it cannot be made: the key of the host is not at hand.
    pub digest: Option<&'a str>,
    pub value: Told<'a>,
}

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub verdict: Verdict,
    pub value: Told<'a>,
}

/// What the host's record says of the last verified apply.
#[derive(Clone, Copy, Debug)]
pub struct Last<'a> {
    pub digest: &'a str,
    pub value: Told<'a>,
}

/// Returns why an attribute of a step is not as declared.
///
/// That the recipe changed is told by the digests alone. Whether the machine changed too takes a value that both the
/// record and the observation tell: without one only what is certain is said.
pub fn cause(desired: &Desired<'_>, seen: &Seen<'_>, last: Option<&Last<'_>>) -> Cause {
    match (seen.verdict, last, desired.digest) {
        (Verdict::Blocked(BlockClass::Hardware), ..) => Cause::HardwareFault,
        (Verdict::Pending, ..) => Cause::Pending,
        (_, None, _) | (_, _, None) => Cause::Unknown,
        (_, Some(last), Some(digest)) if last.digest == digest => Cause::MachineChanged,
        (_, Some(last), Some(_)) => since_the_recipe_changed(desired.value, seen.value, last.value),
    }
}

/// Of a step that declares something else than was applied: which part this attribute has in it.
fn since_the_recipe_changed(desired: Told<'_>, seen: Told<'_>, last: Told<'_>) -> Cause {
    match (desired, seen, last) {
        (_, _, Told::Untold) => Cause::RecipeChanged,
        // This attribute is declared as it was applied: another one is not.
        (desired, _, last) if desired == last => Cause::MachineChanged,
        (_, Told::Untold, _) => Cause::RecipeChanged,
        (_, seen, last) if seen == last => Cause::RecipeChanged,
        _ => Cause::Both,
    }
}

/// Returns how much a finding matters: what the hardware lacks most, what somebody meant least.
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
            // Another attribute of the step was declared anew; this one the machine changed.
            (change, other, Value("a"), Value("c"), Some(("d", Value("a"))), Cause::MachineChanged),
            (change, other, Value("a"), Untold, Some(("d", Value("a"))), Cause::MachineChanged),
            // Only what is certain: the recipe did change.
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
