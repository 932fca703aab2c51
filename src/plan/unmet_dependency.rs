//! Why a step is skipped: the step that it needs, and what that one lacks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The dependency because of which a step is skipped. Its display form names the step and, in parentheses, what lacks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct UnmetDependency {
    /// `recipe/step` of the step that is needed.
    pub step: String,
    /// What lacks if the step itself does not stop the host: other hosts, or a verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<DependencyShortfall>,
}

/// What a dependency lacks apart from the verdict of its step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DependencyShortfall {
    /// Too few hosts reached the phase: `on 3 hosts, got 2; missing: n2`, or `on n1` if a single host was expected.
    Hosts(String),
    /// The step runs through the cluster's API, which is not in this run.
    ClusterNotSelected,
    /// A verification of the recipe does not pass: its name and the reason.
    Verification(String),
}

impl UnmetDependency {
    /// Returns the dependency on a step that is itself blocked, unknown or pending.
    pub fn on_step(step: impl ToString) -> Self {
        Self { step: step.to_string(), shortfall: None }
    }

    /// Returns the reason of a skipped step: ``needs `first/try` on 3 hosts, got 2``.
    pub fn describe_need(&self) -> String {
        let step = &self.step;
        match &self.shortfall {
            None => format!("needs `{step}`"),
            Some(DependencyShortfall::Hosts(missing)) => format!("needs `{step}` {missing}"),
            Some(other) => format!("needs `{step}`: {other}"),
        }
    }
}

impl fmt::Display for UnmetDependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shortfall {
            None => f.write_str(&self.step),
            Some(shortfall) => write!(f, "{} ({shortfall})", self.step),
        }
    }
}

impl fmt::Display for DependencyShortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hosts(text) | Self::Verification(text) => text,
            Self::ClusterNotSelected => "the cluster is not in this run",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shortfall_has_its_wording() {
        let of = |shortfall| {
            let one = UnmetDependency { shortfall, ..UnmetDependency::on_step("first/try") };
            (one.to_string(), one.describe_need())
        };
        let both = |shown: &str, need: &str| (shown.to_owned(), need.to_owned());
        assert_eq!(of(None), both("first/try", "needs `first/try`"));
        assert_eq!(
            of(Some(DependencyShortfall::Hosts("on 3 hosts, got 2".into()))),
            both("first/try (on 3 hosts, got 2)", "needs `first/try` on 3 hosts, got 2")
        );
        assert_eq!(
            of(Some(DependencyShortfall::ClusterNotSelected)),
            both("first/try (the cluster is not in this run)", "needs `first/try`: the cluster is not in this run")
        );
        // Parentheses in the text do not matter: only the type decides.
        assert_eq!(
            of(Some(DependencyShortfall::Verification("verification `on (all)`: rc 1".into()))).1,
            "needs `first/try`: verification `on (all)`: rc 1"
        );
    }
}
